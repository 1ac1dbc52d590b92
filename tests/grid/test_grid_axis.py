"""Axes: where points, faces and their mirror images lie, against plain Python; and what is refused."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdsolve.errors import DeclarationError
from fdsolve.grid import Axis

STRETCHED = [-0.4, 0.1, 0.3, 0.7, 1.6]
PLACES = [False, True]


def make_axes() -> list[Axis]:
    uniform = [Axis(-0.5, 1.7, 5, periodic=p, cells=c) for p in (False, True) for c in (False, True)]
    walled = [Axis.from_points(STRETCHED, cells=c) for c in (False, True)]
    wrapped = [Axis.from_points(STRETCHED, cells=c, periodic=True, period=2.3) for c in (False, True)]
    return uniform + walled + wrapped


ALL_AXES = make_axes()
over_axes = pytest.mark.parametrize("axis", ALL_AXES, ids=repr)


def reference_position(axis: Axis, face: bool, index: int) -> float:
    """The coordinate of one index: walk it back into the axis, one mirror or period at a time."""
    points = list(map(float, axis.points))
    if axis.periodic:
        if face and axis.cells:
            own = [(b + a) / 2 for b, a in zip([points[-1] - axis.length, *points], points, strict=False)]
        elif face:
            own = [(a + b) / 2 for a, b in zip(points, [*points[1:], points[0] + axis.length], strict=True)]
        else:
            own = points
        return own[index % len(own)] + (index // len(own)) * axis.length
    middles = [(a + b) / 2 for a, b in pairwise(points)]
    own = points if not face else [axis.lower, *middles, axis.upper] if axis.cells else middles
    on_wall = face == axis.cells  # whether the first and the last of these lie on the walls
    last = len(own) - 1
    if index < 0:
        return 2 * axis.lower - reference_position(axis, face, -index if on_wall else -index - 1)
    if index > last:
        return 2 * axis.upper - reference_position(axis, face, 2 * last - index + (0 if on_wall else 1))
    return own[index]


# -- where the points lie --


def test_nodes_reach_from_wall_to_wall() -> None:
    axis = Axis(0, 2, num=51)
    assert (axis.lower, axis.upper, axis.num, axis.step, axis.length) == (0.0, 2.0, 51, 0.04, 2.0)
    assert axis.uniform and not axis.periodic and not axis.cells and axis.units is None
    assert axis.points.dtype == np.float64 and axis.points[-1] == 2.0
    np.testing.assert_array_equal(axis.points, np.linspace(0, 2, 51))
    np.testing.assert_array_equal(axis.spacing, np.full(51, 0.04))


def test_cells_hold_their_centres() -> None:
    axis = Axis(1.0, 3.0, num=4, cells=True)
    assert axis.step == 0.5
    np.testing.assert_allclose(axis.points, [1.25, 1.75, 2.25, 2.75])
    np.testing.assert_allclose(axis.positions(True, 0, 5), [1.0, 1.5, 2.0, 2.5, 3.0])


def test_a_periodic_axis_does_not_repeat_its_end() -> None:
    axis = Axis(0.0, 1.0, num=4, periodic=True)
    assert axis.step == 0.25 and axis.length == 1.0
    np.testing.assert_allclose(axis.points, [0.0, 0.25, 0.5, 0.75])


def test_stretched_nodes_have_walls_on_the_end_nodes() -> None:
    axis = Axis.from_points([0.0, 0.1, 0.3, 0.7], units="m")
    assert not axis.uniform and axis.units == "m" and axis.num == 4
    assert (axis.lower, axis.upper) == (0.0, 0.7)
    np.testing.assert_allclose(axis.spacing, [0.1, 0.15, 0.3, 0.4])


def test_stretched_cells_have_faces_half_way_and_walls_outside() -> None:
    axis = Axis.from_points([1.0, 2.0, 4.0], cells=True)
    assert (axis.lower, axis.upper) == (0.5, 5.0)
    np.testing.assert_allclose(axis.positions(True, 0, 4), [0.5, 1.5, 3.0, 5.0])
    np.testing.assert_allclose(axis.spacing, [(2.0 - 0.0) / 2, (4.0 - 1.0) / 2, (6.0 - 2.0) / 2])


def test_stretched_periodic_axes_close_over_their_period() -> None:
    nodes = Axis.from_points([0.0, 0.1, 0.3], periodic=True, period=1)
    assert (nodes.lower, nodes.upper) == (0.0, 1.0)
    np.testing.assert_allclose(nodes.positions(True, 0, 3), [0.05, 0.2, 0.65])
    np.testing.assert_allclose(nodes.spacing, [(0.1 + 0.7) / 2, 0.15, (1.0 - 0.1) / 2])
    cells = Axis.from_points([0.0, 0.1, 0.3], periodic=True, period=1, cells=True)
    np.testing.assert_allclose([cells.lower, cells.upper], [-0.35, 0.65])
    np.testing.assert_allclose(cells.positions(True, 0, 4), [-0.35, 0.05, 0.2, 0.65])


@pytest.mark.parametrize("axis", ALL_AXES[:4], ids=repr)
def test_evenly_spaced_points_make_a_uniform_axis(axis: Axis) -> None:
    period = axis.length if axis.periodic else None
    again = Axis.from_points(axis.points, periodic=axis.periodic, cells=axis.cells, period=period)
    assert again.uniform
    np.testing.assert_allclose([again.lower, again.upper, again.step], [axis.lower, axis.upper, axis.step])


def test_many_rounded_points_are_still_uniform_and_a_moved_one_is_not() -> None:
    points = np.arange(100_001) * 1e-5 + 3.0
    assert Axis.from_points(points).uniform
    points[500] += 1e-9
    assert not Axis.from_points(points).uniform


def test_a_period_that_does_not_fit_even_points_makes_a_stretched_axis() -> None:
    axis = Axis.from_points([0.0, 1.0, 2.0], periodic=True, period=4.0)
    assert not axis.uniform
    np.testing.assert_allclose(axis.spacing, [1.5, 1.0, 1.5])


# -- faces, mirrors, neighbours --


@over_axes
def test_points_and_faces_alternate_in_half_steps(axis: Axis) -> None:
    places = {}
    for face in PLACES:
        size = axis.size(face)
        for i, position in enumerate(axis.positions(face, 0, size)):
            places[2 * i + axis.shift(face)] = float(position)
    assert sorted(places) == list(range(len(places)))
    ordered = [places[half] for half in sorted(places)]
    assert ordered == sorted(ordered)
    assert ordered[0] == pytest.approx(axis.lower)
    assert axis.periodic or ordered[-1] == pytest.approx(axis.upper)


@over_axes
@pytest.mark.parametrize("face", PLACES)
def test_positions_continue_beyond_the_walls(axis: Axis, face: bool) -> None:
    size = axis.size(face)
    start, stop = -4 * size, 5 * size
    expected = [reference_position(axis, face, i) for i in range(start, stop)]
    actual = axis.positions(face, start, stop)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    assert np.all(np.diff(actual) > 0) and actual.dtype == np.float64
    np.testing.assert_array_equal(axis.positions(face, 2, 4), actual[2 - start : 4 - start])
    assert axis.positions(face, 3, 3).shape == (0,)


@over_axes
@pytest.mark.parametrize("face", PLACES)
def test_spacings_are_half_the_distance_between_neighbours(axis: Axis, face: bool) -> None:
    expected = [
        (reference_position(axis, face, i + 1) - reference_position(axis, face, i - 1)) / 2 for i in range(-3, 8)
    ]
    np.testing.assert_allclose(axis.spacings(face, -3, 8), expected)


@over_axes
def test_spacing_is_that_of_the_points_and_read_only(axis: Axis) -> None:
    np.testing.assert_array_equal(axis.spacing, axis.spacings(False, 0, axis.num))
    np.testing.assert_array_equal(axis.points, axis.positions(False, 0, axis.num))
    for array in (axis.points, axis.spacing):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_the_first_mirror_images_are_exact() -> None:
    nodes, cells = Axis(0.1, 0.7, 7), Axis(0.1, 0.7, 7, cells=True)
    np.testing.assert_array_equal(nodes.positions(False, -3, 0), 2 * 0.1 - nodes.points[3:0:-1])
    np.testing.assert_array_equal(cells.positions(False, -3, 0), 2 * 0.1 - cells.points[2::-1])


@pytest.mark.parametrize("flags", [dict(cells=True), dict(periodic=True), dict(cells=True, periodic=True)])
def test_a_single_point_is_its_own_neighbour(flags: dict[str, bool]) -> None:
    axis = Axis(0.0, 2.0, 1, **flags)
    np.testing.assert_array_equal(np.diff(axis.positions(False, -2, 3)), np.full(4, 2.0))
    np.testing.assert_array_equal(axis.spacing, [2.0])


# -- coordinates --


@over_axes
@pytest.mark.parametrize("face", PLACES)
def test_every_coordinate_finds_its_index(axis: Axis, face: bool) -> None:
    size = axis.size(face)
    positions, spacings = axis.positions(face, 0, size), axis.spacings(face, 0, size)
    for nudge in (0.0, 5e-7, -5e-7):
        assert [axis.index_of(x, face) for x in positions + nudge * spacings] == list(range(size))
    for nudge in (2e-6, -2e-6):
        for x in positions + nudge * spacings:
            with pytest.raises(DeclarationError, match=r"No \w+( \w+)? lies at"):
                axis.index_of(x, face)


@pytest.mark.parametrize("axis", [axis for axis in ALL_AXES if axis.periodic], ids=repr)
def test_a_periodic_coordinate_may_lie_in_any_period(axis: Axis) -> None:
    assert [axis.index_of(x) for x in axis.points + 3 * axis.length] == list(range(axis.num))
    assert [axis.index_of(x) for x in axis.points - 2 * axis.length] == list(range(axis.num))


@given(
    st.floats(-3.0, 3.0, allow_subnormal=False),
    st.floats(-3.0, 3.0, allow_subnormal=False),
    st.sampled_from(ALL_AXES),
    st.booleans(),
)
def test_a_slice_takes_what_lies_within(a: float, b: float, axis: Axis, face: bool) -> None:
    lower, upper = min(a, b), max(a, b)
    positions = list(axis.positions(face, 0, axis.size(face)))
    slack = list(1e-6 * axis.spacings(face, 0, axis.size(face)))
    inside = [i for i, (x, s) in enumerate(zip(positions, slack, strict=True)) if lower - s <= x <= upper + s]
    start, stop = axis.indices_between(lower, upper, face)
    assert list(range(start, stop)) == inside


def test_a_slice_includes_both_ends_and_may_be_open() -> None:
    axis = Axis(0.0, 1.0, 11)
    assert axis.indices_between(0.1 + 0.2, 0.7) == (3, 8)
    assert axis.indices_between(0.3 + 1e-8, 0.7 - 1e-8) == (3, 8)
    assert axis.indices_between(None, 0.25) == (0, 3)
    assert axis.indices_between(0.25, None) == (3, 11)
    assert axis.indices_between(None, None, face=True) == (0, 10)
    assert axis.indices_between(0.31, 0.39) == (4, 4)
    assert axis.indices_between(7, 8) == (11, 11)
    assert axis.indices_between(-8, -7) == (0, 0)


# -- an axis as a value --


def test_equal_axes_are_equal_and_hash_alike() -> None:
    assert len(set(make_axes() + ALL_AXES)) == len(ALL_AXES)
    assert Axis(0, 1, np.int32(5)) == Axis(np.float32(0), 1.0, 5)
    assert Axis(0, 1, 5) != Axis(0, 1, 5, units="m")
    assert Axis.from_points([0, 1, 3]) == Axis.from_points(np.array([-0.0, 1.0, 3.0]))
    assert Axis.from_points([0, 1, 3]) != Axis.from_points([0, 2, 3])


@over_axes
def test_an_axis_is_frozen_and_copies(axis: Axis) -> None:
    with pytest.raises(AttributeError, match="cannot assign"):
        axis.num = 3  # type: ignore[misc]
    for again in (copy.deepcopy(axis), pickle.loads(pickle.dumps(axis))):
        assert again == axis and hash(again) == hash(axis)
        np.testing.assert_array_equal(again.points, axis.points)


@pytest.mark.parametrize(
    ("axis", "text"),
    [
        (Axis(0, 2, 51), "Axis(0.0, 2.0, num=51)"),
        (Axis(0, 2, 51, cells=True, periodic=True), "Axis(0.0, 2.0, num=51, periodic=True, cells=True)"),
        (Axis.from_points([0, 1, 3], units="m"), 'Axis(0.0, 3.0, num=3, stretched, units="m")'),
    ],
)
def test_an_axis_prints_in_one_line(axis: Axis, text: str) -> None:
    assert repr(axis) == text

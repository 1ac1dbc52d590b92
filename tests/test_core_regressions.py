"""Faults that the comparison with the reference found, each as it was found."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

from .agreement import check
from .declarations import (
    Condition,
    Declaration,
    Labelled,
    Line,
    Region,
    Rule,
    Unknown,
    Values,
    call,
    index,
    name,
    view,
)
from .strategies import ALL, arrays, initial

U = view("u")
SQUARE = {"x": Line(0.0, 1.0, 5), "y": Line(0.0, 1.0, 4)}
TIMES = (0.0, 0.6, 4)


def marching(body: Any, *rules: Rule, lines: dict[str, Line] = SQUARE, **parameters: Any) -> Declaration:
    """An update rule everywhere, what stands over it, and a random initial state."""
    shape = tuple(line.num for line in lines.values())
    unknown = Unknown("u", (Rule(index(...), body), *rules, initial(shape, 1)))
    return Declaration(lines, (unknown,), TIMES, parameters)


def walls(*conditions: Condition, axes: str = "xy") -> list[Rule]:
    """The same condition on both ends of each axis."""
    ends = {"x": index(ALL, (0, -1)), "y": index(ALL, ALL, (0, -1))}
    return [Rule(ends[axis], condition) for axis, condition in zip(axes, conditions, strict=False)]


NEUMANN = Condition("neumann", (0.3,))


def test_a_mask_that_changes_with_the_level_is_no_initial_state() -> None:
    mask = np.zeros((4, 5, 4), bool)
    mask[0, 1, 1] = mask[2, 2:4, 1:3] = True
    body = 0.4 * U.at(t=-1, x=-1) + 0.3 * U.at(t=-1, y=1)
    added = Rule(Region("mask", (mask,)), 0.5, adds=True)
    assert check(marching(body, added, Rule(index(ALL, ALL), body), *walls(NEUMANN, NEUMANN)))


def test_a_parameter_of_an_overwritten_rule_is_no_stranger() -> None:
    first = Rule(index(ALL, 2), name("c") * U.at(t=-1))
    assert check(marching(0.2, first, Rule(index(...), 0.5 * U.at(t=-1)), c=0.3))


def test_a_sweep_reads_older_levels_and_parameters_together() -> None:
    body = 0.4 * U.at(x=-1) + 0.3 * call("sin", U.at(t=-1, y=-1)) * view("q").at(y=1) + 0.1 * name("x")
    q = Labelled(("x", "y"), arrays((5, 4), 3))
    assert check(marching(0.2, Rule(index(slice(1, None), slice(1, None), slice(1, -1)), body), q=q))


@pytest.mark.parametrize("coefficient", [Values(0.2 * arrays((5,), 3)), 0.2 * view("u"), 0.2 * U.at()])
def test_a_condition_takes_arrays_and_views_along_the_wall(coefficient: Any) -> None:
    rules = [*walls(NEUMANN), Rule(index(ALL, ALL, 0), Condition("robin", (1.0, 2.0, coefficient)))]
    rules.append(Rule(index(ALL, ALL, -1), Condition("neumann", (coefficient,))))
    assert check(marching(0.4 * U.at(t=-1, x=-1, y=-1) + 0.3 * U.at(t=-1, y=1), *rules))


def test_arrays_on_the_wall_of_a_hole_and_on_a_part_of_a_side() -> None:
    rules = [
        *walls(NEUMANN, NEUMANN),
        Rule(index(ALL, slice(1, 4), 0), Condition("neumann", (Values(arrays((3,), 2)),))),
    ]
    rules.append(Rule(index(ALL, 2, slice(1, 3)), Condition("neumann", (Values(arrays((2,), 5)),))))
    rule = 0.3 * (U.at(t=-1, x=-1) + U.at(t=-1, x=1)) + 0.2 * U.at(t=-1, y=-1)
    assert check(marching(rule, *rules))


def test_a_hole_takes_its_values_at_the_level_that_is_read() -> None:
    lines = {"x": Line(0.0, 1.0, 7), "y": Line(0.0, 1.0, 6)}
    hole = Rule(index(ALL, 3, slice(2, 4)), Condition("neumann", (name("t") + 0.2 * U.at(),)))
    body = 0.3 * (U.at(t=-1, x=-1) + U.at(t=-1, x=1) + U.at(t=-1, y=1))
    assert check(marching(body, *walls(NEUMANN, NEUMANN), hole, lines=lines))


def test_ghosts_repeat_along_a_periodic_axis() -> None:
    lines = {"x": Line(0.0, 1.0, 4, periodic=True), "y": Line(0.0, 1.0, 4, cells=True)}
    rules = [Rule(index(ALL, ALL, end), Condition("neumann", (name("x"),))) for end in (0, -1)]
    assert check(marching(0.3 * U.at(t=-1, x=-1, y=-1) + 0.2 * U.at(t=-1, x=1, y=1), *rules, lines=lines))


def walled_by(keys: list[Any], cells: bool) -> np.ndarray:
    """Diagonal reads around a square with insulated walls, given by some keys."""
    axes = {axis: fd.Axis(0.0, 1.0, 7, cells=cells) for axis in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), **axes))
    u[...] = lambda u: 0.3 * u["t-1", "x-1", "y-1"] + 0.2 * u["t-1", "x+1", "y-1"] + 0.1 * u["t-1", "x+1", "y+1"]
    for key in keys:
        u[key] = fd.boundary.Robin(1.0, 2.0, lambda x, y: x + y)
    u[0] = arrays((7, 7), 1)
    return np.asarray(fd.solve(u)["u"])


@pytest.mark.parametrize("cells", [False, True])
def test_walls_are_walls_however_they_are_named(cells: bool) -> None:
    sides = [fd.region[dict(x=0)], fd.region[dict(x=-1)], fd.region[dict(y=0)], fd.region[dict(y=-1)]]
    wanted = walled_by(sides, cells)
    rim = np.ones((7, 7), bool)
    rim[1:-1, 1:-1] = False
    near = fd.where(lambda x, y: jnp.maximum(abs(x - 0.5), abs(y - 0.5)) > 0.4)
    for key in (rim, near, sides[0] | sides[1] | sides[2] | sides[3], ~fd.region[:, 1:-1, 1:-1]):
        np.testing.assert_array_equal(walled_by([key], cells), wanted)


@pytest.mark.parametrize("cells", [False, True])
def test_a_wall_in_parts_given_by_masks_has_corners(cells: bool) -> None:
    sides: list[Any] = [dict(x=0), dict(x=-1), dict(y=-1)]
    odd, even = np.zeros((7, 7), bool), np.zeros((7, 7), bool)
    even[[0, 1, 3, 5, 6], 0] = odd[[2, 4], 0] = True
    np.testing.assert_array_equal(walled_by([*sides, even, odd], cells), walled_by([*sides, dict(y=0)], cells))


def test_a_wall_shared_by_masks_that_differ_between_levels() -> None:
    lines = {"x": Line(0.0, 1.0, 7), "y": Line(0.0, 1.0, 4)}
    other = Rule(index(slice(2, None), (0, 4), 0), Condition("neumann", (0.9,)))
    rules = [*walls(NEUMANN, NEUMANN), Rule(index(ALL, (1, 3, 4, 6, 0), 0), Condition("robin", (1.0, 2.0, 0.4))), other]
    assert check(marching(0.3 * U.at(t=-1, x=-1, y=-1) + 0.3 * U.at(t=-1, y=-1), *rules, lines=lines))


def test_complex_fields_on_stretched_axes_under_strict_promotion() -> None:
    axes = dict(x=fd.Axis.from_points([0.0, 0.2, 0.5, 1.1]), y=fd.Axis.from_points([0.1, 0.5, 0.9, 1.2], cells=True))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1e-3, num=3), **axes), dtype=complex)
    u[...] = fd.rate(lambda u: 1j * fd.schemes.laplacian(u))
    u[dict(x=[0, -1])] = fd.boundary.Robin(1.0, 2.0, 0.3)
    u[dict(y=[0, -1])] = fd.boundary.Neumann(lambda x: x)
    u[fd.point(x=0.3, y=0.7)] += fd.rate(0.5j)
    u[0] = lambda x, y: x * y
    result = np.asarray(fd.solve(u)["u"])
    assert np.isfinite(result).all() and np.abs(result.imag).max() > 1e-4


def test_a_hole_shaped_by_a_parameter_is_a_hole() -> None:
    """Next to it everything is as beside the same hole of a fixed shape, inside it is nothing."""
    found = []
    for predicate, values in (
        (lambda x, y: x * x + y * y < 0.04, {}),
        (lambda x, y, r: x * x + y * y < r * r, {"r": 0.2}),
    ):
        axes = {axis: fd.Axis(-0.5, 0.5, 7) for axis in "xy"}
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=3), **axes))
        u[...] = lambda u: 0.2 * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y+1"] + u["t-1"])
        u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = fd.boundary.Neumann(0.1)
        u[fd.where(predicate)] = fd.boundary.Neumann(0.3)
        u[0] = lambda x, y: 1.0 + x + y
        found.append(np.asarray(fd.solve(u, **values)["u"]))
    np.testing.assert_allclose(*found, atol=1e-14, equal_nan=True)
    assert np.isnan(found[0]).any()


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize(
    "shape", [lambda x, y: y < 0.45 * (x - 0.3), lambda x, y: (x - 0.5) ** 2 + y**2 < 0.09], ids=["wedge", "half disc"]
)
def test_a_hole_that_stands_on_a_wall_is_cut_out_to_its_foot(shape: Any, cells: bool) -> None:
    x, y = (fd.Axis(0.0, size, 12, cells=cells) for size in (1.0, 0.6))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=x, y=y))
    u[...] = lambda u: 0.3 * u["t-1", "x-1"] + 0.1 * u["t-1", "x+1"] + 0.2 * u["t-1", "y-1"]
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = fd.boundary.Symmetric()
    u[fd.where(shape)] = fd.boundary.Neumann(0.0)
    u[0] = start = arrays((12, 12), 3)
    solid = np.asarray(shape(x.points[:, None], y.points))

    def beside(i: int, j: int, dx: int, dy: int) -> float:
        k, m = i + dx, j + dy
        if 0 <= k < 12 and 0 <= m < 12:
            return start[i, j] if solid[k, m] else start[k, m]
        return start[i, j] if cells else beside(i, j, -dx, -dy)  # the mirror about a face, or about the node

    wanted = np.full((12, 12), np.nan)
    for i, j in np.argwhere(~solid):
        wanted[i, j] = 0.3 * beside(i, j, -1, 0) + 0.1 * beside(i, j, 1, 0) + 0.2 * beside(i, j, 0, -1)
    found = np.asarray(fd.solve(u)["u"][-1])
    np.testing.assert_array_equal(np.isnan(found), solid)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_an_array_over_later_levels_holds_from_their_first_stage_on() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, 4)))
    u[1:] = fd.rate(np.ones((2, 4)))
    u[0] = 0.0
    history = np.asarray(fd.solve(u, stepper=fd.schemes.Heun())["u"])
    np.testing.assert_allclose(history[:, 0], [0.0, 0.5, 1.0])


def test_staggered_fields_are_set_together() -> None:
    """What one of them reads need not be a place for the other."""

    def pressure(p: Any, v: Any, k: Any, dt: Any, dx: Any) -> Any:
        return p["t-1"] - k["x"] * dt / dx * (v["t-1", "x+1/2"] - v["t-1", "x-1/2"])

    def velocity(p: Any, v: Any, dt: Any, dx: Any) -> Any:
        return v["t-1"] - dt / dx * (p["t-1", "x+1/2"] - p["t-1", "x-1/2"])

    def solved(apart: bool) -> fd.Solution:
        grid = fd.Grid(t=fd.Time(0.0, 0.3, num=7), x=fd.Axis(0.0, 1.0, num=8, cells=True, periodic=True))
        p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
        if apart:
            p[...], v[...] = pressure, velocity
        else:
            fd.together(p, v)[...] = lambda p, v, k, dt, dx: (pressure(p, v, k, dt, dx), velocity(p, v, dt, dx))
        p[0], v[0] = lambda x: jnp.sin(6 * x), 0.0
        return fd.solve((p, v), k=fd.along(arrays((8,), 3), "x"))

    one, other = solved(apart=True), solved(apart=False)
    for field in "pv":
        np.testing.assert_array_equal(one[field], other[field])
    assert np.any(one["v"][-1])

"""Regularisation: integrals over the whole domain, along the axes that are named, of priors in the parameter's unit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saiunit
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import fdsolve as fd

METRE = saiunit.meter
CELLS, NODES = fd.Axis(0.0, 1.0, num=5, cells=True), fd.Axis(0.0, 1.0, num=5)
UNEVEN = [0.05, 0.2, 0.45, 0.8]
"""Points of an axis that is 1 long where they are the centres of cells, and periodic as well."""


# Integrals.


@st.composite
def lines(draw: Any) -> tuple[fd.Axis, int]:
    """An axis of any kind, and how many values a parameter has at its points, or faces."""
    cells, periodic = draw(st.booleans()), draw(st.booleans())
    num, lower = draw(st.integers(1 if cells or periodic else 2, 9)), draw(st.sampled_from([-2.0, 0.0, 0.7]))
    if num > 1 and draw(st.booleans()):
        steps = np.array(draw(st.lists(st.sampled_from([0.1, 0.3, 0.7, 1.9]), min_size=num, max_size=num)))
        points = lower + np.cumsum(steps)
        period = float(steps.sum()) + 0.4 if periodic else None
        axis = fd.Axis.from_points(points, cells=cells, periodic=periodic, period=period)
    else:
        axis = fd.Axis(lower, lower + draw(st.sampled_from([0.3, 1.0, 17.0])), num, cells=cells, periodic=periodic)
    return axis, axis.size(draw(st.booleans()))


@given(lines())
def test_volumes_around_the_values_fill_the_domain(line: tuple[fd.Axis, int]) -> None:
    axis, num = line
    own = fd.tikhonov(2.0, order=0, grid=fd.Grid(x=axis))(jnp.ones(num))
    np.testing.assert_allclose(own, axis.length, rtol=1e-12)
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=4), y=axis)
    slope = jnp.asarray(np.linspace(0.0, 3.0, 4)[:, None] * np.ones((4, num)))
    np.testing.assert_allclose(fd.tikhonov(2.0, grid=grid)(slope), 9 * axis.length, rtol=1e-12)
    jump = jnp.asarray((np.arange(4)[:, None] > 1) * np.ones((4, num)))
    found = fd.total_variation(1.0, grid=grid, smoothing=1e-9)(jump)
    np.testing.assert_allclose(found, axis.length, rtol=1e-6)


@given(st.lists(lines(), min_size=1, max_size=3), st.integers(0, 2**16))
def test_total_variation_is_the_sum_over_the_corners_of_all_cells(made: Any, seed: int) -> None:
    """Against loops: each corner with the slopes of its own and the volume up to the middles, and to the walls."""
    sizes, rng = tuple(num for _, num in made), np.random.default_rng(seed)
    grid = fd.Grid(**{name: axis for name, (axis, _) in zip("xyz", made, strict=False)})
    m, smooth = rng.standard_normal(sizes), 0.3
    halves, steps = [], []
    for axis, num in made:
        points = axis.positions(num != axis.num, 0, num)
        gaps = np.diff(points, append=points[0] + axis.length) if axis.periodic else np.diff(points)
        total, own = axis.length, np.zeros((num, 2))
        own[: len(gaps), 1] = gaps / 2
        own[:, 0] = np.roll(own[:, 1], 1)
        if not axis.periodic:
            own[0, 0], own[-1, 1] = points[0] - axis.lower, axis.lower + axis.length - points[-1]
        np.testing.assert_allclose(own.sum(), total, rtol=1e-12)
        halves.append(own)
        steps.append(gaps)

    def value(m: np.ndarray) -> float:
        found = 0.0
        for place in np.ndindex(*sizes):
            for corner in np.ndindex(*(2,) * len(sizes)):
                square, volume = smooth**2, 1.0
                for k, side in enumerate(corner):
                    volume *= halves[k][place[k], side]
                    middle = place[k] + side - 1
                    if made[k][0].periodic or 0 <= middle < len(steps[k]):
                        beside = list(place)
                        beside[k] = (place[k] + 2 * side - 1) % sizes[k]
                        square += ((m[tuple(beside)] - m[place]) / steps[k][middle]) ** 2
                found += volume * np.sqrt(square)
        return 0.7 * found

    term = fd.total_variation(0.7, "m", grid=grid, smoothing=smooth)
    found, gradient = jax.jit(jax.value_and_grad(term))(dict(m=jnp.asarray(m)))
    np.testing.assert_allclose(found, value(m), rtol=1e-11)
    along = rng.standard_normal(sizes)
    slope = (value(m + 1e-5 * along) - value(m - 1e-5 * along)) / 2e-5
    np.testing.assert_allclose(np.vdot(gradient["m"], along), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cells", [False, True])
def test_total_variation_of_planes_is_exact_and_that_of_mirror_images_the_same(cells: bool) -> None:
    """Up to the walls of nodes; of cells between the first value and the last, beyond which nothing varies."""
    grid = fd.Grid(x=fd.Axis(0.0, 2.0, num=7, cells=cells), y=fd.Axis(0.0, 1.0, num=9, cells=cells))
    x, y = np.meshgrid(grid.x.points, grid.y.points, indexing="ij")
    term = fd.total_variation(1.0, grid=grid, smoothing=1e-9)
    across = 10.0 if not cells else 5 * (2 - 2 / 7) * (1 - 1 / 9) + 3 * (2 - 2 / 7) / 9 + 4 * (1 - 1 / 9) * 2 / 7
    np.testing.assert_allclose(term(jnp.asarray(3 * x + 4 * y)), across, rtol=1e-7)
    disc = np.where((x - 0.9) ** 2 + (y - 0.45) ** 2 < 0.09, 1 + x * y, 0.0)
    for image in (disc[::-1], disc[:, ::-1]):
        np.testing.assert_allclose(term(jnp.asarray(image)), term(jnp.asarray(disc)), rtol=1e-12)


@given(lines())
def test_slopes_and_curvatures_of_polynomials_are_exact(line: tuple[fd.Axis, int]) -> None:
    """Between the first value and the last; curvatures over the cells of those that have two neighbours."""
    axis, num = line
    grid, face = fd.Grid(x=axis), num != axis.num
    points, ends = axis.positions(face, 0, num), axis.ends(face)
    if axis.periodic or num < 2:
        return
    ramp, bent = jnp.asarray(0.5 - 3 * points), jnp.asarray(2 * points**2 - points)
    np.testing.assert_allclose(fd.tikhonov(2.0, grid=grid)(ramp), 9 * (points[-1] - points[0]), rtol=1e-9)
    found = fd.total_variation(2.0, grid=grid, smoothing=1e-9)(ramp)
    np.testing.assert_allclose(found, 6 * (points[-1] - points[0]), rtol=1e-6)
    if num > 2:
        term = fd.tikhonov(2.0, order=2, grid=grid)
        np.testing.assert_allclose(term(bent), 16 * (ends[-2] - ends[1]), rtol=1e-8)


def test_periodic_slopes_and_curvatures_go_around() -> None:
    axis = fd.Axis.from_points(UNEVEN, periodic=True, period=1.0)
    m = np.array([0.3, -0.2, 0.9, 0.4])
    distances = np.array([0.15, 0.25, 0.35, 0.25])
    slopes = (np.roll(m, -1) - m) / distances
    around = (distances + np.roll(distances, 1)) / 2
    bends = (slopes - np.roll(slopes, 1)) / around
    grid = fd.Grid(x=axis)
    np.testing.assert_allclose(fd.tikhonov(2.0, grid=grid)(jnp.asarray(m)), sum(slopes**2 * distances))
    np.testing.assert_allclose(fd.tikhonov(2.0, order=2, grid=grid)(jnp.asarray(m)), sum(bends**2 * around))
    found = fd.total_variation(1.0, grid=grid, smoothing=1e-9)(jnp.asarray(m))
    np.testing.assert_allclose(found, sum(abs(np.roll(m, -1) - m)))


def test_curvatures_on_the_faces_of_uneven_cells_lie_between_middles() -> None:
    """A centre is not half-way between the faces around it: distances of middles are no widths of cells there."""
    axis = fd.Axis.from_points(UNEVEN, cells=True)
    faces = axis.positions(True, 0, 5)
    residuals = fd.tikhonov(2.0, order=2, grid=fd.Grid(x=axis)).residuals(jnp.asarray(faces**2))[0]
    np.testing.assert_allclose(residuals, 2 * np.sqrt(2 * np.diff(axis.ends(True))[1:-1]))


def test_lengths_are_those_of_coordinates_on_curvilinear_axes() -> None:
    r = fd.Axis(1.0, 3.0, num=8, cells=True, metric="radius")
    angle = fd.Axis(0.0, 2 * np.pi, num=6, periodic=True, metric="angle")
    grid = fd.Grid(r=r, theta=angle)
    np.testing.assert_allclose(fd.tikhonov(2.0, order=0, grid=grid)(jnp.ones((9, 6))), 4 * np.pi)
    slope = jnp.asarray(np.linspace(0.0, 1.0, 9)[:, None] * np.ones((9, 6)))
    np.testing.assert_allclose(fd.tikhonov(2.0, grid=grid, axes="r")(slope), np.pi)


def test_one_value_stands_for_the_whole_line() -> None:
    for axis in (fd.Axis(0.0, 3.0, num=1, cells=True), fd.Axis(0.0, 3.0, num=2), fd.Axis(0.0, 3.0, 1, periodic=True)):
        grid = fd.Grid(x=axis, y=fd.Axis(0.0, 1.0, num=3))
        m = jnp.array([[1.0, 2.0, 3.0]])
        np.testing.assert_allclose(fd.tikhonov(2.0, order=0, grid=grid, prior=1.0)(m[:, 1:2] * jnp.ones((1, 3))), 3.0)
        np.testing.assert_allclose(fd.tikhonov(2.0, grid=grid)(m), 3 * 4)
        np.testing.assert_allclose(fd.tikhonov(2.0, order=2, grid=grid)(m), 0.0, atol=1e-12)


def test_whole_numbers_and_complex_values_count() -> None:
    np.testing.assert_allclose(fd.tikhonov(2.0, spacing=0.5)(jnp.arange(3)), 4.0)
    m = np.array([0.3, -1.2, 0.8, 2.0])
    waves = np.fft.rfft(m)
    term = fd.tikhonov(2.0, order=0, of=jnp.fft.rfft)
    np.testing.assert_allclose(term(jnp.asarray(m)), sum(abs(waves) ** 2))
    found = fd.total_variation(2.0, smoothing=1e-9, of=jnp.fft.rfft)(jnp.asarray(m))
    np.testing.assert_allclose(found, 2 * sum(abs(np.diff(waves))))
    assert jax.grad(term)(jnp.asarray(m)).dtype == np.float64


# Axes.

TIME = fd.Time(0.0, 2.0, num=21)
LINE = fd.Grid(t=TIME, x=fd.Axis(0.0, 1.0, num=9))
PLANE = fd.Grid(t=TIME, x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 3.0, num=6, cells=True))
CUBE = fd.Grid(t=fd.Time(0.0, 2.0, num=9), x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 3.0, num=9))


def ramp(*factors: tuple[int, float]) -> jax.Array:
    """Of unit rise along all axes: (number, slope · length) of each."""
    result = np.zeros([num for num, _ in factors])
    for axis, (num, rise) in enumerate(factors):
        result += np.linspace(0.0, rise, num).reshape([-1 if k == axis else 1 for k in range(len(factors))])
    return jnp.asarray(result)


@pytest.mark.parametrize("grid", [LINE, fd.Grid(t=TIME, x=fd.Axis(0.0, 1.0, num=21))], ids=["9 points", "21 points"])
@pytest.mark.parametrize("num", [20, 21])
def test_a_boundary_value_in_time_is_regularised_along_time(grid: fd.Grid, num: int) -> None:
    """At all levels, or at those after the first."""
    q = dict(q=jnp.arange(float(num)))
    np.testing.assert_allclose(fd.tikhonov(2.0, "q", axes="t", grid=grid)(q), 0.1 * 100 * (num - 1))
    np.testing.assert_allclose(fd.tikhonov(2.0, "q", axes="t", grid=grid, order=0, prior=-1.0)(dict(q=0 * q["q"])), 2.0)
    found = fd.total_variation(1.0, "q", axes="t", grid=grid, smoothing=1e-6)(q)
    np.testing.assert_allclose(found, num - 1, rtol=1e-6)


def test_axes_that_are_named_count_in_their_order() -> None:
    q = ramp((21, 2.0), (6, 2.5))  # slopes of 1
    for term in (fd.tikhonov(2.0, axes=("t", "y"), grid=PLANE), fd.tikhonov(2.0, axes=("t", "y"), grid=CUBE)):
        given = q if term.frame.grid is PLANE else ramp((9, 2.0), (9, 3.0))
        np.testing.assert_allclose(term(given), (3 + 2.5) * 2 if given is q else 12.0)
    np.testing.assert_allclose(fd.tikhonov(2.0, axes=("y", "t"), grid=PLANE)(q.T), 11.0)
    np.testing.assert_allclose(fd.tikhonov(2.0, axes=("y", "x"), grid=PLANE)(ramp((6, 2.5), (9, 3.0))), 2.5 + 9 * 3)
    found = fd.total_variation(1.0, axes=("t", "y"), grid=PLANE, smoothing=1e-9)(ramp((21, 2.0), (6, 0.0)))
    np.testing.assert_allclose(found, 2 * 3)


def test_some_of_the_axes_of_a_parameter_that_has_all_of_space() -> None:
    k = ramp((9, 1.0), (6, 2.5))
    np.testing.assert_allclose(fd.tikhonov(2.0, grid=PLANE, axes="x")(k), 3.0)
    np.testing.assert_allclose(fd.tikhonov(2.0, grid=PLANE, axes="y")(k), 2.5)
    square = fd.Grid(x=fd.Axis(0.0, 1.0, num=5), y=fd.Axis(0.0, 3.0, num=5))
    k = ramp((5, 1.0), (5, 0.0))
    for axes in (("x", "y"), ("y", "x")):  # sizes tell nothing: all of space lies in the order of the grid
        np.testing.assert_allclose(fd.tikhonov(2.0, grid=square, axes=axes)(k), 3.0)


def test_sizes_tell_the_other_axes() -> None:
    q = ramp((21, 4.0), (6, 2.5))
    np.testing.assert_allclose(fd.tikhonov(2.0, axes="t", grid=PLANE)(q), 4 * 2 * 3)
    np.testing.assert_allclose(fd.tikhonov(2.0, axes="y", grid=PLANE)(q), 2.5 * 2)
    with pytest.raises(fd.DeclarationError, match=r"may lie along t, x or along t, y.*DataArray"):
        fd.tikhonov(2.0, axes="t", grid=CUBE)(jnp.ones((9, 9)))
    every = ramp((21, 2.0), (9, 0.0), (6, 0.0))
    for axes in (None, "t"):
        np.testing.assert_allclose(fd.tikhonov(2.0, grid=PLANE, axes=axes)(every), 2 * 1 * 3)


def test_a_labelled_parameter_has_its_own_axes() -> None:
    """Wherever it is given, on faces too, as a Dataset of a solution names them."""
    q = np.asarray(ramp((9, 0.0), (9, 2.0)))
    labelled = xr.DataArray(q, dims=("y", "t"))
    np.testing.assert_allclose(fd.tikhonov(2.0, axes="t", grid=CUBE)(labelled), 2 * 3)
    found = fd.tikhonov(2.0, "q", axes="t", grid=CUBE)(xr.Dataset(dict(q=labelled)))
    np.testing.assert_allclose(found, 2 * 3)
    np.testing.assert_allclose(fd.total_variation(1.0, axes="t", grid=CUBE, smoothing=1e-9)(labelled), 2 * 3)
    faces = xr.DataArray(np.asarray(ramp((7, 3.0), (9, 0.0))), dims=("y_face", "x"))
    np.testing.assert_allclose(fd.tikhonov(2.0, grid=PLANE)(faces), 3.0)
    ring = fd.Grid(x=fd.Axis.from_points(UNEVEN, periodic=True, period=1.0))
    m = np.array([0.3, -0.2, 0.9, 0.4])
    distances = np.diff(ring.x.positions(True, 0, 5))
    for dim, length in (("x_face", distances), ("x", np.array([0.15, 0.25, 0.35, 0.25]))):
        found = fd.tikhonov(2.0, grid=ring)(xr.DataArray(m, dims=dim))
        np.testing.assert_allclose(found, sum((np.roll(m, -1) - m) ** 2 / length))


def test_axes_by_spacing_are_those_that_are_named() -> None:
    steps = dict(x=0.5, t=0.1)
    np.testing.assert_allclose(fd.tikhonov(2.0, axes="t", spacing=steps)(jnp.arange(5.0)), 40.0)
    with pytest.raises(fd.DeclarationError, match="spacing= has no axis `t`; it has x"):
        fd.tikhonov(2.0, axes="t", spacing=dict(x=0.5))(jnp.arange(5.0))


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        (dict(grid=LINE), (21,), r"21 points along `x`, where the grid has 9 points and 8 midpoints.*axes=\('t',\)"),
        (dict(grid=LINE, axes="t"), (22,), "22 points along `t`, where the grid has 21 levels, 20 after the first"),
        (dict(grid=PLANE, axes="y"), (21, 9), "along `x`, where the grid has 9"),
        (dict(grid=PLANE), (9,), "the parameter has 1 axes; give as many by name"),
        (dict(grid=PLANE, axes=("x", "x")), (9, 6), "axes= names `x` twice"),
        (dict(axes=("x", "x")), (9, 6), "axes= names `x` twice"),
        (dict(axes=()), (9,), "axes= names none"),
        (dict(axes=0), (9,), "axes= takes names of axes"),
        (dict(spacing=0.1 * METRE), (9,), "spacing= takes positive distances"),
        (dict(spacing=float("inf")), (9,), "spacing= takes positive distances"),
    ],
)
@pytest.mark.parametrize("kind", [fd.tikhonov, fd.total_variation])
def test_axes_that_do_not_fit_are_told(kind: Any, options: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(fd.DeclarationError, match=message):
        kind(2.0, **options)(jnp.ones(shape))


def test_a_boundary_value_is_found_from_what_it_does_and_a_prior_in_time() -> None:
    """½ Σ(q − d)² + ½ w Σ(q′)² Δt has the tridiagonal normal equations (1 + w L/Δt) q = d."""
    num, weight = 21, 0.05
    data = np.random.default_rng(0).standard_normal(num)
    term = fd.tikhonov(weight, "q", axes="t", grid=LINE)
    found = fd.invert(lambda p: p["q"] - data, dict(q=np.zeros(num)), regularise=term)
    rise = np.diff(np.eye(num), axis=0)
    expected = np.linalg.solve(np.eye(num) + weight * rise.T @ rise / 0.1, data)
    np.testing.assert_allclose(found.parameters["q"], expected, rtol=1e-6, atol=1e-9)


# Priors.

GRID = fd.Grid(x=fd.Axis(0.0, 1.0, num=3))
PLACES = GRID.x.points


def prior_found(start: Any, prior: Any, **options: Any) -> Any:
    """Where a parameter ends that the data say next to nothing of, and what the term is at the start."""
    term = fd.tikhonov(2.0, "k", order=0, grid=GRID, prior=prior, **options)
    plain = lambda k: k.mantissa if isinstance(k, saiunit.Quantity) else k  # noqa: E731
    found = fd.invert(lambda p: 1e-7 * plain(p["k"]), dict(k=start), regularise=term)
    return np.asarray(plain(found.parameters["k"])), float(term(dict(k=start)))


CENTIMETRES = [
    xr.DataArray(np.full(3, 200.0), dims="x", attrs=dict(units="cm")),
    xr.DataArray(np.full(3, 2000, int), dims="x", attrs=dict(units="mm")),
    xr.DataArray(200.0, attrs=dict(units="cm")),
    200.0 * saiunit.cmeter,
    np.full(3, 200.0) * saiunit.cmeter,
    2.0,
    np.full(3, 2.0),
    xr.DataArray(np.full(3, 2.0), dims="x"),
]
LABELLED = xr.DataArray(np.ones(3), dims="x", attrs=dict(units="m"))


@pytest.mark.parametrize("prior", CENTIMETRES, ids=lambda prior: type(prior).__name__)
@pytest.mark.parametrize("start", [np.ones(3) * METRE, LABELLED], ids=["quantity", "DataArray"])
def test_a_prior_is_taken_in_the_unit_of_the_parameter(start: Any, prior: Any) -> None:
    found, value = prior_found(start, prior)
    np.testing.assert_allclose(found, 2.0, rtol=1e-9)
    np.testing.assert_allclose(value, 1.0)


@pytest.mark.parametrize("start", [np.ones(3) * METRE, LABELLED], ids=["quantity", "DataArray"])
@pytest.mark.parametrize("prior", [LABELLED.assign_attrs(units="K"), 3.0 * saiunit.kelvin], ids=["DataArray", "K"])
def test_a_prior_of_another_kind_is_refused(start: Any, prior: Any) -> None:
    with pytest.raises(fd.DeclarationError, match='prior= is in "K", and the parameter is in "m": they measure'):
        prior_found(start, prior)


def test_a_prior_with_a_unit_wants_a_parameter_with_one() -> None:
    with pytest.raises(fd.DeclarationError, match=r"prior= has a unit, 3 m, and the parameter has none. Give both one"):
        prior_found(np.ones(3), 3.0 * METRE)
    found, _ = prior_found(np.ones(3), saiunit.Quantity(2.0))
    np.testing.assert_allclose(found, 2.0, rtol=1e-9)
    found, _ = prior_found(np.ones(3), LABELLED * 2)  # as observations: a label is no error beside plain numbers
    np.testing.assert_allclose(found, 2.0, rtol=1e-9)


def test_a_prior_of_a_function_of_the_parameter_is_in_no_unit() -> None:
    start = np.ones(3) * METRE
    logarithm = xr.DataArray(np.full(3, np.log(2.0)), dims="x", attrs=dict(units="log10 m"))
    found, value = prior_found(start, logarithm, of=jnp.log)
    np.testing.assert_allclose(found, 2.0, rtol=1e-6)
    np.testing.assert_allclose(value, np.log(2.0) ** 2)
    with pytest.raises(fd.DeclarationError, match=r"prior= has a unit, 3 m, .* of=, whose unit is not known"):
        prior_found(start, 3.0 * METRE, of=jnp.log)


def test_the_unit_of_a_labelled_parameter_stays_and_its_bounds_may_have_one() -> None:
    residuals = lambda p: p["k"] - 2.0  # noqa: E731
    bounds = dict(k=(0 * METRE, 150 * saiunit.cmeter))
    found = fd.invert(residuals, dict(k=LABELLED), bounds=bounds).to_xarray()["k"]
    assert found.attrs["units"] == "m"
    np.testing.assert_allclose(found, 1.5, rtol=1e-4)
    with pytest.raises(fd.DeclarationError, match="bounds of `k` are in m, got 3"):
        fd.invert(residuals, dict(k=LABELLED), bounds=dict(k=(0 * METRE, 3 * saiunit.kelvin)))


def test_a_labelled_prior_lies_where_it_says_beside_plain_parameters_too() -> None:
    wanted = np.array([1.0, 2.0, 4.0])
    for places in (PLACES, PLACES[::-1], PLACES[[1, 2, 0]]):
        prior = xr.DataArray(1 + places + 2 * places**2, dict(x=places), ("x",))
        np.testing.assert_allclose(prior_found(np.ones(3), prior)[0], wanted, rtol=1e-9)
    with pytest.raises(fd.DeclarationError, match="prior= lies at other places along `x` than the parameter"):
        prior_found(np.ones(3), xr.DataArray(wanted, dict(x=PLACES + 0.1), ("x",)))


def test_a_labelled_prior_on_faces_and_in_time_lies_where_it_says() -> None:
    cells = fd.Grid(x=CELLS)
    faces = CELLS.positions(True, 0, 6)
    for dim in ("x", "x_face"):
        prior = xr.DataArray(faces[::-1] ** 2, {dim: faces[::-1]}, (dim,))
        value = fd.tikhonov(2.0, order=0, grid=cells, prior=prior)(jnp.asarray(faces**2))
        np.testing.assert_allclose(value, 0.0, atol=1e-15)
    ring = fd.Axis(0.0, 1.0, num=4, periodic=True)
    for places in (ring.points, ring.positions(True, 0, 4)):
        prior = xr.DataArray(places[::-1], dict(x=places[::-1]), ("x",))
        value = fd.tikhonov(2.0, order=0, grid=fd.Grid(x=ring), prior=prior)(jnp.asarray(places))
        np.testing.assert_allclose(value, 0.0, atol=1e-15)
    days = fd.Time(0, 3, num=4, since="2016-06-01", units="days")
    grid = fd.Grid(t=days, x=NODES)
    for first in (0, 1):
        levels = np.arange(first, 4.0)
        for places in (levels[::-1], days.datetimes()[first:][::-1]):
            prior = xr.DataArray(levels[::-1], dict(t=places), ("t",))
            value = fd.tikhonov(2.0, order=0, axes="t", grid=grid, prior=prior)(jnp.asarray(levels))
            np.testing.assert_allclose(value, 0.0, atol=1e-15)


def test_a_prior_is_differentiated_and_of_the_parameters_precision() -> None:
    by = jax.grad(lambda prior: fd.tikhonov(2.0, order=0, prior=prior)(jnp.ones(3)))(jnp.array(3.0))
    np.testing.assert_allclose(by, 12.0)
    term = fd.tikhonov(2.0, "k", order=0, prior=np.float64(200.0) * saiunit.cmeter)
    assert term(dict(k=np.ones(3, np.float32) * METRE)).dtype == np.float32


@pytest.mark.parametrize("prior", ["much", dict(k=3.0), [3.0, "a"], fd], ids=["text", "dict", "list", "module"])
def test_a_prior_that_is_no_number_is_refused(prior: Any) -> None:
    with pytest.raises(fd.DeclarationError, match="prior= is a number or an array of them"):
        fd.tikhonov(2.0, order=0, prior=prior)


def test_a_complex_prior_is_one_of_a_complex_function() -> None:
    with pytest.raises(fd.DeclarationError, match="prior= is complex, and the parameter is real"):
        fd.tikhonov(2.0, order=0, prior=3j)(jnp.ones(4))
    value = fd.tikhonov(2.0, order=0, prior=3j, of=jnp.fft.rfft)(jnp.ones(4))
    np.testing.assert_allclose(value, abs(4 - 3j) ** 2 + 2 * 9)


@pytest.mark.parametrize("kind", [fd.tikhonov, fd.total_variation])
@pytest.mark.parametrize("weight", [2.0 * METRE, None, -1.0, np.inf, np.ones(2), True], ids=repr)
def test_a_weight_is_a_plain_number(kind: Any, weight: Any) -> None:
    with pytest.raises(fd.DeclarationError, match="a positive weight comes first"):
        kind(weight)


@pytest.mark.parametrize("smoothing", [0.1 * METRE, None, 0.0, np.inf], ids=repr)
def test_smoothing_is_a_plain_number(smoothing: Any) -> None:
    with pytest.raises(fd.DeclarationError, match="smoothing= is a positive slope"):
        fd.total_variation(1.0, smoothing=smoothing)
    assert fd.total_variation(1.0, smoothing=np.float32(0.5)).smoothing == 0.5


def test_a_prior_lies_where_its_coordinate_says_in_its_own_units() -> None:
    axis = fd.Axis(0.0, 2.0, num=3, units="m")
    grid = fd.Grid(x=axis)
    places = xr.Variable("x", [200.0, 0.0, 100.0], dict(units="cm"))
    prior = xr.DataArray([3.0, 1.0, 2.0], dims="x", coords=dict(x=places))
    term = fd.tikhonov(2.0, order=0, grid=grid, prior=prior)
    np.testing.assert_allclose(term(jnp.array([1.0, 2.0, 3.0])), 0.0, atol=1e-12)
    with pytest.raises(fd.DeclarationError, match="coordinate `x`"):
        fd.tikhonov(2.0, order=0, grid=grid, prior=prior.assign_coords(x=("x", places.values, dict(units="s"))))(
            jnp.ones(3)
        )


def test_second_derivatives_of_total_variation_are_those_of_the_term() -> None:
    """Of two values: f = √((m₁ − m₀)² + 1). In a plane: differences of the gradient, of values and of logarithms."""
    term = fd.total_variation(1.0, smoothing=1.0, spacing=1.0)
    np.testing.assert_allclose(jax.hessian(term)(jnp.array([0.0, 2.0]))[0, 0], 5.0**-1.5, rtol=1e-14)
    random = np.random.default_rng(2)
    at, along = (jnp.asarray(random.uniform(0.5, 1.5, (5, 4))) for _ in range(2))
    for of in (None, jnp.log):
        term = fd.total_variation(0.7, smoothing=0.2, spacing=dict(x=0.5, y=0.25), of=of)
        gradient, step = jax.grad(term), 1e-4
        hvp = jax.jvp(gradient, (at,), (along,))[1]
        ahead, behind = (gradient(at + sign * step * along) for sign in (1, -1))
        np.testing.assert_allclose(hvp, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-5)
        by_residuals = sum(jnp.sum(one**2) / 2 for one in term.residuals(at))
        np.testing.assert_allclose(term(at), by_residuals, rtol=1e-14)


def test_total_variation_takes_the_iterations_that_it_needs() -> None:
    """Its majoriser holds slopes of the step before, so that methods for residuals converge linearly."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=20))
    data = np.where(abs(grid.x.points - 0.45) < 0.15, 1.0, 0.0) + 0.05 * np.random.default_rng(0).standard_normal(20)
    term = fd.total_variation(0.1, "m", grid=grid)
    found = fd.invert(lambda p: p["m"] - data, dict(m=np.full(20, 0.5)), regularise=term)
    assert found.converged and len(found.losses) > 100, found
    slope = jax.grad(lambda m: jnp.sum((m - data) ** 2) / 2 + term(dict(m=m)))(found.parameters["m"])
    assert abs(slope).max() < 1e-3


@pytest.mark.parametrize("prior", [np.nan, np.inf])
def test_a_prior_that_is_not_finite_is_refused(prior: float) -> None:
    with pytest.raises(fd.DeclarationError, match=r"prior= has 1 of 1 entries that are not finite\. Give what"):
        fd.tikhonov(1.0, "k", prior=prior)
    every = np.ones((2, 3))
    every[1, 2] = every[1, 0] = prior
    for one in (every, jnp.asarray(every), xr.DataArray(every, dims=("x", "y"))):
        with pytest.raises(fd.DeclarationError, match=r"2 of 6 .* the first at index \(1, 0\)"):
            fd.tikhonov(1.0, "k", prior=one)

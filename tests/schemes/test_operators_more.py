"""Stencils of one's own, averages, curl, biharmonic, mixed derivatives, higher flux forms; what is refused."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    Arithmetic,
    Harmonic,
    average,
    biharmonic,
    curl,
    derivative,
    divergence,
    gradient,
    laplacian,
    stencil,
)

FACE = dict(x="face")
TAM_WEBB = {1: 0.770882380518, 2: -0.166705904415, 3: 0.0208431427703}  # Tam & Webb, J. Comput. Phys. 107 (1993) 262


def ring(n=12, **options):
    return fd.Axis(0.0, 1.0, n, periodic=True, **options)


def wave(x):
    return jnp.sin(2 * jnp.pi * x)


def taken(grid, rule, at=None, place=None, function=wave, **parameters):
    """A rule of `u`, which is a function of the coordinates, on the whole grid."""
    u, d = fd.Field("u", grid, at=place), fd.Field("d", grid, at=at)
    u[...] = function
    d[...] = rule
    return np.asarray(fd.solve([u, d], **parameters)["d"])


def observed(rule, exact, sizes=(16, 32), at=None, place=None, axes=1):
    errors = []
    for n in sizes:
        grid = fd.Grid(**dict(zip("xy"[:axes], [ring(n)] * axes, strict=True)))
        function = wave if axes == 1 else lambda x, y: wave(x) * wave(y)
        got = taken(grid, rule, at, place, function)
        places = [grid.x.positions(at is not None, 0, n)] + [grid[axis].points for axis in "y" if axes == 2]
        errors.append(np.abs(got - exact(*np.meshgrid(*places, indexing="ij"))).max())
    return float(np.log2(errors[0] / errors[1]))


def test_dispersion_relation_preserving_weights():
    """Tam & Webb's seven points: of order 4, and at five points a wavelength better than the sixth-order ones."""
    weights = {k: np.sign(k) * TAM_WEBB[abs(k)] for k in (-3, -2, -1, 1, 2, 3)}
    weights = {k: float(w) for k, w in weights.items()}
    norm = sum(k * w for k, w in weights.items())
    weights = {k: w / norm for k, w in weights.items()}
    grid = fd.Grid(x=ring(10))
    exact = 4 * np.pi * np.cos(4 * np.pi * grid.x.points)
    short = lambda x: jnp.sin(4 * jnp.pi * x)  # noqa: E731
    own = taken(grid, lambda u: derivative(u, "x", weights=weights), function=short)
    sixth = taken(grid, lambda u: derivative(u, "x", order=6), function=short)
    assert np.abs(own - exact).max() < 0.5 * np.abs(sixth - exact).max()


def test_standard_weights_given_by_hand():
    grid = fd.Grid(x=ring())
    own = {-1.5: 1 / 24, -0.5: -9 / 8, 0.5: 9 / 8, 1.5: -1 / 24}
    for at, place in ((FACE, None), (None, FACE)):
        got = taken(grid, lambda u: derivative(u, "x", weights=own), at, place)
        np.testing.assert_allclose(got, taken(grid, lambda u: derivative(u, "x", order=4), at, place), atol=1e-12)
    second = {-1: 1.0, 0: -2.0, 1: 1.0}
    got = taken(grid, lambda u: derivative(u, "x", 2, weights=second))
    np.testing.assert_allclose(got, taken(grid, lambda u: derivative(u, "x", 2)), atol=1e-11)


def test_weights_of_ones_own_give_way_near_a_wall():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 12))
    own = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    got = taken(grid, lambda u: derivative(u, "x", weights=own))
    wanted = taken(grid, lambda u: derivative(u, "x", order=4))
    np.testing.assert_allclose(got[[0, 1, -2, -1]], wanted[[0, 1, -2, -1]], atol=1e-12)


def test_a_stencil_takes_weights_as_they_are_and_parameters():
    grid = fd.Grid(x=ring())
    values = np.asarray(wave(grid.x.points))
    got = taken(grid, lambda u, w: stencil(u, "x", {-1: w, 2: 1.0}), w=0.25)
    np.testing.assert_allclose(got, 0.25 * np.roll(values, 1) + np.roll(values, -2), atol=1e-14)
    slope = jax.grad(lambda w: fd.solve(pair(grid), w=w)["d"][3])(0.25)
    np.testing.assert_allclose(slope, values[2], atol=1e-14)


def test_a_stencil_takes_weights_that_vary_in_space():
    grid = fd.Grid(x=ring())
    values = np.asarray(wave(grid.x.points))
    w = np.cos(np.arange(values.size))
    inner = w * np.roll(values, 1) + w**2 * np.roll(values, -2)
    once = taken(grid, lambda u, w: stencil(u, "x", {-1: w, 2: w * w}), w=w)
    np.testing.assert_allclose(once, inner, atol=1e-14)
    twice = taken(grid, lambda u, w: stencil(stencil(u, "x", {-1: w, 2: w * w}), "x", {0: 1.0, 1: w}), w=w)
    np.testing.assert_allclose(twice, inner + w * np.roll(inner, -1), atol=1e-14)
    moved = taken(grid, lambda u, w: stencil(u, "x", {-1: w, 2: w * w}, at="x+1"), w=w)
    np.testing.assert_allclose(moved, np.roll(inner, -1), atol=1e-14)


def pair(grid):
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = wave
    d[...] = lambda u, w: stencil(u, "x", {-1: w, 2: 1.0})
    return [u, d]


@pytest.mark.parametrize("order", [2, 4, 6])
def test_averages_between_places_are_of_their_order(order):
    exact = lambda x: np.sin(2 * np.pi * x)  # noqa: E731
    assert observed(lambda u: average(u, order=order), exact, at=FACE) > order - 0.1
    assert observed(lambda u: average(u, order=order), exact, place=FACE) > order - 0.1


def test_an_average_is_the_view_itself_where_it_has_points():
    grid = fd.Grid(x=ring())
    np.testing.assert_array_equal(taken(grid, lambda u: average(u, order=4)), wave(grid.x.points))


def test_an_average_along_two_axes():
    grid = fd.Grid(x=ring(4), y=fd.Axis(0.0, 1.0, 3, periodic=True))
    values = np.random.default_rng(0).normal(size=(4, 3))
    u, d = fd.Field("u", grid), fd.Field("d", grid, at=dict(x="face", y="face"))
    u[...] = values
    d[...] = lambda u: average(u)
    along = (values + np.roll(values, -1, 0)) / 2
    np.testing.assert_allclose(fd.solve([u, d])["d"], (along + np.roll(along, -1, 1)) / 2, atol=1e-14)


@pytest.mark.parametrize("order", [2, 4, 6])
def test_mixed_derivatives(order):
    exact = lambda x, y: 4 * np.pi**2 * np.cos(2 * np.pi * x) * np.cos(2 * np.pi * y)  # noqa: E731
    rule = lambda u: derivative(u, dict(x=1, y=1), order=order)  # noqa: E731
    assert observed(rule, exact, axes=2) > order - 0.1


@pytest.mark.parametrize("order", [2, 4])
def test_the_biharmonic_operator(order):
    exact = lambda x, y: 64 * np.pi**4 * np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y)  # noqa: E731
    assert observed(lambda u: biharmonic(u, order=order), exact, axes=2) > order - 0.15


def test_the_biharmonic_stencil_has_thirteen_points():
    grid = fd.Grid(x=fd.Axis(0.0, 9.0, 9, periodic=True), y=fd.Axis(0.0, 9.0, 9, periodic=True))
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    start = np.zeros((9, 9))
    start[4, 4] = 1.0
    u[...] = start
    d[...] = lambda u: biharmonic(u)
    rows = np.asarray(fd.solve([u, d])["d"])[2:7, 2:7]
    wanted = [[0, 0, 1, 0, 0], [0, 2, -8, 2, 0], [1, -8, 20, -8, 1], [0, 2, -8, 2, 0], [0, 0, 1, 0, 0]]
    np.testing.assert_allclose(rows, wanted, atol=1e-12)


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_flux_forms_of_higher_order(order):
    """(k u_x)_x with k = 2 + cos 2πx, read on the faces or averaged there."""

    def exact(x):
        a = 2 * np.pi
        return -(a**2) * (2 + np.cos(a * x)) * np.sin(a * x) - a**2 * np.sin(a * x) * np.cos(a * x)

    def rule(u):
        return divergence(2 + fd.apply(lambda x: jnp.cos(2 * jnp.pi * x), fd.coordinate(u, "x")), u, order=order)

    assert observed(rule, exact) > order - 0.15

    def averaged(u):
        return divergence(average_of(u), u, order=order)

    def average_of(u):  # sin² is at the points of u
        return 1 + u * u

    def exact_square(x):
        a = 2 * np.pi
        s, c = np.sin(a * x), np.cos(a * x)
        return 2 * s * (a * c) ** 2 - (1 + s * s) * a**2 * s

    assert observed(averaged, exact_square, (32, 64)) > order - 0.1


def test_flux_forms_conserve_at_any_order_and_mean():
    grid = fd.Grid(x=ring(11))
    k = np.random.default_rng(5).uniform(0.1, 3.0, 11)
    for order in (2, 4, 6):
        for mean in (Arithmetic(), Harmonic()):
            rule = lambda u, k, order=order, mean=mean: divergence(k, u, order=order, mean=mean)  # noqa: E731
            got = taken(grid, rule, k=k)
            assert abs(got.sum()) < 1e-12 * np.abs(got).sum()


def test_the_harmonic_mean_is_exact_for_layers_in_series():
    """A jump of k between two cells: the steady flux is Δu / Σ(Δx/k), and gradients are finite where k is 0."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 8, cells=True))
    k = np.where(np.arange(8) < 4, 1.0, 10.0)
    flux = 1 / (0.5 / 1.0 + 0.5 / 10.0)
    steady = np.cumsum(flux / k / 8) - 0.5 * flux / k / 8
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = lambda s: s
    d[...] = 0.0
    d[1:-1] = lambda u, k: divergence(k, u, mean=Harmonic())
    got = fd.solve([u, d], s=fd.along(steady, "x"), k=k)["d"]
    np.testing.assert_allclose(got[1:-1], 0.0, atol=1e-11)
    slopes = jax.grad(lambda k: (fd.solve([u, d], s=fd.along(steady, "x"), k=k)["d"] ** 2).sum())(jnp.zeros(8))
    assert np.isfinite(np.asarray(slopes)).all()


def test_curl_in_the_plane_and_in_space():
    grid = fd.Grid(x=ring(6), y=fd.Axis(0.0, 1.0, 5, periodic=True))
    u, v, d = (fd.Field(name, grid) for name in "uvd")
    u[...], v[...] = np.random.default_rng(1).normal(size=(2, 6, 5))
    d[...] = lambda u, v: curl(dict(y=v, x=u))
    solution = fd.solve([u, v, d])
    a, b = np.asarray(solution["u"]), np.asarray(solution["v"])
    wanted = (np.roll(b, -1, 0) - np.roll(b, 1, 0)) * 3 - (np.roll(a, -1, 1) - np.roll(a, 1, 1)) * 2.5
    np.testing.assert_allclose(solution["d"], wanted, atol=1e-12)
    d[...] = lambda u: divergence(curl(u))
    np.testing.assert_allclose(fd.solve([u, d])["d"], 0.0, atol=1e-11)


def test_the_curl_of_a_gradient_vanishes_on_yees_places():
    shape = dict(zip("xyz", (4, 5, 3), strict=True))
    grid = fd.Grid(**{name: fd.Axis(0.0, 1.0, n, periodic=True) for name, n in shape.items()})
    p = fd.Field("p", grid)
    p[...] = np.random.default_rng(2).normal(size=(4, 5, 3))
    edges = [fd.Field(f"e{axis}", grid, at={axis: "face"}) for axis in "xyz"]
    for index, edge in enumerate(edges):
        edge[...] = lambda p, index=index: gradient(p, order=4)[index]
    place = {"y": "face", "z": "face"}
    d = fd.Field("d", grid, at=place)
    d[...] = lambda ex, ey, ez: curl((ex, ey, ez), order=4)[0]
    np.testing.assert_allclose(fd.solve([p, *edges, d])["d"], 0.0, atol=1e-10)


def test_maxwell_on_yees_grid_keeps_its_energy():
    """E and H leapfrog: ½ΣE² + ½ΣHⁿ⁻½·Hⁿ⁺½ is constant to rounding between perfectly conducting walls."""
    n, steps = 9, 40
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=steps + 1), x=fd.Axis(0.0, 1.0, n), y=fd.Axis(0.0, 1.0, n))
    e = fd.Field("e", grid)
    hx, hy = fd.Field("hx", grid, at=dict(y="face")), fd.Field("hy", grid, at=dict(x="face"))
    hx[...] = lambda hx, e, dt: hx["t-1"] - dt * curl(e, at="t-1")[0]
    hy[...] = lambda hy, e, dt: hy["t-1"] - dt * curl(e, at="t-1")[1]
    e[...] = lambda e, hx, hy, dt: e["t-1"] + dt * curl((hx, hy))
    e[dict(x=[0, -1])] = 0.0
    e[dict(y=[0, -1])] = 0.0
    random = np.random.default_rng(3)
    start = np.zeros((n, n))
    start[1:-1, 1:-1] = random.normal(size=(n - 2, n - 2))
    e[0], hx[0], hy[0] = start, random.normal(size=(n, n - 1)), random.normal(size=(n - 1, n))
    s = fd.solve([e, hx, hy])
    electric = (np.asarray(s["e"])[:-1] ** 2).sum((1, 2))
    a, b = np.asarray(s["hx"]), np.asarray(s["hy"])
    # The outermost tangential faces of H lie inside the box: their cells are whole but for the walls they touch.
    inner_a, inner_b = a[:, 1:-1, :], b[:, :, 1:-1]
    magnetic = (inner_a[:-1] * inner_a[1:]).sum((1, 2)) + (inner_b[:-1] * inner_b[1:]).sum((1, 2))
    energy = electric + magnetic
    assert np.ptp(energy) < 1e-11 * energy[0]


def test_shallow_water_on_the_c_grid_keeps_its_energy():
    """η_t = −∇·v, v_t = −∇η in a closed basin, semi-discretely: d/dt Σ(η² + |v|²) = 0 for random states."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 6, cells=True), y=fd.Axis(0.0, 2.0, 5, cells=True))
    h = fd.Field("h", grid)
    u, v = fd.Field("u", grid, at=dict(x="face")), fd.Field("v", grid, at=dict(y="face"))
    rates = fd.Field("dh", grid), fd.Field("du", grid, at=dict(x="face")), fd.Field("dv", grid, at=dict(y="face"))
    random = np.random.default_rng(4)
    h[...], u[...], v[...] = (random.normal(size=shape) for shape in ((6, 5), (7, 5), (6, 6)))
    u[dict(x=[0, -1])] = 0.0
    v[dict(y=[0, -1])] = 0.0
    rates[0][...] = lambda u, v: -1.0 * divergence((u, v))
    rates[1][...] = lambda h: -1.0 * gradient(h)[0]
    rates[2][...] = lambda h: -1.0 * gradient(h)[1]
    s = fd.solve([h, u, v, *rates])
    powers = [np.asarray(s[name] * s[f"d{name}"]) for name in "huv"]
    total = powers[0].sum() + powers[1][1:-1].sum() + powers[2][:, 1:-1].sum()
    assert abs(total) < 1e-12 * np.abs(powers[0]).sum()


def test_laplacian_and_biharmonic_of_other_levels():
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=3), x=ring())
    u = fd.Field("u", grid)
    u[...] = lambda u, dt: u["t-1"] - 1e-6 * dt * biharmonic(u, at="t-1")
    u[0] = wave
    got = np.asarray(fd.solve(u)["u"])
    symbol = (2 - 2 * np.cos(2 * np.pi / 12)) ** 2 * 12**4
    np.testing.assert_allclose(got[2], (1 - 1e-6 * 0.05 * symbol) ** 2 * got[0], atol=1e-14)


def refused(rule, axis=None):
    def program():
        grid = fd.Grid(x=axis or ring())
        u, d = fd.Field("u", grid), fd.Field("d", grid)
        u[...] = 1.0
        d[...] = rule
        fd.plan([u, d])

    return program


WRONG = {
    "the order is an even number of at least 2, got 3": refused(lambda u: laplacian(u, order=3)),
    "the order is an even number of at least 2, got 0": refused(lambda u: average(u, order=0)),
    "with weights of your own n is a whole number of at least 1, and the order theirs: leave `order` out": refused(
        lambda u: derivative(u, "x", order=4, weights={-1: -0.5, 1: 0.5})
    ),
    "the weights do not give the derivative: Σ w oᵏ must be 0 for k < 1 and 1 for k = 1; they give 2 of it. Scale them "
    "for a step of 1.": refused(lambda u: derivative(u, "x", weights={-1: -1.0, 1: 1.0})),
    "weights come as a dict by offset in steps, as {-1: 0.25, 1: 0.75}; got list.": refused(
        lambda u: stencil(u, "x", [1.0])
    ),
    "the offset 0.3 is neither a whole number of steps nor a half.": refused(lambda u: stencil(u, "x", {0.3: 1.0})),
    "offsets are all whole steps, or all halves; got -0.5, 1.": refused(lambda u: stencil(u, "x", {1: 1.0, -0.5: 1.0})),
    "axis `x` is stretched; weights want even steps.": refused(
        lambda u: derivative(u, "x", weights={-1: -0.5, 1: 0.5}), fd.Axis.from_points([0.0, 0.1, 0.3, 1.0])
    ),
    "is taken where its offsets do not lead to points of `u`. Give whole offsets between like places, and halves "
    "between points and faces.": refused(lambda u: derivative(u, "x", weights={-0.5: -1.0, 0.5: 1.0})),
    "a mixed derivative takes its powers by axis, as in derivative(u, dict(x=1, y=2)), and neither n nor weights.": (
        refused(lambda u: derivative(u, {}, 2))
    ),
    "curl of a scalar, u, wants a plane of two straight or two polar axes; the axes are x. Give it a vector.": refused(
        lambda u: curl(u)
    ),
    "curl takes a vector in two or three dimensions, got 1.": refused(lambda u: curl((u,))),
    "curl takes a vector as a tuple or dict of views.": refused(lambda u: curl(3.0)),
    "divergence: `mean` belongs to divergence(k, u); a vector has no coefficient.": refused(
        lambda u: divergence((u,), mean=Harmonic())
    ),
    "these weights must be numbers, to be checked for what they give": refused(
        lambda u, x: derivative(u, "x", weights={-1: -x, 1: x})
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_use_is_told(message):
    with pytest.raises(fd.FdsolveError, match=re.escape(message)):
        WRONG[message]()

"""Convection, upwind differences and conservation laws on curvilinear axes: balances, closed forms, refusals."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import TVD, WENO5, LaxWendroff, Upwind, conservation, convection, divergence, upwind
from tests.schemes.test_metrics import GRIDS, PI, angle, order_between, radius, walls

SCHEMES = [Upwind(1), Upwind(3), TVD(), WENO5()]


def flowing(grid, random):
    """Random velocities on the faces of each axis, none through walls and poles."""
    fields = []
    for name, axis in zip("abc", grid.space, strict=False):
        c = fd.Field(name, grid, at={axis: "face"})
        values = random.normal(size=c.shape)
        if not grid.space_axis(axis).periodic:
            np.moveaxis(values, grid.space.index(axis), 0)[[0, -1]] = 0.0
        c[...] = values
        fields.append(c)
    return fields


RULES = {
    1: lambda scheme: lambda u, a: convection((a,), u, scheme=scheme),
    2: lambda scheme: lambda u, a, b: convection((a, b), u, scheme=scheme),
    3: lambda scheme: lambda u, a, b, c: convection((a, b, c), u, scheme=scheme),
}


@pytest.mark.parametrize("scheme", [Upwind(1), WENO5()], ids=repr)
@pytest.mark.parametrize("kind", ["disc", "cylinder", "ball of rings", "sphere"])
def test_what_leaves_a_cell_enters_the_next(kind, scheme):
    axes = GRIDS[kind]()
    grid = fd.Grid(**axes)
    random = np.random.default_rng(3)
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = random.normal(size=grid.shape)
    velocities = flowing(grid, random)
    d[...] = RULES[len(velocities)](scheme)
    walls(u, grid, fd.boundary.Neumann(0.0))
    got = np.asarray(fd.solve([u, *velocities, d])["d"]) * grid.volumes()
    assert np.abs(got).max() > 1e-3
    assert abs(got.sum()) < 1e-13 * np.abs(got).sum()


def test_first_order_fluxes_on_a_ring_cell_by_cell():
    grid = fd.Grid(r=radius(4, 0.2), q=angle(6))
    random = np.random.default_rng(4)
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    v, w = fd.Field("v", grid, at=dict(r="face")), fd.Field("w", grid, at=dict(q="face"))
    values, radial, around = (random.normal(size=one.shape) for one in (u, v, w))
    u[...], v[...], w[...] = values, radial, around
    d[...] = 0.0
    d[dict(r=slice(1, -1))] = lambda u, v, w: convection((v, w), u, scheme=Upwind(1))
    got = np.asarray(fd.solve([u, v, w, d])["d"])
    edges, step = 0.2 + 0.8 * np.arange(5) / 4, 2 * PI / 6
    for i in (1, 2):
        for j in range(6):
            out = 0.0
            for face, side in ((i, -1), (i + 1, 1)):
                c = radial[face, j]
                out += side * c * edges[face] * step * values[face - 1 if c > 0 else face, j]
            for face, side in ((j, 0), (j + 1, 1)):  # face j lies half a step above node j
                c = around[i, (face - 1) % 6]
                upstream = (face - 1 if c > 0 else face) % 6
                out += (1 if side else -1) * c * 0.2 * values[i, upstream]
            volume = (edges[i + 1] ** 2 - edges[i] ** 2) / 2 * step
            assert got[i, j] == pytest.approx(out / volume, rel=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_a_uniform_quantity_changes_by_the_divergence_alone(scheme):
    """Velocities at points and on faces, through the pole of a disc; along the angle they live on faces."""
    for at in (None, dict(r="face")):
        grid = fd.Grid(r=radius(5), q=angle(8))
        random = np.random.default_rng(5)
        u, d = fd.Field("u", grid), fd.Field("d", grid)
        v, w = fd.Field("v", grid, at=at), fd.Field("w", grid, at=dict(q="face"))
        u[...] = 1.0
        v[...], w[...] = random.normal(size=v.shape), random.normal(size=w.shape)
        d[...] = 0.0
        d[dict(r=slice(0, -1))] = lambda u, v, w: convection((v, w), u, scheme=scheme) - divergence((v, w))
        walls(u, grid, fd.boundary.Neumann(0.0))
        np.testing.assert_allclose(np.asarray(fd.solve([u, v, w, d])["d"]), 0.0, atol=1e-12)


def wave(x, y):
    return jnp.sin(2.0 * x + 0.3) * jnp.cos(1.5 * y)


def wave_slope(x, y):
    return 2.0 * jnp.cos(2.0 * x + 0.3) * jnp.cos(1.5 * y)


def carried(n, lower, operator):
    """The error of ∇·(c u) or c·∇u for a flow of speed 1 along x across a disc or ring, its rims left out.

    The largest one on rings; on discs the mean one, as balances of vectors are of order 1 in the cells at the pole.
    """
    grid = fd.Grid(r=radius(n, lower), q=angle(4 * n))
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    v, w = fd.Field("v", grid, at=dict(r="face")), fd.Field("w", grid, at=dict(q="face"))
    u[...] = lambda r, q: wave(r * jnp.cos(q), r * jnp.sin(q))
    v[...], w[...] = (lambda q: jnp.cos(q)), (lambda q: -jnp.sin(q))
    inner = slice(n // 4 if lower else 0, 3 * n // 4)
    d[...] = 0.0
    d[dict(r=inner)] = lambda u, v, w: operator((v, w), u)
    r, q = np.meshgrid(grid.r.points, grid.q.points, indexing="ij")
    exact = wave_slope(r * np.cos(q), r * np.sin(q))
    error = np.abs(np.asarray(fd.solve([u, v, w, d])["d"]) - exact)[inner]
    return error.max() if lower else (error * grid.volumes()[inner]).sum()


@pytest.mark.parametrize("scheme", [Upwind(3), WENO5()], ids=repr)
@pytest.mark.parametrize("lower", [0.0, 0.2])
def test_the_order_of_convection_on_rings_and_discs(scheme, lower):
    order = order_between((12, 24), lambda n: carried(n, lower, lambda c, u: convection(c, u, scheme=scheme)))
    assert order > 1.8


@pytest.mark.parametrize("order", [1, 3, 5])
@pytest.mark.parametrize("lower", [0.0, 0.2])
def test_the_order_of_upwind_differences_on_rings_and_discs(order, lower):
    found = order_between((16, 32), lambda n: carried(n, lower, lambda c, u: upwind(c, u, order=order)))
    assert found > min(order, 2) - 0.2  # velocities come from faces, at order 2


def test_upwind_differences_on_a_sphere():
    """c·∇u with physical components, u = cos θ sin φ sin θ."""

    def error(n):
        axes = dict(q=fd.Axis(0.4, 2.2, n, cells=True, metric="colatitude"))
        axes["f"] = fd.Axis(0.0, 2 * PI, 2 * n, periodic=True, metric="azimuth")
        grid = fd.Grid(**axes)
        u, d = fd.Field("u", grid), fd.Field("d", grid)
        u[...] = lambda q, f: jnp.sin(q) * jnp.cos(q) * jnp.sin(f)
        d[...] = 0.0
        d[dict(q=slice(3, -3))] = lambda u: upwind((0.7, -1.3), u, order=3)
        q, f = np.meshgrid(grid.q.points, grid.f.points, indexing="ij")
        exact = 0.7 * np.cos(2 * q) * np.sin(f) - 1.3 * np.cos(q) * np.cos(f)
        return np.abs(np.asarray(fd.solve([u, d])["d"]) - exact)[3:-3].max()

    assert order_between((16, 32), error) > 2.8


LAWS = {
    "ring": lambda: dict(r=radius(10, 0.3), q=angle(7)),
    "cylinder": lambda: dict(r=radius(10, 0.2), z=fd.Axis(0.0, 2.0, 9, cells=True)),
    "shell": lambda: dict(r=fd.Axis(0.3, 1.0, 12, cells=True, metric="spherical radius")),
}


@pytest.mark.parametrize("reconstruction", [Upwind(1), TVD(), WENO5()], ids=repr)
@pytest.mark.parametrize("kind", LAWS)
def test_laws_of_scalars_balance_to_rounding(kind, reconstruction):
    """Fluxes vanish with u, and u vanishes about the walls."""
    grid = fd.Grid(**LAWS[kind]())
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    inner = tuple(slice(None) if grid.space_axis(axis).periodic else slice(3, -3) for axis in grid.space)
    values = np.zeros(grid.shape)
    values[inner] = np.random.default_rng(6).uniform(0.5, 1.5, values[inner].shape)
    u[...] = values
    law = tuple((lambda u: u**2 / 2, lambda u: u * (1 - u))[: len(grid.space)])
    d[...] = lambda u: conservation(law, u, reconstruction=reconstruction)
    walls(u, grid, fd.boundary.Neumann(0.0))
    got = np.asarray(fd.solve([u, d])["d"]) * grid.volumes()
    assert abs(got.sum()) < 1e-13 * np.abs(got).sum()


def test_the_order_of_a_law_on_shells():
    """−1/r² ∂(r² u²/2)/∂r."""

    def error(n):
        grid = fd.Grid(r=fd.Axis(0.5, 2.0, n, cells=True, metric="spherical radius"))
        u, d = fd.Field("u", grid), fd.Field("d", grid)
        u[...] = lambda r: 2 + jnp.sin(2 * r)
        d[...] = 0.0
        d[4:-4] = lambda u: conservation(lambda u: u**2 / 2, u, reconstruction=WENO5())
        r = grid.r.points
        exact = -((2 + np.sin(2 * r)) ** 2 / r + (2 + np.sin(2 * r)) * 2 * np.cos(2 * r))
        return np.abs(np.asarray(fd.solve([u, d])["d"]) - exact)[4:-4].max()

    assert order_between((80, 160), error) > 1.9


def plan_of(rule, count):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), r=radius(8, 0.2))
    fields = [fd.Field(name, grid) for name in ("u", "v", "w")[:count]]
    (fields[0] if count == 1 else fd.together(*fields))[1:] = rule
    for field in fields:
        field[0] = 1.0
    return fd.plan(fields)


REFUSED = {
    'conservation: IdealGas is not known to be of scalars alone, and axis `r` has the metric "radius", along which the '
    "components of vectors turn. Use straight axes; in a law of your own whose quantities are scalars, set `scalars = "
    "True`.": (fd.rate(lambda u, v, w: conservation(fd.schemes.IdealGas(1.4), (u, v, w))), 3),
    'conservation: ShallowWater is not known to be of scalars alone, and axis `r` has the metric "radius"': (
        fd.rate(lambda u, v: conservation(fd.schemes.ShallowWater(9.81), (u, v))),
        2,
    ),
    "convection(…, scheme=LaxWendroff(limiter=None)) in a plain rule takes steps along straight axes, and axis `r` has "
    'the metric "radius". Write a rate, `fd.rate(lambda u: -convection(…))`, with TVD(limiter), Upwind(3) or '
    "WENO5().": (lambda u, dt: u["t-1"] - dt * convection(1.0, u, scheme=LaxWendroff(), at="t-1")[...], 1),
    "convection(…, scheme=TVD(van_leer)) in a plain rule takes steps along straight axes, and axis `r` has": (
        lambda u, dt: u["t-1"] - dt * convection(1.0, u, at="t-1")[...],
        1,
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_would_want_further_terms_is_refused(message):
    with pytest.raises(fd.DeclarationError, match=re.escape(message)):
        plan_of(*REFUSED[message])


class Mixture(fd.schemes.AbstractConservationLaw):
    """Two scalars that move outwards."""

    scalars = True

    def names(self, num_axes):
        return "first", "second"

    def flux(self, state, axis):
        return state[0], 2 * state[1]

    def speeds(self, state, axis):
        return 1 + 0 * state[0], 2 + 0 * state[0]


def test_a_law_of_ones_own_that_says_it_is_of_scalars():
    grid = fd.Grid(r=radius(8, 0.2))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    d, e = fd.Field("d", grid), fd.Field("e", grid)
    u[...], v[...] = 1.0, 1.0
    fd.together(d, e)[...] = lambda u, v: conservation(Mixture(), (u, v))
    s = fd.solve([u, v, d, e])
    np.testing.assert_allclose(s["d"], -1 / grid.r.points, rtol=1e-6)
    np.testing.assert_allclose(s["e"], -2 / grid.r.points, rtol=1e-6)


def test_sub_steps_go_by_the_length_of_arcs():
    """A ring of radius ½ is a line of length π: as many sub-steps for the same speed."""

    def last(rule, **axes):
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), **axes)
        u = fd.Field("u", grid)
        u[...] = fd.rate(rule)
        u[0] = np.broadcast_to(np.sin(2 * PI * np.arange(16) / 16), grid.shape[1:])
        return np.asarray(
            fd.solve(u, stepper=fd.schemes.CFL(0.5, speed={list(axes)[-1]: 1.0}), save=fd.final()).final["u"]
        )

    ring = dict(r=fd.Axis(0.4, 0.6, 1, cells=True, metric="radius"), q=angle(16))
    bent = last(lambda u: -upwind(dict(q=1.0), u, order=3), **ring)
    straight = last(lambda u: -upwind(1.0, u, order=3), x=fd.Axis(0.0, PI, 16, periodic=True))
    np.testing.assert_allclose(bent[0], straight, atol=1e-13)

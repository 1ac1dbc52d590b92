"""Reconstruction: tables against published coefficients, errors of WENO5-JS, orders, walls, stretched axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    RK4,
    TVD,
    WENO3Z,
    WENO5,
    WENO5JS,
    WENO7Z,
    Euler,
    Upwind,
    conservation,
    convection,
)
from fdsolve.schemes._polynomials import correction_weights, face_weights, stencils

ALL = [Upwind(1), Upwind(3), Upwind(5), TVD(), WENO3Z(), WENO5(), WENO5JS(), WENO7Z()]


def test_coefficients_are_those_of_jiang_and_shu():
    table = stencils(3, True)
    np.testing.assert_allclose(table.faces, np.array([[2, -7, 11], [-1, 5, 2], [2, 5, -1]]) / 6)
    np.testing.assert_allclose(table.ideal, (0.1, 0.6, 0.3))
    v = np.random.default_rng(0).normal(size=5)
    expected = [
        13 / 12 * (v[0] - 2 * v[1] + v[2]) ** 2 + (v[0] - 4 * v[1] + 3 * v[2]) ** 2 / 4,
        13 / 12 * (v[1] - 2 * v[2] + v[3]) ** 2 + (v[1] - v[3]) ** 2 / 4,
        13 / 12 * (v[2] - 2 * v[3] + v[4]) ** 2 + (3 * v[2] - 4 * v[3] + v[4]) ** 2 / 4,
    ]
    found = [sum(f * np.dot(row, v[k : k + 3]) ** 2 for f, row in table.squares[k]) for k in range(3)]
    np.testing.assert_allclose(found, expected)


def test_smoothness_of_seventh_order_is_that_of_balsara_and_shu():
    a, b, c, d = np.random.default_rng(1).normal(size=4)
    expected = (
        a * (547 * a - 3882 * b + 4642 * c - 1854 * d)
        + b * (7043 * b - 17246 * c + 7042 * d)
        + c * (11003 * c - 9402 * d)
        + 2107 * d**2
    ) / 240
    found = sum(f * np.dot(row, (a, b, c, d)) ** 2 for f, row in stencils(4, True).squares[0])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("reach", [2, 3, 4])
def test_corrected_fluxes_difference_to_derivatives(reach):
    # Interpolation plus correction gives the face values whose difference is exact for polynomials.
    offsets = np.arange(2 * reach) - reach + 0.5
    whole = np.array(face_weights(1 - reach, 2 * reach, False)) + correction_weights(reach)
    for power in range(2 * reach + 1):
        rise = np.dot(whole, (offsets + 0.5) ** power) - np.dot(whole, (offsets - 0.5) ** power)
        assert rise == pytest.approx(float(power == 1), abs=1e-9)


@pytest.mark.parametrize("scheme", ALL, ids=repr)
@pytest.mark.parametrize("averages", [True, False])
def test_constants_and_lines_are_exact_and_derivatives_finite(scheme, averages):
    count = 2 * scheme.reach - 1
    line = jnp.arange(float(count)) - (scheme.reach - 1.0)
    if scheme.order > 1:
        assert float(scheme.face(tuple(1 + 2 * line), averages)) == pytest.approx(2.0, rel=1e-12)
    for values in (jnp.zeros(count), jnp.ones(count), line, abs(line)):
        for dtype in (jnp.float32, jnp.float64):
            slopes = jax.jit(jax.grad(lambda v: scheme.face(tuple(v), averages)))(values.astype(dtype))
            assert np.isfinite(slopes).all() and float(slopes.sum()) == pytest.approx(1.0, abs=1e-5)


def error(num, scheme, time=1.0):
    """Mean |error| of u_t + u_x = 0, u₀ = sin πx on [−1, 1], Δt = h^1.25."""
    steps = int(np.ceil(time / (2 / num) ** 1.25))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, time, num=steps + 1), x=fd.Axis(-1.0, 1.0, num, periodic=True)))
    u[...] = fd.rate(lambda u, c: -convection(c, u, scheme=scheme))
    u[0] = lambda x: jnp.sin(jnp.pi * x)
    final = fd.solve(u, c=1.0, stepper=RK4(), save=fd.final()).final["u"]
    return float(np.abs(final - np.sin(np.pi * (u.grid.x.points - time))).mean())


@pytest.mark.parametrize("num, published", [(10, 1.67e-2), (20, 7.62e-4), (40, 2.27e-5), (80, 6.99e-7), (160, 2.18e-8)])
def test_errors_of_jiang_and_shu(num, published):
    assert error(num, WENO5JS()) == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("flux", [lambda u: 1.0, lambda u: u], ids=["a number", "the quantity"])
def test_fluxes_that_take_nothing_to_compute(flux):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=11), x=fd.Axis(0.0, 1.0, num=40, cells=True, periodic=True)))
    u[...] = fd.rate(lambda u: conservation(flux, u, reconstruction=WENO5()))
    u[0] = lambda x: jnp.sin(2 * jnp.pi * x)
    moved = 0.0 if flux(2.0) == 1.0 else 0.1
    found = fd.solve(u, stepper=RK4(), save=fd.final()).final["u"]
    np.testing.assert_allclose(found, jnp.sin(2 * jnp.pi * (u.grid.space_axis("x").points - moved)), atol=2e-5)


def test_what_takes_the_place_of_a_scheme_near_open_walls_is_noted():
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=5), x=fd.Axis(0.0, 1.0, 20, cells=True)))
    u[...] = fd.rate(lambda u: -convection(1.0, u, scheme=WENO5()))
    u[0] = 1.0
    u[dict(x=0)] = fd.boundary.Dirichlet(1.0)
    notes = str(fd.plan(u))
    assert "WENO5Z() becomes WENO3Z() at walls of `x`" in notes
    np.testing.assert_allclose(fd.solve(u)["u"], 1.0, rtol=1e-13)


def test_the_note_of_open_walls_names_what_has_no_values_beyond_them():
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=5), x=fd.Axis(0.0, 1.0, 20, cells=True)))
    u[...] = fd.rate(lambda u, c: -convection(c, u, scheme=WENO5()))
    u[0] = 1.0
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(1.0)
    notes = str(fd.plan(u, c=np.ones(20)))
    assert "WENO5Z() becomes WENO3Z() at walls of `x` that supply no ghost values for `c`" in notes
    c = fd.Field("c", u.grid)
    c[...] = 1.0
    c[dict(x=[0, -1])] = fd.boundary.Extrapolate(2)
    assert "becomes" not in str(fd.plan([u, c]))


def test_stretched_axes_take_positions_and_refuse_weno():
    points = np.linspace(0, 1, 31) + 0.05 * np.sin(2 * np.pi * np.linspace(0, 1, 31))
    u = fd.Field("u", fd.Grid(x=fd.Axis.from_points(points)))
    d = fd.Field("d", u.grid)
    u[...] = lambda x: 3 * x
    for scheme in (Upwind(3), TVD()):
        d[...] = 3.0
        d[5:-5] = lambda u, scheme=scheme: convection(1.0, u, scheme=scheme)
        np.testing.assert_allclose(fd.solve([u, d])["d"], 3.0, rtol=1e-11)
    d[5:-5] = lambda u: convection(1.0, u, scheme=WENO5())
    with pytest.raises(fd.PlanningError, match=r"WENO5Z.* is for uniform axes, and `x` is stretched"):
        fd.plan([u, d])


@pytest.mark.parametrize("scheme", [WENO3Z(), WENO5(), WENO7Z()], ids=repr)
def test_derivatives_of_what_is_constant_but_for_rounding_are_those_of_constants(scheme):
    """Weights by roundings have derivatives of one over a rounding, of which nothing is left but noise that grows."""
    axis = fd.Axis(0.0, 1.0, num=12, cells=True, periodic=True)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.02, num=2), x=axis))
    u[...] = fd.rate(lambda u: conservation(lambda v: v**3 / 3, u, reconstruction=scheme))
    u[0] = lambda start: start[...]
    random = np.random.default_rng(5)
    along, weights = random.normal(size=12), random.normal(size=12)

    def final(start):
        return fd.solve(u, start=start, stepper=Euler(), save=fd.final(), kernel="slices")["u"][0]

    def pushed_and_pulled(start):
        pushed = jnp.vdot(jax.jvp(final, (start,), (along,))[1], weights)
        return jnp.stack([pushed, jnp.vdot(jax.vjp(final, start)[1](weights)[0], along)])

    noise = 1.5 + np.finfo(float).eps * random.integers(-2, 3, size=12)
    found, constant = map(jax.jit(pushed_and_pulled), (noise, np.full(12, 1.5)))
    np.testing.assert_allclose(found, constant, rtol=1e-9)

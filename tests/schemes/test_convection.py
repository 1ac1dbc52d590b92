"""Convection: upwind differences, one-step fluxes, limiters; conservation, variation, symmetry, published errors."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import fdsolve as fd
from fdsolve.schemes import (
    SSPRK3,
    TVD,
    WENO5,
    WENO5JS,
    WENO7Z,
    Euler,
    Heun,
    LaxWendroff,
    Upwind,
    convection,
    mc,
    minmod,
    superbee,
    upwind,
    van_leer,
)  # fmt: skip

LIMITERS = [minmod, superbee, van_leer, mc]


def once(operator, start, **parameters):
    """An operator applied to one periodic array."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, len(start), periodic=True))
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = start
    d[...] = operator
    return np.asarray(fd.solve([u, d], **parameters)["d"])


@pytest.mark.parametrize("limiter", LIMITERS, ids=lambda f: f.__name__)
def test_limiters_are_symmetric_homogeneous_bounded_and_differentiable(limiter):
    a, b = np.random.default_rng(2).normal(size=(2, 200))
    value = np.asarray(limiter(jnp.asarray(a), jnp.asarray(b)))
    np.testing.assert_allclose(value, limiter(jnp.asarray(b), jnp.asarray(a)), rtol=1e-12)
    np.testing.assert_allclose(3 * value, limiter(jnp.asarray(3 * a), jnp.asarray(3 * b)), rtol=1e-12)
    np.testing.assert_array_equal(value[a * b <= 0], 0.0)
    assert (np.abs(value) <= 2 * np.minimum(np.abs(a), np.abs(b)) * (1 + 1e-12)).all()  # Sweby's region
    assert float(limiter(jnp.asarray(1.5), jnp.asarray(1.5))) == pytest.approx(1.5)  # second order
    for pair in ((0.0, 0.0), (1.0, 1.0), (1.0, -1.0), (0.0, 1.0), (1.0, 2.0)):
        assert np.isfinite(jax.grad(limiter, argnums=(0, 1))(*pair)).all()


@pytest.mark.parametrize("order", [1, 3, 5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_upwind_differences_have_their_order_and_damp(order, sign):
    errors = []
    for num in (16, 32):
        x = np.arange(num) / num
        found = once(lambda u, c: upwind(c, u, order=order), np.sin(2 * np.pi * x), c=sign)
        errors.append(np.abs(found - sign * 2 * np.pi * np.cos(2 * np.pi * x)).max())
        # The part in phase with the field takes energy out.
        assert np.dot(found, np.sin(2 * np.pi * x)) > 0
    assert np.log2(errors[0] / errors[1]) > order - 0.1


def test_velocities_that_change_sign_take_both_sides():
    num = 24
    x = np.arange(num) / num
    c, u = np.sin(2 * np.pi * x), np.cos(2 * np.pi * x) + 2
    found = once(lambda u, c: upwind(c, u, order=1), u, c=c)
    low, high = (u - np.roll(u, 1)) * num, (np.roll(u, -1) - u) * num
    np.testing.assert_allclose(found, np.maximum(c, 0) * low + np.minimum(c, 0) * high, atol=1e-11)


@pytest.mark.parametrize("scheme", [Upwind(1), Upwind(3), Upwind(5), TVD(mc), WENO5JS(), WENO5(), WENO7Z()], ids=repr)
@pytest.mark.parametrize("place", ["point", "face"])
def test_convection_conserves_to_rounding_and_mirrors(scheme, place):
    generator = np.random.default_rng(7)
    start, c = generator.normal(size=32), generator.normal(size=32)
    wide = fd.along(c, "x", at=dict(x=place))
    found = once(lambda u, c: convection(c, u, scheme=scheme), start, c=wide)
    assert abs(found.sum()) < 1e-13 * np.abs(found).sum()
    # Points mirror about point 0, the midpoints between points about it too: face i goes to face −1 − i.
    turned = np.roll(c[::-1], 1) if place == "point" else c[::-1]
    other = once(
        lambda u, c: convection(c, u, scheme=scheme),
        np.roll(start[::-1], 1),
        c=fd.along(-turned, "x", at=dict(x=place)),
    )
    np.testing.assert_allclose(np.roll(other[::-1], 1), found, rtol=1e-12, atol=1e-11)


def march(start, scheme, courant, steps, stepper=None, velocity=1.0):
    """Levels of a field carried around a periodic axis, by rates or, without a stepper, by one-step fluxes."""
    num = len(start)
    grid = fd.Grid(t=fd.Time(0.0, courant * steps / num, num=steps + 1), x=fd.Axis(0.0, 1.0, num, periodic=True))
    u = fd.Field("u", grid)
    if stepper is None:
        u[...] = lambda u, c, dt: u["t-1"] - dt * convection(c, u, scheme=scheme, at="t-1")[...]
    else:
        u[...] = fd.rate(lambda u, c: -convection(c, u, scheme=scheme))
    u[0] = start
    return np.asarray(fd.solve(u, c=velocity, stepper=stepper)["u"])


@settings(max_examples=5)
@given(st.integers(0, 2**31))
@pytest.mark.parametrize("limiter", LIMITERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_limited_schemes_let_no_variation_grow_and_stay_positive(sign, limiter, seed):
    start = np.random.default_rng(seed).uniform(0, 1, 24) * (np.arange(24) % 7 > 2)
    for levels in (
        march(start, TVD(limiter), 0.9, 8, velocity=sign),
        march(start, TVD(limiter), 0.45, 8, Heun(), velocity=sign),
        march(start, Upwind(1), 0.95, 8, Euler(), velocity=sign),
    ):
        variation = np.abs(np.diff(levels, axis=1, append=levels[:, :1])).sum(axis=1)
        assert (np.diff(variation) <= 1e-12).all()
        assert levels.min() >= -1e-15
        np.testing.assert_allclose(levels.sum(axis=1), start.sum(), rtol=1e-13)


def test_lax_wendroff_is_exact_at_courant_number_one_and_of_second_order():
    start = np.random.default_rng(3).normal(size=20)
    np.testing.assert_allclose(march(start, LaxWendroff(), 1.0, 5)[-1], np.roll(start, 5), atol=1e-13)
    errors = []
    for num in (32, 64):
        wave = np.sin(2 * np.pi * np.arange(num) / num)
        errors.append(np.abs(march(wave, LaxWendroff(), 0.5, 2 * num)[-1] - wave).max())
    assert np.log2(errors[0] / errors[1]) > 1.9


def test_lax_wendroff_has_its_cross_terms():
    errors = []
    for num in (24, 48):
        axes = {name: fd.Axis(0.0, 1.0, num, periodic=True) for name in "xy"}
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=2 * num + 1), **axes))
        u[...] = lambda u, dt: u["t-1"] - dt * convection((1.0, -0.5), u, scheme=LaxWendroff(), at="t-1")[...]
        u[0] = lambda x, y: jnp.sin(2 * jnp.pi * (x + y))
        x, y = np.meshgrid(u.grid.x.points, u.grid.y.points, indexing="ij")
        final = fd.solve(u, save=fd.final()).final["u"]
        errors.append(np.abs(final - np.sin(2 * np.pi * (x - 0.5 + y + 0.25))).max())
    assert np.log2(errors[0] / errors[1]) > 1.9


@pytest.mark.parametrize("scheme, bar", [(TVD(mc), 3.203924e-4), (WENO5(), 1.163605e-5)], ids=repr)
def test_advection_is_no_worse_than_clawpack(scheme, bar):
    num = 400
    x = (np.arange(num) + 0.5) / num
    start = np.exp(-100 * (x - 0.75) ** 2)
    one_step = isinstance(scheme, TVD)
    final = march(start, scheme, *((0.8, 500) if one_step else (0.4, 1000, SSPRK3())))[-1]
    assert np.abs(final - start).mean() <= bar * 1.0001


@pytest.mark.parametrize("scheme", [TVD(superbee), WENO5(), WENO5JS()], ids=repr)
def test_gradients_of_whole_solves_are_finite_at_kinks(scheme):
    slopes = jax.jit(jax.grad(lambda start, c: _carried(start, c, scheme), argnums=(0, 1)))
    for start in (np.zeros(12), np.ones(12), np.where(np.arange(12) < 6, 1.0, 0.0)):
        assert all(np.isfinite(value).all() for value in slopes(jnp.asarray(start), jnp.asarray(0.0)))


def _carried(start, velocity, scheme):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=4), x=fd.Axis(0.0, 1.0, 12, periodic=True)))
    u[...] = fd.rate(lambda u, c: -convection(c, u, scheme=scheme))
    u[0] = start
    return (fd.solve(u, c=velocity, stepper=SSPRK3(), save=fd.final()).final["u"] ** 2).sum()


def wrong(rule, *axes, rate=True):
    names = axes or ("x",)
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), **{n: fd.Axis(0.0, 1.0, 8, periodic=True) for n in names})
    u = fd.Field("u", grid)
    u[...] = fd.rate(rule) if rate else rule
    u[0] = 0.0
    return lambda: fd.plan(u)


@pytest.mark.parametrize(
    "call, message",
    [
        (wrong(lambda u: convection(1.0, u, scheme="weno")), "wanted a scheme such as fd.schemes.Upwind"),
        (wrong(lambda u: convection(1.0, u[...])), "takes a view"),
        (wrong(lambda u: convection((1.0, 2.0), u)), "has 2 components for the space axes x"),
        (wrong(lambda u: convection(dict(y=1.0), u)), "given for y; the space axes are x"),
        (wrong(lambda u: convection(1.0, u), "x", "y"), "has 1 component for the space axes x, y"),
        (wrong(lambda u: convection(1.0, u, scheme=LaxWendroff())), "belongs in a plain rule"),
        (wrong(lambda u: upwind(1.0, u, order=2)), "the order is 1, 3 or 5"),
        (
            wrong(lambda u: convection((1.0, 1.0), u, scheme=TVD(), at="t-1"), "x", "y", rate=False),
            "one-step flux of a velocity along one axis",
        ),
    ],
)
def test_wrong_uses_say_what_to_write(call, message):
    with pytest.raises(fd.DeclarationError, match=message):
        call()

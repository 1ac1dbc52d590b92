"""Gradients by the portable kernel where walls make many pieces: no array a read, and the same numbers."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import _level
from fdsolve.schemes import ADI, Euler, derivative, laplacian

AXIS = fd.Axis(0.0, 1.0, num=23)
RNG = np.random.default_rng(3)
FIELD = jnp.asarray(1 + 0.1 * RNG.standard_normal((23, 23)))


def walled(u: fd.Field) -> fd.Field:
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.1
    return u


def wave() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.05, num=7), x=AXIS, y=AXIS))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, order=4, at="t-1") * u["t-1"]
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    return walled(u)


def heat() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1e-4, num=7), x=AXIS, y=AXIS))
    u[...] = fd.rate(lambda u, c: c * laplacian(u, order=4) * (1 + u))
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    return walled(u)


def layers() -> fd.Field:
    """Waves between absorbing layers, whose memory is computed within a level and read in it."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.05, num=7), x=AXIS, y=AXIS))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + dt**2 * c[...] * laplacian(u, order=4, at="t-1")
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = fd.boundary.PML(5, speed=1.0)
    return u


def staggered() -> tuple[fd.Field, fd.Field]:
    """Of two fields the second one reads the first at its own level."""
    grid = fd.Grid(t=fd.Time(0.0, 0.05, num=7), x=AXIS, y=AXIS)
    v, p = fd.Field("v", grid, at=dict(x="face")), fd.Field("p", grid)
    v[...] = lambda v, p, dt: v["t-1"] - dt * derivative(p, "x", at="t-1", order=4)
    p[...] = lambda p, v, c, dt: p["t-1"] - dt * c[...] ** 2 * derivative(v, "x", order=4)
    v[0], p[0] = 0.0, lambda x, y: jnp.sin(7 * x * y)
    p[dict(x=[0, -1])] = 0.0
    return v, p


@pytest.mark.parametrize(("make", "apart"), [(layers, 100), (staggered, 6)], ids=["layers", "staggered"])
def test_what_is_read_at_the_level_itself_is_cut_out_together(
    make: Any, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read one by one, its cotangents would each be an array of zeros: so many `apart`."""
    fields = make()

    def loss(c: Any) -> Any:
        last = fields[-1] if isinstance(fields, tuple) else fields
        return jnp.sum(fd.solve(fields, c=c, save=fd.final(), kernel="slices").final[last.name] ** 2)

    def count() -> int:
        found = equations(jax.make_jaxpr(jax.grad(loss))(jnp.abs(FIELD)).jaxpr)
        return sum(one.primitive.name == "pad" for one in found)

    together, gradient = count(), jax.grad(loss)(FIELD)
    jax.clear_caches()
    monkeypatch.setattr(_level.Level, "with_cuts_now", lambda level, *_: level)
    assert count() >= together + apart
    np.testing.assert_allclose(gradient, jax.grad(loss)(FIELD), rtol=1e-9, atol=1e-15)
    jax.clear_caches()


RULES = {
    "a number": (lambda u: u["t-1"] + 1e-4 * laplacian(u, at="t-1"), False),
    "numbers at all points": (lambda u, c: u["t-1"] + c[...] * laplacian(u, at="t-1"), True),
    "numbers beside": (lambda u, c: u["t-1"] + 0.1 * laplacian(u, at="t-1") + c[...], False),
    "numbers and the state": (lambda u, c: u["t-1"] + c[...] * u["t-1"] * laplacian(u, at="t-1"), False),
}


@pytest.mark.parametrize("name", RULES)
def test_sums_know_whether_values_are_weighed_at_every_point(name: str) -> None:
    rule, weighed = RULES[name]
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.05, num=7), x=AXIS, y=AXIS))
    u[...] = rule
    u[0] = lambda begin: begin[...]
    walled(u)

    def loss(start: Any) -> Any:
        given = {} if name == "a number" else dict(c=1e-4 * FIELD)
        return jnp.sum(fd.solve(u, begin=start, **given, save=fd.final(), kernel="slices").final["u"] ** 2)

    found = equations(jax.make_jaxpr(jax.grad(loss))(FIELD).jaxpr)
    sums = [one for one in found if one.primitive.name == "fdsolve_join" and one.params["shape"] == (23, 23)]
    assert sums
    assert {one.params["weighed"] for one in sums} == {weighed}


CASES: dict[str, tuple[Any, Any]] = {"wave": (wave, None), "heat": (heat, Euler())}


def equations(jaxpr: Any) -> Iterator[Any]:
    """Those of a jaxpr and of all within it."""
    for one in jaxpr.eqns:
        yield one
        for inner in jax.tree.leaves(list(one.params.values()), is_leaf=lambda p: isinstance(p, jex.ClosedJaxpr)):
            if hasattr(inner, "eqns") or isinstance(inner, jex.ClosedJaxpr):
                yield from equations(getattr(inner, "jaxpr", inner))


@pytest.mark.parametrize("name", CASES)
def test_small_pieces_cost_no_array_each(name: str) -> None:
    make, stepper = CASES[name]
    u = make()

    def loss(c: Any) -> Any:
        return jnp.sum(fd.solve(u, c=c, stepper=stepper, save=fd.final(), kernel="slices").final["u"] ** 2)

    found = list(equations(jax.make_jaxpr(jax.grad(loss))(FIELD).jaxpr))
    names = {one.primitive.name for one in found}
    whole = [one for one in found if one.primitive.name == "pad" and min(one.outvars[0].aval.shape, default=0) >= 23]
    assert {"fdsolve_cut", "fdsolve_join"} <= names
    assert len(whole) <= 20  # of 25 pieces with 9 reads and more each
    assert fd.check_gradient(loss, FIELD)


def test_alternating_directions_between_moving_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes cut out of the state are not those of a change of it."""

    def found() -> Any:
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.02, num=6), x=AXIS, y=AXIS))
        u[...] = fd.rate(lambda u: laplacian(u, order=4))
        u[0] = lambda x, y: jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
        u[dict(x=[0, -1])] = lambda t, y: jnp.sin(20 * t) * y
        u[dict(y=[0, -1])] = 0.0
        return fd.solve(u, stepper=ADI(), save=fd.final(), kernel="slices").final["u"]

    together = found()
    jax.clear_caches()
    monkeypatch.setattr(_level.Level, "with_cuts", lambda level, *_, **__: level)
    np.testing.assert_allclose(together, found(), rtol=1e-12)
    jax.clear_caches()


def test_a_rule_around_a_masked_hole_is_one_piece() -> None:
    """One loop, not one for each box beside the hole; a coefficient is nothing to a gradient in it, even where nan."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1e-4, num=7), x=AXIS, y=AXIS))
    u[...] = lambda u, c, dt: u["t-1"] + dt * c[...] * laplacian(u, order=2, at="t-1")
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    walled(u)
    u[fd.where(lambda x, y: (x - 0.4) ** 2 + (y - 0.5) ** 2 < 0.04)] = 0.0
    hollow = jnp.where((AXIS.points[:, None] - 0.4) ** 2 + (AXIS.points - 0.5) ** 2 < 0.04, jnp.nan, FIELD)
    plan = fd.plan(u, c=np.asarray(FIELD))
    held = [stage.piece for stage in plan.structure.phases[-1].stages]
    assert sum("lambda" in one.label and one.role == "value" for one in held) == 1, plan

    def slope(c: Any, kernel: str) -> Any:
        return jax.grad(lambda c: jnp.sum(fd.solve(u, c=c, save=fd.final(), kernel=kernel).final["u"] ** 2))(c)

    given = slope(FIELD, "slices")
    assert np.all(np.isfinite(given))
    inside = np.isnan(hollow)
    assert not np.any(np.asarray(given)[inside])
    for kernel in ("slices", "native"):
        np.testing.assert_allclose(np.asarray(slope(hollow, kernel)), given, rtol=1e-12, atol=1e-18)


def test_rates_around_a_masked_hole_fill_one_box() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1e-4, num=7), x=AXIS, y=AXIS))
    u[...] = fd.rate(lambda u, c: c[...] * laplacian(u))
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    walled(u)
    u[fd.where(lambda x, y: (x - 0.4) ** 2 + (y - 0.5) ** 2 < 0.04)] = 0.0
    phase = fd.plan(u, c=np.asarray(FIELD)).structure.phases[-1]
    assert len(phase.rates) == 1
    assert [len(boxes) for _, boxes in phase.given] == [1]

    def slope(c: Any, kernel: str, adjoint: Any) -> Any:
        def loss(c: Any) -> Any:
            return jnp.sum(fd.solve(u, c=c, save=fd.final(), kernel=kernel, adjoint=adjoint).final["u"] ** 2)

        return jax.grad(loss)(c)

    known = slope(FIELD, "slices", fd.adjoint.Full())
    for kernel in ("slices", "native"):
        found = slope(FIELD, kernel, fd.adjoint.Checkpointed(snapshots=2))
        np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-18)

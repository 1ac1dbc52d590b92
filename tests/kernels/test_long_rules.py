"""Long rules that are not linear, by `slices`: their derivatives, and how much is computed for them."""

from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import _settle
from fdsolve.kernels._level import vectorise_function
from fdsolve.kernels._long import FAR, LongRule, evaluate_long, long_rule
from fdsolve.kernels._settle import settle, settle_shared
from fdsolve.stencil import StateRead, Traced, make_traced, uses

SHAPE = (7, 6)


def reaction(c: Any, w: Any, e: Any, s: Any, n: Any, k: Any, p: Any) -> Any:
    """A rule with quotients, choices, powers and roots, smooth almost everywhere."""
    slope = jnp.maximum(e - c, k * (c - w)) / (1.0 + jnp.abs(n - s))
    drift = jnp.where(n > s, c * (n - c), c * (c - s)) * jnp.sqrt(1.0 + c**2)
    return c + 0.1 * (p * slope - drift / (2.0 + e**2 + w**2) + k * jnp.exp(-(c**2)) * jnp.sin(s))


def rolled(a: Any, k: Any, p: Any, held: Any = True) -> Any:
    """Two steps on a periodic plane, by rolled arrays; points that are not held keep their values."""
    for _ in range(2):
        west, east, south, north = (jnp.roll(a, shift, axis) for axis in (0, 1) for shift in (1, -1))
        a = jnp.where(held, reaction(a, west, east, south, north, k, p), a)
    return a


def declared(a: Any, k: Any, p: Any, mask: Any = None, adjoint: Any = None) -> Any:
    """The same as a declaration."""
    x, y = (fd.Axis(0.0, 1.0, num=n, cells=True, periodic=True) for n in SHAPE)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 2.0, num=3), x=x, y=y))

    def step(u: Any, k: Any, p: Any) -> Any:
        near = (u["t-1", "x-1"], u["t-1", "x+1"], u["t-1", "y-1"], u["t-1", "y+1"])
        return reaction(u["t-1"], *near, k, p[...])

    if mask is not None:
        u[...] = lambda u: u["t-1"]
    u[... if mask is None else mask] = step
    u[0] = lambda a: a[...]
    options: Any = {} if adjoint is None else dict(adjoint=adjoint)
    return fd.solve(u, a=a, k=k, p=p, save=fd.final(), kernel="slices", **options).final["u"]


def given(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    a, p = rng.normal(size=(2, *SHAPE))
    return jnp.asarray(a), jnp.asarray(rng.uniform(0.2, 0.8)), jnp.asarray(p)


def close(found: Any, expected: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_derivatives_are_those_of_rolled_arrays(masked: bool) -> None:
    inputs, along = given(1), given(2)
    mask = np.random.default_rng(3).random(SHAPE) < 0.7 if masked else None

    def loss(march: Any) -> Any:
        return lambda *some: jnp.sum(jnp.sin(march(*some, True if march is rolled and mask is None else mask)))

    ours, theirs = loss(declared), loss(rolled)

    def derivatives(function: Any) -> Any:
        """Along a direction, the gradient, and the Hessian times the direction."""
        gradient = jax.grad(function, (0, 1, 2))
        return jax.jit(lambda: (jax.jvp(function, inputs, along), jax.jvp(gradient, inputs, along)))()

    close(derivatives(ours), derivatives(theirs))


def test_derivatives_under_vmap_and_by_other_adjoints() -> None:
    shots = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(given(seed) for seed in range(4)))
    many = shots[0], shots[1][0], shots[2][0]

    def gradient(march: Any, **options: Any) -> Any:
        one = jax.grad(lambda *some: jnp.sum(march(*some, **options) ** 3), (0, 1, 2))
        return jax.jit(jax.vmap(one, (0, None, None)))

    expected = gradient(rolled)(*many)
    for adjoint in (None, fd.adjoint.Full(), fd.adjoint.Checkpointed(snapshots=1)):
        close(gradient(declared, adjoint=adjoint)(*many), expected)


def test_cotangents_of_what_has_fewer_axes_are_summed_where_the_rule_holds() -> None:
    """A number, a line along each axis, whole numbers; infinite where it does not hold."""

    def rule(u: Any, along: Any, across: Any, number: Any, count: Any) -> tuple[Any, Any]:
        part = jnp.sqrt(u) * along + across**2 / (number + jnp.abs(along))
        return part * count.astype(u.dtype), jnp.maximum(part, number) / u

    rng = np.random.default_rng(5)
    held = jnp.asarray(rng.random(SHAPE) < 0.6)
    u = jnp.where(held, jnp.asarray(rng.uniform(0.5, 2.0, SHAPE)), -1.0).at[0, 0].set(0.0)
    held = held.at[0, 0].set(False)
    values = [u, *(jnp.asarray(rng.uniform(0.5, 2.0, n)) for n in SHAPE), jnp.asarray(1.5), jnp.arange(7)]
    flags = [(True, True), (True, False), (False, True), (False, False), (True, False)]
    long = LongRule(jax.make_jaxpr(rule)(*(jnp.zeros((), one.dtype) for one in values)))
    weights = jnp.asarray(rng.normal(size=(2, *SHAPE)))

    def ours(*some: Any) -> Any:
        found = evaluate_long(long, held, [*some, values[4]], flags, SHAPE)
        return sum(jnp.sum(jnp.where(held, w * one, 0.0)) for w, one in zip(weights, found, strict=True))

    def theirs(*some: Any) -> Any:
        safe = jnp.where(held, some[0], 1.0)
        found = vectorise_function(rule, [safe, *some[1:], values[4]], flags, SHAPE)
        return sum(jnp.sum(jnp.where(held, w * one, 0.0)) for w, one in zip(weights, found, strict=True))

    found = jax.grad(ours, (0, 1, 2, 3))(*values[:4])
    assert all(jnp.isfinite(one).all() for one in found)
    close(found, jax.grad(theirs, (0, 1, 2, 3))(*values[:4]))


def test_a_march_computes_each_value_hardly_more_than_once() -> None:
    """By what XLA counts a point: without, a step of TVD takes four times as much, and its gradient, too."""
    size = 24
    x, y = (fd.Axis(0.0, 1.0, num=size, cells=True, periodic=True) for _ in range(2))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=9), x=x, y=y))
    flux: Any = (lambda u: u**2 / 2,) * 2
    scheme: Any = dict(flux=fd.schemes.LaxFriedrichs(), reconstruction=fd.schemes.TVD())
    u[...] = fd.rate(lambda u: fd.schemes.conservation(flux, u, **scheme))
    u[0] = lambda a: a[...]

    def solve(a: Any) -> Any:
        return fd.solve(u, a=a, stepper=fd.schemes.Heun(), save=fd.final(), kernel="slices").final["u"]

    def operations(function: Any) -> float:
        found: Any = jax.jit(function).lower(jnp.ones((size, size))).compile().cost_analysis()
        return (found[0] if isinstance(found, list) else found)["flops"] / size**2

    assert operations(solve) < 600
    assert operations(jax.grad(lambda a: jnp.sum(solve(a) ** 2))) < 3600


def test_short_rules_stay_fused_where_arrays_lie_in_no_cache() -> None:
    def rule(repeats: int) -> Traced:
        def run(u: Any) -> Any:
            for _ in range(repeats):
                u = u * u + 0.5
            return u

        return make_traced(jax.make_jaxpr(run)(1.0), (StateRead("u", 0, (0,)),), np.float64)

    for repeats, near, far in ((1, False, False), (8, True, False), (20, True, True)):
        found = [long_rule(rule(repeats), size) is not None for size in (FAR - 1, FAR)]
        assert found == [near, far]
    linear = make_traced(jax.make_jaxpr(lambda u: sum(k * u for k in range(20)))(1.0), rule(1).operands, np.float64)
    assert long_rule(linear, 1) is None


def test_what_several_results_need_is_settled_where_it_is_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(a: Any, b: Any) -> list[Any]:
        long = a
        for k in range(1, 30):
            long = long * b + k * a
        return [long + a, long * b, long - b, long, a * b]

    closed = jax.make_jaxpr(rule)(1.0, 2.0)
    monkeypatch.setattr(_settle, "DEAR", 10_000)
    assert settle_shared(closed) is closed, "cheap"
    monkeypatch.setattr(_settle, "DEAR", 100)
    found = settle_shared(closed)
    assert sum(eqn.primitive.name == "fdsolve_settle" for eqn in found.jaxpr.eqns) == 0, "a result is written anyway"
    inner = jax.make_jaxpr(lambda a, b: rule(a, b)[:3])(1.0, 2.0)
    found = settle_shared(inner)
    assert sum(eqn.primitive.name == "fdsolve_settle" for eqn in found.jaxpr.eqns) == 1
    close(jex.jaxpr_as_fun(found)(0.3, 0.4), rule(0.3, 0.4)[:3])
    alone = jax.make_jaxpr(lambda a, b: rule(a, b)[0])(1.0, 2.0)
    assert not uses(settle_shared(alone).jaxpr, "fdsolve_settle"), "one result computes it once"


def test_settling_changes_nothing() -> None:
    for value in (jnp.arange(6.0).reshape(2, 3), jnp.asarray(2.5), jnp.arange(4), jnp.asarray([True, False])):
        for found in (settle(value), jax.jit(settle)(value), jax.vmap(settle)(value[None])[0]):
            np.testing.assert_array_equal(found, value)
            assert found.dtype == value.dtype
    value = jnp.asarray([1.0, 2.0])
    close(jax.grad(lambda v: jnp.sum(settle(v * v) * v))(value), 3 * value**2)
    close(jax.jvp(settle, (value,), (3 * value,)), (value, 3 * value))
    close(jax.hessian(lambda v: jnp.sum(settle(v**3)))(value), jnp.diag(6 * value))

"""Cotangents of numbers that rules are linear in: generated code against the portable kernel; how rules are split."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels.native._slopes import split_by
from fdsolve.stencil import StateRead, WholeRead, make_traced

U, V, W = (StateRead("u", -1, (offset,)) for offset in (-1, 0, 1))
OLD = StateRead("u", -2, (0,))
K, C = WholeRead("parameter k"), WholeRead("parameter c")


def _traced(function: Any, *operands: Any) -> Any:
    specs = [jax.ShapeDtypeStruct((), np.float64)] * len(operands)
    return make_traced(jax.make_jaxpr(function)(*specs), operands, np.dtype(np.float64))


def test_a_rule_is_split_by_a_number() -> None:
    rule = _traced(lambda u, v, w, o, k, c: 2 * v - o + k * c * (u - 2 * v + w), U, V, W, OLD, K, C)
    split = split_by(rule, K)
    assert split is not None and split.rest is not None
    assert set(split.rest.operands) == {V, OLD} and set(split.slope.operands) == {U, V, W, C}
    known = dict(zip((U, V, W, OLD, K, C), np.random.default_rng(0).normal(size=6), strict=True))

    def value(one: Any) -> Any:
        return one.function(one.consts)(*(known[o] for o in one.operands))

    np.testing.assert_allclose(value(split.rest) + known[K] * value(split.slope), value(rule), rtol=1e-14)


def test_a_rule_that_is_its_slope_leaves_nothing() -> None:
    split = split_by(_traced(lambda u, v, w, k: (u + v + w) * k, U, V, W, K), K)
    assert split is not None and split.rest is None


@pytest.mark.parametrize(
    "function",
    [
        lambda u, v, w, k: v + k * k * (u - 2 * v + w),
        lambda u, v, w, k: v + (u - 2 * v + w) / k,
        lambda u, v, w, k: v + k * (u - 2 * v + w + 1.0),
        lambda u, v, w, k: v + jnp.sin(k) * (u - 2 * v + w),
        lambda u, v, w, k: v + k * jnp.where(v > 0, u - w, w - u),
        lambda u, v, w, k: u + w + k * v,
        lambda u, v, w, k: v + (k + jnp.where(k > 0, 1.0, 2.0)) * (u - 2 * v + w),
        lambda u, v, w, k: v + (k + jnp.floor(k)) * (u - 2 * v + w),
    ],
)
def test_other_rules_are_not_split(function: Any) -> None:
    assert split_by(_traced(function, U, V, W, K), K) is None


def _plain(u: Any, k: Any, dt: Any) -> Any:
    return 2 * u["t-1"] - u["t-2"] + dt**2 * k * fd.schemes.laplacian(u, at="t-1")


def _in_a_medium(u: Any, k: Any, c: Any, dt: Any) -> Any:
    return 2 * u["t-1"] - u["t-2"] + dt**2 * k * c[...] * fd.schemes.laplacian(u, order=4, at="t-1")


def _wave(rank: int, walls: Any, periodic: bool = False, rule: Any = _plain) -> fd.Field:
    ends = dict(x=fd.Axis(0.0, 1.0, num=14, periodic=periodic))
    ends |= {name: fd.Axis(0.0, 1.0, num=13 + k) for k, name in enumerate("yz"[: rank - 1])}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=41), **ends))
    u[...] = rule
    starts = {
        1: lambda x: jnp.sin(2 * np.pi * x) + 0.2 * x,
        2: lambda x, y: jnp.sin(2 * np.pi * x) * jnp.cos(2 * y),
        3: lambda x, y, z: jnp.sin(2 * np.pi * x) * jnp.cos(2 * y) * jnp.exp(-z),
    }
    u[[0, 1]] = starts[rank]
    for name in list(ends)[1 if periodic else 0 :]:
        u[{name: [0, -1]}] = walls
    return u


def _obstacle() -> fd.Field:
    u = _wave(2, 0.0)
    u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.04)] = lambda u: 0.9 * u["t-1"]
    u[[0, 1]] = lambda x, y: jnp.sin(3 * x) * jnp.cos(2 * y)
    return u


def _third_order() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.2, num=41), x=fd.Axis(0.0, 1.0, num=15), y=fd.Axis(0.0, 1.0, num=13)))
    u[...] = lambda u, k, dt: (
        1.5 * u["t-1"] - 0.7 * u["t-2"] + 0.2 * u["t-3"] + dt * k * fd.schemes.laplacian(u, at="t-1")
        + dt * k * fd.schemes.laplacian(u, at="t-2")
    )  # fmt: skip
    u[[0, 1, 2]] = lambda x, y: jnp.sin(3 * x) * jnp.cos(2 * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return u


def _two_numbers() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=41), x=fd.Axis(0.0, 1.0, num=15), y=fd.Axis(0.0, 1.0, num=13)))
    u[...] = lambda u, k, c, dt: (
        (2 - dt * c) * u["t-1"] - (1 - dt * c) * u["t-2"]
        + dt**2 * k * fd.schemes.laplacian(u, at="t-1") + dt**2 * c * (u["t-1", "x+1"] - u["t-1", "x-1"] + u["t-1"])
    )  # fmt: skip
    u[[0, 1]] = lambda x, y: jnp.sin(3 * x) * jnp.cos(2 * y)
    u[dict(x=0)] = lambda t, c: c * jnp.sin(4 * t)
    u[dict(x=-1)] = u[dict(y=[0, -1])] = 0.0
    return u


CASES = {
    "a line": lambda: _wave(1, 0.0),
    "a plane": lambda: _wave(2, 0.0),
    "space": lambda: _wave(3, 0.0),
    "insulated walls": lambda: _wave(2, fd.boundary.Neumann(0.3)),
    "around": lambda: _wave(2, 0.0, periodic=True),
    "an obstacle": _obstacle,
    "three levels": _third_order,
    "two numbers": _two_numbers,
    "beside a field": lambda: _wave(2, fd.boundary.Neumann(0.0), rule=_in_a_medium),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_numbers(name: str) -> None:
    u = CASES[name]()
    at: dict[str, Any] = dict(k=jnp.float64(0.3))
    if name == "two numbers":
        at["c"] = jnp.float64(0.2)
    if name == "beside a field":
        at["c"] = jnp.asarray(np.random.default_rng(1).uniform(0.5, 1.0, (14, 13)))

    def loss(parameters: Any, kernel: str) -> Any:
        saved = fd.solve(u, save=fd.every(13), kernel=kernel, **parameters)["u"]
        weights = jnp.asarray(np.random.default_rng(0).normal(size=saved.shape))
        return jnp.vdot(weights, saved) + 0.5 * jnp.vdot(saved, saved)

    ours, theirs = (jax.jit(jax.grad(lambda p, kernel=kernel: loss(p, kernel)))(at) for kernel in ("native", "slices"))
    for one in at:
        size = np.abs(theirs[one]).max()
        np.testing.assert_allclose(ours[one], theirs[one], rtol=0, atol=2e-12 * size)

"""Heat in two dimensions with cold walls, the last level alone; and a problem of ten regions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import fdsolve as fd


def heat_ours(num: int, steps: int, kernel: str = "auto") -> Callable[..., Any]:
    """As a field and `solve`; walls at zero."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(steps), num=steps + 1), **axes))
    u[...] = lambda u, k: (
        u["t-1"] + k * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
    )
    u[0] = lambda start: start[...]
    u[1:, [0, -1], :] = u[1:, :, [0, -1]] = 0.0
    return jax.jit(lambda start, k: fd.solve(u, start=start, k=k, save=fd.final(), kernel=kernel).final["u"])


def _inner(v: jax.Array, k: Any) -> jax.Array:
    around = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:]
    return v[1:-1, 1:-1] + k * (around - 4 * v[1:-1, 1:-1])


def heat_padded(num: int, steps: int) -> Callable[..., Any]:
    """By hand: each level the sum of slices, padded."""
    del num

    def solve(start: jax.Array, k: Any) -> jax.Array:
        return lax.scan(lambda v, _: (jnp.pad(_inner(v, k), 1), None), start, None, length=steps)[0]

    return jax.jit(solve)


def heat_two_buffers(num: int, steps: int) -> Callable[..., Any]:
    """By hand: two arrays in turn, two steps a turn of the loop, which XLA runs without a copy."""
    assert steps % 2 == 0

    def solve(start: jax.Array, k: Any) -> jax.Array:
        def twice(pair: Any, _: None) -> tuple[Any, None]:
            v, w = pair
            w = lax.dynamic_update_slice(w, _inner(v, k), (1, 1))
            v = lax.dynamic_update_slice(v, _inner(w, k), (1, 1))
            return (v, w), None

        (v, _), _ = lax.scan(twice, (start, jnp.zeros((num, num), start.dtype)), None, length=steps // 2)
        return v

    return jax.jit(solve)


def heat_arguments(num: int) -> list[Any]:
    """An initial state that is zero on the walls, and k = κΔt/Δx²."""
    start = jax.random.uniform(jax.random.key(2), (num, num), jnp.float32)
    return [jnp.pad(start[1:-1, 1:-1], 1), jnp.float32(0.2)]


def ten_regions(num: int) -> fd.Field:
    """Ten assignments: the rule of the whole, the initial state, four patches of other materials, four walls."""
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=101), **axes))

    def conduct(speed: float) -> Callable[..., Any]:
        return lambda u, k: (
            u["t-1"]
            + speed * k * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
        )

    near, far = slice(num // 8, num // 2), slice(num // 2, -num // 8)
    u[...] = conduct(1.0)
    u[1:, near, near], u[1:, near, far] = conduct(0.1), conduct(0.2)
    u[1:, far, near], u[1:, far, far] = conduct(0.3), conduct(0.4)
    u[:, 0] = 0.0
    u[:, -1] = 1.0
    u[1:, :, 0] = lambda x: x
    u[1:, :, -1] = lambda x: x * x
    u[0] = lambda x, y: x * y
    return u

"""The square wave of kernex's README: linear convection, the history of all levels."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import fdsolve as fd

from ._kernex import PACKAGE

END, LENGTH = 0.5, 2.0


def _courant(levels: int, points: int) -> float:
    return (END / (levels - 1)) / (LENGTH / (points - 1))


def _wave(points: int) -> tuple[int, int]:
    return (points - 1) // 4 + 1, (points - 1) // 2


def _make_scan(window: Any, levels: int, points: int) -> Callable[..., Any]:
    """The README's declaration; the speed is closed over, as there."""
    ratio, (first, last) = _courant(levels, points), _wave(points)

    def solve(u: jax.Array, c: Any) -> jax.Array:
        scan = window(kernel_size=(3, 3), padding=((1, 1), (1, 1)), named_axis={0: "n", 1: "i"}, relative=True)
        scan[:, 0] = scan[:, -1] = lambda u: 1.0
        scan[:, :first] = scan[:, last:] = lambda u: 1.0
        scan[0:1, first:last] = lambda u: 2.0
        scan[1:, 1:-1] = lambda u: u["i", "n-1"] - c * ratio * (u["i", "n-1"] - u["i-1", "n-1"])
        return scan(u)

    return jax.jit(solve)


def scan_ours(levels: int, points: int) -> Callable[..., Any]:
    """As `kscan`."""
    return _make_scan(fd.kscan, levels, points)


def scan_kernexs(levels: int, points: int) -> Callable[..., Any]:
    """As kernex's `kscan`."""
    return _make_scan(PACKAGE.kscan, levels, points)


def solve_ours(levels: int, points: int) -> Callable[..., Any]:
    """As a field and `solve`."""
    grid = fd.Grid(t=fd.Time(0.0, END, num=levels), x=fd.Axis(0.0, LENGTH, num=points))
    u, (first, last) = fd.Field("u", grid), _wave(points)
    u[...] = lambda u, c, dt, dx: u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"])
    u[0] = 1.0
    u[0, first:last] = 2.0
    u[:, 0] = u[:, -1] = 1.0
    return jax.jit(lambda _, c: fd.solve(u, c=c)["u"])


def by_hand(levels: int, points: int) -> Callable[..., Any]:
    """`lax.scan` over levels, each one sum of slices."""
    ratio, (first, last) = _courant(levels, points), _wave(points)

    def solve(u: jax.Array, c: Any) -> jax.Array:
        start = jnp.ones(points, u.dtype).at[first:last].set(2.0)

        def step(v: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            inner = v[1:-1] - c * ratio * (v[1:-1] - v[:-2])
            v = jnp.pad(inner, 1, constant_values=1.0)
            return v, v

        _, later = jax.lax.scan(step, start, None, length=levels - 1)
        return jnp.concatenate([start[None], later])

    return jax.jit(solve)


def arguments(levels: int, points: int) -> list[Any]:
    """An array of ones, and the speed: the wave reaches about the middle of the second half."""
    return [jnp.ones((levels, points), jnp.float32), jnp.float32(0.5)]

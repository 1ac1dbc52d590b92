"""Points that read new values: a Gauss–Seidel sweep of a Laplace problem, and a long affine recurrence."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fdsolve as fd

from ._kernex import PACKAGE


def _make_sweep(window: Any) -> Callable[..., Any]:
    scan = window(kernel_size=(3, 3), padding=1, relative=True)
    scan[1:-1, 1:-1] = lambda u: 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])
    scan[0, :] = scan[-1, :] = scan[:, 0] = scan[:, -1] = lambda u: u[0, 0]
    return jax.jit(scan.__call__)


def sweep_ours(num: int) -> Callable[..., Any]:
    """As `kscan`."""
    del num
    return _make_sweep(fd.kscan)


def sweep_kernexs(num: int) -> Callable[..., Any]:
    """As kernex's `kscan`."""
    del num
    return _make_sweep(PACKAGE.kscan)


def sweep_field(num: int) -> Callable[..., Any]:
    """As a field that reads its own level behind, and the old values (a parameter) ahead."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=num), y=fd.Axis(0.0, 1.0, num=num))
    w = fd.Field("w", grid)
    w[...] = lambda old: old[...]
    w[1:-1, 1:-1] = lambda w, old: 0.25 * (w["x-1"] + old["x+1"] + w["y-1"] + old["y+1"])
    return jax.jit(lambda u: fd.solve(w, old=u)["w"])


def sweep_by_hand(num: int) -> Callable[..., Any]:
    """Antidiagonals one after the other: gathered by index arrays, scanned, and scattered back."""
    size = num - 2
    diagonals = 2 * size - 1
    row = np.arange(size)[None, :]
    column = np.arange(diagonals)[:, None] - row
    inside = (column >= 0) & (column < size)
    i, j = row + 1 + 0 * column, np.clip(column, 0, size - 1) + 1

    def sweep(u: jax.Array) -> jax.Array:
        ahead = u[i + 1, j] + u[i, j + 1]
        # On each diagonal entry a is row a + 1; above it lies entry a − 1 of the diagonal before, left of it entry a.
        above = jnp.where(i == 1, u[0, j], 0.0)
        left = jnp.where(j == 1, u[i, 0], 0.0)

        def step(before: jax.Array, known: Any) -> tuple[jax.Array, jax.Array]:
            ahead, above, left, inside, at_top, at_left = known
            up = jnp.where(at_top, above, jnp.pad(before[:-1], (1, 0)))
            side = jnp.where(at_left, left, before)
            new = jnp.where(inside, 0.25 * (ahead + up + side), 0.0)
            return new, new

        known = (ahead, above, left, jnp.asarray(inside), jnp.asarray(i == 1), jnp.asarray(column == 0))
        _, new = lax.scan(step, jnp.zeros(size, u.dtype), known)
        place = jnp.arange(size)[:, None] + jnp.arange(size)[None, :]
        return u.at[1:-1, 1:-1].set(new[place, jnp.arange(size)[:, None]])

    return jax.jit(sweep)


def recurrence_ours(length: int) -> Callable[..., Any]:
    """uᵢ = a uᵢ₋₁ + fᵢ as a field."""
    v = fd.Field("v", fd.Grid(x=fd.Axis(0.0, 1.0, num=length)))
    v[...] = lambda f: f[...]
    v[1:] = lambda v, a, f: a * v["x-1"] + f[...]
    return jax.jit(lambda f, a: fd.solve(v, f=f, a=a)["v"])


def recurrence_kscan(length: int) -> Callable[..., Any]:
    """The same as `kscan`."""
    del length

    def solve(f: jax.Array, a: Any) -> jax.Array:
        scan = fd.kscan(kernel_size=(3,), padding=1, relative=True)
        scan[1:] = lambda u: a * u[-1] + u[0]
        scan[0] = lambda u: u[0]
        return scan(f)

    return jax.jit(solve)


def recurrence_scan(length: int) -> Callable[..., Any]:
    """The same by `lax.scan`, one entry after the other."""
    del length

    def solve(f: jax.Array, a: Any) -> jax.Array:
        def step(u: jax.Array, entry: jax.Array) -> tuple[jax.Array, jax.Array]:
            u = a * u + entry
            return u, u

        return lax.scan(step, jnp.zeros((), f.dtype), f)[1]

    return jax.jit(solve)


def recurrence_prefix(length: int) -> Callable[..., Any]:
    """The same by `lax.associative_scan`."""

    def solve(f: jax.Array, a: Any) -> jax.Array:
        def join(first: Any, then: Any) -> Any:
            return first[0] * then[0], then[0] * first[1] + then[1]

        return lax.associative_scan(join, (jnp.full(length, a, f.dtype), f))[1]

    return jax.jit(solve)


def array(*shape: int) -> jax.Array:
    """Old values, or the recurrence's sources."""
    return jax.random.uniform(jax.random.key(1), shape, jnp.float32)

"""The five-point Laplacian as a map over windows: one, two and ten regions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import fdsolve as fd

from ._kernex import PACKAGE


def five_points(x: Any) -> Any:
    """The Laplacian in a window read from its centre."""
    return x[1, 0] + x[-1, 0] + x[0, 1] + x[0, -1] - 4 * x[0, 0]


def scaled(factor: float) -> Callable[[Any], Any]:
    """Another function for every region."""
    return lambda x: factor * five_points(x)


def make_map(window: Any, num: int, regions: int) -> Callable[..., Any]:
    """A `kmap` (fdsolve's or kernex's) over num × num entries, in 1, 2 or 2 × 5 regions."""
    options = dict(kernel_size=(3, 3), padding="same", relative=True)
    if regions == 1:
        return jax.jit(window(**options)(five_points))
    mapped, columns = window(**options), regions // 2
    cuts = [num * i // columns for i in range(columns + 1)]
    for i in range(regions):
        row, column = divmod(i, columns)
        rows = slice(row * num // 2, (row + 1) * num // 2)
        mapped[rows, slice(cuts[column], cuts[column + 1])] = scaled(1.0 + i / 8)
    return jax.jit(mapped.__call__)


def ours(num: int, regions: int) -> Callable[..., Any]:
    """fdsolve's map."""
    return make_map(fd.kmap, num, regions)


def kernexs(num: int, regions: int) -> Callable[..., Any]:
    """kernex's map."""
    return make_map(PACKAGE.kmap, num, regions)


def _laplacian(u: jax.Array) -> jax.Array:
    p = jnp.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * p[1:-1, 1:-1]


def by_hand(num: int, regions: int) -> Callable[..., Any]:
    """`jnp.pad` and slices; the regions' factors as an array of the window's size, known when compiling."""
    if regions == 1:
        return jax.jit(_laplacian)
    columns = regions // 2
    cuts = [num * i // columns for i in range(columns + 1)]

    def factors() -> jax.Array:
        row = jnp.arange(num)[:, None] >= num // 2
        column = sum(jnp.arange(num)[None, :] >= cut for cut in cuts[1:-1]) if columns > 1 else 0
        return 1.0 + (row * columns + column) / 8

    return jax.jit(lambda u: factors() * _laplacian(u))


def array(num: int) -> jax.Array:
    """The array mapped over."""
    return jax.random.uniform(jax.random.key(0), (num, num), jnp.float32)

"""Kernels for sums and greatest values over windows."""

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._registry import platform_of, register
from ._pool import PoolCall, window_slices


def _has_small_windows(call: PoolCall) -> str | None:
    count = int(np.prod(call.window))
    return None if count <= 64 else f"windows of {count} points, one slice for each; for at most 64"


@register("pool", backend="slices", priority=20, serves=_has_small_windows)
def pool_slices(call: PoolCall, values: jax.Array) -> jax.Array:
    """One strided slice for each place in the window, in one fused loop."""
    return reduce(jnp.maximum if call.maximum else jnp.add, window_slices(call, values))


def _tiles_the_array(call: PoolCall) -> str | None:
    return None if call.window == call.strides else "windows do not lie side by side"


def _rank_of_cells(call: PoolCall) -> int:
    """XLA reduces short trailing axes well on a GPU, and badly on a CPU."""
    return 30 if platform_of(call) == "gpu" else 8


@register("pool", backend="reshape", priority=_rank_of_cells, serves=_tiles_the_array)
def pool_cells(call: PoolCall, values: jax.Array) -> jax.Array:
    """Windows side by side as axes of their own, reduced."""
    counts = call.result_shape
    values = values[tuple(slice(0, n * w) for n, w in zip(counts, call.window, strict=True))]
    cells = values.reshape([size for pair in zip(counts, call.window, strict=True) for size in pair])
    axes = tuple(range(1, cells.ndim, 2))
    return cells.max(axes) if call.maximum else cells.sum(axes)


@register("pool", backend="axes", priority=10)
def pool_axes(call: PoolCall, values: jax.Array) -> jax.Array:
    """Axis by axis, each by doubling: 2⌈log₂ width⌉ operations a point for a window of any width."""
    join = jnp.maximum if call.maximum else jnp.add
    for axis, (width, stride) in enumerate(zip(call.window, call.strides, strict=True)):
        values = lax.slice_in_dim(_running(values, axis, width, join), 0, None, stride, axis)
    return values


def _running(values: jax.Array, axis: int, width: int, join: object) -> jax.Array:
    """Over `width` points from every point on, from spans of powers of two."""
    length = values.shape[axis] - width + 1
    total, done, span, size = None, 0, values, 1
    while True:
        if width & size:
            part = lax.slice_in_dim(span, done, done + length, axis=axis)
            total = part if total is None else join(total, part)  # type: ignore[operator]
            done += size
        if done == width:
            assert total is not None
            return total
        reach = span.shape[axis] - size
        early = lax.slice_in_dim(span, 0, reach, axis=axis)
        span = join(early, lax.slice_in_dim(span, size, size + reach, axis=axis))  # type: ignore[operator]
        size *= 2


@register("pool", backend="reduce_window", priority=5)
def pool_windows(call: PoolCall, values: jax.Array) -> jax.Array:
    """XLA's own reduction over windows."""
    if call.maximum:
        return lax.reduce_window(values, -jnp.inf, lax.max, call.window, call.strides, "VALID")
    return lax.reduce_window(values, 0.0, lax.add, call.window, call.strides, "VALID")


@register("pool", backend="reference", priority=-100)
def pool_reference(call: PoolCall, values: jax.Array) -> jax.Array:
    """Every window gathered by the indices of its points, then reduced."""
    corners = np.indices(call.result_shape).reshape(len(call.shape), -1, 1) * np.reshape(call.strides, (-1, 1, 1))
    points = corners + np.indices(call.window).reshape(len(call.shape), 1, -1)
    windows = values[tuple(points)]
    return (windows.max(-1) if call.maximum else windows.sum(-1)).reshape(call.result_shape)

"""Kernels for functions of neighbours on active tiles."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._registry import register
from ._block_sparse import BlockSparseCall

Apply = Callable[[jax.Array], jax.Array]


def _rank_of_dense(call: BlockSparseCall) -> int:
    """First where most tiles are active."""
    return 50 if call.num_active is not None and call.num_active > 0.4 * call.num_tiles else 5


@register("block_sparse", backend="dense", priority=_rank_of_dense)
def sparse_dense(call: BlockSparseCall, apply: Apply, grown: jax.Array, tiles: jax.Array) -> jax.Array:
    """Everywhere, as one block."""
    return apply(grown)


@register("block_sparse", backend="gather", priority=20)
def sparse_gather(call: BlockSparseCall, apply: Apply, grown: jax.Array, tiles: jax.Array) -> jax.Array:
    """Active tiles gathered with what is around them, computed side by side and scattered; all where they are many."""
    sizes = _sizes(call)
    branches: list[Apply] = [partial(_gather, call, apply, size, grown) for size in sizes]
    branches.append(lambda _: apply(grown))
    number = jnp.searchsorted(jnp.asarray(sizes, jnp.int32), tiles.sum(dtype=jnp.int32))
    return lax.switch(number, branches, tiles)


def _sizes(call: BlockSparseCall) -> list[int]:
    """For how many tiles it is compiled: few sizes, so that few programs are compiled as the active part moves."""
    if call.num_active is not None:
        return [min(call.num_tiles, 1 << max(0, call.num_active - 1).bit_length())]
    return sorted({-(-call.num_tiles // 16), -(-call.num_tiles // 4)})


def _gather(call: BlockSparseCall, apply: Apply, size: int, grown: jax.Array, tiles: jax.Array) -> jax.Array:
    """The function on at most `size` active tiles, 0 elsewhere."""
    (ids,) = jnp.nonzero(tiles.ravel(), size=size, fill_value=call.num_tiles)
    starts = jnp.asarray(_starts(call)).at[ids].get(mode="fill", fill_value=0)
    found = jax.vmap(lambda start: apply(_block(call, grown, start)))(starts)
    beyond = jnp.asarray(call.shape, starts.dtype)  # where what is left over goes, to be dropped
    places = jnp.where((ids < call.num_tiles)[:, None], starts, beyond)
    dimensions = lax.ScatterDimensionNumbers(tuple(range(1, found.ndim)), (), tuple(range(len(call.tile))))
    empty = jnp.zeros((*call.shape, *call.point), call.dtype)
    mode = lax.GatherScatterMode.FILL_OR_DROP
    return lax.scatter(empty, places, found, dimensions, unique_indices=True, mode=mode)


def _starts(call: BlockSparseCall) -> np.ndarray:
    """Each tile's first point."""
    places = np.indices(call.counts).reshape(len(call.tile), -1).T
    return (places * np.asarray(call.tile)).astype(np.int32)


def _block(call: BlockSparseCall, grown: jax.Array, start: jax.Array) -> jax.Array:
    """A tile's values with those around it."""
    rank = len(call.tile)
    place = [start[axis] if axis < rank else jnp.zeros((), start.dtype) for axis in range(grown.ndim)]
    return lax.dynamic_slice(grown, place, (*call.window, *grown.shape[rank:]))


@register("block_sparse", backend="reference", priority=-100)
def sparse_reference(call: BlockSparseCall, apply: Apply, grown: jax.Array, tiles: jax.Array) -> jax.Array:
    """Tile by tile, all of them, each one cut out and put in its place."""
    result = jnp.zeros((*call.shape, *call.point), call.dtype)
    for place in _starts(call):
        block = grown[tuple(slice(a, a + n) for a, n in zip(place, call.window, strict=True))]
        where = tuple(slice(a, a + n) for a, n in zip(place, call.tile, strict=True))
        result = result.at[where].set(apply(block))
    return result

"""Kernels for stencils by label: weights looked up or selected at each point, or sorted points in dense products."""

from collections.abc import Callable
from functools import reduce
from math import prod
from operator import add

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._registry import platform_of, register
from ._grouped import GroupedCall

TILE = 128
"""Points of one label that are multiplied by its matrix at once."""

MOST_ENTRIES = 128
"""Weights a point that are still written out one by one."""


def _parts(call: GroupedCall, grown: jax.Array) -> list[jax.Array]:
    """For each offset, the values there seen from every point."""
    spans = [
        [slice(o + a, o + a + n) for o, a, n in zip(offset, call.taps.lower, call.shape, strict=True)]
        for offset in call.taps.offsets
    ]
    return [grown[tuple(span)] for span in spans]


def _num_entries(call: GroupedCall) -> int:
    """The number of weights a point has."""
    return len(call.taps.offsets) * (prod(call.matrix) if call.matrix else 1)


def _by_entries(
    call: GroupedCall, grown: jax.Array, weights: jax.Array, look_up: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """Weights of points one entry at a time, so that all fuses into one loop over the points."""
    if call.matrix is None:
        terms = [look_up(table) * part for table, part in zip(weights, _parts(call, grown), strict=True)]
        return reduce(add, terms)
    rows, columns = call.matrix
    parts = [[part[..., i] for i in range(columns)] for part in _parts(call, grown)]
    found = []
    for row in range(rows):
        entries = [
            (look_up(table[:, row, i]), part[i])
            for table, part in zip(weights, parts, strict=True)
            for i in range(columns)
        ]
        found.append(reduce(add, [weight * value for weight, value in entries]))
    return jnp.stack(found, axis=-1)


@register("grouped", backend="gather", priority=10)
def grouped_gather(call: GroupedCall, grown: jax.Array, weights: jax.Array, labels: jax.Array) -> jax.Array:
    """Each point's weights looked up in the table of its label, then slices as ever."""
    if _num_entries(call) <= MOST_ENTRIES:
        return _by_entries(call, grown, weights, lambda table: table[labels])
    terms = [
        jnp.einsum("...oi,...i->...o", table[labels], part)
        for table, part in zip(weights, _parts(call, grown), strict=True)
    ]
    return reduce(add, terms)


def _has_few_numbers(call: GroupedCall) -> str | None:
    if _num_entries(call) * call.groups > 4 * MOST_ENTRIES:
        return f"{call.groups} labels with {_num_entries(call)} weights each; for at most {4 * MOST_ENTRIES} in all"
    return None


def _rank_of_select(call: GroupedCall) -> int:
    """A CPU compares many points at once, and looks up one at a time."""
    return 20 if platform_of(call) == "cpu" and call.groups <= 4 else 5


@register("grouped", backend="select", priority=_rank_of_select, serves=_has_few_numbers)
def grouped_select(call: GroupedCall, grown: jax.Array, weights: jax.Array, labels: jax.Array) -> jax.Array:
    """Each point's weights by comparing its label with every one, then slices as ever."""

    def look_up(table: jax.Array) -> jax.Array:
        weight = jnp.broadcast_to(table[0], call.shape)
        for group in range(1, call.groups):
            weight = jnp.where(labels == group, table[group], weight)
        return weight

    return _by_entries(call, grown, weights, look_up)


def _has_matrices(call: GroupedCall) -> str | None:
    return None if call.matrix is not None else "weights are numbers; for matrices"


def _rank_of_tiles(call: GroupedCall) -> int:
    """Dense products pay once matrices are large enough for them."""
    return 30 if call.matrix is not None and min(call.matrix) >= 8 else 8


@register("grouped", backend="tiles", priority=_rank_of_tiles, serves=_has_matrices)
def grouped_tiles(call: GroupedCall, grown: jax.Array, weights: jax.Array, labels: jax.Array) -> jax.Array:
    """Points sorted by label into tiles of one label each, and one dense product a tile (a grouped GEMM)."""
    assert call.matrix is not None
    points, slots, tile_labels = _sort(labels.ravel(), call.groups)
    flat = grown.reshape(-1, grown.shape[-1])
    corners = np.ravel_multi_index(np.ix_(*map(np.arange, call.shape)), grown.shape[:-1])
    bases = jnp.asarray(corners, jnp.int32).ravel()[points]
    total = jnp.zeros((len(tile_labels), TILE, call.matrix[0]), grown.dtype)
    for table, offset in zip(weights, call.taps.offsets, strict=True):
        place = [o + a for o, a in zip(offset, call.taps.lower, strict=True)]
        rows = flat[bases + int(np.ravel_multi_index(place, grown.shape[:-1]))].reshape(-1, TILE, call.matrix[1])
        total = total + jnp.einsum("tpi,toi->tpo", rows, table[tile_labels])
    return total.reshape(-1, call.matrix[0])[slots].reshape(*call.shape, call.matrix[0])


def _sort(labels: jax.Array, groups: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The point in each slot of the tiles (0 in those left over), each point's slot, and each tile's label."""
    count = labels.shape[0]
    num_tiles = -(-count // TILE) + groups
    order = jnp.argsort(labels).astype(jnp.int32)
    sizes = jnp.zeros(groups, jnp.int32).at[labels].add(1)
    tiles = -(-sizes // TILE)
    ahead = jnp.cumsum(tiles) - tiles
    ranks = jnp.arange(count, dtype=jnp.int32) - (jnp.cumsum(sizes) - sizes)[labels[order]]
    places = (ahead[labels[order]] * TILE + ranks).astype(jnp.int32)
    points = jnp.zeros(num_tiles * TILE, jnp.int32).at[places].set(order, unique_indices=True)
    slots = jnp.zeros(count, jnp.int32).at[order].set(places, unique_indices=True)
    owners = jnp.searchsorted(ahead + tiles, jnp.arange(num_tiles, dtype=ahead.dtype), side="right")
    return points, slots, jnp.clip(owners, 0, groups - 1)


@register("grouped", backend="reference", priority=-100)
def grouped_reference(call: GroupedCall, grown: jax.Array, weights: jax.Array, labels: jax.Array) -> jax.Array:
    """The whole grid by each label's stencil in turn, kept where the label is that."""
    total = None
    for group in range(call.groups):
        held = (labels == group).reshape(*call.shape, *(() if call.matrix is None else (1,)))
        for table, part in zip(weights, _parts(call, grown), strict=True):
            term = (table[group] * part[..., None, :]).sum(-1) if call.matrix else table[group] * part
            term = lax.select(jnp.broadcast_to(held, term.shape), term, jnp.zeros_like(term))
            total = term if total is None else total + term
    assert total is not None
    return total

"""Kernels for stencils on packed domains."""

from itertools import product
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._registry import register
from ._ends import END_RULES, grow
from ._ragged import RaggedCall


def _are_lines(call: RaggedCall) -> str | None:
    return None if call.taps.rank == 1 else f"domains have {call.taps.rank} axes; for lines"


@register("ragged", backend="slices", priority=20, serves=_are_lines)
def ragged_slices(
    call: RaggedCall, values: jax.Array, weights: jax.Array, lengths: jax.Array | None = None
) -> jax.Array:
    """Shifted slices of the packed array, with the few values beyond the ends of lines put in their place."""
    if lengths is None:
        assert call.shapes is not None
        lengths = jnp.asarray([n for (n,) in call.shapes])
    lengths = jnp.asarray(lengths, jnp.int32)
    starts = jnp.cumsum(lengths) - lengths
    total = None
    for number, (offset,) in enumerate(call.taps.offsets):
        term = _weight(call, weights, number) * _shifted(call, values, offset, starts, lengths)
        total = term if total is None else total + term
    assert total is not None
    if call.shapes is not None:
        return total
    held = jnp.arange(call.total, dtype=jnp.int32) < lengths.sum(dtype=jnp.int32)
    return jnp.where(_spread(held, total), total, jnp.zeros_like(total))


def _shifted(call: RaggedCall, values: jax.Array, offset: int, starts: jax.Array, lengths: jax.Array) -> jax.Array:
    """The values `offset` points further on within each line."""
    if not offset:
        return values
    pads = [(max(0, -offset), max(0, offset), 0)] + [(0, 0, 0)] * (values.ndim - 1)
    shifted = lax.slice_in_dim(lax.pad(values, jnp.zeros((), values.dtype), pads), max(0, offset), None)
    shifted = lax.slice_in_dim(shifted, 0, call.total)
    near = jnp.arange(abs(offset), dtype=jnp.int32)  # points that read beyond an end, counted from it
    position = (lengths[:, None] - 1 - near) if offset > 0 else jnp.broadcast_to(near, (len(call.ends), abs(offset)))
    held = (position >= 0) & (position < lengths[:, None])
    index, sign = _look_up(call, position + offset, jnp.maximum(lengths, 1)[:, None])
    sign = _spread(sign.astype(values.dtype), values[None])
    beyond = values[starts[:, None] + index] * sign
    places = jnp.where(held, starts[:, None] + position, call.total)
    return shifted.at[places].set(beyond, mode="drop")


def _look_up(call: RaggedCall, position: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where the values at some positions of each line come from, one row a line, and their signs."""
    names = sorted(set(call.ends))
    code = np.asarray([names.index(name) for name in call.ends]).reshape(-1, 1)
    found = [END_RULES[name](position, length, jnp) for name in names]
    index, sign = found[0]
    for number, (other_index, other_sign) in enumerate(found[1:], start=1):
        index = jnp.where(code == number, other_index, index)
        sign = jnp.where(code == number, other_sign, sign)
    return index, sign


def _weight(call: RaggedCall, weights: jax.Array, number: int) -> jax.Array:
    """One tap's weight, of a shape that multiplies the values."""
    weight = weights[number]
    return weight.reshape(call.total, *(1 for _ in call.channels)) if weight.ndim else weight


def _spread(array: jax.Array, like: jax.Array) -> jax.Array:
    """An array with trailing axes of one point, up to another's rank."""
    return array.reshape(*array.shape, *(1 for _ in range(like.ndim - array.ndim)))


def _has_few_shapes(call: RaggedCall) -> str | None:
    if call.shapes is None:
        return "the lengths are known only when it runs"
    count = len(set(zip(call.shapes, call.ends, strict=True)))
    return None if count <= 64 else f"{count} different shapes of domains; for at most 64"


@register("ragged", backend="buckets", priority=10, serves=_has_few_shapes)
def ragged_buckets(call: RaggedCall, values: jax.Array, weights: jax.Array) -> jax.Array:
    """Domains of one shape side by side as one block with its ends, and slices of that; any number of axes."""
    assert call.shapes is not None
    sizes = [prod(shape) for shape in call.shapes]
    starts = np.cumsum([0, *sizes])[:-1]
    result = jnp.zeros_like(values)
    for shape, ends in dict.fromkeys(zip(call.shapes, call.ends, strict=True)):
        kin = zip(starts, call.shapes, call.ends, strict=True)
        chosen = jnp.asarray([start for start, s, e in kin if (s, e) == (shape, ends)], jnp.int32)
        places = chosen[:, None] + jnp.arange(prod(shape), dtype=jnp.int32)
        block = values[places].reshape(len(chosen), *shape, *call.channels)
        found = _on_block(call, block, weights, places, shape, ends)
        result = result.at[places].set(found.reshape(*places.shape, *call.channels), unique_indices=True)
    return result


def _on_block(
    call: RaggedCall, block: jax.Array, weights: jax.Array, places: jax.Array, shape: tuple[int, ...], ends: str
) -> jax.Array:
    """The stencil on domains of one shape, stacked along the first axis."""
    lower, upper = call.taps.lower, call.taps.upper
    rank = call.taps.rank
    grown = grow(block, ("zero", *(ends,) * rank), (0, *lower), (0, *upper))
    total = None
    for number, offset in enumerate(call.taps.offsets):
        spans = [slice(o + a, o + a + n) for o, a, n in zip(offset, lower, shape, strict=True)]
        weight = weights[number]
        if weight.ndim:
            weight = weight[places].reshape(*block.shape[: rank + 1], *(1 for _ in call.channels))
        term = weight * grown[(slice(None), *spans)]
        total = term if total is None else total + term
    assert total is not None
    return total


@register("ragged", backend="reference", priority=-100)
def ragged_reference(
    call: RaggedCall, values: jax.Array, weights: jax.Array, lengths: jax.Array | None = None
) -> jax.Array:
    """Every neighbour of every point looked up in a table of all points, domain by domain."""
    table, signs = _line_table(call, lengths) if lengths is not None else _box_table(call)
    total = jnp.zeros_like(values)
    for number in range(len(call.taps.offsets)):
        sign = _spread(jnp.asarray(signs[number]).astype(values.dtype), values)
        total = total + _weight(call, weights, number) * sign * values[jnp.asarray(table[number])]
    return total


def _box_table(call: RaggedCall) -> tuple[np.ndarray, np.ndarray]:
    """For each offset and packed point, which point is read, and with which sign."""
    assert call.shapes is not None
    table, signs = np.zeros((2, len(call.taps.offsets), call.total), int)
    start = 0
    for shape, ends in zip(call.shapes, call.ends, strict=True):
        for place, point in enumerate(product(*map(range, shape))):
            for number, offset in enumerate(call.taps.offsets):
                looked = [
                    END_RULES[ends](np.asarray(i + o), n, np) for i, o, n in zip(point, offset, shape, strict=True)
                ]
                table[number, start + place] = start + np.ravel_multi_index([int(i) for i, _ in looked], shape)
                signs[number, start + place] = prod(int(sign) for _, sign in looked)
        start += prod(shape)
    return table, signs


def _line_table(call: RaggedCall, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same for lines whose lengths are known only when it runs."""
    stops = jnp.cumsum(lengths)
    points = jnp.arange(call.total, dtype=stops.dtype)
    member = points[None] < stops[:, None]
    member &= points[None] >= (stops - lengths)[:, None]  # one row a line
    table, signs = [], []
    for (offset,) in call.taps.offsets:
        position = points[None] - (stops - lengths)[:, None]
        index, sign = _look_up(call, position + offset, jnp.maximum(lengths, 1)[:, None])
        table.append(((stops - lengths)[:, None] + index).T[points, member.argmax(0)])
        signs.append(jnp.where(member, sign, 0).sum(0))
    return jnp.stack(table), jnp.stack(signs)

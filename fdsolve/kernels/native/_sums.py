"""Cotangents of operands, from the arrays in which they were added up point by point."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...planning import Extent
from ...region import Box, merge_boxes
from ...stencil import ProfileRead
from ._adjoint import Sum


def start_sums(sums: Sequence[Sum]) -> list[jax.Array]:
    """Nothing added up yet."""
    return [jnp.zeros(one.array.padded_shape, one.array.dtype) for one in sums]


def gather_sums(
    sums: Sequence[Sum],
    found: Sequence[jax.Array],
    like: Mapping[str, Any],
    extents: Mapping[str, Extent],
    axes: tuple[str, ...],
) -> list[jax.Array]:
    """The cotangents of the operands named in `like`, of the shapes and dtypes that stand there.

    `axes` are those of the arrays ("" for one that is not the grid's). What stands outside of the boxes is not read.
    """
    totals = {name: jnp.zeros(one.shape, one.dtype) for name, one in like.items()}
    for one, array in zip(sums, found, strict=True):
        for box in () if one.timed else merge_boxes(list(one.boxes)):
            totals[one.operand.name] += _part(one, array, box, extents, axes, totals[one.operand.name])
    return list(totals.values())


def gather_level(
    sums: Sequence[Sum],
    found: Sequence[jax.Array],
    totals: Mapping[str, jax.Array],
    number: Any,
    extents: Mapping[str, Extent],
    axes: tuple[str, ...],
) -> tuple[list[jax.Array], dict[str, jax.Array]]:
    """The sums with nothing in what is the level's own, and that where it belongs among the cotangents of operands that
    change along time."""
    found, totals = list(found), dict(totals)
    for k, one in enumerate(sums):
        if not isinstance(one.operand, ProfileRead) or not one.timed:
            continue
        total, at = totals[one.operand.name], number + (one.operand.offset[0] - extents[one.operand.name].origin[0])
        for box in merge_boxes(list(one.boxes)):
            part = _part(one, found[k], box, extents, axes, total[0])
            totals[one.operand.name] = total = total.at[at].add(part)
            begin = [c - o for c, o in zip(box.start, one.array.origin, strict=True)]
            found[k] = lax.dynamic_update_slice(found[k], jnp.zeros(box.shape, found[k].dtype), begin)
    return found, totals


def _part(
    one: Sum, array: jax.Array, box: Box, extents: Mapping[str, Extent], axes: tuple[str, ...], like: jax.Array
) -> jax.Array:
    """What was added up in a box, where its entries stand in the array that was read, or in a level of it."""
    begin, end = ([c - o for c, o in zip(corner, one.array.origin, strict=True)] for corner in (box.start, box.stop))
    part, read = lax.slice(array, begin, end), one.operand
    own = read.axes if isinstance(read, ProfileRead) else ()
    for axis in reversed(range(len(axes))):  # one by one: sums of sums of rows lose less
        if axes[axis] not in own:
            part = jnp.sum(part, axis=axis)
    part = part.astype(like.dtype)
    if not isinstance(read, ProfileRead):
        return part
    origin = extents[read.name].origin
    if one.timed:
        read, origin = ProfileRead(read.name, read.axes[1:], read.offset[1:]), origin[1:]
    return _placed(part, read, box.start, axes, origin, like.shape)


def _placed(
    part: jax.Array,
    read: ProfileRead,
    start: tuple[int, ...],
    axes: tuple[str, ...],
    origin: tuple[int, ...],
    shape: tuple[int, ...],
) -> jax.Array:
    """A part of a sum where its entries stand in the array that was read."""
    first = dict(zip(axes, start, strict=True))
    before = [first[axis] + move - low for axis, move, low in zip(read.axes, read.offset, origin, strict=True)]
    around = [(a, size - a - n) for a, size, n in zip(before, shape, part.shape, strict=True)]
    return part if not any(map(any, around)) else jnp.pad(part, around)

"""Cotangents of operands, from the arrays in which they were added up point by point."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...planning import Extent
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

    `axes` are those of the arrays ("" for one that is not the grid's).
    """
    totals = {name: jnp.zeros(one.shape, one.dtype) for name, one in like.items()}
    for one, array in zip(sums, found, strict=True):
        name, total = one.operand.name, totals[one.operand.name]
        for box in one.boxes:
            begin, end = ([c - o for c, o in zip(corner, one.array.origin, strict=True)]
                          for corner in (box.start, box.stop))  # fmt: skip
            part = lax.slice(array, begin, end)
            own = one.operand.axes if isinstance(one.operand, ProfileRead) else ()
            for axis in reversed(range(len(axes))):  # one by one: sums of sums of rows lose less
                if axes[axis] not in own:
                    part = jnp.sum(part, axis=axis)
            part = part.astype(total.dtype)
            if isinstance(one.operand, ProfileRead):
                part = _placed(part, one.operand, box.start, axes, extents[name].origin, total.shape)
            total = total + part
        totals[name] = total
    return list(totals.values())


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

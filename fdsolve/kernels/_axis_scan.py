"""A recurrence along one axis: row after row, each computed from the rows before it, and nothing else carried."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..planning import Piece, Sweep
from ..region import Box
from ..stencil import Operand, StateRead
from ._level import Level, take_box, vectorise_function

Known = Callable[[Box], jax.Array]
"""Gives the values of a field on a box."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a piece across `axis`, in the order of the scan, and how far rows are extended on the other axes."""

    box: Box
    axis: int
    sign: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """The axes along a row."""
        return tuple(a for a in range(self.box.ndim) if a != self.axis)

    def lead(self, array: jax.Array, axis: int | None = None) -> jax.Array:
        """An array over the box as rows."""
        array = jnp.moveaxis(array, self.axis if axis is None else axis, 0)
        return jnp.flip(array, 0) if self.sign < 0 else array

    def unlead(self, rows: jax.Array) -> jax.Array:
        """Rows as an array over the box."""
        return jnp.moveaxis(jnp.flip(rows, 0) if self.sign < 0 else rows, 0, self.axis)

    def before(self, count: int) -> Box:
        """The extended row `count` rows before the first."""
        at = self.box.start[self.axis] - count if self.sign > 0 else self.box.stop[self.axis] - 1 + count
        return self.box.grow(self.lower, self.upper).with_range(self.axis, at, at + 1)

    def strips(self) -> list[tuple[int, Box, Box]]:
        """What extends a row, axis by axis: the axis' place in a row, and the boxes before and after."""
        found, box = [], self.box
        for place, axis in enumerate(self.others):
            start, stop = box.start[axis], box.stop[axis]
            low = box.with_range(axis, start - self.lower[axis], start)
            high = box.with_range(axis, stop, stop + self.upper[axis])
            found.append((place, low, high))
            box = box.with_range(axis, low.start[axis], high.stop[axis])
        return found


def is_plain(stage: Sweep) -> bool:
    """Whether `scan_axis` serves a sweep: one piece, along one axis, on all points of its box."""
    first = stage.pieces[0]
    plain = first.mask is None and first.predicate is None and not first.adds
    return stage.method == "scan" and len(stage.pieces) == 1 and plain


def scan_axis(level: Level, stage: Sweep, axes: tuple[str, ...], known: Known | None = None) -> Level:
    """The level with a plain recurrence along one axis solved.

    `known(box)` gives the values around the piece; without it they are those of the level. So a caller that has them
    in parts need not write an array first, of which most is then computed anew.
    """
    (piece,) = stage.pieces
    storage, rule = level.structure.array(piece.field), level.structure.rules[piece.rule]
    if known is None:
        known = partial(take_box, level.current[piece.field], storage.origin)
    axis = next(a for a, w in enumerate(stage.direction) if w)
    inner = [read for read in rule.reads if _is_inner(read, piece, axis)]
    whole = Box(storage.origin, tuple(o + n for o, n in zip(storage.origin, storage.padded_shape, strict=True)))
    rows = _make_rows(piece, axis, stage.direction[axis], inner, whole)
    full = rows.box.grow(rows.lower, rows.upper).with_range(axis, whole.start[axis], whole.stop[axis]) == whole

    moving, fixed = _take_others(level, [o for o in rule.operands if o not in inner], rows, axes)
    strips = [(place, *(rows.lead(known(box)) for box in pair)) for place, *pair in rows.strips()]
    order = max(abs(read.offset[axis]) for read in inner)
    ring = tuple(jnp.squeeze(known(rows.before(k + 1)), axis) for k in range(order))
    evaluate = rule.function(level.arrays.consts[piece.rule])
    shape = tuple(rows.box.shape[a] for a in rows.others)

    def step(ring: tuple[jax.Array, ...], plane: Any) -> tuple[Any, jax.Array]:
        entries, sides = plane
        given = dict(zip(moving, entries, strict=True))
        values, flags = [], []
        for operand in rule.operands:
            if operand in inner:
                values.append(_row_of(ring, operand, rows, shape))
                flags.append((True,) * len(shape))
            else:
                values.append(given[operand] if operand in given else fixed[operand][0])
                flags.append(moving[operand][1] if operand in given else fixed[operand][1])
        result = vectorise_function(evaluate, values, flags, shape)
        row = result
        for (place, _, _), (low, high) in zip(strips, sides, strict=True):
            row = jnp.concatenate([low, row, high], place)
        return (row, *ring[:-1]), row if full else result

    planes = ([value for value, _ in moving.values()], [(low, high) for _, low, high in strips])
    _, found = lax.scan(step, ring, planes, length=rows.box.shape[axis])
    found = rows.unlead(found)
    start, stop = rows.box.start[axis], rows.box.stop[axis]
    if full:
        head = known(whole.with_range(axis, whole.start[axis], start))
        tail = known(whole.with_range(axis, stop, whole.stop[axis]))
        return level.with_current(piece.field, jnp.concatenate([head, found, tail], axis))
    place = [a - o for a, o in zip(rows.box.start, storage.origin, strict=True)]
    return level.with_current(piece.field, lax.dynamic_update_slice(known(whole), found, place))


def _is_inner(read: StateRead, piece: Piece, axis: int) -> bool:
    """Whether the scan itself answers a read."""
    meets = not piece.box.shift(read.offset).intersect(piece.box).empty
    return read.level == 0 and read.field == piece.field and bool(read.offset[axis]) and meets


def _make_rows(piece: Piece, axis: int, sign: int, inner: list[StateRead], whole: Box) -> _Rows:
    """Rows extended as far as reads go; to the whole array where that adds little, so that rows are its rows."""
    box, ndim = piece.box, piece.box.ndim
    lower = tuple(0 if a == axis else max(0, *(-r.offset[a] for r in inner)) for a in range(ndim))
    upper = tuple(0 if a == axis else max(0, *(r.offset[a] for r in inner)) for a in range(ndim))
    wide_lower = tuple(0 if a == axis else box.start[a] - whole.start[a] for a in range(ndim))
    wide_upper = tuple(0 if a == axis else whole.stop[a] - box.stop[a] for a in range(ndim))
    wide = box.grow(wide_lower, wide_upper)
    inside = whole.contains(box.grow(lower, upper))
    if inside and wide.size <= 2 * box.size:
        lower, upper = wide_lower, wide_upper
    return _Rows(box, axis, sign, lower, upper)


def _take_others(
    level: Level, operands: list[Operand], rows: _Rows, axes: tuple[str, ...]
) -> tuple[dict[Operand, tuple[jax.Array, tuple[bool, ...]]], dict[Operand, tuple[jax.Array, tuple[bool, ...]]]]:
    """What is known before the scan: as rows where it varies along the scan, and as it is."""
    moving, fixed = {}, {}
    for operand in operands:
        value, flags = level.take(operand, rows.box, axes)
        along = tuple(flags[a] for a in rows.others)
        if flags[rows.axis]:
            moving[operand] = rows.lead(value, sum(flags[: rows.axis])), along
        else:
            fixed[operand] = value, along
    return moving, fixed


def _row_of(ring: tuple[jax.Array, ...], read: Operand, rows: _Rows, shape: tuple[int, ...]) -> jax.Array:
    """An earlier row, at the offset of a read."""
    assert isinstance(read, StateRead)
    row = ring[abs(read.offset[rows.axis]) - 1]
    start = [rows.lower[a] + read.offset[a] for a in rows.others]
    return lax.slice(row, start, [a + n for a, n in zip(start, shape, strict=True)])

"""Sweeps: pieces that read their own level, hyperplane by hyperplane, vectorised on each."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..planning import Piece, Sweep
from ..region import Box
from ..stencil import Operand, StateRead
from ._axis_scan import is_plain, scan_axis
from ._level import Level, take_box
from ._skew import skew, unskew
from ._slices import selector, vectorise_guarded


@dataclass(frozen=True, eq=False)
class _Frame:
    """The box swept and its skewed coordinates: axes with a negative weight are flipped, `axis` is eliminated."""

    box: Box
    weights: tuple[int, ...]
    flipped: tuple[bool, ...]
    axis: int

    def to_rows(self, array: jax.Array) -> jax.Array:
        """An array over the box as rows of hyperplanes."""
        axes = [a for a, flip in enumerate(self.flipped) if flip]
        return skew(jnp.flip(array, axes) if axes else array, self.weights, self.axis)

    def from_rows(self, rows: jax.Array) -> jax.Array:
        """Rows of hyperplanes as an array over the box."""
        array = unskew(rows, self.weights, self.axis, self.box.shape[self.axis])
        axes = [a for a, flip in enumerate(self.flipped) if flip]
        return jnp.flip(array, axes) if axes else array

    def move(self, offset: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """An offset in skewed coordinates: hyperplanes back, and along the other axes."""
        turned = [-o if flip else o for o, flip in zip(offset, self.flipped, strict=True)]
        planes = -sum(w * o for w, o in zip(self.weights, turned, strict=True))
        return planes, tuple(o for a, o in enumerate(turned) if a != self.axis)


def sweep(level: Level, stage: Sweep, axes: tuple[str, ...]) -> Level:
    """The level with the pieces of a sweep set, in the order of `stage.direction`."""
    if is_plain(stage):
        return scan_axis(level, stage, axes)
    frame, inner = _make_frame(level, stage), set(stage.inner)
    fields = sorted({piece.field for piece in stage.pieces})
    dtype = {name: level.current[name].dtype for name in fields}
    known = {
        name: frame.to_rows(take_box(level.current[name], level.structure.array(name).origin, frame.box))
        for name in fields
    }
    prior: dict[Operand, tuple[jax.Array, bool]] = {}
    for number, piece in enumerate(stage.pieces):
        for operand in level.structure.rules[piece.rule].operands:
            if operand not in prior and (number, operand) not in inner:
                prior[operand] = _prior_rows(level, operand, frame, axes)
    varying = [operand for operand, (_, varies) in prior.items() if varies]
    masks = [frame.to_rows(_piece_mask(level, piece, axes, frame.box)) for piece in stage.pieces]
    back = max((frame.move(operand.offset)[0] for _, operand in inner), default=1)
    row_shape = next(iter(known.values())).shape[1:]

    def step(ring: dict[str, tuple[jax.Array, ...]], plane: Any) -> tuple[Any, Any]:
        rows, entries, active = plane
        rows, moving = dict(rows), dict(zip(varying, entries, strict=True))
        for number in stage.order:
            piece = stage.pieces[number]
            rule = level.structure.rules[piece.rule]
            values, flags = [], []
            for operand in rule.operands:
                if (number, operand) in inner:
                    planes, along = frame.move(operand.offset)  # type: ignore[union-attr]
                    source = rows[operand.field] if planes == 0 else ring[operand.field][planes - 1]  # type: ignore[union-attr]
                    values.append(take_box(source, (0,) * len(along), Box.of_shape(row_shape).shift(along)))
                    flags.append((True,) * len(row_shape))
                else:
                    value, varies = prior[operand]
                    values.append(moving[operand] if varies else value)
                    flags.append((varies,) * len(row_shape))
            evaluate = rule.function(level.arrays.consts[piece.rule])
            result = vectorise_guarded(evaluate, active[number], values, flags, row_shape)
            below = rows[piece.field]
            result = result + below if piece.adds else result
            rows[piece.field] = jnp.where(active[number], result, below)
        ring = {name: (rows[name], *ring[name][:-1]) for name in fields}
        return ring, rows

    start = {name: (jnp.zeros(row_shape, dtype[name]),) * back for name in fields}
    _, rows = lax.scan(step, start, (known, [prior[operand][0] for operand in varying], masks))
    for name in fields:
        origin, array = level.structure.array(name).origin, level.current[name]
        held = Box(origin, tuple(o + n for o, n in zip(origin, array.shape, strict=True))).intersect(frame.box)
        place = [a - o for a, o in zip(held.start, origin, strict=True)]
        found = take_box(frame.from_rows(rows[name]), frame.box.start, held)
        level = level.with_current(name, lax.dynamic_update_slice(array, found, place))
    return level


def _make_frame(level: Level, stage: Sweep) -> _Frame:
    """The frame of a sweep: its pieces, and the points they read in it."""
    boxes = [piece.box for piece in stage.pieces]
    boxes += [stage.pieces[number].box.shift(read.offset) for number, read in stage.inner]
    start = tuple(min(part) for part in zip(*(b.start for b in boxes), strict=True))
    stop = tuple(max(part) for part in zip(*(b.stop for b in boxes), strict=True))
    limits = [level.structure.array(piece.field) for piece in stage.pieces]
    start = tuple(max(a, min(one.origin[i] for one in limits)) for i, a in enumerate(start))
    stop = tuple(min(b, max(one.origin[i] + one.padded_shape[i] for one in limits)) for i, b in enumerate(stop))
    weights = tuple(abs(w) for w in stage.direction)
    axis = next(a for a, w in enumerate(weights) if w == 1)
    return _Frame(Box(start, stop), weights, tuple(w < 0 for w in stage.direction), axis)


def _prior_rows(level: Level, operand: Operand, frame: _Frame, axes: tuple[str, ...]) -> tuple[jax.Array, bool]:
    """An operand known before the sweep: as rows of hyperplanes, or whole where it does not vary in space."""
    value, flags = level.take(operand, frame.box, axes)
    if not any(flags):
        return value, False
    shape = [n if flag else 1 for n, flag in zip(frame.box.shape, flags, strict=True)]
    return frame.to_rows(jnp.broadcast_to(value.reshape(shape), frame.box.shape)), True


def _piece_mask(level: Level, piece: Piece, axes: tuple[str, ...], box: Box) -> jax.Array:
    """Where in the swept box a piece acts."""
    mask = jnp.ones(box.shape, bool)
    for axis, (start, stop) in enumerate(zip(piece.box.start, piece.box.stop, strict=True)):
        index = lax.broadcasted_iota(jnp.int32, box.shape, axis) + box.start[axis]
        mask &= (index >= start) & (index < stop)
    held = selector(level, piece, axes, piece.box)
    if held is not None:
        inside = jnp.zeros(box.shape, bool)
        common = piece.box.intersect(box)
        place = [a - o for a, o in zip(common.start, box.start, strict=True)]
        inside = lax.dynamic_update_slice(inside, take_box(held, piece.box.start, common), place)
        mask &= inside
    return mask


def sweep_points(level: Level, stage: Sweep, axes: tuple[str, ...]) -> Level:
    """The last resort: the points of a group one by one, in an order that respects every dependence.

    The plan's array `stage.sequence` holds the piece's number and the point's indices, one row a point.
    """
    table = level.arrays.wholes[stage.sequence]
    which, points = table[:, 0], table[:, 1:]
    fields = sorted({piece.field for piece in stage.pieces})

    def one(state: dict[str, jax.Array], entry: Any) -> tuple[dict[str, jax.Array], None]:
        number, point = entry
        branches = [_point_branch(level, piece, axes, point) for piece in stage.pieces]
        return lax.switch(number, branches, state), None

    state, _ = lax.scan(one, {name: level.current[name] for name in fields}, (which, points))
    for name in fields:
        level = level.with_current(name, state[name])
    return level


def _point_branch(level: Level, piece: Piece, axes: tuple[str, ...], point: jax.Array) -> Any:
    rule = level.structure.rules[piece.rule]
    whole = {operand: level.take(operand, piece.box, axes) for operand in rule.operands}
    held = selector(level, piece, axes, piece.box)
    local = [point[a] - piece.box.start[a] for a in range(len(axes))]

    def branch(state: dict[str, jax.Array]) -> dict[str, jax.Array]:
        values = []
        for operand in rule.operands:
            if isinstance(operand, StateRead) and operand.level == 0 and operand.field in state:
                origin = level.structure.array(operand.field).origin
                index = [point[a] + operand.offset[a] - origin[a] for a in range(len(axes))]
                values.append(state[operand.field][tuple(index)])
                continue
            value, flags = whole[operand]
            index = [local[a] for a, flag in enumerate(flags) if flag]
            values.append(value[tuple(index)] if index else value)
        result = rule.function(level.arrays.consts[piece.rule])(*values)
        origin = level.structure.array(piece.field).origin
        place = tuple(point[a] - origin[a] for a in range(len(axes)))
        below = state[piece.field][place]
        result = result + below if piece.adds else result
        if held is not None:
            result = jnp.where(held[tuple(local)], result, below)
        return {**state, piece.field: state[piece.field].at[place].set(result)}

    return branch

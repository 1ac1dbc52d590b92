"""A long axis as rows of points: tiles, threads and slabs are then cut from it as from two axes.

Point i stands in row i // C, at place i % C. Beside each row stand the last points of the row before it and the first
of the row after it. They are set like ghosts, right after the points that they repeat, so that rules read along their
own row alone. What is folded is a march as good as any other, of a grid with one more axis.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from ...planning import Array, Extent, Parallel, PhaseStructure, Piece, Structure, pieces_of
from ...region import Box, merge_boxes
from ...stencil import Operand, ProfileRead, StateRead, Traced
from .._level import Arrays
from .._march_call import MarchCall
from ._layout import round_up
from ._march import one_level
from ._program import same_value

ROWS = "rows of points"
"""The axis along which rows lie; no axis of a grid has a space in its name."""
LONG = 2**17
"""Points times stages of a step from which an axis is folded."""
STEPS = 32
"""Levels times stages of a step from which folding the state and unfolding it are worth while."""
WIDTH, HIGH = 2**13, 128
"""Bytes of a row; shorter ones are taken, by half, where rows are fewer than so many."""
ALIGNED = 64
"""Bytes of which rows, and what stands beside them, are multiples."""
MAX_REACH = 64
"""Points; rules that read further are left alone."""


@dataclass(frozen=True)
class Folding:
    """A march as rows: its `call`; its axis; how many `rows` of how many points, and with how many `beside` them on
    either side; whether the last row comes before the first one."""

    call: MarchCall
    axis: str
    rows: int
    points: int
    beside: int
    round: bool

    def of(self, call: MarchCall) -> MarchCall:
        """The call as rows, of a call that differs in how many levels it asks for alone."""
        return replace(self.call, steps=call.steps, block=call.block, near=call.near, own=call.own)

    def arrays(self, arrays: Arrays, extents: Sequence[Extent]) -> Arrays:
        """Profiles along the axis as rows."""
        starts = {one.name: one.origin[-1] for one in extents if self.axis in one.axes}
        profiles = {
            name: self._fold(array, starts[name]) if name in starts else array
            for name, array in arrays.profiles.items()
        }
        more = len(self.call.structure.rules) - len(arrays.consts)
        return Arrays(profiles, arrays.wholes, [*arrays.consts, *((),) * more])

    def fold(self, array: jax.Array, one: Array) -> jax.Array:
        """A level of an array as rows."""
        if not self.round:
            return self._fold(array, one.origin[0])
        inner = array[one.lower[0] : one.lower[0] + one.shape[0]]
        around = jnp.concatenate([inner[-self.beside :], inner, inner[: self.beside]])
        return jnp.pad(self._fold(around, -self.beside), ((1, 1), (0, 0)))

    def unfold(self, array: jax.Array, one: Array) -> jax.Array:
        """A level of an array again, from its rows."""
        rows = array[1:-1] if self.round else array
        beside, after = self.beside, self.beside + self.points
        whole = jnp.concatenate([rows[0, :beside], rows[:, beside:after].ravel(), rows[-1, after:]])
        return whole[beside - one.lower[0] : beside + one.shape[0] + one.upper[0]]

    def _fold(self, array: jax.Array, first: int) -> jax.Array:
        """Entries along the last axis, the first of which is that of point `first`, as rows."""
        rows, points, both = self.rows, self.points, 2 * self.beside
        count, lead = rows * points, array.shape[:-1]
        before = self.beside + first
        after = count + points - before - array.shape[-1]
        whole = jnp.pad(array, (*((0, 0),) * len(lead), (before, after)))
        main = whole[..., :count].reshape(*lead, rows, points)
        next_ones = whole[..., points:].reshape(*lead, rows, points)[..., :both]
        return jnp.concatenate([main, next_ones], axis=-1)


def folding_of(call: MarchCall) -> Folding | None:
    """How a march is folded; None where it is not."""
    if len(call.axes) > 1 or not (call.near or call.steps * _stages(call) >= STEPS):
        return None
    return _folding_of(one_level(call))


@lru_cache(maxsize=256)
def _folding_of(call: MarchCall) -> Folding | None:
    structure, phase = call.structure, call.phase
    stages = [stage.piece for stage in phase.every_stage if isinstance(stage, Parallel)]
    plain = len(stages) == len(phase.every_stage) and all(piece.operation is None for piece in stages)
    size = max(one.shape[0] for one in structure.arrays)
    if not plain or size * _stages(call) < LONG or structure.recording is not None:
        return None
    repeating = [piece for piece in stages if _repeats(structure, piece)]
    kept = [piece for piece in stages if piece not in repeating]
    every = [*kept, *phase.rates, *phase.speeds]
    if repeating:
        found = [_all_round(structure, piece, size) for piece in every]
        if not all(found) or any(one.shape[0] != size for one in structure.arrays):
            return None
    reach = _reach(structure, every)
    points = _points(structure, size, reach, bool(repeating))
    if points is None or reach > MAX_REACH or not _are_space(structure, call.axes[0], every):
        return None
    return _Folder(call, points, reach, bool(repeating)).folding(kept)


def _stages(call: MarchCall) -> int:
    """Evaluations of the rates in a step."""
    stepper = call.structure.stepper
    return stepper.evaluations if call.phase.rates and stepper is not None else 1


def _repeats(structure: Structure, piece: Piece) -> bool:
    """Whether a piece copies what stands at the other end of a periodic axis."""
    rule, one = structure.rules[piece.rule], structure.array(piece.field)
    size = one.shape[0]
    outside = piece.box.stop[0] <= 0 or piece.box.start[0] >= size
    move = size if piece.box.start[0] < 0 else -size
    return outside and not rule.jaxpr.eqns and rule.operands == (StateRead(piece.field, 0, (move,)),)


def _all_round(structure: Structure, piece: Piece, size: int) -> bool:
    """Whether a piece does the same at all points of a periodic axis; hidden arrays may be held a little beside it."""
    box, one = piece.box, structure.array(piece.field)
    if box.start[0] == 0 and box.stop[0] == size:
        return True
    reads = [read for number in _numbers(piece) for read in structure.rules[number].operands]
    placed = piece.mask is not None or any(isinstance(read, ProfileRead) and read.axes for read in reads)
    held = not one.kept or min(one.lower[0], one.upper[0]) >= 0
    return one.hidden and held and not placed and box.shape[0] >= size


def _numbers(piece: Piece) -> list[int]:
    return [number for number in (piece.rule, piece.predicate) if number is not None]


def _reach(structure: Structure, pieces: Sequence[Piece]) -> int:
    """How far rules read, and arrays go beyond the axis."""
    found = [0]
    for one in structure.arrays:
        found += [one.lower[0], one.upper[0]]
    for number in {number for piece in pieces for number in _numbers(piece)}:
        for operand in structure.rules[number].operands:
            if isinstance(operand, StateRead | ProfileRead) and operand.offset:
                found.append(abs(operand.offset[-1]))
    return max(found)


def _points(structure: Structure, size: int, reach: int, whole: bool) -> int | None:
    """Points of a row, at least those beside it; `whole`: all rows have as many. None where there is no such number."""
    unit = _unit(structure)
    wanted = WIDTH // ALIGNED * unit
    while wanted > 4 * unit and size < HIGH * wanted:
        wanted //= 2
    least = 2 * _beside(structure, reach)
    if not whole:
        return max(wanted, least)
    near = [n for n in range(max(wanted // 2, least), 2 * wanted) if size % n == 0]
    return max(near, key=lambda n: (n % unit == 0, -abs(n - wanted)), default=None)


def _unit(structure: Structure) -> int:
    """Points of which rows are multiples, so that they are aligned."""
    return ALIGNED // max(np.dtype(one.dtype).itemsize for one in structure.arrays)


def _beside(structure: Structure, reach: int) -> int:
    """Points beside a row of which so many are read."""
    return round_up(max(reach, 1), _unit(structure))


def _are_space(structure: Structure, axis: str, pieces: Sequence[Piece]) -> bool:
    """Whether all profiles that pieces read lie along time and the axis."""
    known = {axis, structure.time_axis}
    reads = [read for piece in pieces for number in _numbers(piece) for read in structure.rules[number].operands]
    return all(set(read.axes) <= known for read in reads if isinstance(read, ProfileRead))


class _Folder:
    def __init__(self, call: MarchCall, points: int, reach: int, whole: bool):
        self.call, self.points, self.reach, self.round = call, points, reach, whole
        self.axis = call.axes[0]
        self.size = max(one.shape[0] for one in call.structure.arrays)
        self.rows = -(-self.size // points)
        self.beside = _beside(call.structure, reach)
        self.rules = [self._lifted(rule) for rule in call.structure.rules]
        self.copies: dict[tuple[str, tuple[int, int]], int] = {}

    def folding(self, kept: Sequence[Piece]) -> Folding:
        """The march as rows, of the pieces that are `kept`."""
        structure, old = self.call.structure, self.call.phase
        given = tuple((name, tuple(box for one in boxes for box in self._boxes(one))) for name, boxes in old.given)
        stages = [copy for name, boxes in given for box in boxes for copy in self._beside(name, box)]
        at_rates, views = {piece for stage in old.views for piece in pieces_of(stage)}, []
        for piece in kept:
            for one in self._pieces(piece):
                (views if piece in at_rates else stages).extend([one, *self._beside(one.field, one.box)])
        rates, speeds = (
            tuple(one for piece in group for one in self._pieces(piece)) for group in (old.rates, old.speeds)
        )
        phase = PhaseStructure(tuple(map(Parallel, stages)), rates, given, speeds, views=tuple(map(Parallel, views)))
        more = 1 if self.round else 0
        shape, around = (self.rows, self.points), (more, self.beside)
        made = replace(
            structure,
            arrays=tuple(replace(one, shape=shape, lower=around, upper=around) for one in structure.arrays),
            rules=tuple(self.rules),
            phases=(phase,),
            extents=tuple(map(self._extent, structure.extents)),
            shifts=tuple((name, (0, *shift)) for name, shift in structure.shifts),
        )
        call = replace(self.call, structure=made, phase=phase, axes=(ROWS, self.axis))
        return Folding(call, self.axis, self.rows, self.points, self.beside, self.round)

    def _lifted(self, rule: Traced) -> Traced:
        """A rule that reads along its row."""

        def lift(operand: Operand) -> Operand:
            if isinstance(operand, StateRead):
                return replace(operand, offset=(0, *operand.offset))
            if isinstance(operand, ProfileRead) and self.axis in operand.axes:
                *before, last = operand.offset
                return replace(operand, axes=(*operand.axes[:-1], ROWS, self.axis), offset=(*before, 0, last))
            return operand

        return replace(rule, operands=tuple(map(lift, rule.operands)))

    def _extent(self, one: Extent) -> Extent:
        if self.axis not in one.axes:
            return one
        return Extent(one.name, (*one.axes[:-1], ROWS, self.axis), (*one.origin[:-1], 0, -self.beside))

    def _boxes(self, box: Box) -> list[Box]:
        """The points of a box as boxes of rows; those beyond the ends stand in the first row and the last."""
        start, stop = box.start[0], box.stop[0]
        if self.round:
            start, stop = max(start, 0), min(stop, self.size)
        last = self.rows - 1
        found = []
        first, end = (min(max(at // self.points, 0), last) for at in (start, stop - 1))
        for low, high in ((first, first + 1), (first + 1, end), (max(end, first + 1), end + 1)):
            if low < high:
                whole = low * self.points, (low + 1) * self.points
                begin = start if low == first else whole[0]
                after = stop if high == end + 1 else whole[1]
                found.append(Box((low, begin - whole[0]), (high, after - whole[0])))
        return merge_boxes(found)

    def _pieces(self, piece: Piece) -> Iterator[Piece]:
        return (replace(piece, box=box) for box in self._boxes(piece.box))

    def _beside(self, name: str, box: Box) -> Iterator[Piece]:
        """The copies of a box's points that stand beside the rows after and before its own."""
        if self.round:
            yield from self._ghost_rows(name)
        (low, begin), (high, end) = box.start, box.stop
        ends = Box((low, max(begin, self.points - self.reach)), (high, min(end, self.points)))
        starts = Box((low, max(begin, 0)), (high, min(end, self.reach)))
        for part, move in ((ends, (1, -self.points)), (starts, (-1, self.points))):
            found = part.shift(move)
            rows = (0, self.rows) if self.round else (max(found.start[0], 0), min(found.stop[0], self.rows))
            found = found.with_range(0, *rows)
            if not found.empty:
                yield self._copy(name, found, (-move[0], -move[1]))

    def _ghost_rows(self, name: str) -> Iterator[Piece]:
        """The last row before the first, and the first after the last."""
        for row, move in ((-1, self.rows), (self.rows, -self.rows)):
            yield self._copy(name, Box((row, 0), (row + 1, self.points)), (move, 0))

    def _copy(self, name: str, box: Box, move: tuple[int, int]) -> Piece:
        if (name, move) not in self.copies:
            self.copies[name, move] = len(self.rules)
            self.rules.append(same_value(StateRead(name, 0, move), self.call.structure.array(name).dtype))
        number = self.copies[name, move]
        return Piece(name, box, number, None, None, "ghost", False, f"beside rows of {name}")

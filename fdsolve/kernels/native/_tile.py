"""The tile function: a wavefront of operations through the rows and levels of one tile."""

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ...planning import Extent
from ._code import VOID, Code, Number
from ._layout import LEVELS, LINE, PARTS, POINTERS, SPLIT, START, Layout, Slots
from ._program import Operation
from ._rows import ProfileRow, Row, RowRead, Source
from ._scalar import I64
from ._schedule import Reach

NEAR = 16
"""Rows from the ends of the first axis that count as at a wall."""


@dataclass(frozen=True)
class _Span:
    """A tile's part of an axis: its own entries, and where its windows start; ends include the ghosts beside them."""

    start: Number
    stop: Number
    low: Number
    high: Number


class TileWriter:
    """Writes tile(control, number, scratch)."""

    def __init__(
        self, module: ir.Module, layout: Layout, slots: Slots, rows: list[Row], extents: dict[str, Extent],
        axes: tuple[str, ...], time_axis: str | None,
    ):  # fmt: skip
        self.layout, self.slots, self.rows, self.extents = layout, slots, rows, extents
        self.axes, self.time_axis = axes, time_axis
        self.program, self.schedule = layout.program, layout.schedule
        self.kept = {one.name: kept for one, kept in self.program.state}
        self.most_kept = max(self.kept.values())
        self.code = Code(module, "tile", VOID, [I64, I64, I64])

    def write(self) -> ir.Function:
        """The function."""
        code = self.code
        control, number, scratch = code.arguments
        self.control = control
        self.levels, self.first = code.load(control, LEVELS), code.load(control, START)
        parts, split = code.load(control, PARTS), code.load(control, SPLIT)
        self.along_rows = self._span(0, code.div(number, split), parts, self.schedule.rows)
        column = code.sub(number, code.mul(code.div(number, split), split))
        self.along_columns = self._span(1, column, split, self.schedule.columns)
        self._fill_tables(scratch)
        self._wavefront()
        code.builder.ret_void()
        return code.function

    def _span(self, axis: int, part: Number, parts: Number, reach: Reach) -> _Span:
        code, layout = self.code, self.layout
        size, low, high = layout.size(axis), layout.low(axis), layout.high(axis)
        start = code.div(code.mul(part, size), parts)
        stop = code.div(code.mul(code.add(part, 1), size), parts)
        margin = code.add(code.mul(self.levels, reach.growth), max((*reach.below, *reach.above), default=0))
        if axis == 0 and self.program.wraps:
            return _Span(start, stop, code.sub(start, margin), code.add(stop, margin))
        first, last = code.equal(part, 0), code.equal(code.add(part, 1), parts)
        start, stop = code.choose(first, low, start), code.choose(last, high, stop)
        below, above = code.most(low, code.sub(start, margin)), code.least(high, code.add(stop, margin))
        return _Span(start, stop, below, above)

    # Tables: for each array an entry a level, of base address, mask of rows, and pitches.

    def _fill_tables(self, scratch: Number) -> None:
        code, layout = self.code, self.layout
        self.entry = 8 * (2 + layout.rank - 1)
        self.tables: dict[str, Number] = {}
        count = code.add(self.levels, self.most_kept)
        inner = layout.inner_pitches()
        width = code.sub(self.along_columns.high, self.along_columns.low)
        pitch = (
            code.add(code.mul(width, inner[0]), LINE)
            if inner
            else code.add(code.round_up(code.add(code.mul(width, layout.item), LINE), LINE), LINE)
        )
        at = code.round_up(scratch, LINE)
        for one in self.program.arrays:
            table = code.table(code.mul(count, self.entry // 8))
            self.tables[one.name] = table
            for behind in range(self.kept.get(one.name, 0)):
                base = self._pointer(self.slots.state_slot(one.name, behind))
                self._put(table, -behind, base, -1, layout.pitches(one.name), layout.start(one.name))
            rows = self.schedule.rings[one.name]
            with code.loop(1, code.add(self.levels, 1)) as level:
                offset = code.mul(code.mul(code.sub(level, 1), rows), pitch)
                base = self._aligned(code.add(at, offset))
                self._put(table, level, base, rows - 1, (pitch, *inner), 0)
            ring_levels = self.levels
            if layout.is_direct(one.name):
                slot = len(self.slots.state) + self.slots.state_slot(one.name, 0)
                self._put(table, self.levels, self._pointer(slot), -1, layout.pitches(one.name), layout.start(one.name))
                ring_levels = code.sub(self.levels, 1)
            at = code.add(at, code.mul(code.mul(ring_levels, rows), pitch))

    def _aligned(self, base: Number) -> Number:
        """The address of index 0 of a ring, such that where most operations start is aligned."""
        code, layout = self.code, self.layout
        inner = layout.inner_pitches()
        if not inner:
            lead = code.mul(code.sub(layout.alignment(), self.along_columns.low), layout.item)
            shift = code.sub(code.round_up(lead, LINE), lead)
            return code.sub(code.add(base, shift), code.mul(self.along_columns.low, layout.item))
        low = layout.low(layout.rank - 1)
        lead = layout.item * (layout.alignment() - low)
        at = code.add(base, -lead % LINE - layout.item * low)
        at = code.sub(at, code.mul(self.along_columns.low, inner[0]))
        for axis, pitch in zip(range(2, layout.rank - 1), inner[1:], strict=True):
            at = code.add(at, -layout.low(axis) * pitch)
        return at

    def _put(
        self, table: Number, level: Number, base: Number, mask: int, pitches: tuple[Number, ...], start: int
    ) -> None:
        code = self.code
        entry = self._entry(table, level)
        code.store(code.add(base, start), entry)
        code.store(mask, entry, 8)
        for k, pitch in enumerate(pitches):
            code.store(pitch, entry, 16 + 8 * k)

    def _entry(self, table: Number, level: Number) -> Number:
        return self.code.add(table, self.code.mul(self.code.add(level, self.most_kept - 1), self.entry))

    def _pointer(self, slot: int) -> Number:
        return self.code.load(self.control, POINTERS + 8 * slot)

    # The wavefront.

    def _wavefront(self) -> None:
        code, schedule = self.code, self.schedule
        first = code.sub(self.along_rows.low, schedule.skew * (self.most_kept - 1))
        last = code.add(self.along_rows.high, code.add(code.mul(self.levels, schedule.skew), max(schedule.delays)))
        lowest = code.least(1, code.sub(code.add(self.levels, 1), self.most_kept))
        with code.loop(first, last) as turn, code.loop(lowest, code.add(self.levels, 1)) as level:
            base = code.sub(turn, code.mul(code.sub(level, 1), schedule.skew))
            with code.when(code.below(0, level)):
                for numbers, near in self._runs():
                    if near is None:
                        self._operation(numbers[0], base, level)
                        continue
                    below, above = near
                    with code.when(code.builder.or_(code.below(base, below), code.below(above - 1, base))):
                        for number in numbers:
                            self._operation(number, base, level)
            for one, kept in self.program.state:
                for behind in range(kept):
                    if behind or not self.layout.is_direct(one.name):
                        self._copy(one.name, behind, base, level)

    def _runs(self) -> list[tuple[list[int], tuple[int, int] | None]]:
        """The operations in order; those in a row that fill a few rows at the walls alone share one question.

        With each run the turns, counted from a level's start, before and from which any of them has rows.
        """
        size, runs = self.layout.size(0), []
        for number, operation in enumerate(self.program.operations):
            start, stop = operation.box.start[0], operation.box.stop[0]
            delay = self.schedule.delays[number]
            low, high = stop <= NEAR, start >= size - NEAR
            if self.program.wraps or size < 4 * NEAR or not (low or high):
                runs.append(([number], None))
                continue
            below, above = (stop + delay, 2**62) if low else (-(2**62), start + delay)
            if runs and runs[-1][1] is not None:
                numbers, near = runs[-1]
                runs[-1] = ([*numbers, number], (max(near[0], below), min(near[1], above)))
            else:
                runs.append(([number], (below, above)))
        return runs

    def _operation(self, number: int, base: Number, level: Number) -> None:
        code, operation = self.code, self.program.operations[number]
        row = code.sub(base, self.schedule.delays[number])
        left = code.sub(self.levels, level)
        low, high = self._limits(self.along_rows, self.schedule.rows, number, left)
        box = operation.box
        wrapped = row
        if self.program.wraps:
            wrapped = self._wrap(row)
            inside = code.builder.and_(code.below(code.sub(low, 1), row), code.below(row, high))
            if box.start[0] > 0:
                inside = code.builder.and_(inside, code.below(box.start[0] - 1, wrapped))
            if box.stop[0] < self.layout.size(0):
                inside = code.builder.and_(inside, code.below(wrapped, box.stop[0]))
        else:
            low, high = code.most(low, box.start[0]), code.least(high, box.stop[0])
            inside = code.builder.and_(code.below(code.sub(low, 1), row), code.below(row, high))
        with code.when(inside):
            start, stop = self._limits(self.along_columns, self.schedule.columns, number, left)
            start, stop = code.most(start, box.start[1]), code.least(stop, box.stop[1])
            with code.when(code.below(start, stop)):
                self._row(number, row, wrapped, level, (start, stop))

    def _limits(self, span: _Span, reach: Reach, number: int, left: Number) -> tuple[Number, Number]:
        code = self.code
        more = code.mul(left, reach.growth)
        low = code.sub(code.sub(span.start, reach.below[number]), more)
        return low, code.add(code.add(span.stop, reach.above[number]), more)

    def _wrap(self, row: Number) -> Number:
        code, size = self.code, self.layout.size(0)
        row = code.choose(code.below(row, 0), code.add(row, size), row)
        return code.choose(code.below(row, size), row, code.sub(row, size))

    def _row(self, number: int, row: Number, wrapped: Number, level: Number, second: tuple[Number, Number]) -> None:
        """Calls the row function for all rows of the operation in this row of the first axis."""
        code, operation, made = self.code, self.program.operations[number], self.rows[number]
        rank = self.layout.rank
        bases = [self._source_base(source, operation, row, wrapped, level) for source in made.sources]
        target = self._row_base(RowRead(operation.array, 0, (0,) * (rank - 1)), row, level)
        middle: list[Number] = []

        def call(first: Number, count: Number) -> None:
            addresses = [self._place(target, middle, first, self.layout.item)]
            addresses += [self._place(base, middle, first, size) for base, size in bases]
            code.builder.call(made.function, [code.pointer(a) for a in addresses] + [code.value(count)])

        def descend(axis: int) -> None:
            box = operation.box
            if axis == rank - 1:
                start, stop = second if axis == 1 else (box.start[axis], box.stop[axis])
                call(start, code.sub(stop, start))
                return
            start, stop = second if axis == 1 else (box.start[axis], box.stop[axis])
            with code.loop(start, stop) as index:
                middle.append(index)
                descend(axis + 1)
                middle.pop()

        descend(1)

    def _place(self, base: Any, middle: list[Number], first: Number, size: int) -> Number:
        """The address of the first entry of a row: the base, the pitches of middle axes, the last axis."""
        code = self.code
        address, pitches = base
        for index, pitch in zip(middle, pitches, strict=True):
            address = code.add(address, code.mul(index, pitch))
        return code.add(address, code.mul(first, size))

    def _source_base(
        self, source: Source, operation: Operation, row: Number, wrapped: Number, level: Number
    ) -> tuple[Any, int]:
        if isinstance(source, RowRead):
            return self._row_base(source, row, level), self.layout.item
        if isinstance(source, ProfileRow):
            return self._profile_base(source, wrapped, level)
        pointer = self._pointer(2 * len(self.slots.state) + self.slots.shared_slot(source.name))
        if source.name == "times":
            number = self.code.sub(self._number(level), source.behind)
            pointer = self.code.add(pointer, self.code.mul(number, self.slots.itemsize("times")))
        return (pointer, (0,) * (self.layout.rank - 2)), 0

    def _number(self, level: Number) -> Number:
        """The number of a level of this pass in the march."""
        return self.code.add(self.first, self.code.mul(self.code.sub(level, 1), self.program.direction))

    def _row_base(self, read: RowRead, row: Number, level: Number) -> tuple[Number, tuple[Number, ...]]:
        """The address of index 0 in a row of an array, moved as the read is, and the pitches of its middle axes."""
        code = self.code
        at = code.sub(level, read.lag)
        entry = self._entry(self.tables[read.array], at)
        row = code.add(row, read.moved[0])
        if self.program.wraps:
            stored = code.below(code.load(entry, 8), 0)
            row = code.choose(stored, self._wrap(row), row)
        row = code.builder.and_(code.value(row), code.load(entry, 8))
        address = code.add(code.load(entry), code.mul(row, code.load(entry, 16)))
        pitches = tuple(code.load(entry, 24 + 8 * k) for k in range(self.layout.rank - 2))
        for moved, pitch in zip(read.moved[1:], pitches, strict=True):
            address = code.add(address, code.mul(pitch, moved))
        return address, pitches

    def _profile_base(self, source: ProfileRow, row: Number, level: Number) -> tuple[Any, int]:
        """The address of a profile's entry for this row of the first axis, and its pitches along middle axes."""
        code, slots = self.code, self.slots
        shape, size = slots.shape(source.name), slots.itemsize(source.name)
        origin = self.extents[source.name].origin
        pitches, pitch = [], size
        for length in reversed(shape):
            pitches.insert(0, pitch)
            pitch *= length
        address = self._pointer(2 * len(slots.state) + slots.shared_slot(source.name))
        moves = (*source.moved, 0) if source.along else source.moved
        by_axis = dict.fromkeys(self.axes[1:-1], 0)
        for axis, move, start, step in zip(source.axes, moves, origin, pitches, strict=True):
            index: Number = move - start
            if axis == self.time_axis:
                index = code.add(index, self._number(level))
            elif axis == self.axes[0]:
                index = code.add(row, index)
            elif axis in by_axis:
                by_axis[axis] = step
            address = code.add(address, code.mul(index, step))
        return (address, tuple(by_axis.values())), size if source.along else 0

    def _copy(self, name: str, behind: int, base: Number, level: Number) -> None:
        """Copies a tile's part of a kept level from its ring to where it ends up."""
        code, layout = self.code, self.layout
        one, rank = self.program.array(name), layout.rank
        delay = max((self.schedule.delays[i] for i, op in enumerate(self.program.operations) if op.array == name),
                    default=0)  # fmt: skip
        row = code.sub(base, delay)
        here = code.equal(level, code.sub(self.levels, behind))
        low = code.most(self.along_rows.start, -one.lower[0])
        high = code.least(self.along_rows.stop, one.shape[0] + one.upper[0])
        inside = code.builder.and_(code.below(code.sub(low, 1), row), code.below(row, high))
        with code.when(code.builder.and_(here, inside)):
            start = code.most(self.along_columns.start, -one.lower[1])
            stop = code.least(self.along_columns.stop, one.shape[1] + one.upper[1])
            source = self._row_base(RowRead(name, 0, (0,) * (rank - 1)), row, level)
            slot = len(self.slots.state) + self.slots.state_slot(name, behind)
            pitches = layout.pitches(name)
            target = code.add(code.add(self._pointer(slot), layout.start(name)), code.mul(row, pitches[0]))
            middle: list[Number] = []

            def descend(axis: int) -> None:
                first, after = (start, stop) if axis == 1 else (-one.lower[axis], one.shape[axis] + one.upper[axis])
                if axis == rank - 1:
                    to = self._place((target, pitches[1:]), middle, first, layout.item)
                    of = self._place(source, middle, first, layout.item)
                    size = code.mul(code.sub(after, first), layout.item)
                    code.call("memcpy", I64, code.value(to), code.value(of), code.value(size))
                    return
                with code.loop(first, after) as index:
                    middle.append(index)
                    descend(axis + 1)
                    middle.pop()

            with code.when(code.below(start, stop)):
                descend(1)

"""The tile function: a wavefront of operations through the rows and levels of one tile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from ...planning import Extent
from ._bundles import Bundle, make_runs
from ._code import VOID, Code, Number
from ._layout import BASE, HALOS, LEVELS, LINE, PARTS, POINTERS, START, STORED, WIDTH, Layout, Slots
from ._operands import LEVELS as LEVEL_AXIS
from ._rows import ProfileRow, Row, RowRead, Source
from ._scalar import I64


@dataclass(frozen=True)
class _Span:
    """A tile's own rows, those beside the ends included, and all that it computes."""

    start: Number
    stop: Number
    low: Number
    high: Number


class TileWriter:
    """Writes tile(control, number, scratch)."""

    def __init__(
        self, module: ir.Module, layout: Layout, slots: Slots, rows: Mapping[Bundle, Row], extents: dict[str, Extent],
        axes: tuple[str, ...], time_axis: str | None,
    ):  # fmt: skip
        self.layout, self.slots, self.rows, self.extents = layout, slots, rows, extents
        self.axes, self.time_axis = axes, time_axis
        self.program, self.schedule = layout.program, layout.schedule
        self.kept = {one.name: kept for one, kept in self.program.state}
        self.blocks = self.schedule.blocks
        self.most_kept = max(*self.kept.values(), *(self.blocks.depths.values() if self.blocks is not None else (0,)))
        self.block: Number = 0
        # Levels that are written down are computed where they stay, unless rows are counted round. Two tiles may
        # compute a row beside their ends at once: both must write the same there, and nothing but that.
        in_place = () if self.program.wraps else slots.stored
        self.written = tuple(name for name in in_place if self.program.written_once(name))
        self.code = Code(module, "tile", VOID, [I64, I64, I64])

    def write(self) -> ir.Function:
        """The function."""
        code = self.code
        self.control, number, scratch = code.arguments
        self.levels, self.first = (
            code.load(self.control, LEVELS),
            code.load(self.control, START),
        )
        self.base = code.load(self.control, BASE)
        self.rows_here = self._span(number)
        self._fill_tables(number, scratch)
        self._wavefront()
        code.builder.ret_void()
        return code.function

    def _span(self, part: Number) -> _Span:
        code, layout, reach = self.code, self.layout, self.schedule.rows
        size, low, high = layout.size(0), layout.low(0), layout.high(0)
        parts = code.load(self.control, PARTS)
        start = code.div(code.mul(part, size), parts)
        stop = code.div(code.mul(code.add(part, 1), size), parts)
        margin = code.add(
            code.mul(self.levels, reach.growth),
            max((*reach.below, *reach.above), default=0),
        )
        if self.program.wraps:
            return _Span(start, stop, code.sub(start, margin), code.add(stop, margin))
        first, last = code.equal(part, 0), code.equal(code.add(part, 1), parts)
        start, stop = code.choose(first, low, start), code.choose(last, high, stop)
        below, above = (
            code.most(low, code.sub(start, margin)),
            code.least(high, code.add(stop, margin)),
        )
        return _Span(start, stop, below, above)

    # Tables: for each array an entry a level. Addresses of row 0 for rows of the tile, before and after it; the mask of
    # rows; and pitches.

    def _fill_tables(self, number: Number, scratch: Number) -> None:
        code, layout = self.code, self.layout
        self.entry = 8 * (4 + layout.rank - 1)
        self.tables: dict[str, Number] = {}
        count = code.add(self.levels, self.most_kept)
        inner, pitch = layout.inner_pitches(), layout.ring_pitch()
        halo = code.add(code.mul(self.levels, self.schedule.rows.growth), layout.halo(0))
        beside = code.add(
            code.load(self.control, HALOS),
            code.mul(code.mul(number, 2), code.mul(halo, layout.halo_rows())),
        )
        before_low, before_high = (
            code.sub(self.rows_here.start, halo),
            self.rows_here.stop,
        )
        enough = code.below(self.schedule.fewest - 1, self.levels)
        at = code.round_up(scratch, LINE)
        for one in self.program.arrays:
            table = code.table(code.mul(count, self.entry // 8))
            self.tables[one.name] = table
            pitches, start = layout.pitches(one.name), layout.start(one.name)
            inside = start - one.lower[0] * pitches[0]  # of a row, to index 0
            for behind in range(self.kept.get(one.name, 0)):
                base = code.add(self._pointer(self.slots.state_slot(one.name, behind)), start)
                ends = []
                for first in (before_low, before_high):
                    ends.append(code.add(code.sub(beside, code.mul(first, pitches[0])), inside))
                    beside = code.add(beside, code.mul(halo, pitches[0]))
                self._put(table, -behind, (base, *ends), -1, pitches)
            if self.blocks is not None:
                at = self._in_place(one.name, self.blocks.depths[one.name], at, halo)
                continue
            rows = self.schedule.rings[one.name]
            with code.loop(1, code.add(self.levels, 1)) as level:
                base = self._aligned(code.add(at, code.mul(code.sub(level, 1), rows * pitch)))
                self._put(table, level, (base, base, base), rows - 1, (pitch, *inner))
                if one.name in self.written:
                    with code.when(self._is_stored(level)):
                        base = code.add(self._stored(one.name, level), start)
                        self._put(table, level, (base, base, base), -1, pitches)
            if one.name in self.schedule.direct:
                with code.when(enough):
                    base = code.add(self._pointer(self.slots.state_slot(one.name, 0)), start)
                    self._put(table, self.levels, (base, base, base), -1, pitches)
            at = code.add(at, code.mul(self.levels, rows * pitch))

    def _in_place(self, name: str, depth: int, at: Number, halo: Number) -> Number:
        """The entries of levels that stand where those `depth` before stood; the first address beside them."""
        code, layout, table, pitch = self.code, self.layout, self.tables[name], self.layout.ring_pitch()
        for behind in range(self.kept.get(name, 0), depth):
            first = code.sub(self.rows_here.start, halo)
            base = self._aligned(code.sub(at, code.mul(first, pitch)))
            self._put(table, -behind, (base, base, base), -1, (pitch, *layout.inner_pitches()))
            at = code.add(at, code.mul(code.add(code.sub(self.rows_here.stop, first), halo), pitch))
        with code.loop(1, code.add(self.levels, 1)) as level:
            old, new = self._entry(table, code.sub(level, depth)), self._entry(table, level)
            for k in range(0, self.entry, 8):
                code.store(code.load(old, k), new, k)
        return at

    def _aligned(self, base: Number) -> Number:
        """The address of index 0 of a ring, such that where most operations start is aligned."""
        layout = self.layout
        low = layout.low(layout.rank - 1)
        at = self.code.add(base, -layout.item * (layout.alignment() - low) % LINE - layout.item * low)
        for axis, pitch in enumerate(layout.inner_pitches(), start=1):
            at = self.code.add(at, -layout.low(axis) * pitch)
        return at

    def _put(
        self,
        table: Number,
        level: Number,
        bases: tuple[Number, ...],
        mask: int,
        pitches: tuple[Number, ...],
    ) -> None:
        entry = self._entry(table, level)
        for k, value in enumerate((*bases, mask, *pitches)):
            self.code.store(value, entry, 8 * k)

    def _entry(self, table: Number, level: Number) -> Number:
        return self.code.add(table, self.code.mul(self.code.add(level, self.most_kept - 1), self.entry))

    def _pointer(self, slot: int) -> Number:
        return self.code.load(self.control, POINTERS + 8 * slot)

    # The wavefront.

    def _wavefront(self) -> None:
        code, schedule = self.code, self.schedule
        first = code.sub(self.rows_here.low, schedule.skew * (self.most_kept - 1))
        most = max(schedule.delays) + schedule.late
        last = code.add(self.rows_here.high, code.add(code.mul(self.levels, schedule.skew), most))
        with (
            code.loop(0, self._num_blocks()) as self.block,
            code.loop(first, last) as turn,
            code.loop(1, code.add(self.levels, 1)) as level,
        ):
            base = code.sub(turn, code.mul(code.sub(level, 1), schedule.skew))
            for bundles, near in make_runs(self.rows, self.program, schedule):
                if near is None:
                    self._bundle(bundles[0], base, level)
                    continue
                below, above = near
                with code.when(code.builder.or_(code.below(base, below), code.below(above - 1, base))):
                    for bundle in bundles:
                        self._bundle(bundle, base, level)
            for one, kept in self.program.state if self.blocks is None else ():
                for behind in range(kept):
                    self._copy(one.name, behind, base, level)
            for name in self.slots.stored:
                if name not in self.written or name in schedule.direct:
                    self._store(name, base, level)

    def _num_blocks(self) -> Number:
        """How many blocks a tile has along the second axis."""
        code, blocks = self.code, self.blocks
        if blocks is None:
            return 1
        more = code.add(code.mul(self.levels, blocks.skew), max(blocks.delays))
        rows, width = code.add(more, self.layout.high(1) - self.layout.low(1)), code.load(self.control, WIDTH)
        return code.add(code.div(rows, width), 1)

    def _in_block(self, number: int, level: Number, span: tuple[int, int]) -> tuple[Number, Number]:
        """The part of an operation's span along the second axis that lies in the block at hand."""
        code, blocks = self.code, self.blocks
        if blocks is None:
            return span
        width = code.load(self.control, WIDTH)
        late = code.add(code.mul(code.sub(level, 1), blocks.skew), blocks.delays[number] - self.layout.low(1))
        low = code.sub(code.mul(self.block, width), late)
        return code.most(low, span[0]), code.least(code.add(low, width), span[1])

    def _bundle(self, bundle: Bundle, base: Number, level: Number) -> None:
        code, number, reach = self.code, bundle[0], self.schedule.rows  # all of a bundle agree in these
        box = self.program.operations[number].box
        row = code.sub(base, self.schedule.delays[number])
        more = code.mul(code.sub(self.levels, level), reach.growth)
        low = code.sub(code.sub(self.rows_here.start, reach.below[number]), more)
        high = code.add(code.add(self.rows_here.stop, reach.above[number]), more)
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
            self._row(bundle, row, wrapped, level)

    def _wrap(self, row: Number) -> Number:
        code, size = self.code, self.layout.size(0)
        row = code.choose(code.below(row, 0), code.add(row, size), row)
        return code.choose(code.below(row, size), row, code.sub(row, size))

    def _row(self, bundle: Bundle, row: Number, wrapped: Number, level: Number) -> None:
        """Calls the row function for all rows of the bundle in this row of the first axis."""
        code, made = self.code, self.rows[bundle]
        here = (0,) * (self.layout.rank - 1)
        bases = [(self._row_base(RowRead(name, 0, here), row, level), self.layout.item) for name in made.targets]
        bases += [self._source_base(source, row, wrapped, level) for source in made.sources]
        ends = [code.value(end) for span in made.spans for end in span]
        middle: list[Number] = []

        def call(first: int, _: int) -> None:
            addresses = [code.pointer(self._place(base, middle, first, size)) for base, size in bases]
            code.builder.call(made.function, [*addresses, *ends])

        box = self.program.operations[bundle[0]].box
        axes: list[tuple[Number, Number]] = list(zip(box.start[:-1], box.stop[:-1], strict=True))
        if len(axes) > 1:
            axes[1] = self._in_block(bundle[0], level, (box.start[1], box.stop[1]))
        self._each_row(middle, [*axes, (0, 0)], call)

    def _each_row(
        self, middle: list[Number], spans: list[tuple[Number, Number]], body: Callable[[Any, Any], None]
    ) -> None:
        """Calls `body` with the ends of the last axis for all indices of the axes between the first and it."""
        axis = 1 + len(middle)
        if axis == self.layout.rank - 1:
            body(*spans[axis])
            return
        with self.code.loop(*spans[axis]) as index:
            middle.append(index)
            self._each_row(middle, spans, body)
            middle.pop()

    def _place(self, base: Any, middle: list[Number], first: Number, size: int) -> Number:
        """The address of the first entry of a row: the base, the pitches of middle axes, the last axis."""
        code = self.code
        address, pitches = base
        for index, pitch in zip(middle, pitches, strict=True):
            address = code.add(address, code.mul(index, pitch))
        return code.add(address, code.mul(first, size))

    def _source_base(
        self,
        source: Source,
        row: Number,
        wrapped: Number,
        level: Number,
    ) -> tuple[Any, int]:
        if isinstance(source, RowRead):
            return self._row_base(source, row, level), self.layout.item
        if isinstance(source, ProfileRow):
            return self._profile_base(source, wrapped, level)
        pointer = self._pointer(len(self.slots.state) + self.slots.shared_slot(source.name))
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
        base = code.choose(code.below(row, self.rows_here.stop), code.load(entry), code.load(entry, 16))
        base = code.choose(code.below(row, self.rows_here.start), code.load(entry, 8), base)
        place = code.builder.and_(code.value(row), code.load(entry, 24))
        address = code.add(base, code.mul(place, code.load(entry, 32)))
        pitches = tuple(code.load(entry, 40 + 8 * k) for k in range(self.layout.rank - 2))
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
        address = self._pointer(len(slots.state) + slots.shared_slot(source.name))
        moves = (*source.moved, 0) if source.along else source.moved
        by_axis = dict.fromkeys(self.axes[1:-1], 0)
        for axis, move, start, step in zip(source.axes, moves, origin, pitches, strict=True):
            index: Number = move - start
            if axis == self.time_axis:
                index = code.add(index, self._number(level))
            elif axis == LEVEL_AXIS:
                index = code.add(index, code.sub(self._number(level), self.base))
            elif axis == self.axes[0]:
                index = code.add(self._wrap(code.add(row, source.turn)) if source.turn else row, index)
            elif axis in by_axis:
                by_axis[axis] = step
            address = code.add(address, code.mul(index, step))
        return (address, tuple(by_axis.values())), size if source.along else 0

    def _copy(self, name: str, behind: int, base: Number, level: Number) -> None:
        """Copies a tile's part of a kept level from its ring to where the state stands."""
        code, schedule = self.code, self.schedule
        row = code.sub(base, self._last_delay(name) + (0 if behind else schedule.late))
        here = code.equal(level, code.sub(self.levels, behind))
        if not behind and name in schedule.direct:
            here = code.builder.and_(here, code.below(self.levels, schedule.fewest))
        with code.when(code.builder.and_(here, self._is_own(name, row))):
            self._copy_row(name, row, level, self._pointer(self.slots.state_slot(name, behind)))

    def _store(self, name: str, base: Number, level: Number) -> None:
        """Copies a tile's part of a level among all levels of an array, where it is not computed there."""
        code, row = self.code, self.code.sub(base, self._last_delay(name))
        here = self._is_stored(level)
        if name in self.written:
            last = code.builder.and_(code.equal(level, self.levels), code.below(self.schedule.fewest - 1, self.levels))
            here = code.builder.and_(here, last)
        with code.when(code.builder.and_(here, self._is_own(name, row))):
            self._copy_row(name, row, level, self._stored(name, level))

    def _is_stored(self, level: Number) -> Any:
        """Whether a level of this pass is written down."""
        return self.code.below(self.code.sub(self._number(level), self.base), self.code.load(self.control, STORED))

    def _stored(self, name: str, level: Number) -> Number:
        """Where a level of this pass stands among all levels of an array."""
        code = self.code
        size = self.layout.item * prod(self.program.array(name).padded_shape)
        place = code.mul(code.add(code.sub(self._number(level), self.base), self.kept[name]), size)
        return code.add(self._pointer(self.slots.stored_slot(name)), place)

    def _last_delay(self, name: str) -> int:
        """How late the last operation on a row of an array is."""
        operations = zip(self.schedule.delays, self.program.operations, strict=True)
        return max((delay for delay, op in operations if op.array == name), default=0)

    def _is_own(self, name: str, row: Number) -> Any:
        """Whether a row of an array is the tile's own."""
        code, one = self.code, self.program.array(name)
        low = code.most(self.rows_here.start, -one.lower[0])
        high = code.least(self.rows_here.stop, one.shape[0] + one.upper[0])
        return code.builder.and_(code.below(code.sub(low, 1), row), code.below(row, high))

    def _copy_row(self, name: str, row: Number, level: Number, array: Number) -> None:
        """Copies a row of a level to an array of the same shape as the state's."""
        code, one = self.code, self.program.array(name)
        source = self._row_base(RowRead(name, 0, (0,) * (self.layout.rank - 1)), row, level)
        pitches = self.layout.pitches(name)
        target = code.add(code.add(array, self.layout.start(name)), code.mul(row, pitches[0]))
        middle: list[Number] = []

        def copy(first: int, after: int) -> None:
            to = self._place((target, pitches[1:]), middle, first, self.layout.item)
            of = self._place(source, middle, first, self.layout.item)
            size = code.value(self.layout.item * (after - first))
            code.call("memcpy", I64, code.value(to), code.value(of), size)

        self._each_row(middle, [(-a, n + b) for a, n, b in zip(one.lower, one.shape, one.upper, strict=True)], copy)

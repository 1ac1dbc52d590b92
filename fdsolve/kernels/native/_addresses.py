"""Where a tile finds everything: tables of rows for each array and level, profiles, levels that are written down."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ...planning import Extent
from ._bundles import Bundle
from ._code import VOID, Code, Number
from ._layout import (
    APART,
    BASE,
    BLOCK,
    FALL,
    HALOS,
    LEVELS,
    LINE,
    PARTS,
    POINTERS,
    ROWS,
    START,
    STORED,
    WIDE,
    Layout,
    Slots,
)
from ._operands import LEVELS as LEVEL_AXIS
from ._rows import Row
from ._scalar import I64
from ._sources import ProfileRow, RowRead, Source

_BIAS, _ALL = 2**20, 2**31 - 1
"""Added to the number of a row before it is counted round; as many rows as are never counted round."""


@dataclass(frozen=True)
class _Span:
    """A tile's own rows, those beside the ends included, and all that it computes."""

    start: Number
    stop: Number
    low: Number
    high: Number


class Addresses:
    """The addresses that tile(control, number, scratch) computes with; of a tile beside which others go on, which does
    some turns at a time, tile(control, number, scratch, first, last); and if threads go through it `abreast`, the part
    of the second axis and the roll follow."""

    def __init__(
        self, module: ir.Module, layout: Layout, slots: Slots, rows: Mapping[Bundle, Row], extents: dict[str, Extent],
        axes: tuple[str, ...], time_axis: str | None, name: str = "tile", meeting: ir.Function | None = None,
    ):  # fmt: skip
        self.layout, self.slots, self.rows, self.extents = layout, slots, rows, extents
        self.axes, self.time_axis, self.meeting = axes, time_axis, meeting
        self.program, self.schedule = layout.program, layout.schedule
        self.kept = dict(zip((one.name for one in self.program.arrays), self.program.kept, strict=True))
        self.blocks = self.schedule.blocks
        self.most_kept = max(*self.kept.values(), *(self.blocks.depths.values() if self.blocks is not None else (0,)))
        self.block: Number = 0
        self.turns: Any = ()
        self.crew: Any = ()
        # Levels that are written down are computed where they stay, unless rows are counted round. Two tiles may
        # compute a row beside their ends at once: both must write the same there, and nothing but that.
        in_place = () if self.program.wraps else slots.stored
        self.written = tuple(name for name in in_place if self.program.written_once(name))
        whole = self.schedule.depths is not None
        # Where nothing is written over, nothing is kept beside tiles.
        self._apart = slots.leaves or whole or (slots.alone and not self.program.wraps)
        self._anywhere = slots.leaves or whole  # tables are of all rows that there are, not of a tile's
        self.code = Code(module, name, VOID, [I64] * (3 + 2 * bool(slots.private) + 3 * (meeting is not None)))

    def _begin(self) -> None:
        """Reads the control block, and fills the tables."""
        code = self.code
        self.control, number, self.scratch, *more = code.arguments
        self.turns, self.crew = more[:2], more[2:]
        self._read_pass()
        self.rows_here = self._span(number)
        self._fill_tables(number, self.scratch)

    def _read_pass(self) -> None:
        """How many levels a pass has, the number of its first, and that of the first of all passes."""
        self.levels, self.first, self.base = (self.code.load(self.control, at) for at in (LEVELS, START, BASE))

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
        wide = code.load(self.control, WIDE) if self.slots.leaves else 0
        if self.program.wraps:
            start, stop = code.sub(start, wide), code.add(stop, wide)
            return _Span(start, stop, code.sub(start, margin), code.add(stop, margin))
        first, last = code.equal(part, 0), code.equal(code.add(part, 1), parts)
        start, stop = code.choose(first, low, start), code.choose(last, high, stop)
        if self.slots.leaves:
            start, stop = code.most(low, code.sub(start, wide)), code.least(high, code.add(stop, wide))
        below, above = (
            code.most(low, code.sub(start, margin)),
            code.least(high, code.add(stop, margin)),
        )
        return _Span(start, stop, below, above)

    # Tables: for each array an entry a level. Addresses of row 0 for rows of the tile, before and after it (of levels
    # that are left for a pull: for all rows that there are, before and after them); and pitches. Rows of rings are
    # counted round by a mask, or by a remainder, for which none may be negative.

    def _fill_tables(self, number: Number, scratch: Number) -> None:
        code, layout = self.code, self.layout
        self.entry = 8 * (4 + layout.rank - 1)
        self.tables: dict[str, Number] = {}
        count = code.add(self.levels, self.most_kept)
        halo = code.add(code.mul(self.levels, self.schedule.rows.growth), layout.halo(0))
        beside = code.add(
            code.load(self.control, HALOS),
            code.mul(code.mul(number, 2), code.mul(halo, layout.halo_rows())),
        )
        before_low, before_high = code.sub(self.rows_here.start, halo), self.rows_here.stop
        enough = code.below(self.schedule.fewest - 1, self.levels)
        free = code.add(scratch, self.slots.private_end)
        at = code.round_up(scratch, APART)
        if self.slots.reads:
            at = code.load(scratch)
        elif self.slots.leaves:
            at = code.round_up(code.add(free, code.mul(count, self.entry * len(self.slots.private))), APART)
        for one in self.program.arrays:
            left = self.slots.leaves and one.name in self.slots.private
            table = free if left else code.table(code.mul(count, self.entry // 8))
            self.tables[one.name] = table
            if left:
                free = self._leave_table(one.name, table, count)
            pitches, start = layout.pitches(one.name), layout.start(one.name)
            inside = start - one.lower[0] * pitches[0]  # of a row, to index 0
            for behind in range(self.kept[one.name]):
                base = code.add(self._pointer(self.slots.state_slot(one.name, behind)), start)
                ends = []
                if self._apart and self.program.wraps:
                    around = layout.size(0) * pitches[0]
                    ends = [code.add(base, around), code.sub(base, around)]
                for first in () if self._apart else (before_low, before_high):
                    ends.append(code.add(code.sub(beside, code.mul(first, pitches[0])), inside))
                    beside = code.add(beside, code.mul(halo, pitches[0]))
                self._put(table, -behind, (base, *(ends or (base, base))), None, pitches)
            if self.blocks is not None:
                at = self._in_place(one.name, self.blocks.depths[one.name], at, halo)
                continue
            if left:
                at = self._leave_rings(one.name, table, at)
                continue
            rows, pitch = self.schedule.rings[one.name], layout.ring_pitch(one.name)
            with code.loop(1, code.add(self.levels, 1)) as level:
                base = self._aligned(one.name, code.add(at, code.mul(code.sub(level, 1), code.mul(rows, pitch))))
                self._put(table, level, (base, base, base), rows, (pitch, *layout.inner_pitches(one.name)))
                if one.name in self.written:
                    with code.when(self._is_stored(one.name, level)):
                        base = code.add(self._stored(one.name, level), start)
                        self._put(table, level, (base, base, base), None, pitches)
            if one.name in self.schedule.direct and not self.slots.alone:
                with code.when(enough):
                    base = code.add(self._pointer(self.slots.state_slot(one.name, 0)), start)
                    self._put(table, self.levels, (base, base, base), None, pitches)
            at = code.add(at, code.mul(self.levels, code.mul(rows, pitch)))
        if self.slots.leaves:
            code.store(code.round_up(at, APART), scratch)

    def _leave_table(self, name: str, table: Number, count: Number) -> Number:
        """Says in the scratch where a table stands that a pull reads; the first address behind it."""
        first = self.most_kept - self.kept[name]
        self.code.store(self.code.add(table, first * self.entry), self.scratch, self.slots.private_at(name))
        return self.code.add(table, self.code.mul(count, self.entry))

    def _leave_rings(self, name: str, table: Number, at: Number) -> Number:
        """The entries of levels that a pull reads, the first one last: its ring has most rows; the address behind."""
        code, layout, free = self.code, self.layout, self.code.table(1)
        rows, fall, pitch = code.load(self.control, ROWS), code.load(self.control, FALL), layout.ring_pitch(name)
        code.store(at, free)
        with code.loop(1, code.add(self.levels, 1)) as level:
            least = code.most(code.sub(rows, code.mul(code.sub(level, 1), fall)), self.schedule.rings[name])
            count, at = code.power_of_two(least) if layout.rank == 2 else least, code.load(free)
            base = self._aligned(name, at)
            self._put(table, level, (base, base, base), count, (pitch, *layout.inner_pitches(name)))
            code.store(code.add(at, code.mul(count, pitch)), free)
        return code.load(free)

    def _in_place(self, name: str, depth: int, at: Number, halo: Number) -> Number:
        """The entries of levels that stand where those `depth` before stood; the first address beside them."""
        code, layout, table, pitch = self.code, self.layout, self.tables[name], self.layout.ring_pitch(name)
        for behind in range(self.kept[name], depth):
            first = code.sub(self.rows_here.start, halo)
            base = self._aligned(name, code.sub(at, code.mul(first, pitch)))
            self._put(table, -behind, (base, base, base), None, (pitch, *layout.inner_pitches(name)))
            at = code.add(at, code.mul(code.add(code.sub(self.rows_here.stop, first), halo), pitch))
        with code.loop(1, code.add(self.levels, 1)) as level:
            old, new = self._entry(table, code.sub(level, depth)), self._entry(table, level)
            for k in range(0, self.entry, 8):
                code.store(code.load(old, k), new, k)
        return at

    def _aligned(self, name: str, base: Number) -> Number:
        """The address of index 0 of an array's ring, such that where most operations start is aligned."""
        layout, lower = self.layout, self.program.array(name).lower
        at = self.code.add(base, -layout.item * (layout.alignment() + lower[-1]) % LINE + layout.item * lower[-1])
        for axis, pitch in enumerate(layout.inner_pitches(name), start=1):
            at = self.code.add(at, lower[axis] * pitch)
        return at

    def _put(
        self,
        table: Number,
        level: Number,
        bases: tuple[Number, ...],
        rows: Number | None,
        pitches: tuple[Number, ...],
    ) -> None:
        """An entry of a ring of so many rows, or of an array of all."""
        code, entry = self.code, self._entry(table, level)
        around: Number
        if self.layout.rank == 2:
            around = -1 if rows is None else code.sub(rows, 1)
        elif rows is None:
            around, before = _ALL, code.mul(pitches[0], _BIAS)
            bases = tuple(code.sub(base, before) for base in bases)
        else:
            around = rows
        for k, value in enumerate((*bases, around, *pitches)):
            code.store(value, entry, 8 * k)

    def _entry(self, table: Number, level: Number) -> Number:
        return self.code.add(table, self.code.mul(self.code.add(level, self.most_kept - 1), self.entry))

    def _pointer(self, slot: int) -> Number:
        return self.code.load(self.control, POINTERS + 8 * slot)

    def _wrap(self, row: Number) -> Number:
        code, size = self.code, self.layout.size(0)
        row = code.choose(code.below(row, 0), code.add(row, size), row)
        return code.choose(code.below(row, size), row, code.sub(row, size))

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
            if source.name in self.slots.private:
                return self._left_base(source, row, level), self.layout.item
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
        return self._entry_base(entry, read.moved, row, self._anywhere)

    def _left_base(self, source: ProfileRow, row: Number, level: Number) -> tuple[Number, tuple[Number, ...]]:
        """The same for a level that a march beside this one left."""
        code = self.code
        number = code.add(code.sub(self._number(level), self.base), source.moved[0])
        entry = code.add(code.load(self.scratch, self.slots.private_at(source.name)), code.mul(number, self.entry))
        return self._entry_base(entry, source.moved[1:], code.add(row, source.turn), True)

    def _entry_base(
        self, entry: Number, moved: tuple[int, ...], row: Number, left: bool
    ) -> tuple[Number, tuple[Number, ...]]:
        """The address of index 0 in a row by an entry of a table, and pitches; `left`: of levels left for a pull."""
        code, base, row = self.code, self.code.load(entry), self.code.add(row, moved[0])
        if self.program.wraps or not left:
            low, high = (0, self.layout.size(0)) if left else (self.rows_here.start, self.rows_here.stop)
            base = code.choose(code.below(row, high), base, code.load(entry, 16))
            base = code.choose(code.below(row, low), code.load(entry, 8), base)
        if self.layout.rank == 2:
            place = code.builder.and_(code.value(row), code.load(entry, 24))
        else:
            place = code.rest(code.add(row, _BIAS), code.load(entry, 24))
        address = code.add(base, code.mul(place, code.load(entry, 32)))
        pitches = tuple(code.load(entry, 40 + 8 * k) for k in range(self.layout.rank - 2))
        for move, pitch in zip(moved[1:], pitches, strict=True):
            address = code.add(address, code.mul(pitch, move))
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

    def _is_stored(self, name: str, level: Number) -> Any:
        """Whether a level of this pass is written down."""
        code, stored = self.code, self.code.load(self.control, STORED)
        if not self.slots.spread:
            return code.below(code.sub(self._number(level), self.base), stored)
        block, rest = self._block(name, level)
        return code.builder.and_(code.below(block, stored), code.below(rest, self.kept[name]))

    def _block(self, name: str, level: Number) -> tuple[Number, Number]:
        """Before which block a level of this pass is wanted, and its place among those kept there, the oldest first;
        not at all where that is beyond them."""
        code, length = self.code, self.code.load(self.control, BLOCK)
        along = code.add(code.sub(self._number(level), self.base), self.kept[name])
        block = code.div(along, length)
        return block, code.sub(along, code.mul(block, length))

    def _stored(self, name: str, level: Number) -> Number:
        """Where a level of this pass stands among those of an array that are written down."""
        code, kept = self.code, self.kept[name]
        place = code.add(code.sub(self._number(level), self.base), kept)
        if self.slots.spread:
            block, rest = self._block(name, level)
            place = code.add(code.mul(block, kept), rest)
        return code.add(self._stored_first(name), code.mul(place, self._size(name)))

    def _stored_first(self, name: str) -> Number:
        """Where the first level stands of those of an array that are written down."""
        return self._pointer(self.slots.stored_slot(name))

    def _size(self, name: str) -> Number:
        """Bytes from level to level of an array that is written down."""
        return self.layout.bytes_of(name)

    def _own_rows(self, name: str) -> tuple[Number, Number]:
        """The first of the tile's own rows of an array, and the one past the last."""
        one = self.program.array(name)
        low = self.code.most(self.rows_here.start, -one.lower[0])
        return low, self.code.least(self.rows_here.stop, one.shape[0] + one.upper[0])

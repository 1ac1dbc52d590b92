"""The tile function: a wavefront of operations through the rows and levels of one tile."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ._addresses import Addresses
from ._bundles import Bundle, make_runs
from ._code import Number
from ._layout import WIDTH
from ._program import At
from ._scalar import I64
from ._sources import RowRead


class TileWriter(Addresses):
    """Writes tile(control, number, scratch), or the one that does some turns at a time."""

    def write(self) -> ir.Function:
        """The function."""
        code = self.code
        self._begin()
        with code.when(code.equal(self.first, self.base)):
            for name in self.slots.stored:
                self._store_first(name)
        self._wavefront()
        code.builder.ret_void()
        return code.function

    # The wavefront.

    def _wavefront(self) -> None:
        code, schedule = self.code, self.schedule
        first = code.sub(self.rows_here.low, schedule.skew * (self.most_kept - 1))
        most = max(schedule.delays) + schedule.late
        last = code.add(self.rows_here.high, code.add(code.mul(self.levels, schedule.skew), most))
        if self.turns:
            first, last = code.most(first, self.turns[0]), code.least(last, self.turns[1])
        together = schedule.together
        strips = code.div(code.add(code.sub(last, first), together - 1), together)
        with code.loop(0, self._num_blocks()) as self.block, code.loop(0, strips) as strip:
            begin = code.add(first, code.mul(strip, together))
            end = code.least(code.add(begin, together), last)
            with code.loop(1, code.add(self.levels, 1)) as level, code.loop(begin, end) as turn:
                self._level(code.sub(turn, code.mul(code.sub(level, 1), schedule.skew)), level)
            if self.meeting is not None:
                code.builder.call(self.meeting, [self.crew[2]])

    def _level(self, base: Number, level: Number) -> None:
        """Row `base` of a level, or for operations that are late the rows behind it."""
        code = self.code
        for bundles, near in make_runs(self.rows, self.program, self.schedule):
            if near is None:
                self._bundle(bundles[0], base, level)
                continue
            below, above = near
            with code.when(code.builder.or_(code.below(base, below), code.below(above - 1, base))):
                for bundle in bundles:
                    self._bundle(bundle, base, level)
        self._keep(base, level)

    def _keep(self, base: Number, level: Number) -> None:
        """Copies what is not computed where it stays."""
        schedule = self.schedule
        for one, kept in self.program.state if self.blocks is None and not self.slots.alone else ():
            for behind in range(kept):
                self._copy(one.name, behind, base, level)
        for name in self.slots.stored:
            if name not in self.written or (name in schedule.direct and not self.slots.alone):
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
            return self._in_part(span)
        width = code.load(self.control, WIDTH)
        late = code.add(code.mul(code.sub(level, 1), blocks.skew), blocks.delays[number] - self.layout.low(1))
        low = code.sub(code.mul(self.block, width), late)
        return code.most(low, span[0]), code.least(code.add(low, width), span[1])

    def _in_part(self, span: tuple[Number, Number]) -> tuple[Number, Number]:
        """The part of a span along the second axis that is this thread's."""
        if not self.crew:
            return span
        return self.code.most(span[0], self.crew[0]), self.code.least(span[1], self.crew[1])

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
        if (at := self.program.operations[number].at) is not At.EVERY:
            inside = code.builder.and_(inside, self._is_at(at, level))
        with code.when(inside):
            self._row(bundle, row, wrapped, level)

    def _is_at(self, at: At, level: Number) -> Any:
        """Whether an operation is done at a level of this pass."""
        if at is At.LAST:
            return self.code.equal(level, self.levels)
        return self.code.equal(level, 1) if at is At.FIRST else self.code.below(1, level)

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
        here = self._is_stored(name, level)
        if name in self.written:
            last = code.builder.and_(code.equal(level, self.levels), code.below(self.schedule.fewest - 1, self.levels))
            here = code.builder.and_(here, last)
        with code.when(code.builder.and_(here, self._is_own(name, row))):
            self._copy_row(name, row, level, self._stored(name, level))

    def _store_first(self, name: str) -> None:
        """Writes down the tile's part of the levels kept before the march, the oldest first."""
        code, kept, pitch = self.code, self.kept[name], self.layout.pitches(name)[0]
        low, high = self._own_rows(name)
        rows = code.most(code.sub(high, low), 0)  # none of an array that lies at one wall alone
        begin = code.mul(code.add(low, self.program.array(name).lower[0]), pitch)
        for behind in range(kept):
            source = code.add(self._pointer(self.slots.state_slot(name, behind)), begin)
            target = code.add(self._stored_first(name), code.mul(kept - 1 - behind, self._size(name)))
            values = code.add(target, begin), source, code.mul(rows, pitch)
            code.call("memcpy", I64, *map(code.value, values))

    def _last_delay(self, name: str) -> int:
        """How late the last operation on a row of an array is."""
        operations = zip(self.schedule.delays, self.program.operations, strict=True)
        return max((delay for delay, op in operations if op.array == name), default=0)

    def _is_own(self, name: str, row: Number) -> Any:
        """Whether a row of an array is the tile's own."""
        code, (low, high) = self.code, self._own_rows(name)
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

        axes: list[tuple[Number, Number]]
        axes = [(-a, n + b) for a, n, b in zip(one.lower, one.shape, one.upper, strict=True)]
        if self.layout.rank > 2:
            axes[1] = self._in_part(axes[1])
        self._each_row(middle, axes, copy)

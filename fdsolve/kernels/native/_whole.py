"""Levels computed whole, one after the other: each thread a part of its rows, and then they wait for each other.

Where tiles are low for what a further level of a pass would be computed on beside them, levels go one at a time. Then
nothing need be kept aside or copied: a level is written beside those that are read, in one more array than there are of
them, and the last ones of a pass where the state stands. Nor is a row of the state computed twice. Parts
are taken by who comes first, each thread's own before others: a thread that has no processor keeps none from going on,
unless it lost it within a part.
"""

from functools import partial

from llvmlite import ir

from ._code import VOID, Code, Number
from ._handler import Complete, release, schedule_task, taken_of, write_task
from ._layout import APART, DONE, HALOS, PARTS, SCRATCH, SHARE, WORKERS, Layout, Slots
from ._scalar import I32, I64
from ._schedule import Schedule
from ._tile import TileWriter

_SPINS = 400
"""How often one looks whether all parts of a level are done before others may have the processor."""


def complete_together(module: ir.Module, tile: ir.Function, slots: Slots) -> Complete:
    """Has all threads go through all levels of a pass: no one waits for a thread that has not begun a part."""
    code = Code(module, "work", VOID, [I64])
    (control,) = code.arguments
    worker = code.count(control, WORKERS, 1)
    scratch = code.add(code.load(control, SCRATCH), code.mul(worker, code.load(control, SHARE)))
    code.builder.call(tile, [control, worker, scratch])
    code.builder.ret_void()
    work, task = code.function, write_task(module, code.function)

    def complete(code: Code, frame: Number, control: Number, threads: Number, parts: Number) -> None:
        with code.loop(0, parts) as part:
            code.store(0, code.add(control, code.mul(part, 8)), taken_of(slots))
        schedule_task(code, frame, control, task, threads)
        code.builder.call(work, [control])
        release(code, control)

    return complete


def num_spares(schedule: Schedule, slots: Slots, name: str) -> int:
    """How many levels of an array of the state stand beside it: as many as are read and the one that is written; none
    where all are written down."""
    return 0 if name in slots.stored and not slots.spread else 1 + (schedule.depths or {})[name]


def spare_bytes(layout: Layout, slots: Slots) -> int:
    """Bytes of all of them."""
    names = (one.name for one, _ in layout.program.state)
    return sum(num_spares(layout.schedule, slots, name) * layout.spare_bytes(name) for name in names) + APART


class WholeWriter(TileWriter):
    """Writes tile(control, worker, scratch): parts of all levels of a pass."""

    def write(self) -> ir.Function:
        """The function."""
        code = self.code
        self.control, worker, self.scratch = code.arguments
        self._read_pass()
        parts, taken = code.load(self.control, PARTS), code.add(self.control, taken_of(self.slots))
        self._fill_tables(worker, self.scratch)
        self.tries = code.table(1)
        with code.loop(1, code.add(self.levels, 1)) as level:
            with code.loop(0, parts) as k:
                part = code.rest(code.add(worker, k), parts)
                before = code.raise_to(code.add(taken, code.mul(part, 8)), level)
                with code.when(code.below(before, level)):
                    self._part(part, level)
                    code.count(self.control, DONE, 1)
            self._wait(code.mul(level, parts))
        code.builder.ret_void()
        return code.function

    def _part(self, part: Number, level: Number) -> None:
        """A level of one part of the rows."""
        code = self.code
        self.rows_here = self._span(part)
        with code.when(code.builder.and_(code.equal(self.first, self.base), code.equal(level, 1))):
            for name in self.slots.stored:
                self._store_first(name)
        last = code.add(self.rows_here.high, max(self.schedule.delays))
        with code.loop(self.rows_here.low, last) as turn:
            self._level(turn, level)

    def _wait(self, goal: Number) -> None:
        """Until so many parts are done."""
        code, tries = self.code, self.tries
        code.store(0, tries)
        with code.forever() as leave:
            leave(code.builder.icmp_signed(">=", code.look(self.control, DONE), goal))
            tried = code.add(code.load(tries), 1)
            code.store(tried, tries)
            with code.when(code.below(_SPINS, tried)):
                code.call("sched_yield", I32)

    def _keep(self, base: Number, level: Number) -> None:
        """Copies what is written down and also among the last levels of a pass."""
        code, slots = self.code, self.slots
        for one, kept in self.program.state:
            if slots.alone or one.name not in slots.stored:
                continue
            row = code.sub(base, self._last_delay(one.name))
            for behind in range(kept):
                here = code.builder.and_(code.equal(level, code.sub(self.levels, behind)), self._is_own(one.name, row))
                with code.when(code.builder.and_(here, self._is_stored(one.name, level))):
                    self._copy_row(one.name, row, level, self._pointer(slots.state_slot(one.name, behind)))

    def _fill_tables(self, number: Number, scratch: Number) -> None:
        code, layout = self.code, self.layout
        self.entry = 8 * (4 + layout.rank - 1)
        self.tables: dict[str, Number] = {}
        count = code.add(self.levels, self.most_kept)
        at, spare = code.round_up(scratch, APART), code.round_up(code.load(self.control, HALOS), APART)
        for one in self.program.arrays:
            table = self.tables[one.name] = code.table(code.mul(count, self.entry // 8))
            if self.kept[one.name]:
                spare = self._fill_levels(one.name, table, spare)
                continue
            rows, pitch = self.schedule.rings[one.name], layout.ring_pitch(one.name)
            base = self._aligned(one.name, at)
            with code.loop(1, code.add(self.levels, 1)) as level:
                self._put(table, level, (base, base, base), rows, (pitch, *layout.inner_pitches(one.name)))
                self._put_stored(one.name, table, level)
            at = code.add(at, rows * pitch)

    def _put_all(self, table: Number, level: Number, base: Number, pitches: tuple[Number, ...]) -> None:
        """An entry of an array of all rows, which may be counted round."""
        code, around = self.code, self.layout.size(0) * pitches[0] if self.program.wraps else 0
        self._put(table, level, (base, code.add(base, around), code.sub(base, around)), None, pitches)

    def _put_stored(self, name: str, table: Number, level: Number) -> None:
        """The entry of a level that is written down."""
        if name in self.slots.stored:
            with self.code.when(self._is_stored(name, level)):
                base = self.code.add(self._stored(name, level), self.layout.start(name))
                self._put_all(table, level, base, self.layout.pitches(name))

    def _fill_levels(self, name: str, table: Number, spare: Number) -> Number:
        """The entries of an array of the state; the first address behind its spare levels."""
        code, layout, slots = self.code, self.layout, self.slots
        pitches, start, kept = layout.pitches(name), layout.start(name), self.kept[name]

        put = partial(self._put_all, table)
        for behind in range(kept):
            put(-behind, code.add(self._pointer(slots.state_slot(name, behind)), start), pitches)
        size, spares = layout.spare_bytes(name), num_spares(self.schedule, slots, name)
        wide = layout.ring_pitch(name), *layout.inner_pitches(name)
        with code.loop(1, code.add(self.levels, 1)) as level:
            if spares:
                place = code.add(spare, code.mul(code.rest(level, spares), size))
                base = code.add(self._aligned(name, place), self.program.array(name).lower[0] * wide[0])
                put(level, base, wide)
            self._put_stored(name, table, level)
        for behind in range(0 if slots.alone else kept):
            level, base = code.sub(self.levels, behind), code.add(self._pointer(slots.state_slot(name, behind)), start)
            if name not in slots.stored:
                put(level, base, pitches)
                continue
            with code.when(code.builder.not_(self._is_stored(name, level))):
                put(level, base, pitches)
        return code.add(spare, spares * size)

"""Levels computed whole, one after the other: each thread its rows of one, and then they wait for each other.

Where tiles are low for what a further level of a pass would be computed on beside them, levels go one at a time. Then
nothing need be kept aside or copied: a level is written beside those that are read, in one more array than there are of
them, and the last ones of a pass where the state stands. Nor is a row of the state computed twice.
"""

from llvmlite import ir

from ._code import VOID, Code, Number
from ._crew import CREW, write_crew, write_meeting
from ._handler import Complete, roll_of
from ._layout import APART, HALOS, SCRATCH, SHARE, Layout, Slots
from ._scalar import I64
from ._schedule import Schedule
from ._tile import TileWriter


def complete_by_crew(module: ir.Module, tile: ir.Function, slots: Slots) -> Complete:
    """Has a crew of threads go through all levels of a pass, each through a tile of its own."""
    code = Code(module, "abreast", VOID, [I64, I64])
    control, number = code.arguments
    share = code.mul(number, code.load(control, SHARE))
    code.builder.call(tile, [control, number, code.add(code.load(control, SCRATCH), share)])
    code.builder.ret_void()
    lead = write_crew(module, code.function, roll_of(slots))

    def complete(code: Code, frame: Number, control: Number, threads: Number, _: Number) -> None:
        code.builder.call(lead, [frame, control, code.value(threads)])

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
    """Writes tile(control, number, scratch): a crew's rows of all levels of a pass."""

    def write(self) -> ir.Function:
        """The function."""
        self._meet = write_meeting(self.code.module)
        return super().write()

    def _num_parts(self) -> Number:
        return self.code.load(self.control, roll_of(self.slots) + CREW)

    def _wavefront(self) -> None:
        code, roll = self.code, self.code.add(self.control, roll_of(self.slots))
        last = code.add(self.rows_here.high, max(self.schedule.delays))
        with code.loop(1, code.add(self.levels, 1)) as level:
            with code.loop(self.rows_here.low, last) as turn:
                self._level(turn, level)
            code.builder.call(self._meet, [roll])

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
            if one.name in self.kept:
                spare = self._fill_levels(one.name, table, spare)
                continue
            rows, pitch = self.schedule.rings[one.name], layout.ring_pitch(one.name)
            base = self._aligned(one.name, at)
            with code.loop(1, code.add(self.levels, 1)) as level:
                self._put(table, level, (base, base, base), rows, (pitch, *layout.inner_pitches(one.name)))
            at = code.add(at, rows * pitch)

    def _fill_levels(self, name: str, table: Number, spare: Number) -> Number:
        """The entries of an array of the state; the first address behind its spare levels."""
        code, layout, slots = self.code, self.layout, self.slots
        pitches, start, kept = layout.pitches(name), layout.start(name), self.kept[name]

        def put(level: Number, base: Number, pitches: tuple[Number, ...]) -> None:
            around = layout.size(0) * pitches[0] if self.program.wraps else 0
            self._put(table, level, (base, code.add(base, around), code.sub(base, around)), None, pitches)

        for behind in range(kept):
            put(-behind, code.add(self._pointer(slots.state_slot(name, behind)), start), pitches)
        size, spares = layout.spare_bytes(name), num_spares(self.schedule, slots, name)
        wide = layout.ring_pitch(name), *layout.inner_pitches(name)
        with code.loop(1, code.add(self.levels, 1)) as level:
            if spares:
                place = code.add(spare, code.mul(code.rest(level, spares), size))
                base = code.add(self._aligned(name, place), self.program.array(name).lower[0] * wide[0])
                put(level, base, wide)
            if name in slots.stored:
                with code.when(self._is_stored(name, level)):
                    put(level, code.add(self._stored(name, level), start), pitches)
        for behind in range(0 if slots.alone else kept):
            level, base = code.sub(self.levels, behind), code.add(self._pointer(slots.state_slot(name, behind)), start)
            if name not in slots.stored:
                put(level, base, pitches)
                continue
            with code.when(code.builder.not_(self._is_stored(name, level))):
                put(level, base, pitches)
        return code.add(spare, spares * size)

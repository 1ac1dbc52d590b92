"""A pull past levels that are computed again beside it: forth and back at once, a slab of rows for each thread.

A thread marches through a slab, and as many rows beside it as the pull reads, from a state that was kept. A few rows
behind, where all levels of a row are known, it pulls cotangents back past them. So the levels of few rows are held at a
time, in rings that stay in cache, and none is written to memory, for some rows computed twice. In space, where rows are
planes and those beside a slab are dear, all threads go through one slab abreast instead, and none is.

Row i of operation a at level s is computed at turn i + Dₐ + S·(s − 1) of its march (see _schedule). Where operation b
of the pull, at its level s, reads a row o further on of level n − s + 1 − l of the march, its turns must come
o + Dₐ − D_b + S·(n − s − l) − S'·(s − 1) behind; and the ring of that level must hold rows until then.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from ...stencil import ProfileRead
from .._level import Arrays
from .._march_call import MarchCall
from ._bundles import make_bundles
from ._code import text_of
from ._crew import write_meeting
from ._launch import Launch, launch
from ._layout import APART, LINE, Layout, Slots
from ._march import (
    axes_of,
    layout_of,
    one_level,
    pulled_of,
    shared_by,
    stack_extents,
    whole_layout_of,
)
from ._objects import register_target
from ._operands import LEVELS, Pull, TurnedRead, stack_name
from ._processors import num_threads, own_cache, shared_cache
from ._program import Unserved
from ._rows import write_rows
from ._schedule import make_schedule, ring_rows
from ._slab_handler import SLAB_SETTINGS, write_slab_handler
from ._tile import TileWriter
from ._tiling import SMALL, STAYS

STRIPS = (1, 2, 4, 8)
"""Turns of the march, and then of the pull, at a time: the more, the less often one stops for the other."""
SUMS = 4
"""Rows of rings taken for the sums of numbers' cotangents: two arrays of two rows."""
MORE = 1.25
"""So much more room rings may take for longer strips."""
ROOM, ROOM_IN_SPACE = 0.5, 0.75
"""The part of the shared cache that the rings of all threads may take, in two dimensions and in three."""
LEAST_PART = 8
"""Rows of the second axis that each of several threads abreast has at least."""
HIGH = 3
"""A slab is so many times as high as what it takes beside it."""
LENGTHS = (16, 8, 6, 4, 3)
"""Lengths of blocks that are compared, the first the longest."""
KEPT, KEPT_IN_SPACE = 64.0, 2.0
"""What keeping a level costs in two dimensions and in three, in steps that read one row beside; with wider ones it
falls like their cube."""
MOST_ABREAST, ROOM_ABREAST = 10, 0.5
"""Levels in a block gone through abreast, of steps that read one row beside; more, where their rings take no more than
this part of the shared cache."""
FURTHER = 0.25
"""So much dearer are steps whose rings fill a thread's own cache twice; four times, twice that."""
SPILLED, LEVELS_OF_RINGS = 3, 8
"""Rings of so many levels are too large for a thread's own cache where they fill it so many times."""
NEARLY = 0.95
"""Blocks are too long whose levels cost more than those of shorter ones divided by this."""


@dataclass(frozen=True)
class Slabs:
    """How many slabs, one for each thread, and lines of a slab's scratch; the rows beside a slab; at least how many
    the ring of its first level has, and by how many that of each further one may fall short of the one before; how
    many turns begin before its first row and how many there are, of which a strip is done at a time; and by how many
    turns the pull comes late. Or there is one slab, and so many threads go through it `abreast` (see _crew)."""

    parts: int
    share: int
    wide: int
    rows: int
    fall: int
    before: int
    turns: int
    strip: int
    late: int
    abreast: int = 1

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self.parts * self.abreast


def lies_near(call: MarchCall) -> bool:
    """Whether the levels of a march of few steps stay in cache while cotangents are pulled past them.

    This is said of the march alone: its transpose is taken to reach as far, and to need as many rows of all arrays, all
    of which are taken to be read. Since it may need a little more, an eighth of what `cut_slabs` may fill is left free.
    """
    forth, steps = layout_of(call), call.steps
    if _abreast(forth) > 1:
        forth = _march_abreast(one_level(call))
    if axes_of(call)[0] == "":
        return sum(forth.bytes_of(one.name) for one, _ in forth.program.state) * steps <= shared_cache() // 4
    if stays_in_cache(call):
        return False
    threads = _threads(forth, forth.halo(steps), forth.least_rows(steps, forth.halo(steps)))
    fits = _bytes_of_rings(forth, steps) <= 0.875 * _room(forth, threads)
    return fits and not _are_few(forth, threads) and _goes_round(forth, forth.halo(steps), steps)


def stays_in_cache(call: MarchCall) -> bool:
    """Whether levels are sooner computed whole and written down, since they stay in cache: in the half of those that
    threads have of their own, or, where rings are too large for these anyway, in that which threads share."""
    whole = whole_layout_of(call)
    if whole is None or whole.rank > 2:
        return False
    used, threads = whole.whole_bytes(), 1 if _is_small(whole) else num_threads()
    far = _bytes_of_rings(layout_of(call), LEVELS_OF_RINGS) > SPILLED * own_cache()
    return used <= threads * own_cache() // 2 or (far and used <= shared_cache() // STAYS)


def _bytes_of_rings(forth: Layout, steps: int) -> int:
    """Bytes of all rings that most rows use, as far as the march alone tells."""
    schedule, program = forth.schedule, forth.program
    kept = {
        one.name: n for one, n in zip(program.arrays, program.kept, strict=True) if not forth.is_beside_wall(one.name)
    }
    rows = 2 * (schedule.skew * (steps - 1) + max(schedule.delays) + 1)
    found = _ring_bytes(forth, kept, steps, rows, 2 * schedule.skew) + steps * SUMS * forth.ring_pitch(forth.widest)
    for name, levels in kept.items():
        found += steps * (max(levels, 1) + 1) * schedule.rings[name] * forth.ring_pitch(name)
    return found


def is_too_long(call: MarchCall) -> bool:
    """Whether shorter blocks of levels are gone back through sooner: slabs of long ones take more rows beside them, or
    are too few for all threads, and their rings leave the caches that threads have of their own. Longer ones than usual
    are asked for where there is no room for more states."""
    forth, steps = layout_of(call), call.steps
    if axes_of(call)[0] == "" or steps > max(LENGTHS):
        return False
    if _abreast(forth) > 1:
        few = steps <= max(min(LENGTHS), MOST_ABREAST // max(1, forth.schedule.rows.usual))
        return not few and _bytes_of_rings(_march_abreast(one_level(call)), steps) > ROOM_ABREAST * shared_cache()
    return any(_cost(forth, fewer) < NEARLY * _cost(forth, steps) for fewer in LENGTHS if fewer < steps)


def _cost(forth: Layout, steps: int) -> float:
    """A level's share of what a block of so many costs, in steps by all threads."""
    reach, halo = max(1, forth.schedule.rows.usual), forth.halo(steps)
    threads = _threads(forth, halo + reach, forth.least_rows(steps, halo + reach))
    beside = 2 * halo * threads / forth.size(0) if threads > 1 else 0.0
    kept = KEPT if forth.rank < 3 else KEPT_IN_SPACE
    filled = _bytes_of_rings(forth, steps) * forth.row_bytes() / forth.ring_pitch(forth.widest)
    beyond = log2(max(1.0, filled / own_cache()))
    return (1 + beside) * (1 + FURTHER * beyond) * num_threads() / threads + kept * forth.most_kept / (reach**3 * steps)


def cut_slabs(call: MarchCall, pull: Pull) -> Slabs | None:
    """Slabs for a pull of `call.steps` levels; None where none is read, or they would not stay in cache."""
    pull = replace(pull, beside=True)
    if stays_in_cache(call):
        return None
    try:
        abreast = _abreast(layout_of(call, pull))
        back, forth = _layouts_of(one_level(call), pull, abreast > 1)
    except Unserved:
        return None
    steps, names = call.steps, pulled_of(call, pull).levels.names
    reads = list(_level_reads(back, forth)) if axes_of(call)[0] else []
    wide = back.halo(steps) + max((abs(read.row) for read in reads), default=0)
    if not reads or not _goes_round(forth, wide, steps):
        return None
    threads = _threads(forth, wide, max(forth.least_rows(steps, wide), back.least_rows(steps)))
    if _are_few(forth, threads):
        return None
    late, least = _distance(forth, back, reads, steps)
    fall = forth.schedule.skew + back.schedule.skew
    sizes = {strip: _ring_bytes(forth, names, steps, least + strip, fall) for strip in STRIPS}
    left = steps * sum(forth.schedule.rings[name] * forth.ring_pitch(name) for name in names)
    others, used = (
        sum(one(steps) for one in each) - left
        for each in ((forth.ring_bytes, back.ring_bytes), (forth.used_bytes, back.used_bytes))
    )
    most = min(MORE * sizes[1], _room(forth, threads) - used)
    strip = max((one for one in STRIPS if sizes[one] <= most), default=0)
    if not strip:
        return None
    share = sizes[strip] + others
    tables = 8 * (len(names) + 2) + len(names) * (steps + forth.most_kept + 1) * 8 * (forth.rank + 4)
    start, stop = zip(_turns(forth, steps, wide, 0), _turns(back, steps, 0, late), strict=True)
    before, height = max(start), -(-forth.size(0) // threads)
    share = (share + tables + 8 * APART) // LINE
    turns = before + height + max(stop)
    return Slabs(threads, share, wide, least + strip, fall, before, turns, strip, late, abreast)


def bytes_beside(call: MarchCall, pull: Pull, slabs: Slabs) -> int:
    """Bytes of all that a pull by slabs takes beside states that were kept: cotangents, sums and scratch."""
    back = layout_of(call, replace(pull, beside=True))
    halos = 2 * slabs.parts * back.halo(call.steps) * back.halo_rows()
    return sum(back.bytes_of(one.name) for one, _ in back.program.state) + slabs.parts * slabs.share * LINE + halos


def _abreast(layout: Layout) -> int:
    """How many threads go through a slab abreast: all, where each has rows enough of the second axis."""
    most = layout.size(1) // LEAST_PART if layout.rank > 2 and not _is_small(layout) else 1
    return max(1, min(num_threads(), most))


def _threads(forth: Layout, wide: int, least: int) -> int:
    """As many threads as have slabs high enough for so many rows beside them, and no lower than the `least`; one where
    others go abreast with it."""
    high = max(least, HIGH * wide)
    return 1 if _is_small(forth) or _abreast(forth) > 1 else max(1, min(num_threads(), forth.size(0) // high))


def _is_small(forth: Layout) -> bool:
    """Whether one thread does all anyway."""
    return prod(forth.program.arrays[0].shape) < SMALL


def _room(forth: Layout, threads: int) -> float:
    """Bytes for the rings of one of so many threads; what lies between their rows is never touched."""
    part = ROOM if forth.rank < 3 else ROOM_IN_SPACE
    return part * shared_cache() / threads * forth.ring_pitch(forth.widest) / forth.row_bytes()


def _are_few(forth: Layout, threads: int) -> bool:
    """Whether levels that are written down are gone back through by twice as many threads, or more."""
    return (
        not _is_small(forth)
        and _abreast(forth) == 1
        and 2 * threads <= min(num_threads(), forth.size(0) // forth.schedule.rows.least)
    )


def _goes_round(forth: Layout, wide: int, steps: int) -> bool:
    """Whether rows that are counted round are enough for so many beside a slab."""
    return not forth.program.wraps or wide + forth.halo(steps) <= forth.size(0)


@lru_cache(maxsize=256)
def _march_abreast(call: MarchCall) -> Layout:
    """The program of a march scheduled for threads abreast, without what it leaves for a pull."""
    program = layout_of(call).program
    return Layout(program, make_schedule(program, abreast=True))


@lru_cache(maxsize=256)
def _layouts_of(call: MarchCall, pull: Pull, abreast: bool) -> tuple[Layout, Layout]:
    """The program of a pull, and of a march that leaves what a pull beside it reads, scheduled."""
    made = pulled_of(call, pull)
    back, forth = (Layout(program, make_schedule(program, abreast)) for program in (made.program, made.forth))
    return back, forth


@dataclass(frozen=True)
class _LevelRead:
    """The delay of an operation of a pull, how many rows further on it reads, and how many levels back."""

    delay: int
    row: int
    lag: int


def _level_reads(back: Layout, forth: Layout) -> Iterator[_LevelRead]:
    """How a pull reads levels of the march."""
    kept = {stack_name(one.name): kept for one, kept in zip(forth.program.arrays, forth.program.kept, strict=True)}
    for delay, operation in zip(back.schedule.delays, back.program.operations, strict=True):
        for one in operation.operands:
            if isinstance(one, ProfileRead) and LEVELS in one.axes:
                turn = one.turn if isinstance(one, TurnedRead) else 0
                yield _LevelRead(delay, one.offset[1] + turn, kept[one.name] - one.offset[0])


def _distance(forth: Layout, back: Layout, reads: Sequence[_LevelRead], steps: int) -> tuple[int, int]:
    """By how many turns a pull must come late, and the rows of its first level's ring, but for those of a strip."""
    first, last = min(forth.schedule.delays), max(forth.schedule.delays)
    late = max([0, *(r.row + last - r.delay + forth.schedule.skew * (steps - 1 - r.lag) for r in reads)])
    rows = [r.delay - r.row - first + back.schedule.skew * (steps - 1 - r.lag) + late for r in reads]
    return late, max([0, *rows])


def _ring_bytes(forth: Layout, names: Iterable[str], steps: int, rows: int, fall: int) -> int:
    """Bytes of rings that hold levels of arrays for a pull: it comes to the first level last, and to each further one
    as many turns sooner as the march comes to it later."""
    found = 0
    for name in names:
        least = forth.schedule.rings[name]
        each = (ring_rows(max(rows - fall * level, least), forth.rank) for level in range(steps))
        found += sum(each) * forth.ring_pitch(name)
    return found


def _turns(layout: Layout, steps: int, wide: int, late: int) -> tuple[int, int]:
    """How many turns before the first row of a slab a march through it may begin, and end after its last."""
    schedule, beside = layout.schedule, wide + layout.halo(steps)
    before = beside + schedule.skew * layout.most_kept - layout.low(0) - late
    after = beside + layout.high(0) - layout.size(0) + max(schedule.delays) + schedule.late
    return before, after + schedule.skew * steps + late


def pull_slabs(
    call: MarchCall,
    pull: Pull,
    slabs: Slabs,
    arrays: Arrays,
    given: Sequence[jax.Array],
    rooms: Sequence[jax.Array],
    begin: Any,
    place: Any,
) -> list[jax.Array]:
    """Cotangents and sums before `call.steps` levels, the first of which has number `begin`, from those after them.

    The state before them stands at a `place` in `rooms`, which hold the kept levels of each array, the oldest first.
    """
    pull = replace(pull, beside=True)
    made, abreast = pulled_of(call, pull), slabs.abreast > 1
    back, forth = _layouts_of(one_level(call), pull, abreast)
    names, item = made.levels.names, forth.program.dtype.str
    steps = call.steps if made.levels.last else call.steps - 1
    going, coming = shared_by(forth.program, arrays), shared_by(back.program, arrays)
    shared = {name: jnp.asarray(array) for name, array in (going | coming).items()}

    def shapes(names: Any) -> tuple[tuple[str, tuple[int, ...], str], ...]:
        return tuple((name, shared[name].shape, np.dtype(shared[name].dtype).str) for name in names)

    private = tuple(stack_name(name) for name in names)
    left = tuple((name, (1,) * (1 + len(axes_of(call))), item) for name in private)
    states = tuple(tuple((one.name, behind) for one, kept in layout.program.state for behind in range(kept))
                   for layout in (back, forth))  # fmt: skip
    slots = (
        Slots(states[0], (*shapes(coming), *left), private=private),
        Slots(states[1], shapes(going), alone=True, private=names),
    )
    target = _generate(one_level(call), pull, slots, tuple(shared), abreast)
    halos = -(-2 * slabs.parts * back.halo(call.steps) * back.halo_rows() // LINE)
    share, rings = (0, slabs.share) if abreast else (slabs.share, 0)  # what a crew has in common, as halos are
    sizes = (getattr(slabs, name) for name in SLAB_SETTINGS[8:])
    settings = (begin, call.steps, steps, place, slabs.parts, share, halos + rings, rings, *sizes)
    code = Launch(target, len(given), (), slabs.threads, share, halos + rings)
    return launch(code, settings, [*given, *rooms, *shared.values()])


@lru_cache(maxsize=256)
def _generate(call: MarchCall, pull: Pull, slots: tuple[Slots, Slots], shared: tuple[str, ...], abreast: bool) -> str:
    """The code of both marches and of the call that joins them."""
    module = ir.Module("fdsolve")
    extents = {one.name: one for one in call.structure.extents} | stack_extents(call, pull)
    tiles, layouts = [], _layouts_of(call, pull, abreast)
    meeting = write_meeting(module) if abreast else None
    for layout, own, prefix in zip(layouts, slots, ("back", "forth"), strict=True):
        bundles = make_bundles(layout.program, layout.schedule)
        dtypes = {name: dtype for name, _, dtype in own.shared}
        made = write_rows(module, layout.program, layout.schedule, bundles, axes_of(call), dtypes, f"{prefix}_row")
        rows = dict(zip(bundles, made, strict=True))
        time = call.structure.time_axis
        axes, tile = axes_of(call), f"{prefix}_tile"
        tiles.append(TileWriter(module, layout, own, rows, extents, axes, time, tile, meeting).write())
    name = write_slab_handler(module, (tiles[0], tiles[1]), layouts, slots, shared, abreast)
    return register_target(text_of(module), name)

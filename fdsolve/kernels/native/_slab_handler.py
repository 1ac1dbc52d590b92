"""The entry point of a pull slab by slab: two control blocks, and a task that goes forth and back through a slab."""

from typing import Any

from llvmlite import ir

from ._code import POINTER, VOID, Code, Number
from ._crew import ROLL, part_of, write_crew
from ._handler import Buffers, kept_of, run_tiles, save_halos, write_entry, write_task, write_worker
from ._layout import (
    BASE,
    DONE,
    FALL,
    HALOS,
    HOLDERS,
    LEVELS,
    LINE,
    NEXT,
    PARTS,
    POINTERS,
    ROWS,
    SCRATCH,
    SHARE,
    START,
    WIDE,
    WORKERS,
    Layout,
    Slots,
    round_up,
)  # fmt: skip
from ._scalar import I64

Pair = tuple[Any, Any]
SLAB_SETTINGS = (
    "begin",
    "steps",
    "again",
    "place",
    "parts",
    "share",
    "halos",
    "rings",
    "wide",
    "rows",
    "fall",
    "before",
    "turns",
    "strip",
    "late",
)
"""The entries of the i32 array of settings: the first level, how many there are, how many are computed again, from
which of the states kept; scratch in cache lines: a thread's share, what all have in common, and the part of that which
are rings; and what `Slabs` says."""
_SLAB = ("before", "turns", "strip", "late")
"""Those that stand in front of the control block of the march, and then the roll of a crew."""
_FRONT = 8 * len(_SLAB) + ROLL


def write_slab_handler(
    module: ir.Module,
    tiles: Pair,
    layouts: tuple[Layout, Layout],
    slots: tuple[Slots, Slots],
    shared: tuple[str, ...],
    abreast: bool,
) -> str:
    """Writes the handler and what it calls; its name. Of each pair the first is of the pull, the second of the march.

    Its arguments are the pull's state, states kept of the march, shared arrays of these names, and settings. Threads go
    through one slab `abreast`, or each through one of its own.
    """
    second = round_up(POINTERS + 8 * (len(slots[0].state) + len(slots[0].shared)), LINE)
    count, rooms = len(slots[0].state), len(layouts[1].program.state)
    number = count + rooms + len(shared)
    code = Code(module, "pull", VOID, [I64] * 3)
    frame, shot, scratch = code.arguments
    buffers = Buffers(code, frame, SLAB_SETTINGS, number, count, shot)
    values = buffers.values
    size = second + _FRONT + POINTERS + 8 * (len(slots[1].state) + len(slots[1].shared))
    control = code.address(code.call("malloc", POINTER, code.value(size)))
    share, threads, parts = code.mul(values["share"], LINE), values["threads"], values["parts"]
    rings = code.add(code.mul(values["rings"], LINE), code.mul(share, threads))
    last = code.add(values["begin"], code.sub(values["steps"], 1))
    entries = ((0, NEXT), (0, DONE), (threads, HOLDERS), (parts, PARTS), (0, WORKERS),
               (last, START), (values["steps"], LEVELS), (share, SHARE), (scratch, SCRATCH),
               (code.add(scratch, rings), HALOS), (values["begin"], BASE))  # fmt: skip
    for value, at in entries:
        code.store(value, control, at)
    for k, name in enumerate(_SLAB):
        code.store(values[name], control, second + 8 * k)
    march = code.add(control, second + _FRONT)
    for value, at in ((parts, PARTS), (values["begin"], START), (values["again"], LEVELS),
                      (values["begin"], BASE), (values["wide"], WIDE), (values["rows"], ROWS),
                      (values["fall"], FALL)):  # fmt: skip
        code.store(value, march, at)
    _fill_pointers(buffers, control, march, layouts, slots, shared)
    save_halos(code, control, parts, values["steps"], layouts[0], slots[0])
    if abreast:
        code.builder.call(_write_abreast(module, tiles, layouts, second), [frame, control, threads])
    else:
        worker = write_worker(module, _write_slab(module, tiles, layouts[1], second))
        run_tiles(code, frame, control, write_task(module, worker), worker, threads, parts)
    code.builder.ret_void()
    return write_entry(module, code.function, SLAB_SETTINGS, number, count, "fdsolve_pull")


def _fill_pointers(
    buffers: Buffers,
    control: Number,
    march: Number,
    layouts: tuple[Layout, Layout],
    slots: tuple[Slots, Slots],
    shared: tuple[str, ...],
) -> None:
    """Where arrays stand: the pull's state, the state that was kept, shared arrays of both."""
    (back, forth), code, (of_pull, layout) = slots, buffers.code, layouts
    count, rooms = len(back.state), len(layout.program.state)
    for k in range(count):
        code.store(buffers.result(k, of_pull.item), control, POINTERS + 8 * k)
    for k, (name, behind) in enumerate(forth.state):
        (_, kept), number = kept_of(layout, name), [one.name for one, _ in layout.program.state].index(name)
        place = code.mul(code.add(code.mul(buffers.values["place"], kept), kept - 1 - behind), layout.bytes_of(name))
        code.store(code.add(buffers.argument(count + number, layout.item), place), march, POINTERS + 8 * k)
    for own, to in ((back, control), (forth, march)):
        for k, (name, _, _) in enumerate(own.shared):
            if name not in own.private:
                pointer = buffers.argument(count + rooms + shared.index(name), own.itemsize(name))
                code.store(pointer, to, POINTERS + 8 * (len(own.state) + k))


def _write_slab(module: ir.Module, tiles: Pair, layout: Layout, second: int) -> ir.Function:
    """slab(control, number, scratch, …): forth and back, some turns each at a time; what follows is for both tiles."""
    code = Code(module, "slab", VOID, [arg.type for arg in tiles[0].args[:3] + tiles[0].args[5:]])
    control, number, scratch, *more = code.arguments
    before, turns, strip, late = (code.load(control, second + 8 * k) for k in range(len(_SLAB)))
    march = code.add(control, second + _FRONT)
    first = code.sub(code.div(code.mul(number, layout.size(0)), code.load(march, PARTS)), before)
    with code.loop(0, code.div(code.sub(code.add(turns, strip), 1), strip)) as k:
        begin = code.add(first, code.mul(k, strip))
        end = code.add(begin, strip)
        code.builder.call(tiles[1], [march, number, scratch, begin, end, *more])
        code.builder.call(tiles[0], [control, number, scratch, code.sub(begin, late), code.sub(end, late), *more])
    code.builder.ret_void()
    return code.function


def _write_abreast(module: ir.Module, tiles: Pair, layouts: tuple[Layout, Layout], second: int) -> ir.Function:
    """lead(frame, control, threads): a crew through a slab of all rows."""
    slab, at = _write_slab(module, tiles, layouts[1], second), second + 8 * len(_SLAB)
    code = Code(module, "abreast", VOID, [I64, I64])
    control, number = code.arguments
    roll, scratch = code.add(control, at), code.load(control, SCRATCH)
    ends = min(one.low(1) for one in layouts), max(one.high(1) for one in layouts)
    low, high = part_of(code, roll, number, *ends)
    code.builder.call(slab, [control, code.value(0), scratch, low, high, roll])
    code.builder.ret_void()
    return write_crew(module, code.function, at)

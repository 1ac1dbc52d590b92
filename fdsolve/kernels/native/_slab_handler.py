"""The entry point of a pull slab by slab: two control blocks, and a task that goes forth and back through a slab."""

from typing import Any

from llvmlite import ir

from ._code import POINTER, VOID, Code, Number
from ._handler import answer_metadata, data_of, first_of, kept_of, run_tiles, save_halos, write_task, write_worker
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
from ._scalar import I32, I64

Pair = tuple[Any, Any]
SLAB_SETTINGS = (
    "begin",
    "steps",
    "again",
    "place",
    "parts",
    "share",
    "wide",
    "rows",
    "fall",
    "before",
    "turns",
    "strip",
    "late",
)
"""The entries of the i32 array of settings: the first level, how many there are, how many are computed again, from
which of the states kept; and what `Slabs` says."""
_SLAB = ("before", "turns", "strip", "late")
"""Those that stand in front of the control block of the march."""


def write_slab_handler(
    module: ir.Module, tiles: Pair, layouts: tuple[Layout, Layout], slots: tuple[Slots, Slots], shared: tuple[str, ...]
) -> str:
    """Writes the handler and what it calls; its name. Of each pair the first is of the pull, the second of the march.

    Its arguments are the pull's state, states kept of the march, shared arrays of these names, and settings.
    """
    second = round_up(POINTERS + 8 * (len(slots[0].state) + len(slots[0].shared)), LINE)
    task = write_task(module, worker := write_worker(module, _write_slab(module, tiles, layouts[1], second)))
    code = Code(module, "fdsolve_pull", I64, [I64], internal=False)
    (frame,) = code.arguments
    answer_metadata(code, frame)
    arguments, results = first_of(code, frame)
    count, rooms = len(slots[0].state), len(layouts[1].program.state)
    settings = data_of(code, arguments, count + rooms + len(shared))
    values = {name: code.load(settings, 4 * k, I32) for k, name in enumerate(SLAB_SETTINGS)}
    size = second + 8 * len(_SLAB) + POINTERS + 8 * (len(slots[1].state) + len(slots[1].shared))
    control = code.address(code.call("malloc", POINTER, code.value(size)))
    scratch = code.round_up(data_of(code, results, count), LINE)
    share = code.mul(values["share"], LINE)
    last = code.add(values["begin"], code.sub(values["steps"], 1))
    entries = ((0, NEXT), (0, DONE), (values["parts"], HOLDERS), (values["parts"], PARTS), (0, WORKERS),
               (last, START), (values["steps"], LEVELS), (share, SHARE), (scratch, SCRATCH),
               (code.add(scratch, code.mul(share, values["parts"])), HALOS), (values["begin"], BASE))  # fmt: skip
    for value, at in entries:
        code.store(value, control, at)
    for k, name in enumerate(_SLAB):
        code.store(values[name], control, second + 8 * k)
    march = code.add(control, second + 8 * len(_SLAB))
    for value, at in ((values["parts"], PARTS), (values["begin"], START), (values["again"], LEVELS),
                      (values["begin"], BASE), (values["wide"], WIDE), (values["rows"], ROWS),
                      (values["fall"], FALL)):  # fmt: skip
        code.store(value, march, at)
    _fill_pointers(code, control, march, arguments, results, values["place"], layouts[1], slots, shared)
    save_halos(code, control, values["parts"], values["steps"], layouts[0], slots[0])
    run_tiles(code, frame, control, task, worker, values["parts"], values["parts"])
    code.builder.ret(ir.Constant(I64, 0))
    return code.function.name


def _fill_pointers(
    code: Code,
    control: Number,
    march: Number,
    arguments: Number,
    results: Number,
    place: Number,
    layout: Layout,
    slots: tuple[Slots, Slots],
    shared: tuple[str, ...],
) -> None:
    """Where arrays stand: the pull's state, the state that was kept, shared arrays of both."""
    back, forth = slots
    count, rooms = len(back.state), len(layout.program.state)
    for k in range(count):
        code.store(data_of(code, results, k), control, POINTERS + 8 * k)
    for k, (name, behind) in enumerate(forth.state):
        (_, kept), number = kept_of(layout, name), [one.name for one, _ in layout.program.state].index(name)
        at = code.mul(code.add(code.mul(place, kept), kept - 1 - behind), layout.bytes_of(name))
        code.store(code.add(data_of(code, arguments, count + number), at), march, POINTERS + 8 * k)
    for own, to in ((back, control), (forth, march)):
        for k, (name, _, _) in enumerate(own.shared):
            if name not in own.private:
                pointer = data_of(code, arguments, count + rooms + shared.index(name))
                code.store(pointer, to, POINTERS + 8 * (len(own.state) + k))


def _write_slab(module: ir.Module, tiles: Pair, layout: Layout, second: int) -> ir.Function:
    """slab(control, number, scratch): forth and back, some turns each at a time."""
    code = Code(module, "slab", VOID, [I64, I64, I64])
    control, number, scratch = code.arguments
    before, turns, strip, late = (code.load(control, second + 8 * k) for k in range(len(_SLAB)))
    march = code.add(control, second + 8 * len(_SLAB))
    first = code.sub(code.div(code.mul(number, layout.size(0)), code.load(march, PARTS)), before)
    with code.loop(0, code.div(code.sub(code.add(turns, strip), 1), strip)) as k:
        begin = code.add(first, code.mul(k, strip))
        end = code.add(begin, strip)
        code.builder.call(tiles[1], [march, number, scratch, begin, end])
        code.builder.call(tiles[0], [control, number, scratch, code.sub(begin, late), code.sub(end, late)])
    code.builder.ret_void()
    return code.function

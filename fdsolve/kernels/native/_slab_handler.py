"""The entry point of a pull slab by slab: two control blocks, and a task that marches through a slab and comes back."""

from typing import Any

from llvmlite import ir

from ._code import POINTER, VOID, Code, Number
from ._handler import answer_metadata, data_of, first_of, kept_of, run_tiles, save_halos, write_task, write_worker
from ._layout import (
    APART,
    BASE,
    BLOCK,
    DONE,
    HALOS,
    HOLDERS,
    LEVELS,
    LINE,
    NEXT,
    PARTS,
    POINTERS,
    SCRATCH,
    SHARE,
    START,
    STORED,
    WIDE,
    WORKERS,
    Layout,
    Slots,
    round_up,
)  # fmt: skip
from ._scalar import I32, I64

Pair = tuple[Any, Any]
SLAB_SETTINGS = ("begin", "steps", "again", "parts", "threads", "share", "place", "wide", "height")
"""The entries of the i32 array of settings: the first level and how many there are, how many are computed again."""
_HEIGHT = BLOCK
"""Rows of a slab and of what lies beside it, in the control block of the march."""


def write_slab_handler(
    module: ir.Module, tiles: Pair, layouts: tuple[Layout, Layout], slots: tuple[Slots, Slots], shared: tuple[str, ...]
) -> str:
    """Writes the handler and what it calls; its name. Of each pair the first is of the pull, the second of the march.

    Its arguments are the pull's state, states kept of the march, shared arrays of these names, and settings.
    """
    second = round_up(POINTERS + 8 * (len(slots[0].state) + len(slots[0].shared)), LINE)
    task = write_task(module, worker := write_worker(module, _write_slab(module, tiles, layouts[1], slots[1], second)))
    code = Code(module, "fdsolve_pull", I64, [I64], internal=False)
    (frame,) = code.arguments
    answer_metadata(code, frame)
    arguments, results = first_of(code, frame)
    count, rooms = len(slots[0].state), len(slots[1].stored)
    settings = data_of(code, arguments, count + rooms + len(shared))
    values = {name: code.load(settings, 4 * k, I32) for k, name in enumerate(SLAB_SETTINGS)}
    size = second + POINTERS + 8 * (len(slots[1].state) + len(slots[1].shared) + rooms)
    control = code.address(code.call("malloc", POINTER, code.value(size)))
    scratch = code.round_up(data_of(code, results, count), LINE)
    share = code.mul(values["share"], LINE)
    last = code.add(values["begin"], code.sub(values["steps"], 1))
    entries = ((0, NEXT), (0, DONE), (values["threads"], HOLDERS), (values["parts"], PARTS), (0, WORKERS),
               (last, START), (values["steps"], LEVELS), (share, SHARE), (scratch, SCRATCH),
               (code.add(scratch, code.mul(share, values["threads"])), HALOS), (values["begin"], BASE))  # fmt: skip
    for value, at in entries:
        code.store(value, control, at)
    march = code.add(control, second)
    for value, at in ((values["parts"], PARTS), (values["begin"], START), (values["again"], LEVELS),
                      (values["begin"], BASE), (values["again"], STORED), (values["wide"], WIDE),
                      (values["height"], _HEIGHT)):  # fmt: skip
        code.store(value, march, at)
    _fill_pointers(code, control, march, arguments, results, values["place"], layouts[1], slots, shared)
    save_halos(code, control, values["parts"], values["steps"], layouts[0], slots[0])
    run_tiles(code, frame, control, task, worker, values["threads"], values["parts"])
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
    count, rooms = len(back.state), len(forth.stored)
    for k in range(count):
        code.store(data_of(code, results, k), control, POINTERS + 8 * k)
    for k, (name, behind) in enumerate(forth.state):
        (_, kept), number = kept_of(layout, name), forth.stored.index(name)
        at = code.mul(code.add(code.mul(place, kept), kept - 1 - behind), layout.bytes_of(name))
        code.store(code.add(data_of(code, arguments, count + number), at), march, POINTERS + 8 * k)
    for own, to in ((back, control), (forth, march)):
        for k, (name, _, _) in enumerate(own.shared):
            if name not in own.private:
                pointer = data_of(code, arguments, count + rooms + shared.index(name))
                code.store(pointer, to, POINTERS + 8 * (len(own.state) + k))


def _write_slab(module: ir.Module, tiles: Pair, layout: Layout, slots: Slots, second: int) -> ir.Function:
    """slab(control, number, scratch): forth, and back.

    The scratch begins with where the levels lie: the address of rings, and for each array that of index 0 of the first
    level and the bytes of a level.
    """
    code = Code(module, "slab", VOID, [I64, I64, I64])
    control, number, scratch = code.arguments
    march = code.add(control, second)
    parts, wide, height = (code.load(march, at) for at in (PARTS, WIDE, _HEIGHT))
    start = code.div(code.mul(number, layout.size(0)), parts)
    start = code.choose(code.equal(number, 0), layout.low(0), start)
    at = code.round_up(code.add(scratch, 8 + 16 * len(slots.stored)), APART)
    for name in slots.stored:
        one, kept = kept_of(layout, name)
        pitch, entry = layout.pitches(name)[0], slots.private_at(name)
        first = code.most(code.most(layout.low(0), code.sub(start, wide)), -one.lower[0])
        level = code.mul(height, pitch)
        code.store(code.sub(at, code.mul(code.add(first, one.lower[0]), pitch)), scratch, entry)
        code.store(level, scratch, entry + 8)
        levels = code.add(code.load(march, STORED), kept)
        at = code.round_up(code.add(at, code.mul(level, levels)), APART)
    code.store(at, scratch)
    code.builder.call(tiles[1], [march, number, scratch])
    code.builder.call(tiles[0], [control, number, scratch])
    code.builder.ret_void()
    return code.function

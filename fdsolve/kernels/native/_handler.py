"""The entry point that XLA calls: marches beside each other, passes over a state, tiles of a pass on XLA's own threads.

Offsets are those of XLA's C interface for custom calls (xla/ffi/api/c_api.h, version 0.x): the call frame with its
arguments and results, the metadata extension, and `XLA_FFI_ThreadPool_Schedule`.
"""

import sys
from collections.abc import Callable, Sequence

from llvmlite import ir

from ...planning import Array
from ._code import POINTER, VOID, Code, Number
from ._layout import (
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
    WIDTH,
    WORKERS,
    Layout,
    Slots,
)  # fmt: skip
from ._scalar import I32, I64

_EXTENSION, _API, _CONTEXT, _ARGUMENTS, _NUM_RESULTS, _RESULTS = 8, 16, 24, 72, 96, 112  # of the call frame
_EXTENSION_TYPE, _METADATA, _METADATA_VERSION = 8, 24, 24
_API_VERSION, _API_SCHEDULE = 16 + 16, 17 * 8
_BUFFER_DATA = 24
_BYTE = ir.IntType(8)
SETTINGS = ("start", "steps", "passes", "parts", "share", "halos", "base", "stored", "block", "place", "width")
"""The entries of the i32 array of settings; `share`, a thread's scratch, and `halos` count cache lines. Of profiles
along levels, `base` is the number of the first; so many levels of the march are `stored`, or states before blocks of
`block` levels, at a `place` among which it starts. Blocks of the second axis have a `width`."""
TEAMS = ("threads", "shots", "teams")
"""The entries behind those: so many `shots`, marches of arrays that lie one after the other, are shared out among
`teams` of `threads`. Then comes for each argument and each result but the scratch how many entries it has for one
shot; 0 where all shots have it in common."""
_LARGE, _PAGE, _HUGE = 2**20, 4096, 14
"""Bytes of fresh memory for which the system is asked for large pages; those of a small page; madvise's word."""


Complete = Callable[[Code, Number, Number, Number, Number], None]
"""Has all tiles of a pass computed: of (code, frame, control, threads, tiles)."""


def write_handler(
    module: ir.Module, tile: ir.Function, layout: Layout, slots: Slots, complete: Complete | None = None
) -> str:
    """Writes the handler and what it calls; its name. Tiles are shared out one by one, or as `complete` does."""
    one_pass = _write_pass(module, complete or _one_by_one(module, tile), layout, slots)
    march = _write_march(module, one_pass, layout, slots)
    return write_entry(module, march, SETTINGS, slots.first + len(slots.shared), slots.results, "fdsolve_march",
                       lambda buffers, shots: _prepare_written(buffers, shots, layout, slots))  # fmt: skip


def _one_by_one(module: ir.Module, tile: ir.Function) -> Complete:
    """Has each thread take a tile after the other."""
    work = write_worker(module, tile)
    task = write_task(module, work)

    def complete(code: Code, frame: Number, control: Number, threads: Number, parts: Number) -> None:
        run_tiles(code, frame, control, task, work, threads, parts)

    return complete


def write_entry(
    module: ir.Module,
    march: ir.Function,
    names: Sequence[str],
    arguments: int,
    scratch_at: int,
    name: str,
    prepare: Callable[["Buffers", Number], None] | None = None,
) -> str:
    """Writes the function that XLA calls; its name. It calls `march(frame, shot, scratch)` for every shot.

    The settings have these names, and stand behind so many arguments; the scratch is the result at `scratch_at`.
    """
    each = Code(module, f"{name}_shot", VOID, [I64] * 3)
    control, shot, scratch = each.arguments
    each.builder.call(march, [each.load(control, POINTERS), shot, scratch])
    each.builder.ret_void()
    work = write_worker(module, each.function, "team")
    task = write_task(module, work, "team_task")
    code = Code(module, name, I64, [I64], internal=False)
    (frame,) = code.arguments
    answer_metadata(code, frame)
    buffers = Buffers(code, frame, names, arguments, scratch_at)
    shots, teams, threads = (buffers.values[name] for name in ("shots", "teams", "threads"))
    if prepare is not None:
        prepare(buffers, shots)
    share = code.mul(code.add(code.mul(buffers.values["share"], threads), buffers.values["halos"]), LINE)
    control = code.address(code.call("malloc", POINTER, code.value(POINTERS + 8)))
    start = code.round_up(data_of(code, buffers.results, scratch_at), LINE)
    ask_for_large_pages(code, start, code.mul(share, teams))
    for value, at in ((0, NEXT), (0, DONE), (teams, HOLDERS), (shots, PARTS), (0, WORKERS), (share, SHARE),
                      (start, SCRATCH), (frame, POINTERS)):  # fmt: skip
        code.store(value, control, at)
    run_tiles(code, frame, control, task, work, teams, shots)
    code.builder.ret(ir.Constant(I64, 0))
    return code.function.name


class Buffers:
    """Settings by their names, and where arguments and results of a call stand for one of its shots."""

    def __init__(
        self, code: Code, frame: Number, names: Sequence[str], arguments: int, scratch_at: int, shot: Number = 0
    ) -> None:
        self.code, self.count, self.scratch_at, self.shot = code, arguments, scratch_at, shot
        self.arguments, self.results = code.load(frame, _ARGUMENTS), code.load(frame, _RESULTS)
        self.settings = data_of(code, self.arguments, arguments)
        self.names = (*names, *TEAMS)
        self.values = {name: code.load(self.settings, 4 * k, I32) for k, name in enumerate(self.names)}

    def argument(self, number: int, item: int) -> Number:
        """Where the shot's part of an argument starts, whose entries have so many bytes."""
        return self._part(self.arguments, number, number, item)

    def result(self, number: int, item: int) -> Number:
        """The same of a result."""
        return self._part(self.results, number, self.count + number - (number > self.scratch_at), item)

    def _part(self, buffers: Number, number: int, place: int, item: int) -> Number:
        code = self.code
        size = code.mul(code.load(self.settings, 4 * (len(self.names) + place), I32), item)
        return code.add(data_of(code, buffers, number), code.mul(size, self.shot))


def _write_march(module: ir.Module, one_pass: ir.Function, layout: Layout, slots: Slots) -> ir.Function:
    """march(frame, shot, scratch): all passes."""
    code = Code(module, "march", VOID, [I64] * 3)
    frame, shot, scratch = code.arguments
    values = Buffers(code, frame, SETTINGS, slots.first + len(slots.shared), slots.results).values
    unit = layout.schedule.least if layout.schedule.blocks is not None else 1
    units, passes = code.div(values["steps"], unit), values["passes"]
    with code.loop(0, passes) as number:  # levels are shared out evenly
        done = code.mul(code.div(code.mul(number, units), passes), unit)
        levels = code.sub(code.mul(code.div(code.mul(code.add(number, 1), units), passes), unit), done)
        start = code.add(values["start"], code.mul(done, layout.program.direction))
        code.builder.call(one_pass, [frame, shot, scratch, code.value(start), code.value(levels)])
    code.builder.ret_void()
    return code.function


def _prepare_written(buffers: "Buffers", shots: Number, layout: Layout, slots: Slots) -> None:
    """Asks for large pages for levels that are written down."""
    code, stored = buffers.code, buffers.values["stored"]
    for k, name in enumerate(slots.stored):
        kept = kept_of(layout, name)[1]
        number = code.mul(stored, kept) if slots.spread else code.add(stored, kept)
        size = code.mul(code.mul(number, layout.bytes_of(name)), shots)
        ask_for_large_pages(code, data_of(code, buffers.results, slots.results + 1 + k), size)


def ask_for_large_pages(code: Code, start: Number, size: Number) -> None:
    """For memory that is filled first from now on: it is fresh, and small pages of it are dear to come by."""
    if sys.platform != "linux":
        return
    with code.when(code.below(_LARGE, size)):
        page = code.round_up(code.sub(start, _PAGE - 1), _PAGE)
        asked = map(code.value, (page, code.sub(code.add(start, size), page), _HUGE))
        code.call("madvise", I32, *asked)


def write_page_handler(module: ir.Module) -> str:
    """Writes a function that XLA calls for arrays to be filled, and that asks for large pages for them; its name.

    Its first argument says how many small pages each of them fills, in i32 numbers; its last result is true.
    """
    code = Code(module, "fdsolve_fresh", I64, [I64], internal=False)
    (frame,) = code.arguments
    answer_metadata(code, frame)
    pages, results = data_of(code, code.load(frame, _ARGUMENTS), 0), code.load(frame, _RESULTS)
    last = code.sub(code.load(frame, _NUM_RESULTS), 1)
    with code.loop(0, last) as number:
        count = code.load(code.add(pages, code.mul(number, 4)), 0, I32)
        ask_for_large_pages(code, data_of(code, results, number), code.mul(count, _PAGE))
    code.builder.store(ir.Constant(_BYTE, 1), code.pointer(data_of(code, results, last)))
    code.builder.ret(ir.Constant(I64, 0))
    return code.function.name


def kept_of(layout: Layout, name: str) -> tuple[Array, int]:
    """An array, and how many levels of it are kept."""
    both = zip(layout.program.arrays, layout.program.kept, strict=True)
    return next((one, kept) for one, kept in both if one.name == name)


def answer_metadata(code: Code, frame: Number) -> None:
    """Says, where that is all that is asked, for which version of the interface this was made: the one that asks."""
    extension = code.load(frame, _EXTENSION)
    with (
        code.when(code.builder.icmp_signed("!=", extension, ir.Constant(I64, 0))),
        code.when(code.equal(code.load(extension, _EXTENSION_TYPE, I32), 1)),
    ):
        metadata = code.load(extension, _METADATA)
        version = code.load(code.load(frame, _API), _API_VERSION)
        code.store(version, metadata, _METADATA_VERSION)
        code.builder.ret(ir.Constant(I64, 0))
        code.builder.position_at_end(code.function.append_basic_block("unreached"))


def data_of(code: Code, buffers: Number, number: Number) -> Number:
    """The address of the entries of an argument or result."""
    return code.load(code.load(buffers, code.mul(number, 8)), _BUFFER_DATA)


def write_worker(module: ir.Module, tile: ir.Function, name: str = "work") -> ir.Function:
    """work(control): tiles until none is left."""
    code = Code(module, name, VOID, [I64])
    (control,) = code.arguments
    worker = code.count(control, WORKERS, 1)
    scratch = code.add(code.load(control, SCRATCH), code.mul(worker, code.load(control, SHARE)))
    tiles = code.load(control, PARTS)
    with code.forever() as leave:
        number = code.count(control, NEXT, 1)
        leave(code.builder.icmp_signed(">=", number, tiles))
        code.builder.call(tile, [control, number, scratch])
        code.count(control, DONE, 1)
    code.builder.ret_void()
    return code.function


def write_task(module: ir.Module, work: ir.Function, name: str = "task") -> ir.Function:
    """task(control): what a thread of the pool runs; the last one to hold the control block frees it."""
    code = Code(module, name, VOID, [I64])
    (control,) = code.arguments
    code.builder.call(work, [control])
    release(code, control)
    code.builder.ret_void()
    return code.function


def release(code: Code, control: Number) -> None:
    with code.when(code.equal(code.count(control, HOLDERS, -1), 1)):
        code.call("free", VOID, code.pointer(control))


def taken_of(slots: Slots) -> int:
    """Where it stands in the control block of a pass, behind its pointers, up to which level each tile is taken."""
    return POINTERS + 8 * (len(slots.state) + len(slots.shared) + len(slots.stored))


def _write_pass(module: ir.Module, complete: Complete, layout: Layout, slots: Slots) -> ir.Function:
    """pass(frame, shot, scratch, start, levels): some levels, all tiles."""
    code = Code(module, "one_pass", VOID, [I64] * 5)
    frame, shot, scratch, start, levels = code.arguments
    count, shared, before, item = len(slots.state), len(slots.shared), slots.results, layout.item
    buffers = Buffers(code, frame, SETTINGS, slots.first + shared, before, shot)
    parts, threads, share, base, stored, block, place, width = (
        buffers.values[name] for name in ("parts", "threads", "share", "base", "stored", "block", "place", "width")
    )
    size = code.add(code.mul(parts, 8), taken_of(slots))
    control = code.address(code.call("malloc", POINTER, code.value(size)))
    rings = code.mul(code.mul(share, LINE), threads)
    for value, at in ((0, NEXT), (0, DONE), (threads, HOLDERS), (parts, PARTS), (0, WORKERS), (start, START),
                      (levels, LEVELS), (code.mul(share, LINE), SHARE), (scratch, SCRATCH),
                      (code.add(scratch, rings), HALOS), (base, BASE), (stored, STORED), (block, BLOCK),
                      (width, WIDTH)):  # fmt: skip
        code.store(value, control, at)
    for k, (name, behind) in enumerate(slots.state):
        if slots.alone:
            pointer = _place_before(buffers, name, behind, code.sub(start, base), place, layout, slots)
        else:
            pointer = buffers.result(k, item)
        code.store(pointer, control, POINTERS + 8 * k)
    for k, (name, _, _) in enumerate(slots.shared):
        code.store(buffers.argument(slots.first + k, slots.itemsize(name)), control, POINTERS + 8 * (count + k))
    for k, name in enumerate(slots.stored):
        code.store(buffers.result(before + 1 + k, item), control, POINTERS + 8 * slots.stored_slot(name))
    if layout.schedule.depths is None and (layout.program.wraps or not slots.alone):
        save_halos(code, control, parts, levels, layout, slots)
    complete(code, frame, control, threads, parts)
    code.builder.ret_void()
    return code.function


def run_tiles(
    code: Code, frame: Number, control: Number, task: ir.Function, work: ir.Function, threads: Number, parts: Number
) -> None:
    """Has all tiles computed by this thread and others of XLA's, and waits for them."""
    schedule_task(code, frame, control, task, threads)
    code.builder.call(work, [control])
    with code.forever() as leave:
        leave(code.builder.icmp_signed(">=", code.count(control, DONE, 0), parts))
        code.call("sched_yield", I32)
    release(code, control)


def _place_before(
    buffers: Buffers, name: str, behind: int, done: Number, place: Number, layout: Layout, slots: Slots
) -> Number:
    """Where a level before a pass stands: among the states that were kept, or among the levels written down so far."""
    (_, kept), number, code = kept_of(layout, name), slots.stored.index(name), buffers.code
    size, item = layout.bytes_of(name), layout.item
    first = code.add(buffers.argument(number, item), code.mul(code.add(code.mul(place, kept), kept - 1 - behind), size))
    later = code.add(
        buffers.result(slots.results + 1 + number, item), code.mul(code.add(done, kept - 1 - behind), size)
    )
    return code.choose(code.equal(done, 0), first, later)


def save_halos(
    code: Code,
    control: Number,
    parts: Number,
    levels: Number,
    layout: Layout,
    slots: Slots,
) -> None:
    """Keeps the rows beside each tile, which other tiles write over while it still reads them."""
    size, wraps = layout.size(0), layout.program.wraps
    halo = code.add(code.mul(levels, layout.schedule.rows.growth), layout.halo(0))
    with code.loop(0, parts) as part:
        at = code.add(
            code.load(control, HALOS),
            code.mul(code.mul(part, 2), code.mul(halo, layout.halo_rows())),
        )
        start = code.div(code.mul(part, size), parts)
        stop = code.div(code.mul(code.add(part, 1), size), parts)
        first, last = code.equal(part, 0), code.equal(code.add(part, 1), parts)
        for slot, (name, _) in enumerate(slots.state):
            one, pitch = layout.program.array(name), layout.pitches(name)[0]
            zero = code.add(code.load(control, POINTERS + 8 * slot), one.lower[0] * pitch)
            begin, end = -one.lower[0], one.shape[0] + one.upper[0]
            for row, outer, other in ((code.sub(start, halo), first, size), (stop, last, -size)):
                target: Number = at
                if wraps:
                    source, count = code.choose(outer, code.add(row, other), row), halo
                else:  # beyond the first and the last tile there is nothing, nor where an array has no rows
                    source = code.most(row, begin)
                    count = code.choose(outer, 0, code.sub(code.least(code.add(row, halo), end), source))
                    target = code.add(at, code.mul(code.sub(source, row), pitch))
                with code.when(code.below(0, count)):
                    values = target, code.add(zero, code.mul(source, pitch)), code.mul(count, pitch)
                    code.call("memcpy", I64, *map(code.value, values))
                at = code.add(at, code.mul(halo, pitch))


def schedule_task(code: Code, frame: Number, control: Number, task: ir.Function, threads: Number) -> None:
    """Asks XLA's pool for all threads but this one; where it has none, this one does all."""
    api = code.load(frame, _API)
    schedule = code.load(api, _API_SCHEDULE)
    request = code.table(5)
    code.store(40, request)
    code.store(0, request, 8)
    code.store(code.load(frame, _CONTEXT), request, 16)
    code.store(code.address(task), request, 24)
    code.store(control, request, 32)
    function = code.builder.inttoptr(schedule, ir.FunctionType(I64, [I64]).as_pointer())
    with code.loop(1, threads):
        failed = code.builder.call(function, [request])
        with code.when(code.builder.icmp_signed("!=", failed, ir.Constant(I64, 0))):
            code.count(control, HOLDERS, -1)

"""The entry point that XLA calls: passes over the state, tiles of a pass on XLA's own threads.

Offsets are those of XLA's C interface for custom calls (xla/ffi/api/c_api.h, version 0.x): the call frame with its
arguments and results, the metadata extension, and `XLA_FFI_ThreadPool_Schedule`.
"""

from llvmlite import ir

from ._code import POINTER, VOID, Code, Number
from ._layout import (
    DONE,
    HOLDERS,
    LEVELS,
    LINE,
    NEXT,
    PARTS,
    POINTERS,
    SCRATCH,
    SHARE,
    SPLIT,
    START,
    TILES,
    WORKERS,
    Slots,
)  # fmt: skip
from ._scalar import I32, I64

_EXTENSION, _API, _CONTEXT, _ARGUMENTS, _RESULTS = 8, 16, 24, 72, 112  # of the call frame
_EXTENSION_TYPE, _METADATA, _METADATA_VERSION = 8, 24, 24
_API_VERSION, _API_SCHEDULE = 16 + 16, 17 * 8
_BUFFER_DATA = 24
SETTINGS = ("start", "steps", "levels", "parts", "split", "threads", "share")
"""The entries of the i32 array of settings; `share` counts cache lines."""


def write_handler(module: ir.Module, tile: ir.Function, slots: Slots, direction: int) -> str:
    """Writes the handler and what it calls; its name. `direction` is −1 where levels are counted back."""
    work = _write_worker(module, tile)
    task = _write_task(module, work)
    one_pass = _write_pass(module, work, task, slots)
    code = Code(module, "fdsolve_march", I64, [I64], internal=False)
    (frame,) = code.arguments
    extension = code.load(frame, _EXTENSION)
    with code.when(code.builder.icmp_signed("!=", extension, ir.Constant(I64, 0))):
        asked = code.equal(code.load(extension, _EXTENSION_TYPE, I32), 1)
        with code.when(asked):
            _answer_metadata(code, frame, extension)
    arguments, results = code.load(frame, _ARGUMENTS), code.load(frame, _RESULTS)
    count = len(slots.state)
    settings = _data(code, arguments, count + len(slots.shared))
    values = {name: code.load(settings, 4 * k, I32) for k, name in enumerate(SETTINGS)}
    memory = code.table(4)  # start of the pass, steps left, pass number
    code.store(values["start"], memory)
    code.store(values["steps"], memory, 8)
    code.store(0, memory, 16)
    with code.forever() as leave:
        left = code.load(memory, 8)
        leave(code.below(left, 1))
        levels = code.least(values["levels"], left)
        start, number = code.load(memory), code.load(memory, 16)
        code.builder.call(
            one_pass,
            [frame, settings, arguments, results, *map(code.value, (start, levels, number))],
        )
        code.store(code.add(start, code.mul(levels, direction)), memory)
        code.store(code.sub(left, levels), memory, 8)
        code.store(code.add(number, 1), memory, 16)
    code.builder.ret(ir.Constant(I64, 0))
    return code.function.name


def _answer_metadata(code: Code, frame: Number, extension: Number) -> None:
    """Says for which version of the interface this was made: the one that asks."""
    metadata = code.load(extension, _METADATA)
    version = code.load(code.load(frame, _API), _API_VERSION)
    code.store(version, metadata, _METADATA_VERSION)
    code.builder.ret(ir.Constant(I64, 0))
    code.builder.position_at_end(code.function.append_basic_block("unreached"))


def _data(code: Code, buffers: Number, number: Number) -> Number:
    """The address of the entries of an argument or result."""
    return code.load(code.load(buffers, code.mul(number, 8)), _BUFFER_DATA)


def _write_worker(module: ir.Module, tile: ir.Function) -> ir.Function:
    """work(control): tiles until none is left."""
    code = Code(module, "work", VOID, [I64])
    (control,) = code.arguments
    worker = code.count(control, WORKERS, 1)
    scratch = code.add(code.load(control, SCRATCH), code.mul(worker, code.load(control, SHARE)))
    tiles = code.load(control, TILES)
    with code.forever() as leave:
        number = code.count(control, NEXT, 1)
        leave(code.builder.icmp_signed(">=", number, tiles))
        code.builder.call(tile, [control, number, scratch])
        code.count(control, DONE, 1)
    code.builder.ret_void()
    return code.function


def _write_task(module: ir.Module, work: ir.Function) -> ir.Function:
    """task(control): what a thread of the pool runs; the last one to hold the control block frees it."""
    code = Code(module, "task", VOID, [I64])
    (control,) = code.arguments
    code.builder.call(work, [control])
    _release(code, control)
    code.builder.ret_void()
    return code.function


def _release(code: Code, control: Number) -> None:
    with code.when(code.equal(code.count(control, HOLDERS, -1), 1)):
        code.call("free", VOID, code.pointer(control))


def _write_pass(module: ir.Module, work: ir.Function, task: ir.Function, slots: Slots) -> ir.Function:
    """pass(frame, settings, arguments, results, start, levels, number): some levels, all tiles."""
    code = Code(module, "one_pass", VOID, [I64] * 7)
    frame, settings, arguments, results, start, levels, number = code.arguments
    count, shared = len(slots.state), len(slots.shared)
    control = code.address(code.call("malloc", POINTER, code.value(POINTERS + 8 * (2 * count + shared + 1))))
    parts, split, threads, share = (code.load(settings, 4 * SETTINGS.index(name), I32)
                                    for name in ("parts", "split", "threads", "share"))  # fmt: skip
    tiles = code.mul(parts, split)
    for value, at in ((0, NEXT), (0, DONE), (threads, HOLDERS), (tiles, TILES), (0, WORKERS), (parts, PARTS),
                      (start, START), (levels, LEVELS), (split, SPLIT), (code.mul(share, LINE), SHARE)):  # fmt: skip
        code.store(value, control, at)
    scratch = code.round_up(_data(code, results, 2 * count), LINE)
    code.store(scratch, control, SCRATCH)
    odd = code.equal(code.builder.and_(number, ir.Constant(I64, 1)), 1)
    for k in range(count):
        first, second = _data(code, results, k), _data(code, results, count + k)
        given = code.choose(code.equal(number, 0), _data(code, arguments, k), first)
        code.store(code.choose(odd, second, given), control, POINTERS + 8 * k)
        code.store(code.choose(odd, first, second), control, POINTERS + 8 * (count + k))
    for k in range(shared):
        code.store(_data(code, arguments, count + k), control, POINTERS + 8 * (2 * count + k))
    _schedule(code, frame, control, task, threads)
    code.builder.call(work, [control])
    with code.forever() as leave:
        leave(code.builder.icmp_signed(">=", code.count(control, DONE, 0), tiles))
        code.call("sched_yield", I32)
    _release(code, control)
    code.builder.ret_void()
    return code.function


def _schedule(code: Code, frame: Number, control: Number, task: ir.Function, threads: Number) -> None:
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

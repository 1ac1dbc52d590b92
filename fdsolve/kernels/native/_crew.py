"""Threads abreast: each computes its part of the second axis at every turn, and they wait for each other after it.

So no row is computed twice, as where each has a slab of rows, and each thread's cache holds its part alone. Who goes
along is settled by a roll call: threads of the pool that do not come soon, since others keep them, are left out, and
no one ever waits for a thread that is not under way.
"""

from typing import Any

from llvmlite import ir

from ._code import VOID, Code, Number
from ._handler import release, schedule_task, write_task
from ._layout import DONE
from ._scalar import I32, I64

COME, CREW, MET = 0, 8, 16
"""Entries of a roll in bytes: how many came, of how many the crew is once it is closed, and how often any of them has
finished a turn."""
ROLL = 24
"""Bytes of a roll."""
_CLOSED = 2**32
_PATIENCE, _SPINS = 2000, 400
"""How often one looks whether all have come; and whether all have finished a turn before others may have the
processor."""


def write_meeting(module: ir.Module) -> ir.Function:
    """meet(roll): waits until all of the crew have come as far."""
    code = Code(module, "meet", VOID, [I64])
    code.function.attributes.add("noinline")
    (roll,) = code.arguments
    crew = code.load(roll, CREW)
    goal = code.mul(code.add(code.div(code.count(roll, MET, 1), crew), 1), crew)
    tries = code.table(1)
    code.store(0, tries)
    with code.forever() as leave:
        leave(code.builder.icmp_signed(">=", code.look(roll, MET), goal))
        tried = code.add(code.load(tries), 1)
        code.store(tried, tries)
        with code.when(code.below(_SPINS, tried)):
            code.call("sched_yield", I32)
    code.builder.ret_void()
    return code.function


def part_of(code: Code, roll: Number, number: Number, low: int, high: int) -> tuple[Number, Number]:
    """The part of a span that one of the crew computes."""
    crew = code.load(roll, CREW)

    def end(before: Number) -> Number:
        return code.add(code.div(code.mul(before, high - low), crew), low)

    return end(number), end(code.add(number, 1))


def write_crew(module: ir.Module, work: ir.Function, roll_at: int) -> ir.Function:
    """lead(frame, control, threads), which has all parts computed, and returns then.

    `work(control, number)` computes one; the roll stands in the control block.
    """
    code = Code(module, "follow", VOID, [I64])
    (control,) = code.arguments
    roll = code.add(control, roll_at)
    number = code.count(roll, COME, 1)
    with code.when(code.below(number, _CLOSED)):
        with code.forever() as leave:
            leave(code.below(0, code.look(roll, CREW)))
            code.call("sched_yield", I32)
        code.builder.call(work, [control, number])
        code.count(control, DONE, 1)
    code.builder.ret_void()
    return _write_lead(module, work, write_task(module, code.function, "follow_task"), roll_at)


def _write_lead(module: ir.Module, work: ir.Function, task: ir.Function, roll_at: int) -> ir.Function:
    code = Code(module, "lead", VOID, [I64] * 3)
    frame, control, threads = code.arguments
    roll = code.add(control, roll_at)
    for at in (CREW, MET):
        code.store(0, roll, at)
    code.store(1, roll, COME)
    schedule_task(code, frame, control, task, threads)
    tries = code.table(1)
    code.store(0, tries)
    with code.forever() as leave:
        tried: Any = code.load(tries)
        late = code.below(_PATIENCE, tried)
        leave(code.builder.or_(late, code.builder.icmp_signed(">=", code.look(roll, COME), threads)))
        code.store(code.add(tried, 1), tries)
        code.call("sched_yield", I32)
    crew = code.count(roll, COME, _CLOSED)
    code.count(roll, CREW, crew)
    code.builder.call(work, [control, code.value(0)])
    code.count(control, DONE, 1)
    with code.forever() as leave:
        leave(code.builder.icmp_signed(">=", code.look(control, DONE), crew))
        code.call("sched_yield", I32)
    release(code, control)
    code.builder.ret_void()
    return code.function

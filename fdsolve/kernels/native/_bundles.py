"""Operations that one row function does together: a call a row, and one loop for all that runs over the same points.

Loops over several arrays read each row once for all of them, and what is written point by point beside walls costs no
call of its own.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...region import Box
from ...stencil import StateRead
from ._operands import reading_box
from ._program import At, Operation, Program
from ._schedule import Schedule, boxes_meet

Bundle = tuple[int, ...]
"""Numbers of operations on the same rows, in order."""
MOST_OPERATIONS = 48
"""In a bundle, so that no row function grows without bound."""
NEAR = 24
"""Rows from the ends of the first axis that count as at a wall: those of a layer of ten, and as many as read them."""


def cut_for_bundles(operations: Sequence[Operation]) -> list[Operation]:
    """Operations of a transpose cut along all axes but the last where the largest starts and stops, and done at the
    levels at which others on the same rows are: so that rows of the largest have a bundle of their own."""
    done = [one.box for one in operations if one.at is not At.LAST]
    if not done:
        return list(operations)
    inner = max(done, key=lambda box: box.size)
    cut = [new for one in operations for new in _cut_along(one, inner)]
    return _as_often(cut, {_rows_of(one.box) for one in cut if one.at is At.FIRST})


def split_for_bundles(operations: Sequence[Operation]) -> list[Operation]:
    """The same of many operations: not cut, and on the rows of the largest that is not done at all levels."""
    found = [one.box for one in operations if one.at is At.FIRST]
    return _as_often(operations, {_rows_of(max(found, key=lambda box: box.size))} if found else set())


def _as_often(operations: Sequence[Operation], rows: Collection[Any]) -> list[Operation]:
    """The operations, of which those on some rows are done at the first level and at later ones apart."""
    found = []
    for one in operations:
        twice = one.at is At.EVERY and _rows_of(one.box) in rows
        found += [replace(one, at=at) for at in ((At.FIRST, At.LATER) if twice else (one.at,))]
    return found


def _cut_along(operation: Operation, inner: Box) -> list[Operation]:
    boxes = [operation.box]
    for axis in range(inner.ndim - 1) if operation.at is At.EVERY else ():
        for at in (inner.start[axis], inner.stop[axis]):
            boxes = [part for box in boxes for part in _halves(box, axis, at)]
    return [replace(operation, box=box) for box in boxes]


def _halves(box: Box, axis: int, at: int) -> list[Box]:
    if not box.start[axis] < at < box.stop[axis]:
        return [box]
    stop = (*box.stop[:axis], at, *box.stop[axis + 1 :])
    start = (*box.start[:axis], at, *box.start[axis + 1 :])
    return [Box(box.start, stop), Box(start, box.stop)]


def _rows_of(box: Box) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return box.start[:-1], box.stop[:-1]


def make_bundles(program: Program, schedule: Schedule) -> list[Bundle]:
    """The operations, each with the first before it on the same rows that nothing in between keeps it from."""
    operations, rows = program.operations, schedule.rows
    found: list[list[int]] = []

    def keys(number: int) -> tuple[object, ...]:
        box = operations[number].box
        when = operations[number].at, schedule.delays[number], rows.below[number], rows.above[number]
        second = schedule.blocks.delays[number] if schedule.blocks is not None else 0
        return (box.start[:-1], box.stop[:-1], *when, second)

    def place(number: int) -> int | None:
        """The bundle that an operation joins: between it and the end, nothing depends on the order."""
        best = None
        for k in range(len(found) - 1, -1, -1):
            before = [other for other in found[k] if _ordered(operations, other, number, program.wraps)]
            fits = keys(found[k][0]) == keys(number) and len(found[k]) < MOST_OPERATIONS
            if fits and all(_adds_to(operations[number], operations[other], program.wraps) for other in before):
                best = k
            if before:
                break
        return best

    for number in range(len(operations)):
        at = place(number)
        if at is None:
            found.append([number])
        else:
            found[at].append(number)
    return [tuple(numbers) for numbers in found]


def make_runs(
    bundles: Iterable[Bundle], program: Program, schedule: Schedule
) -> list[tuple[list[Bundle], tuple[int, int] | None]]:
    """The bundles in order; those in a row that fill a few rows at the walls alone share one question.

    With each run the turns, counted from a level's start, before and from which any of them has rows.
    """
    size, runs = max(one.shape[0] for one in program.arrays), []
    for bundle in bundles:
        box = program.operations[bundle[0]].box
        start, stop = box.start[0], box.stop[0]
        delay = schedule.delays[bundle[0]]
        low, high = stop <= NEAR, start >= size - NEAR
        if program.wraps or size < 3 * NEAR or not (low or high):
            runs.append(([bundle], None))
            continue
        below, above = (stop + delay, 2**62) if low else (-(2**62), start + delay)
        if runs and runs[-1][1] is not None:
            before, near = runs[-1]
            runs[-1] = ([*before, bundle], (max(near[0], below), min(near[1], above)))
        else:
            runs.append(([bundle], (below, above)))
    return runs


def _ordered(operations: Sequence[Operation], first: int, second: int, wraps: bool) -> bool:
    """Whether one of two operations of a level must come before the other."""
    a, b = operations[first], operations[second]
    if {a.at, b.at} == {At.FIRST, At.LATER}:
        return False
    if a.array == b.array and boxes_meet(a.box, b.box, wraps):
        return True
    return _reads_now(a, b, wraps) or _reads_now(b, a, wraps)


def _adds_to(second: Operation, first: Operation, wraps: bool) -> bool:
    """Whether one operation only adds to what another writes: in a loop of its own, after that."""
    apart = not _reads_now(first, second, wraps) and not _reads_now(second, first, wraps)
    return second.adds and second.array == first.array and apart


def _reads_now(operation: Operation, other: Operation, wraps: bool) -> bool:
    """Whether an operation reads what another writes at the same level."""
    return any(
        isinstance(one, StateRead)
        and one.level == 0
        and one.field == other.array
        and boxes_meet(reading_box(operation.box, one).shift(one.offset), other.box, wraps)
        for one in operation.operands
    )

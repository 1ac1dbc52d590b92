"""When each row of each operation is computed: a wavefront through rows and time levels.

Row i of operation a at level s is computed at turn i + Dₐ + S·(s − 1). Delays D and the skew S are the least with which
every row that is read has been computed: a read of a row o further on, l levels back, of what b writes wants
Dₐ + S·l ≥ D_b + o. A tile of rows also computes rows beyond its ends, as far as later levels read them:
e_b + ρ·l ≥ eₐ + o, with ρ rows more for each level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...region import Box
from ._program import Program, Unserved

MAX_REACH = 32
"""Rows; what reads further than this across a level is not worth a wavefront."""


@dataclass(frozen=True)
class Reach:
    """How far beyond a tile each operation computes, below and above, along one axis; and more for each level."""

    below: tuple[int, ...]
    above: tuple[int, ...]
    growth: int
    splits: bool


@dataclass(frozen=True)
class Schedule:
    """Delays by operation, the skew, rows that rings hold by array, and reaches along the first two axes."""

    delays: tuple[int, ...]
    skew: int
    rings: dict[str, int]
    rows: Reach
    columns: Reach
    least: int


@dataclass(frozen=True)
class _Edge:
    """Operation `reader` reads what `writer` writes, `lag` levels back, moved by `offset`."""

    reader: int
    writer: int
    lag: int
    offset: tuple[int, ...]


def make_schedule(program: Program) -> Schedule:
    """The schedule of a program of at least two axes; raises Unserved where rows read each other far apart."""
    edges = _edges(program)
    skew, delays = _delays(program, edges)
    least = 2 * MAX_REACH
    rows = _reach(program, edges, 0, least)
    if not rows.splits:
        raise Unserved(f"rows further than {MAX_REACH} apart read each other at one level")
    columns = _reach(program, edges, 1, least)
    return Schedule(delays, skew, _rings(program, edges, skew, delays), rows, columns, least)


def _edges(program: Program) -> list[_Edge]:
    found = []
    for reader, operation in enumerate(program.operations):
        for read in operation.reads:
            moved = operation.box.shift(read.offset)
            for writer, other in enumerate(program.operations):
                if other.array == read.field and _meet(moved, other.box, program.wraps):
                    found.append(_Edge(reader, writer, -read.level, read.offset))
    return found


def _meet(a: Box, b: Box, wraps: bool) -> bool:
    if not wraps:
        return not a.intersect(b).empty
    first, second = (Box(box.start[1:], box.stop[1:]) for box in (a, b))
    return not first.intersect(second).empty


def _delays(program: Program, edges: list[_Edge]) -> tuple[int, tuple[int, ...]]:
    """The least skew for which delays exist, and the least delays."""
    operations = program.operations
    for skew in range(4 * MAX_REACH):
        constraints = [
            (e.reader, e.writer, e.offset[0] - skew * e.lag + (e.lag == 0 and e.writer >= e.reader)) for e in edges
        ]
        constraints += [
            (b, a, 0)
            for b, later in enumerate(operations)
            for a, before in enumerate(operations[:b])
            if later.array == before.array and _meet(later.box, before.box, program.wraps)
        ]
        found = _longest(len(operations), constraints)
        if found is not None:
            return skew, tuple(found)
    raise Unserved(f"rows further than {MAX_REACH} apart read each other at one level")


def _longest(count: int, constraints: Sequence[tuple[int, int, int]]) -> list[int] | None:
    """The least x ≥ 0 with x[i] ≥ x[j] + c for all (i, j, c); None where there is none."""
    found = [0] * count
    for _ in range(count + 1):
        changed = False
        for i, j, c in constraints:
            if found[j] + c > found[i]:
                found[i], changed = found[j] + c, True
        if not changed:
            return found
        if max(found) > 8 * MAX_REACH:
            return None
    return None


def _reach(program: Program, edges: list[_Edge], axis: int, least: int) -> Reach:
    """How far beyond a tile along one axis operations must compute; none may be cut where that is far."""
    size = max(one.shape[axis] for one in program.arrays)
    wraps = program.wraps and axis == 0
    count, sides = len(program.operations), []
    for growth in range(MAX_REACH + 1):
        sides = []
        for sign in (-1, 1):
            constraints = []
            for e in edges:
                box = program.operations[e.reader].box
                if not wraps and _inside(box, axis, e.offset[axis], sign, size, least):
                    continue
                constraints.append((e.writer, e.reader, sign * e.offset[axis] - growth * e.lag))
            sides.append(_longest(count, constraints))
        if all(side is not None and max(side, default=0) <= MAX_REACH for side in sides):
            below, above = (tuple(side) for side in sides)
            return Reach(below, above, growth, True)
    return Reach((0,) * count, (0,) * count, 0, False)


def _inside(box: Box, axis: int, offset: int, sign: int, size: int, least: int) -> bool:
    """Whether all that a box near a wall reads lies in the tile at that wall, which is at least `least` wide."""
    if sign > 0:
        return box.stop[axis] + offset <= least
    return box.start[axis] + offset >= size - least


def _rings(program: Program, edges: list[_Edge], skew: int, delays: tuple[int, ...]) -> dict[str, int]:
    """Rows to hold of each array: from the first writing of a row to the last reading of it; a power of two."""
    found = {}
    for one in program.arrays:
        writers = [delays[i] for i, op in enumerate(program.operations) if op.array == one.name]
        last = [delays[e.reader] + skew * e.lag - e.offset[0] for e in edges
                if program.operations[e.writer].array == one.name]  # fmt: skip
        rows = max([*last, *writers, 0]) - min([*writers, 0]) + 1
        found[one.name] = 1 << (rows - 1).bit_length()
    return found


def is_direct(schedule: Schedule, program: Program, name: str) -> bool:
    """Whether the last level of an array can be written where it ends up: no operation reaches beyond its tile."""
    return all(
        not reach.below[i] and not reach.above[i]
        for reach in (schedule.rows, schedule.columns)
        for i, operation in enumerate(program.operations)
        if operation.array == name
    )

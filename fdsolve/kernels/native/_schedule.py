"""When each row of each operation is computed: a wavefront through rows and time levels.

Row i of operation a at level s is computed at turn i + Dₐ + S·(s − 1). Delays D and the skew S are the least with which
every row that is read has been computed: a read of a row o further on, l levels back, of what b writes wants
Dₐ + S·l ≥ D_b + o. A tile of rows also computes rows beyond its ends, as far as later levels read them:
e_b + ρ·l ≥ eₐ + o, with ρ rows more for each level.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...region import Box, Boxes
from ._operands import reading_box
from ._program import Program, Unserved

MAX_REACH = 32
"""Rows; what reads further than this across a level is not worth a wavefront."""
TOGETHER = 4
"""Turns of a level after each other, where levels read one row beside and rows are no planes: what they read in common
is in the first cache then. Rings are higher by so many rows less one, which wider ones do not make up for."""
MOST = 4
"""The part of all points, one of so many, from which on an operation does what most points do."""
LOW = (8, 16, 32)
"""Rows of low tiles: the fewest are taken with which what stands at a wall lies in the tile there."""
WALLS = (8, 16, 32, 64)
"""Rows beside a wall that only the tile there computes: the fewest are taken with which others reach least far."""


@dataclass(frozen=True)
class Reach:
    """Rows beyond a tile that each operation computes, below and above; and more for each level, where most points are
    no more than is `usual`; `reads` is how many rows away levels before are read. So it is of tiles that have at least
    so many rows; and of those that come, with all rows beyond them, no nearer to a wall they are not at than `apart`:
    what stands there may read further."""

    below: tuple[int, ...]
    above: tuple[int, ...]
    growth: int
    least: int = 2 * MAX_REACH
    usual: int = 0
    reads: int = 0
    apart: int = 0


@dataclass(frozen=True)
class Blocks:
    """A schedule for blocks of the second axis, one after the other: delays by operation and the skew along it, and
    `depths`: level s of an array stands where level s − depth stood."""

    delays: tuple[int, ...]
    skew: int
    depths: dict[str, int]


@dataclass(frozen=True)
class Schedule:
    """Delays by operation, the skew, and rows that rings hold by array; how the state is written over itself.

    Arrays in `direct` can be written where they stand by a pass of at least `fewest` levels; else rows are copied there
    `late` turns after they are computed. Passes of fewer levels than `least` would write over what is still read. With
    `blocks` there are no rings: passes have a multiple of `least` levels. So many turns of a level are done `together`,
    before those of the next one.
    """

    delays: tuple[int, ...]
    skew: int
    rings: dict[str, int]
    rows: Reach
    direct: frozenset[str]
    fewest: int
    late: int
    least: int
    blocks: Blocks | None = None
    together: int = 1
    depths: dict[str, int] | None = None
    """Where levels are computed whole, one after the other: how many levels back each array of the state is read."""

    @property
    def deepest(self) -> int:
        """The most of these."""
        return max((self.depths or {}).values(), default=0)


@dataclass(frozen=True)
class Edge:
    """Operation `reader` reads what `writer` writes, `lag` levels back, moved by `offset`."""

    reader: int
    writer: int
    lag: int
    offset: tuple[int, ...]
    apart: bool = False
    """Whether they must not be computed at the same turn."""


def make_schedule(program: Program, abreast: bool = False) -> Schedule:
    """The schedule of a program of at least two axes; raises Unserved where rows read each other far apart.

    `abreast`: whether others compute the neighbours on the second axis at the same turn, so that what is read there
    must be written a turn before, and what is read by them is written over a turn later.
    """
    edges = [replace(one, apart=one.offset[1] != 0) for one in find_edges(program)] if abreast else find_edges(program)
    skew, delays = _delays_of(program, edges, 0)
    alone = abreast and not program.wraps  # one tile of all rows, beside which there is nothing
    none = (0,) * len(program.operations)
    rows = Reach(none, none, 0) if alone else _reach(program, edges)
    direct = frozenset(
        one.name
        for one, _ in program.state
        if not any(rows.below[i] or rows.above[i] for i, op in enumerate(program.operations) if op.array == one.name)
    )
    if skew == 0 and any(e.lag and delays[e.reader] > e.offset[0] for e in edges):
        skew, delays = _delays_of(program, edges, 1)  # else later levels never come after what reads rows behind
    late, fewest, least = _overwriting(program, edges, skew, delays)
    together = TOGETHER if len(program.arrays[0].shape) == 2 and skew == 1 else 1
    rings = _rings(program, edges, skew, delays, late, together)
    return Schedule(delays, skew, rings, rows, direct, fewest, late, least, together=together)


def make_whole(program: Program) -> Schedule | None:
    """A schedule by which all threads compute a level before any begins the next one; None where two of them would
    write different numbers at once. Only what lives within a level lies in rings, and is computed beside a tile."""
    every = find_edges(program)
    edges = [e for e in every if not e.lag]
    _, delays = _delays_of(program, edges, 0)
    rows = _reach(program, edges)
    depths = {one.name: kept for one, kept in program.state}
    for e in every:
        name = program.operations[e.writer].array
        if name in depths:
            depths[name] = max(depths[name], e.lag)
    beside = {op.array for op, *reach in zip(program.operations, rows.below, rows.above, strict=True) if any(reach)}
    if not all(program.written_once(name) for name in beside & set(depths)):
        return None
    rings = {name: rows for name, rows in _rings(program, edges, 0, delays, 0, 1).items() if name not in depths}
    return Schedule(delays, 0, rings, rows, frozenset(depths), 1 + max(depths.values()), 0, 1, depths=depths)


def _delays_of(program: Program, edges: Sequence[Edge], fewest: int) -> tuple[int, tuple[int, ...]]:
    """The least skew along rows, and delays: the least but of a transpose's operations on arrays that nothing else
    reads (sums), which are as late as the operation that does most, so that one loop can do both."""
    skew, delays = least_delays(program, edges, fewest)
    operations = program.operations
    own = {op.array for op in operations}
    own -= {read.field for op in operations for read in op.reads if read.field != op.array or any(read.offset)}
    rest = [k for k, one in enumerate(operations) if one.array not in own]
    if program.direction > 0 or not rest or not own & {one.name for one, _ in program.state}:
        return skew, delays
    main = max(rest, key=lambda k: operations[k].box.size)
    late = delays[main]
    return skew, tuple(max(d, late) if op.array in own else d for d, op in zip(delays, operations, strict=True))


def find_edges(program: Program) -> list[Edge]:
    """Who reads what whom writes."""
    found = []
    writers = by_array(program)
    for reader, operation in enumerate(program.operations):
        for read in operation.reads:
            if read.field in writers:
                numbers, boxes = writers[read.field]
                there = reading_box(operation.box, read).shift(read.offset)
                for k in boxes.meeting(there, int(program.wraps)):
                    found.append(Edge(reader, numbers[k], -read.level, read.offset))
    return found


def boxes_meet(a: Box, b: Box, wraps: bool) -> bool:
    """Whether two boxes have points in common; where rows are counted round, any rows may be the same."""
    first = 1 if wraps else 0
    sides = zip(a.start[first:], a.stop[first:], b.start[first:], b.stop[first:], strict=True)
    return all(max(start, low) < min(stop, high) for start, stop, low, high in sides)


def by_array(program: Program) -> dict[str, tuple[list[int], Boxes]]:
    """The operations that write each array: their numbers and boxes."""
    numbers: dict[str, list[int]] = {}
    for number, operation in enumerate(program.operations):
        numbers.setdefault(operation.array, []).append(number)
    return {name: (own, Boxes(program.operations[k].box for k in own)) for name, own in numbers.items()}


def _writing_after(program: Program) -> list[tuple[int, int]]:
    """Pairs of operations of which the first comes later in the list and writes what the second wrote."""
    return [
        (later, numbers[k])
        for numbers, boxes in by_array(program).values()
        for later in numbers
        for k in boxes.meeting(program.operations[later].box, int(program.wraps))
        if numbers[k] < later
    ]


def _in_one_loop(program: Program) -> list[tuple[int, int]]:
    """Pairs of operations of which the first is done no sooner and on no fewer rows than the second: round the ring of
    those of a loop on the same rows, so that all are done alike."""
    loops: dict[Any, list[int]] = {}
    for number, one in enumerate(program.operations):
        if one.loop:
            loops.setdefault((one.loop, one.box.start[:-1], one.box.stop[:-1]), []).append(number)
    return [pair for numbers in loops.values() for pair in zip(numbers, numbers[1:] + numbers[:1], strict=True)]


def least_delays(
    program: Program, edges: Sequence[Edge], fewest: int = 0, axis: int = 0
) -> tuple[int, tuple[int, ...]]:
    """The least skew along an axis, at least `fewest`, for which delays exist, and the least delays.

    Along the first axis, what reads a later operation of its own level must come a turn after it.
    """
    operations, written = program.operations, [*_writing_after(program), *_in_one_loop(program)]
    later = [axis == 0 and (e.apart or (e.lag == 0 and e.writer >= e.reader)) for e in edges]
    apart = np.array([e.offset[axis] + late for e, late in zip(edges, later, strict=True)], int)
    lag, rest = np.array([e.lag for e in edges], int), np.zeros(len(written), int)
    reader, writer = np.array([*((e.reader, e.writer) for e in edges), *written], int).reshape(-1, 2).T
    for skew in range(fewest, 4 * MAX_REACH):
        found = _longest(len(operations), reader, writer, np.concatenate([apart - skew * lag, rest]))
        if found is not None:
            return skew, found
    raise Unserved(f"rows further than {MAX_REACH} apart read each other at one level")


def _longest(count: int, reader: np.ndarray, writer: np.ndarray, apart: np.ndarray) -> tuple[int, ...] | None:
    """The least x ≥ 0 with x[i] ≥ x[j] + c for all (i, j, c) of three arrays; None where there is none."""
    pairs, place = np.unique(reader * count + writer, return_inverse=True)
    most = np.full(len(pairs), np.iinfo(int).min)
    np.maximum.at(most, place, apart)
    reader, writer = np.divmod(pairs, max(count, 1))
    found = np.zeros(count, int)
    for _ in range(count + 1):
        new = found.copy()
        np.maximum.at(new, reader, found[writer] + most)
        if (new == found).all():
            return tuple(found.tolist())
        if new.max() > 8 * MAX_REACH:
            return None
        found = new
    return None


def _reach(program: Program, edges: list[Edge]) -> Reach:
    """How far beyond a tile operations compute, and how low tiles can be without that this is further."""
    found = _least_reach(program, edges)
    if found.growth and not program.wraps:
        found = min([found, *_reaches_apart(program, edges)], key=lambda one: one.growth)
    most = [MOST * one.box.size >= prod(program.arrays[0].shape) for one in program.operations]
    usual = _reach_of(program, [e for e in edges if most[e.reader] and most[e.writer]], found.least)
    below, above = (_evened(program, each) for each in (found.below, found.above))
    return replace(found, below=below, above=above, usual=found.growth if usual is None else usual.growth)


def _reaches_apart(program: Program, edges: list[Edge]) -> Iterator[Reach]:
    """How far beyond tiles operations must compute that come to no wall but their own; the fewer rows beside walls
    first."""
    for rows in WALLS:
        found = _reach_of(program, edges, rows, apart=rows) if 2 * rows <= _size(program) else None
        if found is not None:
            yield found


def _evened(program: Program, reach: Sequence[int]) -> tuple[int, ...]:
    """The same; arrays that live within a level are computed as far as others at the same points that read all that
    they read: one loop can do both."""
    held = {one.name for one, _ in program.state}
    others: dict[Box, list[int]] = {}
    for number, one in enumerate(program.operations):
        others.setdefault(one.box, []).append(number)

    def further(number: int) -> int:
        one = program.operations[number]
        if one.array in held or one.mask is not None:
            return reach[number]
        same = (k for k in others[one.box] if set(one.operands) <= set(program.operations[k].operands))
        return max(reach[k] for k in same)

    return tuple(map(further, range(len(program.operations))))


def _least_reach(program: Program, edges: list[Edge]) -> Reach:
    """How far beyond a tile operations must compute, and how low tiles can be without that this is further."""
    found = _reach_of(program, edges, 2 * MAX_REACH)
    if found is None:
        raise Unserved(f"rows further than {MAX_REACH} apart read each other at one level")
    size = _size(program)
    for least in LOW:
        lower = _reach_of(program, edges, least) if 2 * least <= size else None
        if lower is None:
            continue
        single = size <= found.least  # then all lies in one tile, and none is read beyond
        near = single and max(*lower.below, *lower.above, lower.growth) <= least // 4
        if near or replace(lower, least=found.least) == found:
            return lower
    return found


def _size(program: Program) -> int:
    """Rows of the array that has most."""
    return max(one.shape[0] for one in program.arrays)


def _reach_of(program: Program, edges: list[Edge], least: int, apart: int = 0) -> Reach | None:
    """How far beyond a tile of at least so many rows operations must compute; None where that is too far. What a box
    near a wall reads, all of which lies in the tile at that wall, takes none; nor, where tiles come no nearer than
    `apart` to walls they are not at, what a box reads towards a wall so near that none of them computes it."""
    size, count = _size(program), len(program.operations)
    boxes = Boxes(one.box for one in program.operations)
    reader, writer, lag, offset = (
        np.array(each, int) for each in zip(*((e.reader, e.writer, e.lag, e.offset[0]) for e in edges), strict=True)
    ) if edges else (np.zeros(0, int),) * 4  # fmt: skip
    start, stop = boxes.starts[reader, 0], boxes.stops[reader, 0]
    below, above = start + offset < size - least, stop + offset > least
    if apart:
        below, above = below & (stop > apart), above & (start < size - apart)
    further = np.where(offset < 0, below, above) | program.wraps
    reads = max(map(abs, offset[further & (lag > 0)].tolist()), default=0)
    same = np.array(_in_one_loop(program), int).reshape(-1, 2).T
    reader, writer = (np.concatenate(each) for each in zip((reader, writer), same, strict=True))
    none = np.zeros(same.shape[1], int)
    lag, offset = (np.concatenate((each, none)) for each in (lag, offset))
    below, above = (np.concatenate((each, none == 0)) for each in (below, above))
    for growth in range(MAX_REACH + 1):
        sides = []
        for sign, reaches in ((-1, below), (1, above)):
            own = np.ones_like(reaches) if program.wraps else reaches
            sides.append(_longest(count, writer[own], reader[own], (sign * offset - growth * lag)[own]))
        low, high = sides
        if low is not None and high is not None and max([*low, *high]) <= MAX_REACH:
            return Reach(low, high, growth, least, reads=reads, apart=apart)
    return None


def _overwriting(program: Program, edges: list[Edge], skew: int, delays: tuple[int, ...]) -> tuple[int, int, int]:
    """How late rows must be copied to where the state stands, and the fewest levels with which this and writing
    there at once come after the last reading of what stood there.

    Level h of an array is written over level 0, and level h − k over level −k, which is read at level l − k through a
    read l levels back: S·(h − l) must be at least the delay of that reading behind the writing.
    """
    kept = {one.name: levels for one, levels in program.state}
    first = {name: min(d for d, op in zip(delays, program.operations, strict=True) if op.array == name) for name in kept
             if any(op.array == name for op in program.operations)}  # fmt: skip
    last = {
        name: max(d for d, op in zip(delays, program.operations, strict=True) if op.array == name) for name in first
    }
    late, fewest, least = 0, 1, 1
    for e in edges:
        name = program.operations[e.writer].array
        if name not in kept or not e.lag:
            continue
        behind = delays[e.reader] - e.offset[0]
        earlier = zip(delays[: e.reader], program.operations[: e.reader], strict=True)
        same = (  # the reader itself writes over what it reads, and none before it does
            program.operations[e.reader].array == name
            and not any(e.offset)
            and all(op.array != name or d > first[name] for d, op in earlier)
        )
        for h in range(1, 8 * MAX_REACH):
            gap = skew * (h - e.lag) - behind + first[name]
            if gap > 0 or (gap == 0 and not e.apart and (e.lag < h or (same and e.lag == h))):
                fewest = max(fewest, h)
                break
        else:
            raise Unserved("levels are read further back than they can be written over")
        late = max(late, behind - last[name] + e.apart)
        if kept[name] > 1:
            least = max(least, e.lag)
    if max(kept.values()) > 1:
        least = max(least, fewest, *kept.values())  # levels before the pass stay where they stand
    return late, fewest, least


def ring_rows(rows: int, rank: int) -> int:
    """The rows of a ring for so many: a power of two, but where they are planes, of which each is dear."""
    return rows if rank > 2 else 1 << (rows - 1).bit_length()


def _rings(
    program: Program, edges: list[Edge], skew: int, delays: tuple[int, ...], late: int, together: int
) -> dict[str, int]:
    """Rows to hold of each array: from the first writing of a row to the last reading of it."""
    found, rank = {}, len(program.arrays[0].shape)
    for one in program.arrays:
        writers = [delays[i] for i, op in enumerate(program.operations) if op.array == one.name]
        last = [delays[e.reader] + skew * e.lag - e.offset[0] for e in edges
                if program.operations[e.writer].array == one.name]  # fmt: skip
        rows = max([*last, *(w + late for w in writers), 0]) - min([*writers, 0]) + together
        found[one.name] = ring_rows(rows, rank)
    return found

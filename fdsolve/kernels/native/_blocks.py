"""Blocks of the second axis: a pass takes several levels through one block after the other, where the state stands.

Planes of three or more axes leave the cache, so tiles are cut along the second axis too: row y of operation a at level
s belongs to block ⌊(y + Eₐ + T·(s − 1)) / width⌋, and each block is a wavefront through all rows of the first axis.
What is read must be written in the same block or in one before. Rings hold few rows of the first axis and cannot
bridge blocks: level s of an array stands where its level s − m stood, in the state's own arrays or in others of their
size. That is one more dependence, along both axes: nothing is written over before it was read for the last time.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from ._program import Operation, Program, Unserved
from ._schedule import Blocks, Edge, Schedule, boxes_meet, by_array, find_edges, least_delays

MAX_SKEW = 16
"""Rows of either axis; with more a level, there is little of a block left after a few levels."""
MAX_LEVELS = 6
"""Levels after which all arrays stand where they stood."""


def make_blocks(program: Program, schedule: Schedule) -> Schedule | None:
    """The schedule of a program with blocks, from the one without; None where there is none.

    There is none in two dimensions, and where a level reads its own values around a periodic second axis.
    """
    if len(program.arrays[0].shape) < 3:
        return None
    edges = find_edges(program)
    depths = {one.name: _depth(program, edges, one.name) for one in program.arrays}
    levels = lcm(*(depths[one.name] for one, _ in program.state))
    ordered = [*edges, *_overwriting(program, edges, depths)]
    try:
        skew, delays = least_delays(program, ordered)
        second, seconds = least_delays(program, ordered, axis=1)
    except Unserved:
        return None
    if max(skew, second) > MAX_SKEW or levels > MAX_LEVELS:
        return None
    return replace(
        schedule,
        delays=delays,
        skew=skew,
        rings={},
        direct=frozenset(),
        fewest=min(depths.values()),
        late=0,
        least=levels,
        blocks=Blocks(seconds, second, depths),
        together=1,
    )


def _depth(program: Program, edges: Sequence[Edge], name: str) -> int:
    """How many levels back that level of an array lies which a new one is written over: as many as are kept and read,
    if the oldest is read only by what writes over it point by point, else one more."""
    kept = next((kept for one, kept in program.state if one.name == name), 0)
    read = [e for e in edges if program.operations[e.writer].array == name]
    depth = max([1, kept, *(e.lag for e in read)])
    return depth + any(e.lag == depth and not _in_place(program.operations, e, name) for e in read)


def _in_place(operations: Sequence[Operation], edge: Edge, name: str) -> bool:
    """Whether an operation reads what it writes over itself, and nothing before it in its level does."""
    own = operations[edge.reader]
    before = (one for one in operations[: edge.reader] if one.array == name)
    return own.array == name and not any(edge.offset) and not any(boxes_meet(own.box, one.box, False) for one in before)


def _overwriting(program: Program, edges: Sequence[Edge], depths: dict[str, int]) -> list[Edge]:
    """What is written after what was read or written there before, as if it read that."""
    operations, found = program.operations, []
    for e in edges:
        depth = depths[operations[e.writer].array]
        if e.lag < depth:
            found.append(Edge(e.writer, e.reader, depth - e.lag, tuple(-o for o in e.offset)))
    for name, (numbers, boxes) in by_array(program).items():
        for first in numbers:
            box = operations[first].box
            for k in boxes.meeting(box, int(program.wraps)):
                found.append(Edge(numbers[k], first, depths[name], (0,) * box.ndim))
    return found

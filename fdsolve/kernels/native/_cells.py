"""Boxes of a transpose within each of which the same terms act, and the order of its operations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...region import Box
from ._program import Operation, Unserved


@dataclass(frozen=True)
class Term:
    """What entry y of an array gave to entry y − offset, through one operand of an operation.

    `later` are operations that may overwrite there what it wrote, under a mask or predicate; `complete` tells whether
    the cotangent of what it wrote is one that others of its level add to.
    """

    operation: int
    operand: int
    offset: tuple[int, ...]
    later: tuple[int, ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class Cell:
    """A box, and the terms that act at all its points."""

    box: Box
    terms: tuple[Term, ...]


def merged(cells: Sequence[Cell]) -> list[Cell]:
    """Neighbours with the same terms as one cell, axis by axis from the last."""
    found = list(cells)
    for axis in reversed(range(found[0].box.ndim if found else 0)):
        groups: dict[Any, list[Cell]] = {}
        for cell in found:
            sides = tuple((a, b) for k, (a, b) in enumerate(zip(cell.box.start, cell.box.stop, strict=True))
                          if k != axis)  # fmt: skip
            groups.setdefault((sides, cell.terms), []).append(cell)
        found = []
        for members in groups.values():
            members.sort(key=lambda cell: cell.box.start[axis])
            joined = [members[0]]
            for cell in members[1:]:
                last = joined[-1].box
                if last.stop[axis] == cell.box.start[axis]:
                    stop = (*last.stop[:axis], cell.box.stop[axis], *last.stop[axis + 1 :])
                    joined[-1] = replace(joined[-1], box=Box(last.start, stop))
                else:
                    joined.append(cell)
            found += joined
    return found


def split_around(cells: Sequence[Cell], inner: Box) -> list[Cell]:
    """The same cells; one that holds a box is cut into it and what lies around."""
    found = []
    for cell in cells:
        boxes = [inner, *cell.box.subtract(inner)] if cell.box.contains(inner) else [cell.box]
        found += [replace(cell, box=box) for box in boxes]
    return found


def ordered(operations: Sequence[Operation]) -> list[Operation]:
    """Operations after those of their own level that they read."""
    left, done = list(operations), []
    while left:
        ready = [
            op for op in left if not any(_reads_of(op, other) for other in left if other is not op)
        ]  # fmt: skip
        if not ready:
            raise Unserved("operations of one level read each other in a circle")
        done += ready
        left = [op for op in left if op not in ready]
    return done


def _reads_of(operation: Operation, other: Operation) -> bool:
    """Whether an operation reads, at its own level, what another one writes."""
    return any(
        read.level == 0
        and read.field == other.array
        and not operation.box.shift(read.offset).intersect(other.box).empty
        for read in operation.reads
    )

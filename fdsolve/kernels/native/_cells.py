"""Boxes of a transpose within each of which the same terms act, and the order of its operations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from ...planning import Array
from ...region import Box
from ._program import Operation, Program, Unserved

MAX_CELLS = 1500
"""Cells of a transpose; where boundaries and wide stencils make more, compiling them is dear."""
Boxes = Mapping[str, tuple[Box, ...]]


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


class Cutter:
    """Cuts the arrays of a program into boxes in each of which the same terms act."""

    def __init__(self, program: Program):
        self.program = program

    def cells(self, one: Array, terms: Sequence[Term], changed: Boxes) -> list[Cell]:
        """An array cut into boxes, with the terms that act there; `changed` says where sums differ."""
        whole = Box(one.origin, tuple(n + a for n, a in zip(one.shape, one.upper, strict=True)))
        if self.program.wraps:
            whole = Box((0, *whole.start[1:]), (self.program.arrays[0].shape[0], *whole.stop[1:]))
        cuts = [{whole.start[axis], whole.stop[axis]} for axis in range(whole.ndim)]
        for term in terms:
            for box in self._boxes_around(term, changed):
                moved = self._moved(box, term.offset)
                for axis in range(whole.ndim):
                    cuts[axis] |= {c for c in (moved.start[axis], moved.stop[axis])
                                   if whole.start[axis] < c < whole.stop[axis]}  # fmt: skip
        if prod(len(c) - 1 for c in cuts) > 10 * MAX_CELLS:
            raise Unserved("its transpose has too many pieces")
        spans = [list(zip(sorted(c), sorted(c)[1:], strict=False)) for c in cuts]
        reached = [(term, self._moved(self.program.operations[term.operation].box, term.offset)) for term in terms]
        cells = []
        for sides in product(*spans):
            box = Box(tuple(a for a, _ in sides), tuple(b for _, b in sides))
            near = [term for term, there in reached if _meets(sides, there)]
            acting = (self._acting(term, box, changed) for term in near)
            cells.append(Cell(box, tuple(term for term in acting if term is not None)))
        return merged(cells)

    def _boxes_around(self, term: Term, changed: Boxes) -> list[Box]:
        operation = self.program.operations[term.operation]
        others = [op.box for op in self.program.operations[term.operation + 1 :]
                  if op.array == operation.array and not op.adds]  # fmt: skip
        return [operation.box, *others, *changed.get(operation.array, ())]

    def _moved(self, box: Box, offset: tuple[int, ...]) -> Box:
        return box.shift((0, *offset[1:]) if self.program.wraps else offset)

    def _acting(self, term: Term, box: Box, changed: Boxes) -> Term | None:
        """The term as it acts in a cell; None where it does not."""
        operations = self.program.operations
        operation = operations[term.operation]
        here = self._moved(box, tuple(-o for o in term.offset))
        if here.intersect(operation.box).empty:
            return None
        later = []
        for k in range(term.operation + 1, len(operations)):
            other = operations[k]
            if other.array == operation.array and not other.adds and not here.intersect(other.box).empty:
                if other.mask is None and other.predicate is None:
                    return None
                later.append(k)
        complete = any(not here.intersect(b).empty for b in changed.get(operation.array, ()))
        return replace(term, later=tuple(later), complete=complete)


def _meets(sides: Sequence[tuple[int, int]], box: Box) -> bool:
    """Whether a cell of these sides has points in common with a box."""
    return all(a < stop and start < b for (a, b), start, stop in zip(sides, box.start, box.stop, strict=True))


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

"""Boxes of a transpose within each of which the same terms act, and the order of its operations."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from ...planning import Array
from ...region import Box, Boxes
from ._operands import Columns, reading_box
from ._program import Operation, Program, Unserved

MAX_CELLS = 1500
"""Cells of a transpose; where boundaries and wide stencils make more, compiling them is dear."""
MANY = 350
"""Cells of an array; where there are more, terms beside walls are added up direction by direction."""
Changed = Mapping[str, Boxes]
"""Boxes by array."""
Span = tuple[int, int]
"""Where a part of an axis starts and stops."""


@dataclass(frozen=True)
class Term:
    """What entry y of an array gave to entry y − offset, through one operand of an operation.

    `later` are operations that may overwrite there what it wrote, under a mask or predicate; `complete` tells whether
    the cotangent of what it wrote is one that others of its level add to. It may act in some `columns` of its cell
    alone.
    """

    operation: int
    operand: int
    offset: tuple[int, ...]
    later: tuple[int, ...] = ()
    complete: bool = True
    columns: Columns = ()


@dataclass(frozen=True)
class Cell:
    """A box, and the terms that act at its points; those of a further `layer` are added to those of the first. It may
    be made of `parts`, narrower cells."""

    box: Box
    terms: tuple[Term, ...]
    layer: int = 0
    parts: tuple["Cell", ...] = ()

    @property
    def added(self) -> bool:
        """Whether its terms are added to what others gave there."""
        return self.layer > 0


def _itself(term: Term) -> Hashable:
    return term


class Cutter:
    """Cuts the arrays of a program into boxes in each of which the same terms act."""

    def __init__(self, program: Program):
        self.program = program

    def cells(
        self, one: Array, terms: Sequence[Term], changed: Changed, same: Callable[[Term], Hashable] = _itself
    ) -> list[Cell]:
        """An array cut into boxes, with the terms that act there; `changed` says where sums differ. Terms that are the
        `same` need not be told apart."""
        spans = self._spans(self.whole(one), terms, changed)
        if _count(spans) > 10 * MAX_CELLS:
            raise Unserved("its transpose has too many pieces")
        return merged(self._cells_of(spans, terms, changed), same)

    def are_many(self, one: Array, terms: Sequence[Term], changed: Changed) -> bool:
        """Whether an array is better cut into layers."""
        return _count(self._spans(self.whole(one), terms, changed)) > MANY

    def layers(
        self, one: Array, terms: Sequence[Term], changed: Changed, same: Callable[[Term], Hashable]
    ) -> list[Cell]:
        """An array cut into its largest cell and what lies beside faces, edges and corners of that. Terms that read
        along an axis beside whose faces they are have layers of their own there, one for each such direction: these are
        cut along that axis alone, and all else as if there were no walls on it. Terms that are the `same` need not be
        told apart.

        Wide stencils and walls cut each axis at many places: cells that hold all terms would be as many as their
        product.
        """
        whole = self.whole(one)
        inner = [max(each, key=lambda span: span[1] - span[0]) for each in self._spans(whole, terms, changed)]
        found: dict[tuple[bool, ...], list[Cell]] = {(): []}
        for box in _parts(whole, inner):
            near = [(a, b) != span for a, b, span in zip(box.start, box.stop, inner, strict=True)]
            ways: dict[tuple[bool, ...], list[Term]] = {(): []}
            for term in terms:
                if box.meets(self._reached(term)):
                    ways.setdefault(_direction(term, near), []).append(term)
            for way, along in ways.items():
                cells = self._cells_of(self._spans(box, along, changed), along, changed)
                found.setdefault(way, []).extend(cell for cell in cells if cell.terms or not way)
        base, *more = (merged(found[way], same) for way in sorted(found))  # what lies along rows right after the first
        if more:
            more[0] = [part for cell in more[0] for part in split_around([cell], _along_rows(cell.box, inner))]
        return base + [replace(cell, layer=k) for k, cells in enumerate(more, start=1) for cell in cells]

    def whole(self, one: Array) -> Box:
        """All entries of an array that get cotangents."""
        whole = Box(one.origin, tuple(n + a for n, a in zip(one.shape, one.upper, strict=True)))
        if self.program.wraps:
            return Box((0, *whole.start[1:]), (self.program.arrays[0].shape[0], *whole.stop[1:]))
        return whole

    def _spans(self, whole: Box, terms: Sequence[Term], changed: Changed) -> list[list[Span]]:
        """The parts into which a box is cut along each axis where terms start or stop to act."""
        cuts = [{whole.start[axis], whole.stop[axis]} for axis in range(whole.ndim)]
        around = {number: self._boxes_around(number, changed) for number in {term.operation for term in terms}}
        for term in terms:
            for box in around[term.operation]:
                moved = self._moved(box, term.offset)
                for axis, (low, high) in enumerate(zip(whole.start, whole.stop, strict=True)):
                    cuts[axis] |= {c for c in (moved.start[axis], moved.stop[axis]) if low < c < high}
        return [list(zip(sorted(c), sorted(c)[1:], strict=False)) for c in cuts]

    def _cells_of(self, spans: Sequence[Sequence[Span]], terms: Sequence[Term], changed: Changed) -> list[Cell]:
        """A cell for each choice of a span of every axis."""
        reached = Boxes(map(self._reached, terms))
        cells = []
        for sides in product(*spans):
            box = Box(tuple(a for a, _ in sides), tuple(b for _, b in sides))
            acting = (self._acting(terms[k], box, changed) for k in reached.meeting(box))
            cells.append(Cell(box, tuple(term for term in acting if term is not None)))
        return cells

    @cached_property
    def _over(self) -> list[list[int]]:
        """For each operation those that write, later on, where it does."""
        every = self.program.operations
        return [
            [k for k, other in enumerate(every[number + 1 :], number + 1)
             if other.array == one.array and not other.adds and one.box.meets(other.box)]
            for number, one in enumerate(every)
        ]  # fmt: skip

    def _boxes_around(self, number: int, changed: Changed) -> list[Box]:
        """Where an operation writes, and all boxes that make a difference there."""
        operation = self.program.operations[number]
        sums = [box for box in changed.get(operation.array, ()) if box.meets(operation.box)]
        return [operation.box, *(self.program.operations[k].box for k in self._over[number]), *sums]

    def _moved(self, box: Box, offset: tuple[int, ...]) -> Box:
        return box.shift((0, *offset[1:]) if self.program.wraps else offset)

    def _reached(self, term: Term) -> Box:
        """Where an operation gives to what it reads."""
        return self._moved(self.program.operations[term.operation].box, term.offset)

    def _acting(self, term: Term, box: Box, changed: Changed) -> Term | None:
        """The term as it acts in a cell; None where it does not."""
        operations = self.program.operations
        operation = operations[term.operation]
        here = self._moved(box, tuple(-o for o in term.offset))
        if not here.meets(operation.box):
            return None
        later = []
        for k in self._over[term.operation]:
            other = operations[k]
            if here.meets(other.box):
                if other.mask is None and other.predicate is None:
                    return None
                later.append(k)
        complete = operation.array in changed and changed[operation.array].meet(here)
        return replace(term, later=tuple(later), complete=complete)


def _count(spans: Sequence[Sequence[Span]]) -> int:
    return prod(map(len, spans))


def _direction(term: Term, near: Sequence[bool]) -> tuple[bool, ...]:
    """Along which of some axes a term reads; nothing where it reads along none."""
    found = tuple(bool(offset) and one for offset, one in zip(term.offset, near, strict=True))
    return found if any(found) else ()


def _parts(whole: Box, inner: Sequence[Span]) -> Iterator[Box]:
    """An inner box, and what lies below it, beside it and above it along each axis."""
    ends = zip(whole.start, whole.stop, inner, strict=True)
    spans = [[span for span in ((low, a), (a, b), (b, high)) if span[0] < span[1]] for low, high, (a, b) in ends]
    for sides in product(*spans):
        yield Box(tuple(a for a, _ in sides), tuple(b for _, b in sides))


def _along_rows(box: Box, inner: Sequence[Span]) -> Box:
    """The rows of an inner box, as far along the last axis as another: one call a row does both."""
    spans = [*inner[:-1], (box.start[-1], box.stop[-1])]
    return Box(tuple(a for a, _ in spans), tuple(b for _, b in spans))


def merged(cells: Sequence[Cell], same: Callable[[Term], Hashable] = _itself) -> list[Cell]:
    """Neighbours with the same terms as one cell, axis by axis from the last."""
    found = list(cells)
    for axis in reversed(range(found[0].box.ndim if found else 0)):
        groups: dict[Any, list[Cell]] = {}
        for cell in found:
            sides = tuple((a, b) for k, (a, b) in enumerate(zip(cell.box.start, cell.box.stop, strict=True))
                          if k != axis)  # fmt: skip
            groups.setdefault((sides, tuple(map(same, cell.terms))), []).append(cell)
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
        and reading_box(operation.box, read).shift(read.offset).meets(other.box)
        for read in operation.reads
    )

"""The transpose of a level as a program of its own.

A level maps the kept levels (u₀, u₁, …), newest first, to (u', u₀, …). The transpose of its derivative maps their
cotangents back: first what operations read at their own level is added up, C = ū' + Σ w C; then ū₀' = ū₁ + Σ w C over
the reads one level back, ū₁' = ū₂ + Σ w C over those two levels back, and so on. Each entry gathers what it gave: along
an axis, boxes of operations moved by the offsets of their reads cut the array into cells, in each of which the same
terms act. A weight w = ∂f/∂r of a rule that is not affine depends on what the rule read (see _values). The cotangent of
a parameter is Σ ∂f/∂θ · C, added up at each point along all levels; of a number, in a few lanes a row, and where a
rule is linear in it too, at the points that are read (see _slopes).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...planning import Array
from ...region import Box, Boxes
from ...stencil import Operand, ProfileRead, StateRead, WholeRead
from ._bundles import cut_for_bundles, split_for_bundles
from ._cells import MAX_CELLS, Cell, Changed, Cutter, Term, merged, ordered, split_around
from ._given import gift_name
from ._joined import joined
from ._linear import check_affine
from ._older import without_copies
from ._operands import Levels, Pull
from ._products import product_name
from ._program import LANES, At, Operation, Program, Unserved
from ._rooms import Room, rooms_of
from ._scalar import unsupported
from ._terms import Terms, adjoint_names

MOST_RULES = 400
"""Operations of a level; where there are more, its transpose has too many pieces, which takes long to find out."""
MOST_CUT = 400
"""Operations that are cut further for the sake of one loop a row; where there are more, compiling them is dear."""

MOST_TWICE = 1000
"""Operations of which some are made for a first level and for later ones; where there were more, copies are written."""


@dataclass(frozen=True)
class Sum:
    """The array in which the cotangent of an operand is added up at the points that read it. Outside of the boxes,
    of which no two have a point in common, generated code may leave anything."""

    operand: WholeRead | ProfileRead
    array: Array
    boxes: tuple[Box, ...]
    timed: bool
    """Whether the operand changes along time: what a level adds up is an entry's of its own."""


@dataclass(frozen=True)
class Pulled:
    """The transpose of a level: its program, whose state are the cotangents of the kept levels and then the sums; and
    which levels of the march it reads. `forth` is the march's own program, with what it leaves for the transpose."""

    program: Program
    sums: tuple[Sum, ...]
    levels: Levels
    forth: Program

    @property
    def timed(self) -> bool:
        """Whether any sum is a level's own."""
        return any(one.timed for one in self.sums)


def adjoint_program(program: Program, axes: tuple[str, ...]) -> Program:
    """The transpose of one affine level; raises Unserved where an operation is not affine, or cells are too many.

    `axes` are those of the program's arrays ("" for one that is not the grid's).
    """
    for operation in program.operations:
        check_affine(operation)
    return pull_program(program, axes, Pull(())).program


def pull_program(program: Program, axes: tuple[str, ...], pull: Pull) -> Pulled:
    """The transpose of one level by the state and by the operands that move; raises Unserved.

    Where the march goes on beside it, that leaves what lives within a level too, and derivatives by operands.
    """
    return _Transpose(program, axes, pull).pulled()


class _Transpose:
    def __init__(self, program: Program, axes: tuple[str, ...], pull: Pull):
        if len(program.operations) > MOST_RULES:
            raise Unserved(f"its transpose has too many pieces, of {len(program.operations)} operations")
        self.source, self.axes, self.cutter = program, axes, Cutter(program)
        self.terms = Terms(program, axes, pull)
        self.kept, self.here = self.terms.kept, self.terms.here
        self.layered = any(
            self.cutter.are_many(one, self.terms.readers(one, k + 1), {})
            for one, levels in program.state
            for k in range(levels)
        )
        if self.layered:  # sums by what is read would be as many as cells that lie over each other
            self.terms.slopes = [None] * len(program.operations)
        if program.wraps and any(
            op.box.start[0] > 0 or op.box.stop[0] < program.arrays[0].shape[0] for op in program.operations
        ):
            raise Unserved("rules change along a periodic axis")

    def pulled(self) -> Pulled:
        """The operations: values computed again, cotangents completed at their own level, those of the levels before,
        and sums for operands that move."""
        terms = self.terms
        now = {one.name: self.cutter.cells(one, terms.readers(one, 0), {}) for one in self.source.arrays}
        changed = {
            name: Boxes(cell.box for cell in cells if cell.terms or name not in self.kept)
            for name, cells in now.items()
        }
        parts = [
            (one, cell)
            for one, cells in self._completing(changed)
            for cell in cells
            if cell.terms or one.name not in self.kept
        ]
        before = list(self._before(changed))
        _check_number(len(parts) + sum(len(cells) for _, _, cells in before))
        completing = [made for one, cell in parts for made in self._completed(one, cell)]
        state, operations = [array for array, _, _ in before], []
        for array, start, cells in before:
            for cell in cells:
                made = terms.operations(array.name, cell, None if cell.added else start)
                operations += [replace(one, adds=cell.added) for one in made]
        products = [one for number in terms.products.read for one in self._products(number, changed)]
        products += [one for written in terms.given.read for one in self._gifts(*written, changed)]
        of_level = [*completing, *products]
        free = [one for one in state if one.name not in _names_read(of_level)]
        whole = Box((0,) * len(self.axes), self.source.arrays[0].shape)
        while True:
            fewer = self._without_copies(operations, free)
            done = [op.box for op in products or fewer if op.at is not At.LAST]
            sums, adding = self._sums(changed, max(done, key=lambda box: box.size, default=whole))
            read = _names_read(adding)
            if not any(one.name in read for one in free):
                break
            free = [one for one in free if one.name not in read]
        operations = [*ordered(of_level), *fewer, *adding]
        few = len(operations) <= MOST_CUT and not self.layered
        operations = (cut_for_bundles if few else split_for_bundles)(operations)
        arrays = [*state, *(one.array for one in sums)]
        kept = [1] * len(arrays)
        used = {op.array for op in completing}
        arrays += [replace(one, name=f"{one.name} adjoint") for one in self.source.arrays
                   if f"{one.name} adjoint" in used]  # fmt: skip
        operations = [*terms.values.operations(), *operations]
        arrays += [terms.like(number, product_name(number)) for number in terms.products.read]
        arrays += [terms.like(number, gift_name(number, place)) for number, place in terms.given.read]
        arrays += [one for one in self.source.arrays if one.name in terms.values.again]
        _check(operations)
        kept += [0] * (len(arrays) - len(kept))
        program = Program(tuple(arrays), tuple(kept), tuple(operations), self.source.wraps, (), -1)
        return Pulled(program, tuple(sums), terms.values.levels, self._forth())

    def _without_copies(self, operations: list[Operation], free: Sequence[Array]) -> list[Operation]:
        """The operations that give the cotangents of the levels before, without what those of older ones give alone:
        of arrays that nothing else reads."""
        if self.terms.moving or self.terms.beside or len(self.axes) < 3:  # else planes may be cut into blocks, in place
            fewer = without_copies(operations, free, self.axes)
            operations = fewer if len(fewer) <= MOST_TWICE else operations
        return self._while_read(operations)

    def _completing(self, changed: Changed) -> list[tuple[Array, list[Cell]]]:
        """The cells in which what is read at its own level is added up, of each array; those whose cells may come to
        read each other at a level are not joined."""
        arrays = {one.name: one for one in self.source.arrays}
        found = {name: self.cutter.cells(one, self.terms.readers(one, 0), changed) for name, one in arrays.items()}
        reads = {name: self._read_now(cells, changed) for name, cells in found.items()}
        for _ in reads:  # what is read by what is read, and so on
            reads = {name: read.union(*(reads[one] for one in read)) for name, read in reads.items()}
        apart = {name: cells if name in reads[name] else self._joined(f"{name} adjoint", cells)
                 for name, cells in found.items()}  # fmt: skip
        return [(arrays[name], cells) for name, cells in apart.items()]

    def _read_now(self, cells: Sequence[Cell], changed: Changed) -> set[str]:
        """The arrays whose completed cotangents cells read, perhaps in a product."""
        terms = {term for cell in cells for term in cell.terms}
        found = set()
        for term in terms:
            shares = self.terms.shares(term)
            for name in self.terms.written_by(term):
                if term.complete or name not in self.kept or (shares and changed[name]):
                    found.add(name)
        return found

    def _completed(self, one: Array, cell: Cell) -> list[Operation]:
        """What a level's cotangent is at a cell, with what is read at its own level."""
        start = StateRead(adjoint_names(one.name, 1)[0], -1, self.here) if one.name in self.kept else None
        return self.terms.operations(f"{one.name} adjoint", cell, start)

    def _before(self, changed: Changed) -> Iterator[tuple[Array, StateRead | None, list[Cell]]]:
        """The arrays of cotangents of kept levels; what stands there already; and the cells of those of the level
        before."""
        for one, levels in self.source.state:
            names = adjoint_names(one.name, levels)
            for k, name in enumerate(names):
                start = StateRead(names[k + 1], -1, self.here) if k + 1 < levels else None
                yield replace(one, name=name), start, self._cells(one, k + 1, changed)

    def _while_read(self, operations: Sequence[Operation]) -> list[Operation]:
        """The operations; those that give what nothing reads at a further level, as cotangents where fields are set to
        what does not move, are done at the last level of a pass alone."""
        found = []
        for one in operations:
            read = one.at is not At.EVERY or self._is_read(one.array, one.box)
            found.append(one if read else replace(one, at=At.LAST))
        return found

    def _is_read(self, name: str, box: Box) -> bool:
        """Whether any of what an array holds in a box after a level is read at a further one."""
        return name not in self._giving or self._giving[name].meet(box)

    @cached_property
    def _giving(self) -> dict[str, Boxes]:
        """For each array of cotangents of the newest level where operations are that give to what they read."""
        found: dict[str, list[Box]] = {one.name: [] for one, _ in self.source.state}
        for number, one in enumerate(self.source.operations):
            if one.array in found and self.terms.gives(number):
                found[one.array].append(one.box)
        return {adjoint_names(name, 1)[0]: Boxes(boxes) for name, boxes in found.items()}

    def _cells(self, one: Array, lag: int, changed: Changed) -> list[Cell]:
        """The cells of what entries of an array gave through reads of that lag."""
        terms = self.terms.readers(one, lag)
        layered = self.layered and self.cutter.are_many(one, terms, changed)
        cells = (self.cutter.layers if layered else self.cutter.cells)(one, terms, changed, self.terms.same)
        return self._joined(adjoint_names(one.name, lag)[-1], cells)

    def _joined(self, name: str, cells: list[Cell]) -> list[Cell]:
        """Cells of an array of cotangents joined; what is read at a further level apart from what is not."""
        return joined(cells, self.terms.same, self.terms.can_vanish, lambda cell: self._is_read(name, cell.box))

    def _forth(self) -> Program:
        """The march's program, and the derivatives that it leaves, each where the values are at hand."""
        operations: list[Operation] = []
        left = self.terms.left
        for number, operation in enumerate(self.source.operations):
            operations += [one for (of, _), one in left.items() if of == number]
            operations.append(operation)
        names = {one.array: of for (of, _), one in left.items()}
        more = tuple(self.terms.like(of, name) for name, of in names.items())
        kept = (*self.source.kept, *(0 for _ in more))
        return replace(self.source, arrays=(*self.source.arrays, *more), kept=kept, operations=tuple(operations))

    def _products(self, number: int, changed: Changed) -> list[Operation]:
        """The operations that compute the product which derivatives of an operation and of others share, where any
        acted."""
        cells = self._written(number, self.terms.products.alike(number), changed)
        return [replace(self.terms.product(cell.terms[0]), box=cell.box) for cell in cells]

    def _gifts(self, first: int, place: int, changed: Changed) -> list[Operation]:
        """The operations that write down what an operation, and those like it, give to an operand."""
        cells = self._written(first, self.terms.given.alike(first), changed)
        return [replace(self.terms.gift(cell.terms[0], place), box=cell.box) for cell in cells]

    def _written(self, first: int, alike: Sequence[int], changed: Changed) -> list[Cell]:
        """Where operations that are alike act, in the cells of the first one's array; each with one term."""
        one = self.source.array(self.source.operations[first].array)
        cells = self.cutter.cells(one, [Term(k, 0, self.here) for k in alike], changed)
        single = [replace(cell, terms=cell.terms[:1]) for cell in cells if cell.terms]
        return merged(single, lambda term: term.complete)

    def _sums(self, changed: Changed, inner: Box) -> tuple[list[Sum], list[Operation]]:
        """The arrays in which cotangents of operands are added up, and the operations that do it; `inner` is where most
        points of the others are, so that one loop can do both."""
        sums: list[Sum] = []
        operations: list[Operation] = []
        for operand, timed, room in (*self._by_slopes(changed), *self._by_operands(changed, inner)):
            array = replace(room.array, name=f"cotangent {len(sums)}")
            boxes = tuple(_in_lanes(cell.box) if room.in_lanes else cell.box for cell in room.cells)
            sums.append(Sum(operand, array, boxes, timed))
            start = StateRead(array.name, -1, self.here)
            for cell in room.cells:
                sloping = self.terms.slope_of(cell.terms[0]) is not None
                made = (self.terms.slope_sum if sloping else self.terms.operation)(array.name, cell, start)
                operations.append(replace(made, in_lanes=room.in_lanes))
        return sums, operations

    def _by_slopes(self, changed: Changed) -> Iterator[tuple[Any, bool, Room]]:
        """Arrays for numbers that rules are split by: in the cells where the points that are read get their cotangents,
        so that one loop can do both."""
        for number in dict.fromkeys(slope.number for slope in self.terms.slopes if slope is not None):
            for one, levels in self.source.state:
                for lag in range(1, levels + 1):
                    cells = self.cutter.cells(one, self.terms.readers(one, lag), changed)
                    parts = [[t for t in cell.terms if self.terms.is_sloping(t, number)] for cell in cells]
                    found = [Cell(cell.box, tuple(part)) for cell, part in zip(cells, parts, strict=True) if part]
                    for room in rooms_of(replace(one, kept=1, hidden=True), found, True):
                        yield number, False, room

    def _by_operands(self, changed: Changed, inner: Box) -> Iterator[tuple[Any, bool, Room]]:
        """Arrays for other operands, and whether they change along time: where they stand, or where the rules act that
        depend on them if wide stencils and walls would cut that into many cells."""
        groups: dict[Any, list[tuple[Operand, Term, Term]]] = {}
        shapes: dict[Any, Array] = {}
        for operand, term in self.terms.moved():
            one = self.source.array(self.source.operations[term.operation].array)
            standing, there = self._where_read(operand, term, one)
            key = standing, one.shape, one.lower, one.upper
            groups.setdefault(key, []).append((operand, term, there))
            shapes.setdefault(key, one)
        for key, found in groups.items():
            standing, like = key[0], replace(shapes[key], kept=1, hidden=True)
            parts = {standing: [there for _, _, there in found]}
            if len(found) > 1 and self.cutter.are_many(like, parts[standing], changed):
                parts = {one: [term for operand, term, _ in found if operand == one] for one, _, _ in found}
            for operand, terms in parts.items():
                timed, axes = self.terms.is_timed(operand), getattr(operand, "axes", ())
                alone = len(axes) == int(timed)  # one number for all points
                cells = [cell for cell in self.cutter.cells(like, terms, changed, self.terms.same) if cell.terms]
                for room in rooms_of(like, split_around(cells, inner), alone):
                    yield operand, timed, room

    def _where_read(self, operand: Operand, term: Term, one: Array) -> tuple[Operand, Term]:
        """An operand that other points read too, and its term, as the entry that is read has them: what all of these
        give to it is one sum, of one array. Rows that are counted round stay where they are written."""
        if not isinstance(operand, ProfileRead):
            return operand, term
        along = set(self.axes[1:] if self.source.wraps else self.axes)
        moves = {axis: move for axis, move in zip(operand.axes, operand.offset, strict=True) if axis in along}
        offset = tuple(moves.get(axis, 0) for axis in self.axes)
        if not self.cutter.whole(one).contains(self.source.operations[term.operation].box.shift(offset)):
            return operand, term
        left = (0 if axis in moves else move for axis, move in zip(operand.axes, operand.offset, strict=True))
        return replace(operand, offset=tuple(left)), replace(term, offset=offset)


def _in_lanes(box: Box) -> Box:
    return Box((*box.start[:-1], 0), (*box.stop[:-1], LANES))


def _check_number(operations: int) -> None:
    """Raises Unserved where there are too many; it is asked before they are traced, which takes long."""
    if operations > MAX_CELLS:
        raise Unserved(f"its transpose has {operations} pieces or more")


def _check(operations: Sequence[Operation]) -> None:
    """Raises Unserved where there are too many, or one has no code."""
    _check_number(len(operations))
    for operation in operations:
        if reason := unsupported(operation.rule.jaxpr):
            raise Unserved(f"the transpose of a rule: {reason}")
        if operation.rule.consts:
            raise Unserved("the transpose of a rule holds an array")


def _names_read(operations: Sequence[Operation]) -> set[str]:
    """The arrays that operations read."""
    return {read.field for one in operations for read in one.reads}

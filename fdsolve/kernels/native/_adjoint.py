"""The transpose of a level as a program of its own.

A level maps the kept levels (u₀, u₁, …), newest first, to (u', u₀, …). The transpose of its derivative maps their
cotangents back: first what operations read at their own level is added up, C = ū' + Σ w C; then ū₀' = ū₁ + Σ w C over
the reads one level back, ū₁' = ū₂ + Σ w C over those two levels back, and so on. Each entry gathers what it gave: along
an axis, boxes of operations moved by the offsets of their reads cut the array into cells, in each of which the same
terms act. A weight w = ∂f/∂r of a rule that is not affine depends on what the rule read (see _values). The cotangent of
a parameter is Σ ∂f/∂θ · C, added up at each point along all levels; of a number, in a few lanes a row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from types import MappingProxyType
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ...planning import Array
from ...region import Box
from ...stencil import Operand, ProfileRead, StateRead, Traced, WholeRead, make_traced
from ._cells import MAX_CELLS, Boxes, Cell, Cutter, Term, ordered, split_around
from ._linear import check_affine, with_named_constants, with_plain_times
from ._operands import LEVELS, TIME_BEFORE, Levels, stack_name
from ._program import LANES, Operation, Program, Unserved
from ._rooms import rooms_of
from ._scalar import unsupported
from ._values import Values
from ._weights import PRODUCT, TARGET, Weights, adds_up

Known = Mapping[Operand, Any]


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


def adjoint_names(name: str, kept: int) -> tuple[str, ...]:
    """The arrays of the cotangents of the kept levels of an array."""
    return tuple(f"{name} adjoint {k}" for k in range(kept))


def adjoint_program(program: Program, axes: tuple[str, ...]) -> Program:
    """The transpose of one affine level; raises Unserved where an operation is not affine, or cells are too many.

    `axes` are those of the program's arrays ("" for one that is not the grid's).
    """
    for operation in program.operations:
        check_affine(operation)
    return pull_program(program, axes, ()).program


def pull_program(program: Program, axes: tuple[str, ...], moving: tuple[str, ...], beside: bool = False) -> Pulled:
    """The transpose of one level by the state and by the operands of the names `moving`; raises Unserved.

    `beside`: the march goes on beside it, and leaves what lives within a level too, and derivatives by operands.
    """
    return _Transpose(program, axes, moving, beside).pulled()


class _Transpose:
    def __init__(self, program: Program, axes: tuple[str, ...], moving: tuple[str, ...], beside: bool):
        self.source, self.axes, self.moving, self.beside = program, axes, moving, beside
        self.kept = {one.name: kept for one, kept in program.state}
        self.values, self.cutter = Values(program, axes, beside), Cutter(program)
        self.weights = Weights([self._ready(op, op.rule, op.number) for op in program.operations], program.dtype)
        self.rules = self.weights.rules
        self.shared: dict[int, None] = {}
        self.left: dict[tuple[int, int], Operation] = {}
        if program.wraps and any(
            op.box.start[0] > 0 or op.box.stop[0] < program.arrays[0].shape[0] for op in program.operations
        ):
            raise Unserved("rules change along a periodic axis")

    def _ready(self, operation: Operation, rule: Traced, number: int | None) -> Traced:
        return with_plain_times(with_named_constants(rule, number), operation.fraction)

    def pulled(self) -> Pulled:
        """The operations: values computed again, cotangents completed at their own level, those of the levels before,
        and sums for operands that move."""
        now = {one.name: self.cutter.cells(one, self._readers(one, 0), {}) for one in self.source.arrays}
        changed = {
            name: tuple(cell.box for cell in cells if cell.terms or name not in self.kept)
            for name, cells in now.items()
        }
        completing: list[Operation] = []
        for one in self.source.arrays:
            for cell in self.cutter.cells(one, self._readers(one, 0), changed):
                if cell.terms or one.name not in self.kept:
                    start = StateRead(adjoint_names(one.name, 1)[0], -1, self._here) if one.name in self.kept else None
                    completing.append(self._operation(f"{one.name} adjoint", cell, start))
        arrays, kept, operations = [], [], []
        for one, levels in self.source.state:
            names = adjoint_names(one.name, levels)
            for k, name in enumerate(names):
                start = StateRead(names[k + 1], -1, self._here) if k + 1 < levels else None
                cells = self.cutter.cells(one, self._readers(one, k + 1), changed)
                _check_number(len(operations) + len(cells))
                operations += [self._operation(name, cell, start) for cell in cells]
                arrays.append(replace(one, name=name))
                kept.append(1)
        products = [one for number in self.shared for one in self._products(number, changed)]
        sums, adding = self._sums(changed, max((op.box for op in products or operations), key=lambda box: box.size))
        arrays += [one.array for one in sums]
        kept += [1] * len(sums)
        operations = [*ordered([*completing, *products]), *operations, *adding]
        used = {op.array for op in completing}
        arrays += [replace(one, name=f"{one.name} adjoint") for one in self.source.arrays
                   if f"{one.name} adjoint" in used]  # fmt: skip
        operations = [*self.values.operations(), *operations]
        arrays += [self._like(number, _product_name(number)) for number in self.shared]
        arrays += [one for one in self.source.arrays if one.name in self.values.again]
        _check(operations)
        kept += [0] * (len(arrays) - len(kept))
        program = Program(tuple(arrays), tuple(kept), tuple(operations), self.source.wraps, (), -1)
        return Pulled(program, tuple(sums), self.values.levels, self._forth())

    def _forth(self) -> Program:
        """The march's program, and the derivatives that it leaves, each where the values are at hand."""
        operations: list[Operation] = []
        for number, operation in enumerate(self.source.operations):
            operations += [one for (of, _), one in self.left.items() if of == number]
            operations.append(operation)
        names = {one.array: of for (of, _), one in self.left.items()}
        more = tuple(self._like(of, name) for name, of in names.items())
        kept = (*self.source.kept, *(0 for _ in more))
        return replace(self.source, arrays=(*self.source.arrays, *more), kept=kept, operations=tuple(operations))

    def _like(self, number: int, name: str) -> Array:
        """An array of the shape of what an operation writes, that lives within a level."""
        return replace(self.source.array(self.source.operations[number].array), name=name, kept=0, hidden=True)

    def _products(self, number: int, changed: Boxes) -> list[Operation]:
        """The operations that compute the product which derivatives of an operation share, where it acted."""
        one = self.source.array(self.source.operations[number].array)
        found = []
        for cell in self.cutter.cells(one, [Term(number, 0, self._here)], changed):
            for term in cell.terms:
                operands: dict[Operand, Any] = {}
                target = self._target(term, self._here)
                product = self.weights.product(number)
                named = self._taken(product, self._here, operands, {TARGET: target})[1]
                closed = jex.ClosedJaxpr(product.jaxpr, list(product.consts))
                rule = make_traced(closed, tuple(named), self.source.dtype)
                found.append(Operation(_product_name(number), cell.box, rule, None))
        return found

    @property
    def _here(self) -> tuple[int, ...]:
        return (0,) * len(self.axes)

    def _readers(self, one: Array, lag: int) -> list[Term]:
        """What entries of an array gave through reads of that lag."""
        return [
            Term(p, k, read.offset)
            for p, rule in enumerate(self.rules)
            for k, read in enumerate(rule.operands)
            if isinstance(read, StateRead) and read.field == one.name and -read.level == lag
            if not _is_zero(self.weights.pull(p, k))
        ]

    def _sums(self, changed: Boxes, inner: Box) -> tuple[list[Sum], list[Operation]]:
        """The arrays in which cotangents of operands are added up, and the operations that do it; `inner` is where most
        points of the others are, so that one loop can do both."""
        groups: dict[Any, list[Term]] = {}
        shapes: dict[Any, Array] = {}
        for p, rule in enumerate(self.rules):
            one = self.source.array(self.source.operations[p].array)
            for k, operand in enumerate(rule.operands):
                if self._moves(operand) and not _is_zero(self.weights.pull(p, k)):
                    key = operand, one.shape, one.lower, one.upper
                    groups.setdefault(key, []).append(Term(p, k, self._here))
                    shapes.setdefault(key, one)
        sums, operations = [], []
        for key, terms in groups.items():
            like, timed = replace(shapes[key], kept=1, hidden=True), self._is_timed(key[0])
            alone = isinstance(key[0], WholeRead) or (timed and len(key[0].axes) == 1)  # one number for all points
            cells = [cell for cell in self.cutter.cells(like, terms, changed) if cell.terms]
            for room in rooms_of(like, split_around(cells, inner), alone):
                array = replace(room.array, name=f"cotangent {len(sums)}")
                boxes = tuple(_in_lanes(cell.box) if room.in_lanes else cell.box for cell in room.cells)
                sums.append(Sum(key[0], array, boxes, timed))
                start = StateRead(array.name, -1, self._here)
                made = [self._operation(array.name, cell, start) for cell in room.cells]
                operations += [replace(one, in_lanes=room.in_lanes) for one in made]
        return sums, operations

    def _moves(self, operand: Operand) -> bool:
        if isinstance(operand, StateRead):
            return False
        name = "times" if operand in (WholeRead("t"), TIME_BEFORE) else operand.name
        if name not in self.moving:
            return False
        if name == "times":
            raise Unserved("the times themselves move")
        if isinstance(operand, ProfileRead) and not set(operand.axes[self._is_timed(operand) :]) <= set(self.axes):
            raise Unserved("what moves lies along an axis of its own")
        return True

    def _is_timed(self, operand: Operand) -> bool:
        """Whether an operand changes along time, the first axis of such arrays."""
        return isinstance(operand, ProfileRead) and bool(operand.axes) and operand.axes[0] not in self.axes

    def _operation(self, array: str, cell: Cell, own: StateRead | None) -> Operation:
        """The sum of a cell's terms, and of what stands there already."""
        operands: dict[Operand, Any] = {}
        dtype = self.source.dtype
        parts = [self._pulled(term, operands) for term in cell.terms]
        if own is not None:
            operands[own] = dtype
        order = tuple(operands)

        def run(*values: Any) -> Any:
            known = dict(zip(order, values, strict=True))
            total = known[own] if own is not None else None
            for part in parts:
                value = part(known)
                total = value if total is None else total + value
            return jnp.zeros((), dtype) if total is None else total

        closed = jax.make_jaxpr(run)(*[jax.ShapeDtypeStruct((), operands[o]) for o in order])
        return Operation(array, cell.box, make_traced(closed, order, dtype), None)

    def _pulled(self, term: Term, operands: dict[Operand, Any]) -> Callable[[Known], Any]:
        """The weight of a read times the cotangent of what was written, as a function of operands."""
        operation = self.source.operations[term.operation]
        back = tuple(-o for o in term.offset)
        weigh, named, even = self._weighed(term, back, operands)
        tests = [self._test(operation, back, operands)]
        tests += [self._test(self.source.operations[k], back, operands) for k in term.later]

        def run(known: Known) -> Any:
            one = jnp.ones((), self.source.dtype)  # a weight that is the same everywhere is computed before a row is
            value = weigh(*(one if o == even else known[o] for o in named))
            value = value * known[even] if even is not None else value
            for number, test in enumerate(tests):
                held = test(known)
                if held is not None:
                    zero = jnp.zeros_like(value)
                    value = jnp.where(held, value, zero) if number == 0 else jnp.where(held, zero, value)
            return value

        return run

    def _weighed(
        self, term: Term, back: tuple[int, ...], operands: dict[Operand, Any]
    ) -> tuple[Callable[..., Any], list[Operand], Operand | None]:
        """A derivative times a cotangent at the entry `back` from here, as `_taken` has it; and the operand by which
        it is multiplied, where all else is the same everywhere."""
        number, place = term.operation, term.operand
        in_sum = not isinstance(self.rules[number].operands[place], StateRead)
        target = self._target(term, back)
        if in_sum and self.beside and self._is_worth_leaving(number, place):
            left = self._leave(number, place)
            operands |= {target: self.source.dtype, left: self.source.dtype}
            return lambda a, b: a * b, [target, left], None
        pull = self.weights.pull(number, place)
        if not in_sum and self._is_large(self.source.operations[number]):
            pull = self.weights.shared(number, place)
        stands: dict[Operand, Operand] = {TARGET: target, PRODUCT: StateRead(_product_name(number), 0, back)}
        if PRODUCT in pull.operands:
            self.shared[number] = None
        weigh, named = self._taken(pull, back, operands, stands)
        given = [stands[one] for one in pull.operands if one in stands]
        even = all(isinstance(one, WholeRead) for one in pull.operands) and len(given) == 1 and not adds_up(pull)
        return weigh, named, given[0] if even else None

    def _target(self, term: Term, back: tuple[int, ...]) -> StateRead:
        """The cotangent of what the operation of a term wrote at the entry `back` from here."""
        array = self.source.operations[term.operation].array
        if array in self.kept and not term.complete:
            return StateRead(adjoint_names(array, 1)[0], -1, back)
        return StateRead(f"{array} adjoint", 0, back)

    def _is_worth_leaving(self, number: int, place: int) -> bool:
        """Whether a derivative reads several entries that no other derivative of the rule reads: it is rather left by
        the march, which has them at hand."""
        reads = [one for one in self.weights.pull(number, place).operands if isinstance(one, StateRead)]
        return self.rules[number].affine and len(reads) > 1

    def _is_large(self, operation: Operation) -> bool:
        """Whether an operation does much of its array; what is done beside walls is not worth an array."""
        return 4 * operation.box.size >= prod(self.source.array(operation.array).shape)

    def _leave(self, number: int, place: int) -> ProfileRead:
        """The derivative of an operation by an operand, which the march leaves: in an array for all operations on parts
        of the same one."""
        operation = self.source.operations[number]
        space = tuple(axis for axis in self.axes if axis)
        if (number, place) not in self.left:
            taken = {one.array for one in self.left.values() if not one.box.intersect(operation.box).empty}
            name = next(name for k in count() if (name := f"{operation.array} derivative {k}") not in taken)
            self.left[number, place] = Operation(name, operation.box, self.weights.partial(number, place), None)
            self.values.leave(name)
        name = self.left[number, place].array
        return ProfileRead(stack_name(name), (LEVELS, *space), (0,) * (1 + len(space)))

    def _taken(
        self,
        rule: Traced,
        back: tuple[int, ...],
        operands: dict[Operand, Any],
        stands: Mapping[Operand, Operand] = MappingProxyType({}),
    ) -> tuple[Callable[..., Any], list[Operand]]:
        """A rule as the entry `back` from here has it: a function, and the operands that it is of; `stands` says what
        stands for those that are none of its own."""
        named = [stands[one] if one in stands else self.values.read(one, back) for one in rule.operands]
        for operand, variable in zip(named, rule.jaxpr.invars, strict=True):
            operands[operand] = variable.aval.dtype
        return rule.function(rule.consts), named

    def _test(
        self, operation: Operation, back: tuple[int, ...], operands: dict[Operand, Any]
    ) -> Callable[[Known], Any]:
        """Whether an operation acts at the entry `back` from here; None for always."""
        mask = None
        if operation.mask is not None:
            space = tuple(axis for axis in self.axes if axis)
            mask = self.values.read(ProfileRead(operation.mask, space, (0,) * len(space)), back)
            operands[mask] = np.dtype(bool)
        if operation.predicate is None:
            return lambda known: known[mask] if mask is not None else None
        rule = self._ready(operation, operation.predicate, operation.held)
        holds, named = self._taken(rule, back, operands)

        def run(known: Known) -> Any:
            found = holds(*(known[o] for o in named))
            return found if mask is None else found & known[mask]

        return run


def _product_name(number: int) -> str:
    return f"product {number}"


def _in_lanes(box: Box) -> Box:
    return Box((*box.start[:-1], 0), (*box.stop[:-1], LANES))


def _is_zero(pull: Traced) -> bool:
    (result,) = pull.jaxpr.outvars
    return isinstance(result, jex.Literal) and not np.any(result.val)


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

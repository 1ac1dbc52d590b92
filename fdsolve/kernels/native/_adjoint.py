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
from itertools import product
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._tangents import replaced
from ...planning import Array
from ...region import Box
from ...stencil import Operand, ProfileRead, StateRead, Traced, WholeRead, make_traced, make_traced_each
from ._cells import Cell, Term, merged, ordered, split_around
from ._linear import check_affine, with_named_constants, with_plain_times
from ._operands import TIME_BEFORE, Levels
from ._program import LANES, Operation, Program, Unserved
from ._scalar import unsupported
from ._values import Values

MAX_CELLS = 1500
"""Cells of a transpose; where boundaries and wide stencils make more, compiling them is dear."""
_TARGET = WholeRead("cotangent")
"""Stands for the cotangent of what an operation wrote."""
Boxes = Mapping[str, tuple[Box, ...]]
Known = Mapping[Operand, Any]


@dataclass(frozen=True)
class Sum:
    """The array in which the cotangent of an operand is added up at the points that read it; what lies outside of the
    boxes is nothing."""

    operand: WholeRead | ProfileRead
    array: Array
    boxes: tuple[Box, ...]
    timed: bool
    """Whether the operand changes along time: what a level adds up is an entry's of its own."""


@dataclass(frozen=True)
class Pulled:
    """The transpose of a level: its program, whose state are the cotangents of the kept levels and then the sums; and
    which levels of the march it reads."""

    program: Program
    sums: tuple[Sum, ...]
    levels: Levels

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


def pull_program(program: Program, axes: tuple[str, ...], moving: tuple[str, ...]) -> Pulled:
    """The transpose of one level by the state and by the operands of the names `moving`; raises Unserved."""
    return _Transpose(program, axes, moving).pulled()


class _Transpose:
    def __init__(self, program: Program, axes: tuple[str, ...], moving: tuple[str, ...]):
        self.source, self.axes, self.moving = program, axes, moving
        self.kept = {one.name: kept for one, kept in program.state}
        self.values = Values(program, axes)
        self.pulls: dict[tuple[Traced, int], Traced] = {}
        self.rules = [self._ready(op, op.rule, op.number) for op in program.operations]
        if program.wraps and any(op.box.start[0] > 0 or op.box.stop[0] < self._rows() for op in program.operations):
            raise Unserved("rules change along a periodic axis")

    def _ready(self, operation: Operation, rule: Traced, number: int | None) -> Traced:
        return with_plain_times(with_named_constants(rule, number), operation.fraction)

    def pulled(self) -> Pulled:
        """The operations: values computed again, cotangents completed at their own level, those of the levels before,
        and sums for operands that move."""
        now = {one.name: self._cells(one, self._readers(one, 0), {}) for one in self.source.arrays}
        changed = {
            name: tuple(cell.box for cell in cells if cell.terms or name not in self.kept)
            for name, cells in now.items()
        }
        completing: list[Operation] = []
        for one in self.source.arrays:
            for cell in self._cells(one, self._readers(one, 0), changed):
                if cell.terms or one.name not in self.kept:
                    start = StateRead(adjoint_names(one.name, 1)[0], -1, self._here) if one.name in self.kept else None
                    completing.append(self._operation(f"{one.name} adjoint", cell, start))
        arrays, kept, operations = [], [], ordered(completing)
        for one, levels in self.source.state:
            names = adjoint_names(one.name, levels)
            for k, name in enumerate(names):
                start = StateRead(names[k + 1], -1, self._here) if k + 1 < levels else None
                cells = self._cells(one, self._readers(one, k + 1), changed)
                _check_number(len(operations) + len(cells))
                operations += [self._operation(name, cell, start) for cell in cells]
                arrays.append(replace(one, name=name))
                kept.append(1)
        sums, adding = self._sums(changed, max((op.box for op in operations), key=lambda box: box.size))
        arrays += [one.array for one in sums]
        kept += [1] * len(sums)
        operations += adding
        used = {op.array for op in completing}
        arrays += [replace(one, name=f"{one.name} adjoint") for one in self.source.arrays
                   if f"{one.name} adjoint" in used]  # fmt: skip
        operations = [*self.values.operations(), *operations]
        arrays += [one for one in self.source.arrays if one.name in self.values.again]
        _check(operations)
        kept += [0] * (len(arrays) - len(kept))
        program = Program(tuple(arrays), tuple(kept), tuple(operations), self.source.wraps, (), -1)
        return Pulled(program, tuple(sums), self.values.levels)

    @property
    def _here(self) -> tuple[int, ...]:
        return (0,) * len(self.axes)

    def _rows(self) -> int:
        return self.source.arrays[0].shape[0]

    def _readers(self, one: Array, lag: int) -> list[Term]:
        """What entries of an array gave through reads of that lag."""
        return [
            Term(p, k, read.offset)
            for p, rule in enumerate(self.rules)
            for k, read in enumerate(rule.operands)
            if isinstance(read, StateRead) and read.field == one.name and -read.level == lag
            if not _is_zero(self._pull(p, k))
        ]

    def _sums(self, changed: Boxes, inner: Box) -> tuple[list[Sum], list[Operation]]:
        """The arrays in which cotangents of operands are added up, and the operations that do it; `inner` is where most
        points of the others are, so that one loop can do both."""
        groups: dict[Any, list[Term]] = {}
        shapes: dict[Any, Array] = {}
        for p, rule in enumerate(self.rules):
            one = self.source.array(self.source.operations[p].array)
            for k, operand in enumerate(rule.operands):
                if self._moves(operand) and not _is_zero(self._pull(p, k)):
                    key = operand, one.shape, one.lower, one.upper
                    groups.setdefault(key, []).append(Term(p, k, self._here))
                    shapes.setdefault(key, one)
        sums, operations = [], []
        for key, terms in groups.items():
            array = replace(shapes[key], name=f"cotangent {len(sums)}", kept=1, hidden=True)
            cells = [cell for cell in self._cells(array, terms, changed) if cell.terms]
            largest = max(cells, key=lambda cell: cell.box.size, default=None)
            timed = self._is_timed(key[0])
            alone = isinstance(key[0], WholeRead) or (timed and len(key[0].axes) == 1)  # one number for all points
            if largest is not None and alone and largest.box.shape[-1] >= LANES:
                cells.remove(largest)
                folded = replace(array, shape=(*array.shape[:-1], LANES), lower=(*array.lower[:-1], 0),
                                 upper=(*array.upper[:-1], 0))  # fmt: skip
                sums.append(Sum(key[0], folded, (_in_lanes(largest.box),), timed))
                start = StateRead(array.name, -1, self._here)
                operations.append(replace(self._operation(array.name, largest, start), folded=True))
                array = replace(array, name=f"cotangent {len(sums)}")
            if cells:
                sums.append(Sum(key[0], array, tuple(cell.box for cell in cells), timed))
                start = StateRead(array.name, -1, self._here)
                operations += [self._operation(array.name, cell, start) for cell in split_around(cells, inner)]
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

    def _cells(self, one: Array, terms: Sequence[Term], changed: Boxes) -> list[Cell]:
        """An array cut into boxes, with the terms that act there; `changed` says where sums differ."""
        whole = Box(one.origin, tuple(n + a for n, a in zip(one.shape, one.upper, strict=True)))
        if self.source.wraps:
            whole = Box((0, *whole.start[1:]), (self._rows(), *whole.stop[1:]))
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
        reached = [(term, self._moved(self.source.operations[term.operation].box, term.offset)) for term in terms]
        cells = []
        for sides in product(*spans):
            box = Box(tuple(a for a, _ in sides), tuple(b for _, b in sides))
            near = [term for term, there in reached if _meets(sides, there)]
            acting = (self._acting(term, box, changed) for term in near)
            cells.append(Cell(box, tuple(term for term in acting if term is not None)))
        return merged(cells)

    def _boxes_around(self, term: Term, changed: Boxes) -> list[Box]:
        operation = self.source.operations[term.operation]
        others = [op.box for op in self.source.operations[term.operation + 1 :]
                  if op.array == operation.array and not op.adds]  # fmt: skip
        return [operation.box, *others, *changed.get(operation.array, ())]

    def _moved(self, box: Box, offset: tuple[int, ...]) -> Box:
        return box.shift((0, *offset[1:]) if self.source.wraps else offset)

    def _acting(self, term: Term, box: Box, changed: Boxes) -> Term | None:
        """The term as it acts in a cell; None where it does not."""
        operations = self.source.operations
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
        in_state = operation.array in self.kept
        if in_state and not term.complete:
            target = StateRead(adjoint_names(operation.array, 1)[0], -1, back)
        else:
            target = StateRead(f"{operation.array} adjoint", 0, back)
        operands[target] = self.source.dtype
        pull = self._pull(term.operation, term.operand)
        even = all(isinstance(one, WholeRead) for one in pull.operands)
        weigh, named = self._taken(pull, back, operands, target)
        tests = [self._test(operation, back, operands)]
        tests += [self._test(self.source.operations[k], back, operands) for k in term.later]

        def run(known: Known) -> Any:
            one = jnp.ones((), known[target].dtype)  # a weight that is the same everywhere is computed before a row is
            value = weigh(*(one if even and o == target else known[o] for o in named))
            value = value * known[target] if even else value
            for number, test in enumerate(tests):
                held = test(known)
                if held is not None:
                    zero = jnp.zeros_like(value)
                    value = jnp.where(held, value, zero) if number == 0 else jnp.where(held, zero, value)
            return value

        return run

    def _taken(
        self, rule: Traced, back: tuple[int, ...], operands: dict[Operand, Any], target: Operand = _TARGET
    ) -> tuple[Callable[..., Any], list[Operand]]:
        """A rule as the entry `back` from here has it: a function, and the operands that it is of."""
        named = [target if one == _TARGET else self.values.read(one, back) for one in rule.operands]
        for operand, variable in zip(named, rule.jaxpr.invars, strict=True):
            operands[operand] = variable.aval.dtype
        return rule.function(rule.consts), named

    def _pull(self, number: int, place: int) -> Traced:
        """The derivative by an operand times a cotangent, as a rule of what it depends on and of the cotangent."""
        rule = self.rules[number]
        if (rule, place) not in self.pulls:
            numbers = [k for k, one in enumerate(rule.jaxpr.invars) if jnp.issubdtype(one.aval.dtype, jnp.inexact)]
            reads = [k for k in numbers if isinstance(rule.operands[k], StateRead)]
            every = list(range(len(rule.operands)))
            if rule.affine and place in reads:  # the weights of an affine rule depend on no read
                self._trace_pulls(rule, reads, [k for k in every if k not in reads])
            else:
                self._trace_pulls(rule, [k for k in numbers if not rule.affine or k not in reads], every)
        return self.pulls[rule, place]

    def _trace_pulls(self, rule: Traced, places: list[int], others: list[int]) -> None:
        """The derivatives by the operands at some places, as rules of some operands and of the cotangent."""
        dtype = self.source.dtype

        def run(cotangent: Any, *values: Any) -> list[Any]:
            every = [jnp.zeros((), rule.dtype)] * len(rule.operands)
            for k, value in zip(others, values, strict=True):
                every[k] = value

            def of(*given: Any) -> Any:
                return rule.function(rule.consts)(*replaced(every, places, given))

            found = jax.vjp(of, *(every[k] for k in places))[1](cotangent)
            return [lax.convert_element_type(one, dtype) for one in found]

        avals = [rule.jaxpr.invars[k].aval for k in others]
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        closed = jax.make_jaxpr(run)(jax.ShapeDtypeStruct((), rule.dtype), *specs)
        found = make_traced_each(closed, (_TARGET, *(rule.operands[k] for k in others)), dtype)
        self.pulls |= {(rule, place): one for place, one in zip(places, found, strict=True)}

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


def _meets(sides: Sequence[tuple[int, int]], box: Box) -> bool:
    """Whether a cell of these sides has points in common with a box."""
    return all(a < stop and start < b for (a, b), start, stop in zip(sides, box.start, box.stop, strict=True))


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

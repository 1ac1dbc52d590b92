"""The linear part of a level and its transpose, as programs of their own.

A level maps the kept levels (u₀, u₁, …), newest first, to (u', u₀, …). Its transpose maps their cotangents back:
first what operations read at their own level is added up, C = ū' + Σ w C; then ū₀' = ū₁ + Σ w C over the reads one
level back, ū₁' = ū₂ + Σ w C over those two levels back, and so on. Each entry gathers what it gave: along an axis,
boxes of operations moved by the offsets of their reads cut the array into cells, in each of which the same terms act.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ...planning import Array
from ...region import Box
from ...stencil import Operand, ProfileRead, StateRead, Traced, WholeRead, make_traced
from ._program import Operation, Program, Unserved

MAX_CELLS = 120
"""Cells of a transpose; where boundaries and wide stencils make more, compiling them is dear."""


def tangent_program(program: Program) -> Program:
    """The linear part of every operation; raises Unserved where one is not affine."""
    operations = tuple(replace(op, rule=_linear_part(op), number=None) for op in program.operations)
    return replace(program, operations=operations)


def _linear_part(operation: Operation) -> Traced:
    rule = _with_named_constants(operation)
    reads = [k for k, o in enumerate(rule.operands) if isinstance(o, StateRead)]

    def run(*values: Any) -> Any:
        if not reads:
            return jnp.zeros((), rule.dtype)

        def of_reads(*given: Any) -> Any:
            every = list(values)
            for k, value in zip(reads, given, strict=True):
                every[k] = value
            return rule.function(rule.consts)(*every)

        zeros = [jnp.zeros_like(values[k]) for k in reads]
        return jax.jvp(of_reads, zeros, [values[k] for k in reads])[1]

    return _traced(run, rule)


def _traced(run: Any, rule: Traced) -> Traced:
    closed = jax.make_jaxpr(run)(*[jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in rule.jaxpr.invars])
    return make_traced(closed, rule.operands, rule.dtype)


def _with_named_constants(operation: Operation, predicate: bool = False) -> Traced:
    """The rule (or predicate) with its constants as operands."""
    rule, number = (operation.predicate, operation.held) if predicate else (operation.rule, operation.number)
    assert rule is not None
    if not predicate and not rule.affine:
        raise Unserved(f"a rule of `{operation.array}` is not affine")
    if not rule.consts:
        return rule
    operands = tuple(WholeRead(f"rule {number} {k}") for k in range(len(rule.consts)))
    jaxpr = rule.jaxpr.replace(
        constvars=[], invars=[*rule.jaxpr.constvars, *rule.jaxpr.invars],
        debug_info=rule.jaxpr.debug_info._replace(arg_names=None),
    )  # fmt: skip
    return make_traced(jex.ClosedJaxpr(jaxpr, []), (*operands, *rule.operands), rule.dtype)


_TARGET = WholeRead("cotangent")
"""Stands for the cotangent of what an operation wrote."""


@dataclass(frozen=True)
class _Term:
    """What entry y of an array gave to entry y − offset, through one read of an operation.

    `later` are operations that may overwrite there what it wrote, under a mask or predicate.
    """

    operation: int
    read: int
    offset: tuple[int, ...]
    lag: int
    later: tuple[int, ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class _Cell:
    box: Box
    terms: tuple[_Term, ...]


def adjoint_names(name: str, kept: int) -> tuple[str, ...]:
    """The arrays of the cotangents of the kept levels of an array."""
    return tuple(f"{name} adjoint {k}" for k in range(kept))


def adjoint_program(program: Program, axes: tuple[str, ...]) -> Program:
    """The transpose of one level; raises Unserved where an operation is not affine, or cells are too many.

    `axes` are those of the program's arrays ("" for one that is not the grid's).
    """
    return _Transpose(program, axes).program()


class _Transpose:
    def __init__(self, program: Program, axes: tuple[str, ...]):
        self.source, self.axes = program, axes
        self.kept = {one.name: kept for one, kept in program.state}
        self.pulls: dict[tuple[int, int], Traced] = {}
        self.rules = [_with_named_constants(op) for op in program.operations]
        if program.wraps and any(op.box.start[0] > 0 or op.box.stop[0] < self._rows() for op in program.operations):
            raise Unserved("rules change along a periodic axis")

    def program(self) -> Program:
        """The operations: cotangents completed at their own level, then those of the levels before."""
        now = {one.name: self._cells(one, 0, {}) for one in self.source.arrays}
        changed = {
            name: tuple(cell.box for cell in cells if cell.terms or name not in self.kept)
            for name, cells in now.items()
        }
        completing = []
        for one in self.source.arrays:
            for cell in self._cells(one, 0, changed):
                if cell.terms or one.name not in self.kept:
                    start = (adjoint_names(one.name, 1)[0], -1) if one.name in self.kept else None
                    completing.append(self._operation(f"{one.name} adjoint", cell, start))
        arrays, kept, operations = [], [], _ordered(completing)
        for one, levels in self.source.state:
            names = adjoint_names(one.name, levels)
            for k, name in enumerate(names):
                start = (names[k + 1], -1) if k + 1 < levels else None
                operations += [self._operation(name, cell, start) for cell in self._cells(one, k + 1, changed)]
                arrays.append(replace(one, name=name))
                kept.append(1)
        if len(operations) > MAX_CELLS:
            raise Unserved(f"its transpose has {len(operations)} pieces")
        used = {op.array for op in completing}
        for one in self.source.arrays:
            if f"{one.name} adjoint" in used:
                arrays.append(replace(one, name=f"{one.name} adjoint"))
                kept.append(0)
        return Program(tuple(arrays), tuple(kept), tuple(operations), self.source.wraps, (), -1)

    def _rows(self) -> int:
        return self.source.arrays[0].shape[0]

    def _cells(self, one: Array, lag: int, changed: dict[str, tuple[Box, ...]]) -> list[_Cell]:
        """An array cut into boxes, with the terms through reads of that lag; `changed` says where sums differ."""
        whole = Box(one.origin, tuple(n + a for n, a in zip(one.shape, one.upper, strict=True)))
        if self.source.wraps:
            whole = Box((0, *whole.start[1:]), (self._rows(), *whole.stop[1:]))
        terms = [
            _Term(p, k, read.offset, lag)
            for p, operation in enumerate(self.source.operations)
            for k, read in enumerate(self.rules[p].operands)
            if isinstance(read, StateRead) and read.field == one.name and -read.level == lag
        ]
        cuts = [{whole.start[axis], whole.stop[axis]} for axis in range(whole.ndim)]
        for term in terms:
            for box in self._boxes_around(term, changed):
                moved = self._moved(box, term.offset)
                for axis in range(whole.ndim):
                    cuts[axis] |= {c for c in (moved.start[axis], moved.stop[axis])
                                   if whole.start[axis] < c < whole.stop[axis]}  # fmt: skip
        if prod(len(c) - 1 for c in cuts) > 40 * MAX_CELLS:
            raise Unserved("its transpose has too many pieces")
        spans = [list(zip(sorted(c), sorted(c)[1:], strict=False)) for c in cuts]
        cells = []
        for sides in product(*spans):
            box = Box(tuple(a for a, _ in sides), tuple(b for _, b in sides))
            acting = (self._acting(term, box, changed) for term in terms)
            cells.append(_Cell(box, tuple(term for term in acting if term is not None)))
        return _merged(cells)

    def _boxes_around(self, term: _Term, changed: dict[str, tuple[Box, ...]]) -> list[Box]:
        operation = self.source.operations[term.operation]
        others = [op.box for op in self.source.operations[term.operation + 1 :]
                  if op.array == operation.array and not op.adds]  # fmt: skip
        return [operation.box, *others, *changed.get(operation.array, ())]

    def _moved(self, box: Box, offset: tuple[int, ...]) -> Box:
        return box.shift((0, *offset[1:]) if self.source.wraps else offset)

    def _acting(self, term: _Term, box: Box, changed: dict[str, tuple[Box, ...]]) -> _Term | None:
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

    def _operation(self, array: str, cell: _Cell, start: tuple[str, int] | None) -> Operation:
        """The sum of a cell's terms, and of what stands there already."""
        operands: dict[Operand, Any] = {}
        dtype = self.source.dtype
        rank = len(self.source.arrays[0].shape)
        parts = [self._pulled(term, operands) for term in cell.terms]
        own = StateRead(*start, (0,) * rank) if start is not None else None
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

    def _pulled(self, term: _Term, operands: dict[Operand, Any]) -> Any:
        """The weight of a read times the cotangent of what was written, as a function of operands."""
        operation = self.source.operations[term.operation]
        back = tuple(-o for o in term.offset)
        in_state = operation.array in self.kept
        if in_state and not term.complete:
            target = StateRead(adjoint_names(operation.array, 1)[0], -1, back)
        else:
            target = StateRead(f"{operation.array} adjoint", 0, back)
        operands[target] = self.source.dtype
        pulled = self._pull(term.operation, term.read)
        named = [target if operand == _TARGET else self._shifted(operand, term) for operand in pulled.operands]
        for operand, variable in zip(named, pulled.jaxpr.invars, strict=True):
            operands[operand] = variable.aval.dtype
        tests = [self._test(operation, term, operands)]
        tests += [self._test(self.source.operations[k], term, operands) for k in term.later]
        weigh = pulled.function(pulled.consts)

        def run(known: dict[Operand, Any]) -> Any:
            value = weigh(*(known[o] for o in named))
            for number, test in enumerate(tests):
                held = test(known)
                if held is not None:
                    zero = jnp.zeros_like(value)
                    value = jnp.where(held, value, zero) if number == 0 else jnp.where(held, zero, value)
            return value

        return run

    def _pull(self, number: int, read: int) -> Traced:
        """The weight of a read times a cotangent, as a rule of what the weight depends on and of the cotangent."""
        if (number, read) not in self.pulls:
            rule = self.rules[number]
            reads = [k for k, o in enumerate(rule.operands) if isinstance(o, StateRead)]
            others = [k for k in range(len(rule.operands)) if k not in reads]

            def run(cotangent: Any, *values: Any) -> Any:
                every = [jnp.zeros((), rule.dtype)] * len(rule.operands)
                for k, value in zip(others, values, strict=True):
                    every[k] = value

                def of_reads(*state: Any) -> Any:
                    given = list(every)
                    for k, value in zip(reads, state, strict=True):
                        given[k] = value
                    return rule.function(rule.consts)(*given)

                _, pull = jax.vjp(of_reads, *[every[k] for k in reads])
                return pull(cotangent)[reads.index(read)]

            avals = [rule.jaxpr.invars[k].aval for k in others]
            specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
            closed = jax.make_jaxpr(run)(jax.ShapeDtypeStruct((), rule.dtype), *specs)
            operands = (_TARGET, *(rule.operands[k] for k in others))
            self.pulls[number, read] = make_traced(closed, operands, rule.dtype)
        return self.pulls[number, read]

    def _test(self, operation: Operation, term: _Term, operands: dict[Operand, Any]) -> Any:
        """Whether an operation acts at the entry that a term comes from; None for always."""
        mask = None
        if operation.mask is not None:
            space = tuple(axis for axis in self.axes if axis)
            mask = self._shifted(ProfileRead(operation.mask, space, (0,) * len(space)), term)
            operands[mask] = np.dtype(bool)
        if operation.predicate is None:
            return lambda known: known[mask] if mask is not None else None
        rule = _with_named_constants(operation, predicate=True)
        named = self._named(rule, term, operands)

        def run(known: dict[Operand, Any]) -> Any:
            holds = rule.function(rule.consts)(*(known[o] for o in named))
            return holds if mask is None else holds & known[mask]

        return run

    def _named(self, rule: Traced, term: _Term, operands: dict[Operand, Any]) -> list[Operand]:
        """A rule's operands as the entry that a term comes from reads them; those of the state stay as they are."""
        found = []
        for operand, variable in zip(rule.operands, rule.jaxpr.invars, strict=True):
            moved = operand if isinstance(operand, StateRead) else self._shifted(operand, term)
            if not isinstance(operand, StateRead):
                operands[moved] = variable.aval.dtype
            found.append(moved)
        return found

    def _shifted(self, operand: Operand, term: _Term) -> Operand:
        if not isinstance(operand, ProfileRead):
            return operand
        by_axis = dict(zip(self.axes, term.offset, strict=True))
        moves = [-by_axis.get(axis, 0) for axis in operand.axes]  # time is not moved: all is of one level
        return replace(operand, offset=tuple(o + m for o, m in zip(operand.offset, moves, strict=True)))


def _merged(cells: Sequence[_Cell]) -> list[_Cell]:
    """Neighbours with the same terms as one cell, axis by axis from the last."""
    found = list(cells)
    for axis in reversed(range(found[0].box.ndim if found else 0)):
        groups: dict[Any, list[_Cell]] = {}
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


def _ordered(operations: Sequence[Operation]) -> list[Operation]:
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

"""What a term of a transpose computes: the derivative of an operation by what it read, times a cotangent."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from operator import add, and_, mul
from types import MappingProxyType
from typing import Any

import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ...planning import Array
from ...stencil import Operand, ProfileRead, Splice, StateRead, Traced, WholeRead, make_traced, may_share
from ._cells import Cell, Term
from ._dear import left_by
from ._given import Given, gift_name, is_zero
from ._lanes import has_lanes
from ._linear import with_named_constants, with_plain_times
from ._operands import TIME_BEFORE, Pull, are_ragged, in_columns
from ._products import Products, product_name
from ._program import Operation, Program, Unserved
from ._slopes import Slope, split_by
from ._values import Values
from ._weights import PRODUCT, TARGET, Weights, adds_up, target, together

Part = Callable[[Splice], Any]
"""A summand, in a rule that is being put together."""
MOST_READ, MOST_READ_AGAIN = 4, 8
"""Entries that are read again sooner than what is computed from them is left in cache by a march beside, or written
down by one before."""


def adjoint_names(name: str, kept: int) -> tuple[str, ...]:
    """The arrays of the cotangents of the kept levels of an array."""
    return tuple(f"{name} adjoint {k}" for k in range(kept))


class Terms:
    """The terms of a program's transpose by its state and by the operands that move.

    `axes` are those of the program's arrays ("" for one that is not the grid's). `beside`: the march goes on beside the
    transpose. `given` and `products` tell what is written down for several derivatives, `left` are those that the march
    leaves.
    """

    def __init__(self, program: Program, axes: tuple[str, ...], pull: Pull):
        self.program, self.axes, self.moving, self.beside = program, axes, pull.moving, pull.beside
        self.most_read = MOST_READ if pull.beside else MOST_READ_AGAIN if pull.again else None
        self.here = (0,) * len(axes)
        self.kept = {one.name: kept for one, kept in program.state}
        self.values = Values(program, axes, left_by(program, pull))
        self.weights = Weights([_ready(op, op.rule, op.number) for op in program.operations], program.dtype)
        self.rules = self.weights.rules
        self.slopes: Sequence[Slope | None] = [self._slope(rule) for rule in self.rules]
        self.given = Given(program, self.weights)
        self.products = Products(program, self.weights, self.given)
        self.left: dict[tuple[int, int], Operation] = {}

    def readers(self, one: Array, lag: int) -> list[Term]:
        """What entries of an array gave through reads of that lag."""
        return [
            Term(p, k, read.offset)
            for p, rule in enumerate(self.rules)
            if self.given.leads(p)
            for k, read in enumerate(rule.operands)
            if isinstance(read, StateRead) and read.field == one.name and -read.level == lag
            if not is_zero(self.given.gift(p, read) or self.weights.pull(rule, k))
        ]

    def moved(self) -> Iterator[tuple[Operand, Term]]:
        """The operands that move, each with a term by it; those that a rule is split by for its slope do without."""
        for p, rule in enumerate(self.rules):
            slope = self.slopes[p]
            for k, operand in enumerate(rule.operands):
                own = self._moves(operand) and not (slope is not None and operand == slope.number)
                if own and not is_zero(self.weights.pull(rule, k)):
                    yield operand, Term(p, k, self.here)

    def gives(self, number: int) -> bool:
        """Whether an operation depends on the state, or on an operand that moves."""
        rule = self.rules[number]
        moving = (k for k, one in enumerate(rule.operands) if isinstance(one, StateRead) or self._moves(one))
        return any(not is_zero(self.weights.pull(rule, k)) for k in moving)

    def is_timed(self, operand: Operand) -> bool:
        """Whether an operand changes along time, the first axis of such arrays."""
        return isinstance(operand, ProfileRead) and bool(operand.axes) and operand.axes[0] not in self.axes

    def same(self, term: Term) -> Hashable:
        """What two terms have in common that give the same where both act."""
        number, read = term.operation, self._read_of(term)
        operation, rule = self.program.operations[number], self.rules[number]
        tested = operation.mask is not None or operation.predicate is not None
        if self.given.gift(number, read) is not None:
            return term.offset, self.given.by_operation[number].first, read
        about = term.offset, term.later, term.complete, operation.array, number if tested else None
        if self.is_left(term):
            return (*about, self._leave(number, term.operand, self.here))
        pull = self._pull_of(term, rule)
        return (*about, isinstance(read, StateRead), self.products.first(number), pull.key, pull.operands)

    def shares(self, term: Term) -> bool:
        """Whether a term's derivative is that of a product which others share."""
        return isinstance(self._read_of(term), StateRead) and self.products.first(term.operation) is not None

    def written_by(self, term: Term) -> set[str]:
        """The arrays whose cotangents a term is of."""
        giving = self.given.by_operation.get(term.operation)
        state = isinstance(self._read_of(term), StateRead)
        numbers = (term.operation,) if giving is None or not state else giving.operations
        return {self.program.operations[k].array for k in numbers}

    def can_vanish(self, term: Term) -> bool:
        """Whether a term is zero where all that it reads is: one that is made in some columns of a row alone."""
        operation, rule = self.program.operations[term.operation], self.rules[term.operation]
        if operation.mask is not None or operation.predicate is not None or term.later:
            return False
        if self.given.gift(term.operation, self._read_of(term)) is not None:
            return True
        slope = self.slope_of(term)
        rules = [rule] if slope is None else [one for one in (slope.rest, slope.slope) if one is not None]
        pulls = [self._pull_of(term, one) for one in rules if self._gives(term, one)]
        return all(has_lanes(one, self.axes[-1]) for one in pulls)

    def operations(self, array: str, cell: Cell, own: StateRead | None) -> list[Operation]:
        """The sum of a cell's terms; of the cells that it is made of, if the sum has no code for lanes."""
        made = self.operation(array, cell, own)
        if not are_ragged(made.operands) or has_lanes(made.rule, self.axes[-1]):
            return [made]
        return [self.operation(array, one, own) for one in cell.parts]

    def operation(self, array: str, cell: Cell, own: StateRead | None) -> Operation:
        """The sum of a cell's terms, and of what stands there already: plain ones first, then by the number that they
        are split by, those of slopes."""
        operands: dict[Operand, Any] = {} if own is None else {own: self.program.dtype}
        parts, slopes = [], {}
        groups, rest = self._grouped(cell.terms)
        for terms, pull in groups:
            parts.append(self._pulled_together(terms, operands, pull))
        for term in rest:
            slope = self.slope_of(term)
            rule = self.rules[term.operation] if slope is None else slope.rest
            if rule is not None and self._gives(term, rule):
                parts.append(self._pulled(term, operands, rule))
            if slope is not None and self._gives(term, slope.slope):
                operands[slope.number] = self.program.dtype
                slopes.setdefault(slope.number, []).append(self._pulled(term, operands, slope.slope))
        return self._summed(array, cell, operands, own, parts, slopes)

    def slope_sum(self, array: str, cell: Cell, own: StateRead) -> Operation:
        """What the reads of a cell's terms give to the cotangent of the number that rules are split by, and what stands
        there already: what is read, times the slopes' terms, in the very form that `operation` has them in, so that a
        loop which does both computes them once."""
        read = self.rules[cell.terms[0].operation].operands[cell.terms[0].operand]
        assert isinstance(read, StateRead)
        value = self.values.read(replace(read, offset=self.here), self.here)
        operands: dict[Operand, Any] = {own: self.program.dtype, value: self.program.dtype}
        slopes = [(term, slope) for term in cell.terms if (slope := self.slope_of(term)) is not None]
        parts = [self._pulled(term, operands, slope.slope) for term, slope in slopes]
        return self._summed(array, cell, operands, own, [], {value: parts})

    def is_sloping(self, term: Term, number: WholeRead) -> bool:
        """Whether a term has a part by the slope of a rule that is split by this number."""
        slope = self.slope_of(term)
        return slope is not None and slope.number == number and self._gives(term, slope.slope)

    def slope_of(self, term: Term) -> Slope | None:
        """How the rule of a term is split, if the term is by a read."""
        return self.slopes[term.operation] if isinstance(self._read_of(term), StateRead) else None

    def product(self, term: Term) -> Operation:
        """The operation on no points yet that computes the product which derivatives of a term's operation share."""
        operands: dict[Operand, Any] = {}
        product, target = self.weights.product(self.rules[term.operation]), self._target(term, self.here)
        named = self._taken(product, self.here, operands, {TARGET: target})[1]
        closed = jex.ClosedJaxpr(product.jaxpr, list(product.consts))
        first = self.products.first(term.operation)
        assert first is not None
        box = self.program.operations[term.operation].box
        return Operation(product_name(first), box, make_traced(closed, tuple(named), self.program.dtype), None)

    def gift(self, term: Term, place: int) -> Operation:
        """The operation on no points yet that computes what a term's operations give to an operand of the first."""
        giving = self.given.by_operation[term.operation]
        pull = giving.pulls[self.rules[giving.first].operands[place]]
        stands: dict[Operand, Operand] = {
            target(k): self._target(replace(term, operation=number), self.here)
            for k, number in enumerate(giving.operations)
        }
        named = self._taken(pull, self.here, {}, stands)[1]
        closed = jex.ClosedJaxpr(pull.jaxpr, list(pull.consts))
        box = self.program.operations[term.operation].box
        made = make_traced(closed, tuple(named), self.program.dtype)
        loop = f"gifts {giving.first}" if giving.at_once else ""
        return Operation(gift_name(giving.first, place), box, made, None, loop=loop)

    def like(self, number: int, name: str) -> Array:
        """An array of the shape of what an operation writes, that lives within a level."""
        return replace(self.program.array(self.program.operations[number].array), name=name, kept=0, hidden=True)

    def _slope(self, rule: Traced) -> Slope | None:
        """A rule split by the first number that moves and that it can be split by; derivatives that share a product are
        better off with that."""
        numbers = [one for one in rule.operands if isinstance(one, WholeRead) and self._moves(one)]
        reads = [k for k, one in enumerate(rule.operands) if isinstance(one, StateRead)]
        if not numbers or not reads or not rule.affine:
            return None
        self.weights.pull(rule, reads[0])
        if self.weights.has_product(rule):
            return None
        found = (split_by(rule, one) for one in numbers)
        return next((one for one in found if one is not None), None)

    def _moves(self, operand: Operand) -> bool:
        if isinstance(operand, StateRead):
            return False
        name = "times" if operand in (WholeRead("t"), TIME_BEFORE) else operand.name
        if name not in self.moving:
            return False
        if name == "times":
            raise Unserved("the times themselves move")
        if isinstance(operand, ProfileRead) and not set(operand.axes[self.is_timed(operand) :]) <= set(self.axes):
            raise Unserved("what moves lies along an axis of its own")
        return True

    def _read_of(self, term: Term) -> Operand:
        return self.rules[term.operation].operands[term.operand]

    def _gives(self, term: Term, rule: Traced) -> bool:
        """Whether a rule depends on what a term is by."""
        read = self._read_of(term)
        if (gift := self.given.gift(term.operation, read)) is not None:
            return not is_zero(gift)
        return read in rule.operands and not is_zero(self.weights.pull(rule, rule.operands.index(read)))

    def _summed(
        self,
        array: str,
        cell: Cell,
        operands: Mapping[Operand, Any],
        own: StateRead | None,
        parts: list[Part],
        products: Mapping[Operand, list[Part]],
    ) -> Operation:
        """The sum of what stands there, of parts, and of products of operands with sums of parts."""
        made, dtype = Splice(operands), self.program.dtype

        def total(values: list[Any]) -> Any:
            return reduce(partial(made.apply, add), values) if values else made.number(0, dtype)

        summands = [] if own is None else [made.known[own]]
        summands += [part(made) for part in parts]
        for one, each in products.items():
            summands.append(made.apply(mul, made.known[one], total([part(made) for part in each])))
        return Operation(array, cell.box, made.made(total(summands), dtype), None)

    def _pulled(self, term: Term, operands: dict[Operand, Any], rule: Traced) -> Part:
        """The weight that a read has in a rule times the cotangent of what was written, as a function of operands."""
        operation = self.program.operations[term.operation]
        back = tuple(-o for o in term.offset)
        own: dict[Operand, Any] = {}
        weigh, named, even = self._weighed(term, back, own, rule)
        tests = [self._test(operation, back, own)]
        tests += [self._test(self.program.operations[k], back, own) for k in term.later]
        part = {o: in_columns(o, term.columns, self.axes[-1]) if term.columns else o for o in own}
        operands |= {part[o]: dtype for o, dtype in own.items()}

        def run(made: Splice) -> Any:
            one = made.number(1, self.program.dtype)  # a weight that is the same everywhere is computed before a row is
            value = weigh(made, *(one if o == even else made.known[part[o]] for o in named))
            value = made.apply(mul, value, made.known[part[even]]) if even is not None else value
            for number, test in enumerate(tests):
                held = test(made)
                if held is not None:
                    value = made.apply(_where if number == 0 else _elsewhere, held, value)
            return value

        return run

    def _grouped(self, terms: Sequence[Term]) -> tuple[list[tuple[list[Term], Traced]], list[Term]]:
        """The terms by one read of operations that have much in common, each group with its derivative; and others."""
        alike: dict[Hashable, list[Term]] = {}
        for term in terms:
            alike.setdefault(self._group_of(term), []).append(term)
        groups, rest = [], list(alike.pop(None, ()))
        for group in alike.values():
            rules = tuple(self.rules[term.operation] for term in group)
            found = together(rules, self.program.dtype) if len(group) > 1 else None
            if found is None:
                rest += group
            else:
                groups.append((group, found[self._read_of(group[0])]))
        return groups, rest

    def _group_of(self, term: Term) -> Hashable:
        """What the terms of a group have in common; None for a term that is taken by itself."""
        operation, rule = self.program.operations[term.operation], self.rules[term.operation]
        tested = operation.mask is not None or operation.predicate is not None or term.later or term.columns
        written = self.shares(term) or self.given.gift(term.operation, self._read_of(term)) is not None
        if rule.affine or tested or not may_share(rule) or self.is_left(term) or written:
            return None
        read = self._read_of(term)
        return (
            None if self.given.gift(term.operation, read) is not None else (term.offset, read, frozenset(rule.operands))
        )

    def _pulled_together(self, terms: Sequence[Term], operands: dict[Operand, Any], pull: Traced) -> Part:
        """What the terms of a group give, by the sum of their derivatives."""
        back = tuple(-o for o in terms[0].offset)
        stands: dict[Operand, Operand] = {target(k): self._target(term, back) for k, term in enumerate(terms)}
        weigh, named = self._taken(pull, back, operands, stands)
        return lambda made: weigh(made, *(made.known[one] for one in named))

    def _weighed(
        self, term: Term, back: tuple[int, ...], operands: dict[Operand, Any], rule: Traced
    ) -> tuple[Callable[..., Any], list[Operand], Operand | None]:
        """A derivative times a cotangent at the entry `back` from here, as `_taken` has it; and the operand by which
        it is multiplied, where all else is the same everywhere."""
        number, target, read = term.operation, self._target(term, back), self._read_of(term)
        if self.given.gift(number, read) is not None:
            gift = StateRead(self.given.reading(number, read), 0, back)
            operands[gift] = self.program.dtype
            return lambda made, value: value, [gift], None
        if self.is_left(term):
            left = self._leave(number, term.operand, back)
            operands |= {target: self.program.dtype, left: self.program.dtype}
            return lambda made, a, b: made.apply(mul, a, b), [target, left], None
        pull = self._pull_of(term, rule)
        stands: dict[Operand, Operand] = {TARGET: target}
        if PRODUCT in pull.operands:
            first = self.products.first(number)
            assert first is not None
            self.products.read[first] = None
            stands[PRODUCT] = StateRead(product_name(first), 0, back)
        weigh, named = self._taken(pull, back, operands, stands)
        given = [stands[one] for one in pull.operands if one in stands]
        even = all(isinstance(one, WholeRead) for one in pull.operands) and len(given) == 1 and not adds_up(pull)
        return weigh, named, given[0] if even else None

    def _target(self, term: Term, back: tuple[int, ...]) -> StateRead:
        """The cotangent of what the operation of a term wrote at the entry `back` from here."""
        array = self.program.operations[term.operation].array
        if array in self.kept and not term.complete:
            return StateRead(adjoint_names(array, 1)[0], -1, back)
        return StateRead(f"{array} adjoint", 0, back)

    def is_left(self, term: Term) -> bool:
        """Whether the march leaves the derivative that a term is by: it is by no read of the state, and reads many
        entries, or some that only the march has, and no other derivative of the rule reads them."""
        if self.most_read is None or isinstance(self._read_of(term), StateRead):
            return False
        rule = self.rules[term.operation]
        reads = [one for one in self.weights.pull(rule, term.operand).operands if isinstance(one, StateRead)]
        here = any(one.level == 0 for one in reads)
        return rule.affine and len(reads) > (1 if here else self.most_read)

    def _pull_of(self, term: Term, rule: Traced) -> Traced:
        """The derivative of a rule by what a term is by, of the product that it shares where it does."""
        read = self._read_of(term)
        if rule is self.rules[term.operation] and self.shares(term):
            return self.weights.shared(rule, term.operand)
        return self.weights.pull(rule, rule.operands.index(read))

    def _leave(self, number: int, place: int, back: tuple[int, ...]) -> ProfileRead:
        """The derivative of an operation by an operand at the entry `back` from here, which the march leaves: in an
        array for all operations on parts of the same one."""
        operation = self.program.operations[number]
        if (number, place) not in self.left:
            taken = {one.array for one in self.left.values() if not one.box.intersect(operation.box).empty}
            name = next(name for k in count() if (name := f"{operation.array} derivative {k}") not in taken)
            rule = self.weights.partial(self.rules[number], place)
            self.left[number, place] = Operation(name, operation.box, rule, None)
        return self.values.leave(self.left[number, place].array, back)

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
        return lambda made, *values: made.call(rule, *values), named

    def _test(self, operation: Operation, back: tuple[int, ...], operands: dict[Operand, Any]) -> Part:
        """Whether an operation acts at the entry `back` from here; None for always."""
        mask = None
        if operation.mask is not None:
            space = tuple(axis for axis in self.axes if axis)
            mask = self.values.read(ProfileRead(operation.mask, space, (0,) * len(space)), back)
            operands[mask] = np.dtype(bool)
        if operation.predicate is None:
            return lambda made: made.known[mask] if mask is not None else None
        rule = _ready(operation, operation.predicate, operation.held)
        holds, named = self._taken(rule, back, operands)

        def run(made: Splice) -> Any:
            found = holds(made, *(made.known[o] for o in named))
            return found if mask is None else made.apply(and_, found, made.known[mask])

        return run


def _ready(operation: Operation, rule: Traced, number: int | None) -> Traced:
    return with_plain_times(with_named_constants(rule, number), operation.fraction)


def _where(held: Any, value: Any) -> Any:
    return jnp.where(held, value, jnp.zeros_like(value))


def _elsewhere(held: Any, value: Any) -> Any:
    return jnp.where(held, jnp.zeros_like(value), value)

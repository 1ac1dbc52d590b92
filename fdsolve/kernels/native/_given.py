"""What long rules give to what they read, written down where they act.

A flux reads several points to either side of its face. Each of these would follow the way back through it from there:
one with four reads along a line, four times. What it gives to each of them is computed at the face at once instead, a
number a read, and they read that.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import jax.extend.core as jex
import numpy as np

from ...stencil import Operand, StateRead, Traced, count_equations, jaxpr_key, share
from ._program import Program
from ._weights import TARGET, Weights, target, together

LEAST = 24
"""Equations that are saved at a point, what is written and read counted, for which arrays are worth it."""
LONG = 64
"""Equations of a gift, which then has most of them in common with others."""
ACCESSES = 4
"""Equations that a number written and read is as dear as."""


def gift_name(number: int, place: int) -> str:
    """The array of what an operation gives to an operand."""
    return f"gift {number} {place}"


@dataclass(frozen=True)
class Giving:
    """Operations on the same points, and by reads the sum of what they give, of their cotangents in turn (`target`);
    the arrays in which it stands are named after the operation `first`, which gives the same elsewhere."""

    operations: tuple[int, ...]
    pulls: Mapping[Operand, Traced]
    first: int

    @property
    def at_once(self) -> bool:
        """Whether one loop should give to all reads: what is given to each takes long, and much of it is the same."""
        return max(count_equations(pull.jaxpr) for pull in self.pulls.values()) >= LONG


class Given:
    """The operations of a program whose gifts are written down, by number; what is done beside walls alone is not worth
    arrays of its own. `read` are the gifts that are read, each as the operation that it is named after and the place of
    the operand that gets it."""

    def __init__(self, program: Program, weights: Weights):
        self.program, self.rules, self.weights = program, weights.rules, weights
        self.read: dict[tuple[int, int], None] = {}
        self.by_operation: dict[int, Giving] = {}
        alike: dict[tuple[tuple[str, ...], Hashable, Hashable], list[Giving]] = {}
        for numbers in self._groups():
            pulls = self._pulls(numbers)
            if not _is_worth_it(pulls):
                continue
            self.rules[numbers[0]] = _reading(self.rules[numbers[0]], pulls)
            arrays = tuple(program.operations[k].array for k in numbers)
            apart = numbers if self._goes_round(numbers) else ()
            form = frozenset((read, pull.key, pull.operands) for read, pull in pulls.items())
            same = alike.setdefault((arrays, form, apart), [])
            same.append(Giving(numbers, pulls, same[0].first if same else numbers[0]))
        for ((one, *_), *_), same in alike.items():
            size = sum(program.operations[giving.operations[0]].box.size for giving in same)
            if 4 * size >= prod(program.array(one).shape):
                self.by_operation |= {k: giving for giving in same for k in giving.operations}

    def leads(self, number: int) -> bool:
        """Whether terms by reads of an operation are made: those of the first of a group stand for all."""
        giving = self.by_operation.get(number)
        return giving is None or giving.operations[0] == number

    def gift(self, number: int, read: Operand) -> Traced | None:
        """What an operation and others of its group give to a read, where that is written down."""
        giving = self.by_operation.get(number)
        return None if giving is None or not isinstance(read, StateRead) else giving.pulls.get(read)

    def reading(self, number: int, read: Operand) -> str:
        """The array of such a gift, which then counts as read."""
        first = self.by_operation[number].first
        place = self.rules[first].operands.index(read)
        self.read[first, place] = None
        return gift_name(first, place)

    def alike(self, first: int) -> list[int]:
        """The leading operations whose gifts stand in the arrays of one."""
        return [k for k, one in self.by_operation.items() if one.first == first and one.operations[0] == k]

    def _groups(self) -> Iterator[tuple[int, ...]]:
        """Operations whose rules are not affine; those on the same points that live within a level together, where they
        have much in common."""
        groups: dict[Hashable, list[tuple[int, ...]]] = {}
        for number, (operation, rule) in enumerate(zip(self.program.operations, self.rules, strict=True)):
            tested = operation.mask is not None or operation.predicate is not None
            if rule.affine or rule.consts or tested or not self.program.written_once(operation.array):
                continue
            hidden = all(one.name != operation.array for one, _ in self.program.state)
            groups.setdefault(operation.box if hidden else number, []).append((number,))
        for alike in groups.values():
            found: list[tuple[int, ...]] = []
            for one in sorted(alike, key=lambda one: -len(self.rules[one[0]].operands)):
                at = next((k for k, others in enumerate(found) if self._go_together(others, one)), None)
                if at is None:
                    found.append(one)
                else:
                    found[at] += one
            yield from found

    def _go_together(self, numbers: tuple[int, ...], more: tuple[int, ...]) -> bool:
        """Whether operations have much in common with others, and none reads what any writes."""
        if self._goes_round(numbers + more):
            return False
        apart, other, both = (self._length(one) for one in (numbers, more, numbers + more))
        return apart + other - both >= LEAST

    def _length(self, numbers: tuple[int, ...]) -> int:
        """Equations of rules with what they have in common."""
        shared = share(tuple(self.rules[k] for k in numbers)) if len(numbers) > 1 else None
        if shared is not None:
            return count_equations(shared.jaxpr.jaxpr)
        return sum(count_equations(self.rules[k].jaxpr) for k in numbers)

    def _pulls(self, numbers: Sequence[int]) -> Mapping[Operand, Traced]:
        """By reads of the state, what operations give."""
        if len(numbers) > 1:
            return together(tuple(self.rules[k] for k in numbers), self.program.dtype) or {}
        (rule,) = (self.rules[k] for k in numbers)
        found = {}
        for place, read in enumerate(rule.operands):
            if isinstance(read, StateRead):
                pull = self.weights.pull(rule, place)
                operands = tuple(target(0) if one == TARGET else one for one in pull.operands)
                found[read] = replace(pull, operands=operands)
        return found

    def _goes_round(self, numbers: Sequence[int]) -> bool:
        """Whether what operations read at their own level may depend on what others write to the same arrays."""
        own = {self.program.operations[k].array for k in numbers}
        left, seen = [read.field for k in numbers for read in self.rules[k].reads if read.level == 0], set[str]()
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left += self._read_now.get(name, ())
        return not own.isdisjoint(seen)

    @cached_property
    def _read_now(self) -> dict[str, set[str]]:
        """What operations that write to an array read at their own level."""
        found: dict[str, set[str]] = {}
        for one in self.program.operations:
            found.setdefault(one.array, set()).update(read.field for read in one.reads if read.level == 0)
        return found


def _reading(rule: Traced, reads: Iterable[Operand]) -> Traced:
    """A rule that also reads what it does without: what others of its group give is read by terms of the first."""
    more = [read for read in reads if isinstance(read, StateRead) and read not in rule.operands]
    if not more:
        return rule
    variables = [jex.Var(rule.jaxpr.outvars[0].aval) for _ in more]
    info = rule.jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    jaxpr = rule.jaxpr.replace(invars=[*rule.jaxpr.invars, *variables], debug_info=info)
    return replace(rule, operands=(*rule.operands, *more), jaxpr=jaxpr, key=jaxpr_key(jaxpr))


def _is_worth_it(pulls: Mapping[Operand, Traced]) -> bool:
    """Whether following the way back from each of the points that are read takes much longer than once."""
    lengths: dict[tuple[int, ...], list[int]] = {}
    for read, pull in pulls.items():
        if isinstance(read, StateRead) and not is_zero(pull):
            lengths.setdefault(read.offset, []).append(count_equations(pull.jaxpr))
    longest, count = [max(one) for one in lengths.values()], sum(map(len, lengths.values()))
    return sum(longest) - max(longest, default=0) - ACCESSES * count >= LEAST


def is_zero(pull: Traced) -> bool:
    """Whether a derivative is nothing."""
    (result,) = pull.jaxpr.outvars
    return isinstance(result, jex.Literal) and not np.any(result.val)

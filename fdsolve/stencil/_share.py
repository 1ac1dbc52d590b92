"""Rules computed together: what several of them compute of the same operands is computed once.

The fluxes of a system, one a component, have nearly all in common. XLA finds that in a program that goes forward; in
their derivatives, each with a cotangent of its own, there is nothing left to find.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.extend.core as jex

from ._equations import CALLS, bind_equation, follow, inner_of
from ._key import literal_key, value_key
from ._operands import Operand
from ._trace import Traced, operand_specs

LEAST = 32
"""Equations saved for which rules are put together: in fewer, XLA finds it sooner itself."""


@dataclass(frozen=True, eq=False)
class Shared:
    """Several rules as one function of all of their operands."""

    operands: tuple[Operand, ...]
    jaxpr: jex.ClosedJaxpr

    def __call__(self, *values: Any) -> list[jax.Array]:
        """The values of the rules, from scalar values of the operands."""
        return jex.jaxpr_as_fun(self.jaxpr)(*values)


def may_share(rule: Traced) -> bool:
    """Whether a rule is long enough that others may have much in common with it, and holds no arrays."""
    return not rule.consts and count_equations(rule.jaxpr) >= LEAST


@lru_cache(maxsize=256)
def share(rules: tuple[Traced, ...]) -> Shared | None:
    """Rules without arrays of their own as one; None where they have little in common."""
    specs = {one: spec for rule in rules for one, spec in zip(rule.operands, operand_specs(rule), strict=True)}
    operands, known = tuple(specs), _Known()

    def run(*values: Any) -> list[Any]:
        given = {
            one: _Value(value, ("operand", k)) for k, (one, value) in enumerate(zip(operands, values, strict=True))
        }
        return [known.evaluate(rule.jaxpr, [given[one] for one in rule.operands])[0].value for rule in rules]

    jaxpr = jax.make_jaxpr(run)(*specs.values())
    saved = sum(count_equations(rule.jaxpr) for rule in rules) - count_equations(jaxpr.jaxpr)
    return Shared(operands, jaxpr) if saved >= LEAST else None


def count_equations(jaxpr: jex.Jaxpr) -> int:
    """How many equations there are in a jaxpr, calls looked into."""
    inner = (inner_of(eqn) if eqn.primitive.name in CALLS else None for eqn in jaxpr.eqns)
    return sum(1 if found is None else count_equations(found.jaxpr) for found in inner)


@dataclass(frozen=True, eq=False)
class _Value:
    """A value, and what tells it from others."""

    value: Any
    key: Hashable


class _Known:
    """What equations gave, by what they did to what."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[_Value]] = {}

    def evaluate(self, jaxpr: jex.Jaxpr, inputs: Sequence[_Value]) -> list[_Value]:
        """The results of a jaxpr."""
        return follow(jaxpr, inputs, self._apply, _literal)

    def _apply(self, eqn: Any, given: list[_Value]) -> list[_Value]:
        inner = inner_of(eqn) if eqn.primitive.name in CALLS else None
        if inner is not None and not inner.consts:
            return self.evaluate(inner.jaxpr, given)
        key = (eqn.primitive.name, tuple(one.key for one in given), value_key(eqn.params))
        if key not in self._found:
            results = bind_equation(eqn, [one.value for one in given])
            number = len(self._found)
            self._found[key] = [_Value(value, ("result", number, k)) for k, value in enumerate(results)]
        return self._found[key]


def _literal(one: jex.Literal) -> _Value:
    return _Value(one.val, literal_key(one))

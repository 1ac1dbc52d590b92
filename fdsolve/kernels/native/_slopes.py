"""A rule by one of its numbers: r = r₀ + θ d, where d is linear in what it reads and does not depend on θ.

The cotangent of θ is Σ C d(u) over the points that the rule acts at. With the transpose of d it is Σ u dᵀ(C) over those
that it reads; and dᵀ(C) is at hand, since the cotangent of u is r₀ᵀ(C) + θ dᵀ(C).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...stencil import (
    AFFINE,
    CALLS,
    CONSTANT,
    SAME,
    Operand,
    StateRead,
    Traced,
    WholeRead,
    bind_equation,
    follow,
    inner_of,
    make_traced,
    output_degrees,
)

LEAST = 3
"""Reads of a slope; what reads fewer is as soon multiplied by the cotangent itself."""


@dataclass(frozen=True)
class Slope:
    """The number θ; the rule with θ = 0, None where that is nothing; and d."""

    number: WholeRead
    rest: Traced | None
    slope: Traced


def split_by(rule: Traced, number: WholeRead) -> Slope | None:
    """A rule by one of its numbers; None where it is not of this form, or not worth it."""
    place = rule.operands.index(number)
    avals = [v.aval for v in rule.jaxpr.invars]
    degrees = [CONSTANT] * len(rule.jaxpr.constvars) + [AFFINE if one == number else CONSTANT for one in rule.operands]
    straight = rule.affine and output_degrees(rule.jaxpr, degrees) == [AFFINE]
    if not straight or avals[place].dtype != rule.dtype or avals[place].shape != ():
        return None

    def along(*values: Any) -> Any:
        def of(theta: Any) -> Any:
            return rule.function(rule.consts)(*values[:place], theta, *values[place + 1 :])

        return jax.jvp(of, (values[place],), (jnp.ones_like(values[place]),))[1]

    closed = jax.make_jaxpr(along)(*(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in avals))
    slope = make_traced(closed, rule.operands, rule.dtype)
    reads = [one for one in slope.operands if isinstance(one, StateRead)]
    small = len(reads) < LEAST or any(one.level == 0 for one in reads)
    if small or number in slope.operands or _without(slope, reads) is not None:
        return None
    return Slope(number, _without(rule, [number]), slope)


class _Nothing:
    """What is zero whatever else is."""


_NOTHING = _Nothing()


def _without(rule: Traced, operands: Collection[Operand]) -> Traced | None:
    """A rule with these operands zero; None where it is zero then."""
    others = [k for k, one in enumerate(rule.operands) if one not in operands]
    avals = [rule.jaxpr.invars[k].aval for k in others]
    nothing = []

    def run(*values: Any) -> Any:
        every: list[Any] = [_NOTHING] * len(rule.operands)
        for k, value in zip(others, values, strict=True):
            every[k] = value
        (found,) = follow(rule.jaxpr, [*rule.consts, *every], _evaluate, lambda one: one.val)
        nothing.append(found is _NOTHING)
        return jnp.zeros((), rule.dtype) if found is _NOTHING else found

    closed = jax.make_jaxpr(run)(*(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in avals))
    return None if nothing[-1] else make_traced(closed, tuple(rule.operands[k] for k in others), rule.dtype)


def _evaluate(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation, some of whose inputs may be nothing."""
    name, gone = eqn.primitive.name, [one is _NOTHING for one in values]
    if not any(gone):
        return bind_equation(eqn, values)
    if name in CALLS and (inner := inner_of(eqn)) is not None:
        return follow(inner.jaxpr, [*inner.consts, *values], _evaluate, lambda one: one.val)
    if name in SAME or name in ("neg", "mul", "convert_element_type") or (name == "div" and not gone[1]):
        return [_NOTHING]
    if name in ("add", "add_any", "sub"):
        if all(gone):
            return [_NOTHING]
        (left,) = (one for one in values if one is not _NOTHING)
        return [-left if name == "sub" and gone[0] else left]
    zeros = (jnp.zeros(v.aval.shape, v.aval.dtype) for v in eqn.invars)
    return bind_equation(eqn, [zero if one is _NOTHING else one for one, zero in zip(values, zeros, strict=True)])

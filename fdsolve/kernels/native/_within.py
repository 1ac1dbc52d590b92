"""Rules within a step of several stages: what they read along time lies between two levels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...stencil import Operand, ProfileRead, Traced, WholeRead, is_smooth, rewritten, sum_derivatives

STEP = WholeRead("dt")
Known = Mapping[Operand, Any]


def at_stage(rule: Traced, time_axis: str | None, fraction: float) -> Traced | None:
    """A rule at a fraction of the step, by arrays along time at both its ends; None where it reads others there."""
    timed = _timed(rule, time_axis)
    if not timed or fraction == 1.0:
        return rule
    if not _are_now(rule, timed):
        return None

    def call(known: Known, function: Callable[..., Any]) -> Any:
        return function(*(_between(known, one, timed, fraction) for one in rule.operands))

    return rewritten(rule, _wanted(rule, timed), call)


def wall_at_stage(rule: Traced, time_axis: str | None, coefficients: Sequence[float], fraction: float) -> Traced | None:
    """A boundary value known in time at an inner stage, Σ cₖ Δtᵏ ∂ᵏ/∂tᵏ at the step's start; where a derivative is not
    finite, what it is at the stage's own time. It is told the start's time. None as for `at_stage`."""
    timed = _timed(rule, time_axis)
    if not _are_now(rule, timed):
        return None

    def call(known: Known, function: Callable[..., Any]) -> Any:
        step = known[STEP]

        def at(share: Any) -> Any:
            clock = {"t": lambda now: now + share * step, "passed": lambda _: share * step}
            values = (
                clock[one.name](known[one])
                if isinstance(one, WholeRead) and one.name in clock
                else _between(known, one, timed, share)
                for one in rule.operands
            )
            return function(*values)

        start = jnp.zeros((), step.dtype)
        if is_smooth(rule.jaxpr):
            return sum_derivatives(at, start, coefficients)
        # Where a derivative is not finite, the sum is taken at another time, so that no gradient is nan.
        finite = jnp.isfinite(lax.stop_gradient(sum_derivatives(at, start, coefficients)))
        total = sum_derivatives(at, jnp.where(finite, start, 0.5), coefficients)
        return jnp.where(finite, total, at(jnp.full_like(start, fraction)))

    return rewritten(rule, {**_wanted(rule, timed), STEP: _step_of(rule)}, call)


def _timed(rule: Traced, time_axis: str | None) -> set[Operand]:
    """The arrays along time that a rule reads; whole numbers are those of the level to come."""
    return {
        one
        for one, variable in zip(rule.operands, rule.jaxpr.invars, strict=True)
        if isinstance(one, ProfileRead) and one.axes[:1] == (time_axis,)
        if jnp.issubdtype(variable.aval.dtype, jnp.inexact)
    }


def _are_now(rule: Traced, timed: set[Operand]) -> bool:
    """Whether arrays along time are read at the level itself, so that those before it stand in them."""
    along = [one for one in rule.operands if isinstance(one, ProfileRead) and one in timed]
    return all(one.offset[0] == 0 for one in along)


def _before(one: Operand) -> Operand:
    assert isinstance(one, ProfileRead)
    return replace(one, offset=(-1, *one.offset[1:]))


def _between(known: Known, one: Operand, timed: set[Operand], share: Any) -> Any:
    """An operand at a share of the step."""
    if one not in timed:
        return known[one]
    before = known[_before(one)]
    if isinstance(share, float):
        return before if share == 0.0 else before * (1.0 - share) + known[one] * share
    share = share.astype(before.dtype)
    return before * (1 - share) + known[one] * share


def _wanted(rule: Traced, timed: set[Operand]) -> dict[Operand, Any]:
    """What a rule reads, and arrays along time a level before too."""
    found = {
        one: jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype)
        for one, variable in zip(rule.operands, rule.jaxpr.invars, strict=True)
    }
    return {**found, **{_before(one): found[one] for one in found if one in timed}}


def _step_of(rule: Traced) -> Any:
    return jax.ShapeDtypeStruct((), np.zeros((), rule.dtype).real.dtype)

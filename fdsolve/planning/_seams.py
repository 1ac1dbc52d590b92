"""Seams: with which signs values repeat across the ends of periodic axes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import PlanningError
from ..field import AbstractPeriodic
from ..grid import Grid
from ..stencil import StateRead, Traced
from ._phases import FieldPhase, Phase

Signs = tuple[int, ...]
"""By space axis: 1, −1 under an anti-periodic condition, 0 where values repeat with neither sign."""

SIZES = (1.0, 30.0, 0.03)
"""Of the numbers that are put in for what a rule reads."""
CLOSE = 1e-5


def find_signs(names: Iterable[str], grid: Grid, phases: Sequence[Phase]) -> dict[str, Signs]:
    """The signs of the fields along periodic axes, 0 where one holds at some levels and the other at others; 1 along
    axes with walls."""

    def sign(name: str, position: int, axis: str) -> int:
        found = {_sign_in(phase.fields[name], position) for phase in phases if grid.space_axis(axis).periodic}
        return max(found, default=1) if len(found) < 2 else 0

    return {name: tuple(sign(name, *place) for place in enumerate(grid.space)) for name in names}


def _sign_in(one: FieldPhase, axis: int) -> int:
    rules = [wall.assignment.rule for wall in one.walls if wall.side.axis == axis]
    return -1 if any(isinstance(rule, AbstractPeriodic) and rule.sign == -1 for rule in rules) else 1


def check_sign(sign: int, axis: str, name: str, what: str) -> None:
    """Refuses what reaches across the ends of an axis where the sign is not the same at all levels."""
    if sign == 0:
        raise PlanningError(
            f"{what} across the ends of axis `{axis}`, where `{name}` changes its sign at some levels only: at others "
            f"a later rule took the periodic condition away. Assign the condition after all other rules."
        )


def without_sign(axis: str) -> str:
    """What messages say of values that are taken across the ends of an axis, where they repeat with neither sign."""
    return (
        f"across the ends of axis `{axis}` its values repeat with neither sign, as some of the fields in it are "
        f"anti-periodic there. Apply it to what is odd in them, or even, term by term."
    )


def signs_of_rule(rule: Traced, signs: Mapping[str, Signs], num_axes: int) -> Signs:
    """The signs of what a rule gives, told by what becomes of numbers put in for all that it reads when those change
    their sign that do so across the ends of an axis. What is no field's repeats as all fields do, if they do alike."""

    def sign(field: str, axis: int) -> int:
        if field in signs:
            return signs[field][axis]
        return 1 if all(own[axis] == 1 for own in signs.values()) else 0

    found = []
    for axis in range(num_axes):
        turned = [sign(one.field, axis) if isinstance(one, StateRead) else 1 for one in rule.operands]
        alike = all(turn == 1 for turn in turned)
        found.append(1 if alike else 0 if 0 in turned else _parity(rule, turned))
    return tuple(found)


def _parity(rule: Traced, turned: Sequence[int]) -> int:
    """With which sign a rule answers where its operands are multiplied by others; 0 for neither, or if that depends on
    the signs or sizes of parameters or values. Answers that are no numbers tell nothing."""
    numbers, parities, told = np.random.default_rng(0), {1, -1}, False

    def some(spec: Any, signs: Sequence[int], size: float) -> jax.Array:
        drawn = numbers.uniform(0.5, 1.5, spec.shape) * numbers.choice(signs, spec.shape) * size
        if jnp.issubdtype(spec.dtype, jnp.complexfloating):
            drawn = drawn * np.exp(1j * numbers.uniform(-1.0, 1.0, spec.shape))
        if jnp.issubdtype(spec.dtype, jnp.bool_):
            drawn = numbers.integers(2, size=spec.shape)
        elif jnp.issubdtype(spec.dtype, jnp.integer):
            drawn = np.abs(np.rint(drawn)) if jnp.issubdtype(spec.dtype, jnp.unsignedinteger) else np.rint(drawn)
        return jnp.asarray(drawn, spec.dtype)

    with jax.ensure_compile_time_eval():
        for signs, size in product(((1,), (-1,), (1, -1)), SIZES):
            consts = [some(one, signs, size) if isinstance(one, Tracer) else one for one in rule.consts]
            function = jex.jaxpr_as_fun(jex.ClosedJaxpr(rule.jaxpr, consts))
            kinds = zip(rule.operands, rule.jaxpr.invars, strict=True)
            given = [some(variable.aval, (1, -1) if isinstance(one, StateRead) else signs, size)
                     for one, variable in kinds]  # fmt: skip
            plain, other = (np.asarray(function(*values)[0]) for values in (
                given, [one if turn == 1 else -one for one, turn in zip(given, turned, strict=True)]
            ))  # fmt: skip
            if np.isfinite(plain).all() and np.isfinite(other).all():
                parities, told = {one for one in parities if np.allclose(other, one * plain, CLOSE, 0.0)}, True
    return max(parities, default=0) if told else 0

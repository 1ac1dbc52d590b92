"""Boundary values at the inner stages of a Runge–Kutta step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from ..kernels import Level, evaluate
from ..planning import Piece
from ..schemes import Walls
from ._time import time_of


def timed_value(level: Level, piece: Piece, axes: tuple[str, ...], walls: Walls) -> jax.Array:
    """The values of a piece at an inner stage: Σ cₖ Δtᵏ ∂ᵏ/∂tᵏ of its rule at the start of the step.

    The state it reads, if any, is that of the stage. Where a derivative is not finite (√t at 0) the rule itself at the
    time of the stage.
    """
    step = level.arrays.wholes["dt"]
    start = time_of(level.arrays, level.number - 1)

    def at(share: jax.Array) -> jax.Array:
        return evaluate(replace(level, fraction=share, time=start + share * step), piece, axes)

    base = jnp.asarray(walls.base, step.dtype)
    function, total = at, None
    for coefficient in walls.coefficients:
        if not (isinstance(coefficient, float) and coefficient == 0.0):
            term = function(base)
            term = jnp.asarray(coefficient, term.real.dtype) * term
            total = term if total is None else total + term
        function = _derivative(function)
    assert total is not None
    return jnp.where(jnp.isfinite(total), total, evaluate(level, piece, axes))


def _derivative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda share: jax.jvp(function, (share,), (jnp.ones_like(share),))[1]

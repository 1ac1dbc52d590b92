"""Boundary values at the inner stages of a Runge–Kutta step."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Level, evaluate
from ..planning import Piece
from ..schemes import Walls
from ..stencil import is_smooth, sum_derivatives
from ._time import time_of


def timed_value(level: Level, piece: Piece, axes: tuple[str, ...], walls: Walls) -> jax.Array:
    """The values of a piece at an inner stage: Σ cₖ Δtᵏ ∂ᵏ/∂tᵏ of its rule at the start of the step.

    The state it reads, if any, is that of the stage. Where a derivative is not finite (√t at 0) the rule itself at the
    time of the stage, and so its gradient.
    """
    step = level.arrays.wholes["dt"]
    start = time_of(level.arrays, level.number - 1)

    base = jnp.asarray(walls.base, step.dtype)

    def total(held: jax.Array | None) -> jax.Array:
        def at(share: jax.Array) -> jax.Array:
            return evaluate(replace(level, fraction=share, time=start + share * step), piece, axes, held)

        return sum_derivatives(at, base, walls.coefficients)

    if is_smooth(level.structure.rules[piece.rule].jaxpr):
        return total(None)
    finite = jnp.isfinite(lax.stop_gradient(total(None)))
    return jnp.where(finite, total(finite), evaluate(level, piece, axes))

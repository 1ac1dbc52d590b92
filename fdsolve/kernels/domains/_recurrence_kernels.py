"""Kernels for recurrences along axis 0, from zero: step by step, and by a parallel prefix."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._registry import platform_of, register
from ._recurrence import RecurrenceCall


def _times(a: jax.Array, u: jax.Array, call: RecurrenceCall) -> jax.Array:
    """aₙ u: of numbers, or of matrices and vectors."""
    return jnp.einsum("...ij,...j->...i", a, u) if call.size else a * u


def _compose(late: jax.Array, early: jax.Array, call: RecurrenceCall) -> jax.Array:
    """The coefficient of two steps."""
    return jnp.einsum("...ij,...jk->...ik", late, early) if call.size else late * early


@register("recurrence", backend="scan", priority=20)
def run_steps(call: RecurrenceCall, a: jax.Array, b: jax.Array) -> jax.Array:
    """One step after the other, all lines at once: the fewest operations, and no coefficients multiplied."""

    def step(before: jax.Array, here: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        value = _times(here[0], before, call) + here[1]
        return value, value

    return lax.scan(step, jnp.zeros(b.shape[1:], b.dtype), (a, b))[1]


def _rank_of_prefix(call: RecurrenceCall) -> int:
    """First on a GPU, where a step of a loop costs a launch."""
    return 40 if call.length >= 32 and platform_of(call) == "gpu" else 10


@register("recurrence", backend="associative", priority=_rank_of_prefix)
def run_prefix(call: RecurrenceCall, a: jax.Array, b: jax.Array) -> jax.Array:
    """A parallel prefix over pairs (a, b), joined as (a₂a₁, a₂b₁ + b₂): about log₂ length rounds."""

    def join(early: Any, late: Any) -> Any:
        return _compose(late[0], early[0], call), _times(late[0], early[1], call) + late[1]

    return lax.associative_scan(join, (a, b), axis=0)[1]


def _is_short(call: RecurrenceCall) -> str | None:
    return None if call.length <= 64 else "written out step by step, for at most 64 steps"


@register("recurrence", backend="reference", priority=-100, serves=_is_short)
def run_reference(call: RecurrenceCall, a: jax.Array, b: jax.Array) -> jax.Array:
    """The definition, written out."""
    values = [jnp.zeros_like(b[0])]
    for n in range(call.length):
        moved = (a[n] * values[-1][..., None, :]).sum(-1) if call.size else a[n] * values[-1]
        values.append(moved + b[n])
    return jnp.stack(values[1:])

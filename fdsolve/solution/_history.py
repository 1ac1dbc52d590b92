"""What a run saved, as a solution gives it: at the wanted times, holes marked."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from ..planning import Plan
from ..region import Box
from ._solution import LastLevel


def make_histories(
    made: Plan, history: Mapping[str, jax.Array], last: Mapping[str, jax.Array], hidden: Mapping[str, jax.Array]
) -> tuple[Mapping[str, jax.Array], dict[str, jax.Array]]:
    """Histories at the wanted times, holes marked by nan."""
    histories: dict[str, jax.Array] = {}
    finals = {name: mark_holes(made, name, array, hidden) for name, array in last.items()}
    if made.structure.saves_last_only:
        return LastLevel(finals, made.problem.scope.grid.time is not None), finals
    for name, array in history.items():
        if made.save.interpolates:
            share = jnp.asarray(made.save.share, jnp.zeros((), array.dtype).real.dtype)
            share = share.reshape((-1,) + (1,) * (array.ndim - 1))
            left, right = jnp.asarray(made.save.left), jnp.asarray(made.save.right)
            array = array[left] * (1 - share) + array[right] * share
        elif made.save.left != tuple(range(len(made.save.levels))):
            array = array[jnp.asarray(made.save.left)]
        histories[name] = mark_holes(made, name, array, hidden)
    return histories, finals


def mark_holes(made: Plan, name: str, array: jax.Array, hidden: Mapping[str, jax.Array]) -> jax.Array:
    """The array with nan inside holes, of a fixed shape or `hidden` by parameters; integers keep their zeros."""
    points, nan = made.holes[name], jnp.nan
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    if not points.empty:
        mask = points.to_mask(Box.of_shape(array.shape[array.ndim - len(made.problem.scope.grid.space) :]))
        array = jnp.where(mask, jnp.asarray(nan, array.dtype), array)
    return jnp.where(hidden[name], jnp.asarray(nan, array.dtype), array) if name in hidden else array

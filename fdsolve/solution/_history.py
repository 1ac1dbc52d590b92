"""What a run saved, as a solution gives it: at the wanted times, holes marked."""

from collections.abc import Mapping
from typing import Any

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
        if made.problem.scope.grid.time is None:
            array = array[0]
        elif made.save.interpolates:
            share = jnp.asarray(made.save.share, jnp.zeros((), array.dtype).real.dtype)
            share = share.reshape((-1,) + (1,) * (array.ndim - 1))
            left, right = jnp.asarray(made.save.left), jnp.asarray(made.save.right)
            array = array[left] * (1 - share) + array[right] * share
        elif made.save.left != tuple(range(len(made.save.levels))):
            array = array[jnp.asarray(made.save.left)]
        histories[name] = mark_shown(made, name, array, hidden)
    return histories, finals


def mark_holes(made: Plan, name: str, array: jax.Array, hidden: Mapping[str, jax.Array]) -> jax.Array:
    """A field, whole, with nan inside holes, of a fixed shape or `hidden` by parameters; integers keep their zeros."""
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    mask = holes_of(made, name, hidden)
    return array if mask is None else jnp.where(mask, jnp.asarray(jnp.nan, array.dtype), array)


def mark_shown(made: Plan, name: str, array: jax.Array, hidden: Mapping[str, jax.Array]) -> jax.Array:
    """What was kept of a field with nan inside holes; means and extremes leave holes out and have none."""
    if made.structure.showing is None:
        return mark_holes(made, name, array, hidden)
    one, mask = made.structure.showing.of(name), holes_of(made, name, hidden)
    if one.weighted or mask is None or not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    left = one.kept(dict(zip(made.problem.scope.grid.space, mask.shape, strict=True)))
    mask = jnp.asarray(mask)[tuple(slice(k.start, k.stop, k.step) for k in left.values())].reshape(one.shape)
    return jnp.where(mask, jnp.asarray(jnp.nan, array.dtype), array)


def holes_of(made: Plan, name: str, hidden: Mapping[str, jax.Array]) -> Any:
    """Where the holes of a field are; None where it has none."""
    points, shape = made.holes[name], made.structure.array(name).shape
    mask = None if points.empty else points.to_mask(Box.of_shape(shape))
    if name not in hidden:
        return mask
    return hidden[name] if mask is None else hidden[name] | mask

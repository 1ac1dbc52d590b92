"""Holes in results."""

from typing import Any

import jax
import jax.numpy as jnp

from ..planning import Plan
from ..region import Box


def mark_holes(plan: Plan, name: str, array: Any) -> jax.Array:
    """The array (…, *space) with nan inside holes of a fixed shape."""
    points = plan.holes[name]
    if points.empty:
        return array
    ndim = len(plan.problem.scope.grid.space)
    mask = points.to_mask(Box.of_shape(array.shape[array.ndim - ndim :]))
    return jnp.where(mask, jnp.asarray(jnp.nan, array.dtype), array)

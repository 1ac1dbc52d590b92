"""The largest entry along axes, whose derivative is that of one such entry.

JAX's own shares it out among all entries that equal the largest. Compiled, these are computed again beside it, and may
be rounded otherwise: then none of them equals it, or some do that were not counted, and the derivative is lost or
doubled.
"""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp


def largest(values: Any, axes: Sequence[int] | None = None) -> jax.Array:
    """The largest entry along some axes, or of all; nan where one is. Differentiable, at ties as the first of them."""
    values = jnp.asarray(values)
    axes = tuple(range(values.ndim)) if axes is None else tuple(axes)
    return _largest(axes, values) if jnp.issubdtype(values.dtype, jnp.floating) else jnp.max(values, axes)


def smallest(values: Any, axes: Sequence[int] | None = None) -> jax.Array:
    """The same of the smallest."""
    values = jnp.asarray(values)
    return -largest(-values, axes) if jnp.issubdtype(values.dtype, jnp.floating) else jnp.min(values, axes)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _largest(axes: tuple[int, ...], values: jax.Array) -> jax.Array:
    return jnp.max(values, axes)


@_largest.defjvp
def _push(axes: tuple[int, ...], primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (values,), (along,) = primals, tangents

    def lined_up(array: jax.Array) -> jax.Array:
        moved = jnp.moveaxis(array, axes, range(-len(axes), 0)) if axes else array[..., None]
        return moved.reshape(*moved.shape[: moved.ndim - max(len(axes), 1)], prod(array.shape[axis] for axis in axes))

    place = jnp.argmax(lined_up(values), -1)
    return _largest(axes, values), jnp.take_along_axis(lined_up(along), place[..., None], -1)[..., 0]

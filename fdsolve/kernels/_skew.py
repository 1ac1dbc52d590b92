"""Skewing: hyperplanes of an array become the rows of another, by padding and reshaping alone."""

import jax
import jax.numpy as jnp


def skew(array: jax.Array, weights: tuple[int, ...], axis: int) -> jax.Array:
    """Rows h of the result hold the points with p[axis] + Σ weights[b] p[b] = h; zeros where there are none.

    `weights[axis]` is 1 and all are non-negative. The shape is (number of hyperplanes, the other axes …).
    """
    array = jnp.moveaxis(array, axis, -1)
    for position, weight in enumerate(w for b, w in enumerate(weights) if b != axis):
        array = _shear(array, position, weight)
    return jnp.moveaxis(array, -1, 0)


def unskew(array: jax.Array, weights: tuple[int, ...], axis: int, length: int) -> jax.Array:
    """The inverse of `skew`: the array whose extent along `axis` is `length`."""
    array = jnp.moveaxis(array, 0, -1)
    others = [w for b, w in enumerate(weights) if b != axis]
    for position in reversed(range(len(others))):
        array = _unshear(array, position, others[position])
    return jnp.moveaxis(array[..., :length], -1, axis)


def _shear(array: jax.Array, position: int, weight: int) -> jax.Array:
    """Moves entry b of axis `position` by weight·b along the last axis, which grows to hold it."""
    if weight == 0:
        return array
    array = jnp.moveaxis(array, position, -2)
    *lead, count, length = array.shape
    width = length + weight * (count - 1)
    padded = jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, width + weight - length)])
    flat = padded.reshape(*lead, count * (width + weight))[..., : count * width]
    return jnp.moveaxis(flat.reshape(*lead, count, width), -2, position)


def _unshear(array: jax.Array, position: int, weight: int) -> jax.Array:
    if weight == 0:
        return array
    array = jnp.moveaxis(array, position, -2)
    *lead, count, width = array.shape
    flat = array.reshape(*lead, count * width)
    flat = jnp.pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, count * weight)])
    array = flat.reshape(*lead, count, width + weight)[..., : width - weight * (count - 1)]
    return jnp.moveaxis(array, -2, position)

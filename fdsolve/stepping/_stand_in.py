"""Known values put into an array, with the array's own derivative."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from .._own_derivative import own_derivative


@own_derivative
def stand_in(starts: tuple[tuple[int, ...], ...], array: jax.Array, known: list[jax.Array]) -> jax.Array:
    """The array with known values from some places on, and its own derivative; where known values themselves are
    differentiated, with theirs. All at once: the transpose is the identity, where no state is copied."""
    for start, value in zip(starts, known, strict=True):
        array = lax.dynamic_update_slice(array, value, start)
    return array


def _push(starts: tuple[tuple[int, ...], ...], primals: Any, tangents: Any) -> tuple[jax.Array, Any]:
    (array, known), (moved, own) = primals, tangents
    moved = jnp.zeros_like(array) if type(moved) is SymbolicZero else moved
    for start, value, tangent in zip(starts, known, own, strict=True):
        if type(tangent) is not SymbolicZero:
            moved = lax.dynamic_update_slice(moved, tangent.astype(value.dtype), start)
    return stand_in(starts, array, known), moved


stand_in.defjvp(_push)

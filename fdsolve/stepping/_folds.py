"""Sums and extremes of whole fields, quickly on a processor.

XLA adds up one number after another there, a chain that waits for itself. Eight slices that lie apart are added point
by point first, by vectors and on all cores, until little is left; rounding errors grow with the logarithm of the size
only, as in pairwise summation (Higham, SIAM J. Sci. Comput. 14 (1993) 783).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

WAYS, SMALL, LARGE = 8, 2**14, 2**19
"""Slices at a time; numbers that are left to XLA's own reduction; those from which on folding pays its compilation."""


def total(values: Any) -> jax.Array:
    """The sum of an array, any shape."""
    return jnp.sum(_folded(jnp.add, jnp.asarray(values)))


def largest(values: Any) -> jax.Array:
    """The largest entry of an array, any shape; nan where one is."""
    return jnp.max(_folded(jnp.maximum, jnp.asarray(values)))


def _folded(join: Callable[[Any, Any], Any], values: jax.Array) -> jax.Array:
    """Fewer numbers with the same sum, or largest entry."""
    if jax.default_backend() != "cpu" or values.size < LARGE:
        return values
    while values.size > SMALL and values.ndim:
        rows, rest = divmod(values.shape[0], WAYS)
        if rows == 0:
            values = values.reshape((-1, *values.shape[2:]))
            continue
        parts = [values[k * rows : (k + 1) * rows] for k in range(WAYS)]
        while len(parts) > 1:
            parts = [join(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        if rest > rows:
            parts = [jnp.concatenate([parts[0], values[WAYS * rows :]])]
        elif rest:
            parts = [jnp.concatenate([join(parts[0][:rest], values[WAYS * rows :]), parts[0][rest:]])]
        values = parts[0]
    return values

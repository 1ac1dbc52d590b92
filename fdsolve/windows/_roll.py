"""The order in which a relative window holds its entries."""

import jax
import jax.numpy as jnp


def roll_view(array: jax.Array) -> jax.Array:
    """A window turned so that its centre comes first: offset o from the centre then stands at index o.

    >>> roll_view(jnp.arange(3)).tolist()
    [1, 2, 0]
    """
    return jnp.roll(array, [-((n - 1) // 2) for n in array.shape], range(array.ndim))

"""Times of levels."""

from typing import Any

from jax import lax

from ..kernels import Arrays


def time_of(arrays: Arrays, number: Any) -> Any:
    """The time of a level; None on a grid without time."""
    times = arrays.wholes.get("times")
    return None if times is None else lax.dynamic_index_in_dim(times, number, keepdims=False)

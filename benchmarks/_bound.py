"""The memory bound: how fast a step could be if nothing but its arrays had to move."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from ._table import Row, show_seconds
from ._timing import interleave

_POINTS = 2**25
_REPEATS = 16


@lru_cache(maxsize=1)
def bandwidth() -> float:
    """Bytes a second that a large array moves when it is read and written again and again, the best of a few rounds."""
    scale = jax.jit(lambda x: jax.lax.fori_loop(0, _REPEATS, lambda _, y: y * jnp.float32(1.0001), x))
    array = jnp.ones(_POINTS, jnp.float32)
    seconds = interleave([lambda: scale(array)], budget=1.0).seconds
    return 2 * _REPEATS * array.nbytes / float(seconds.min())


def bound_row(what: str, seconds: float, steps: int, points: int, bytes_a_point: float) -> Row:
    """Cell updates a second, and the share of the memory bound: bytes that must move ÷ time ÷ bandwidth."""
    updates = points * steps / seconds
    share = updates * bytes_a_point / bandwidth()
    shown = f"{updates / 1e6:.4g} million cell updates a second ({show_seconds(seconds / steps)} a step)"
    bound = f"{bandwidth() / bytes_a_point / 1e6:.4g} at the memory bound, {bandwidth() / 1e9:.3g} GB/s"
    return Row(what, shown, bound, share, note=f"Share of the memory bound; {bytes_a_point:g} bytes a cell must move.")


def median_seconds(call: Any, budget: float) -> float:
    """The median time of a call."""
    return interleave([call], budget=budget, least=3).median(0)

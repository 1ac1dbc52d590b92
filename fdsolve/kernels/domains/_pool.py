"""Averages, sums and extremes over windows of a grid, of the active points alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar, Final

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from ...errors import DeclarationError
from .._selection import dispatch
from ._arguments import known, to_counts, to_values

WHAT = "pool"


@dataclass(frozen=True)
class PoolCall:
    """Sums (or, with `maximum`, the greatest values) over windows of the trailing axes, wholly inside the array."""

    operation: ClassVar[str] = "pool"
    shape: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    maximum: bool
    dtype: str

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The number of windows on each axis."""
        return tuple((n - w) // s + 1 for n, w, s in zip(self.shape, self.window, self.strides, strict=True))


def pool(
    values: ArrayLike,
    window: Any,
    *,
    strides: Any = None,
    padding: Any = 0,
    active: ArrayLike | None = None,
    reduce: str = "mean",
    empty: float = float("nan"),
    kernel: Any = "auto",
) -> jax.Array:
    """Σ w u / Σ w over each window: the average of its active points, as for restriction to coarser cells.

    `window` is its number of points on each axis, `strides` the distance between windows (the window's own width if
    not given: cells side by side). `active` is true, or a weight w ≥ 0 (the open part of a cut cell), where a point
    counts; all do if it is not given. `padding` counts points beyond the array, none of them active: a number, or
    (before, after) for each axis. `reduce` is "mean", "sum", "max" or "min", the last two over points of w > 0, with
    the derivative shared where several are the greatest. A window without an active point gets `empty`; a sum is 0.

    Source: U. Trottenberg, C. Oosterlee, A. Schüller, Multigrid (2001), section 2.8.4, for cell averages.
    Raises: DeclarationError.

    >>> import jax.numpy as jnp
    >>> u = jnp.asarray([1.0, 3.0, 5.0, 100.0])
    >>> pool(u, 2, active=jnp.asarray([True, True, True, False]))
    Array([2., 5.], dtype=...)
    """
    values = to_values(values, WHAT)
    rank = values.ndim
    window = to_counts(window, rank, WHAT, "window")
    strides = window if strides is None else to_counts(strides, rank, WHAT, "strides")
    pads = _to_pads(padding, rank)
    reducer = REDUCERS.get(reduce)
    if reducer is None:
        raise DeclarationError(f"{WHAT}: `reduce` is one of {', '.join(REDUCERS)}; got {reduce!r}.")
    shape = tuple(n + a + b for n, (a, b) in zip(values.shape, pads, strict=True))
    if any(n < w for n, w in zip(shape, window, strict=True)):
        raise DeclarationError(
            f"{WHAT}: a window of {window} points does not fit into {shape} points, padding included."
        )
    weights = _to_weights(active, values)
    if weights is None and any(a or b for a, b in pads):
        weights = jnp.ones(values.shape, _real(values.dtype))
    call = PoolCall(shape, window, strides, False, str(values.dtype))
    widths = [(a, b, 0) for a, b in pads]
    values = lax.pad(values, jnp.zeros((), values.dtype), widths)
    weights = None if weights is None else lax.pad(weights, jnp.zeros((), weights.dtype), widths)
    return reducer(call, values, weights, empty, kernel)


def _real(dtype: Any) -> Any:
    return jnp.finfo(dtype).dtype


def _to_pads(padding: Any, rank: int) -> list[tuple[int, int]]:
    items = [(padding, padding)] * rank if isinstance(padding, int) else [tuple(pair) for pair in padding]
    if len(items) != rank or not all(len(p) == 2 and all(isinstance(x, int) and x >= 0 for x in p) for p in items):
        raise DeclarationError(
            f"{WHAT}: `padding` is a number of points, or (before, after) for each of the {rank} axes; got {padding!r}."
        )
    return items


def _to_weights(active: Any, values: jax.Array) -> jax.Array | None:
    """The weights of points, of the values' shape and precision."""
    if active is None:
        return None
    array = jnp.asarray(active)
    if array.shape != values.shape or jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise DeclarationError(
            f"{WHAT}: `active` holds booleans or weights and has the values' shape {values.shape}; got {array.dtype} "
            f"of shape {array.shape}."
        )
    have = known(active)
    if have is not None and have.dtype != bool and (have < 0).any():
        raise DeclarationError(f"{WHAT}: weights in `active` are not negative; got {have.min():g}.")
    return array.astype(_real(values.dtype))


def _weigh(weights: jax.Array, values: jax.Array) -> jax.Array:
    """w u, and 0 where w is, whatever stands there."""
    held = weights != 0
    return jnp.where(held, weights.astype(values.dtype) * jnp.where(held, values, jnp.zeros_like(values)), 0)


def _sum(call: PoolCall, values: jax.Array, weights: jax.Array | None, empty: Any, kernel: Any) -> jax.Array:
    return dispatch(call, values if weights is None else _weigh(weights, values), explicit=kernel)


def _mean(call: PoolCall, values: jax.Array, weights: jax.Array | None, empty: Any, kernel: Any) -> jax.Array:
    total = _sum(call, values, weights, empty, kernel)
    if weights is None:
        return total / prod(call.window)
    counting = PoolCall(call.shape, call.window, call.strides, False, str(weights.dtype))
    count = dispatch(counting, weights, explicit=kernel)
    held = count > 0
    mean = total / jnp.where(held, count, jnp.ones_like(count)).astype(total.dtype)
    return jnp.where(held, mean, jnp.asarray(empty, mean.dtype))


def _max(call: PoolCall, values: jax.Array, weights: jax.Array | None, empty: Any, kernel: Any) -> jax.Array:
    if jnp.issubdtype(values.dtype, jnp.complexfloating):
        raise DeclarationError(f"{WHAT}: complex numbers have no order; take max or min of their real part or modulus.")
    call = PoolCall(call.shape, call.window, call.strides, True, call.dtype)
    if weights is None:
        return _greatest(call, kernel, values)
    lowest = jnp.full_like(values, -jnp.inf)
    found = _greatest(call, kernel, jnp.where(weights > 0, values, lowest))
    counting = PoolCall(call.shape, call.window, call.strides, True, str(weights.dtype))
    held = dispatch(counting, lax.stop_gradient(weights), explicit=kernel) > 0
    return jnp.where(held, found, jnp.asarray(empty, found.dtype))


def _min(call: PoolCall, values: jax.Array, weights: jax.Array | None, empty: Any, kernel: Any) -> jax.Array:
    return -_max(call, -values, weights, -empty, kernel)


REDUCERS: Final[Mapping[str, Any]] = {"mean": _mean, "sum": _sum, "max": _max, "min": _min}


def window_slices(call: PoolCall, values: jax.Array) -> list[jax.Array]:
    """One strided slice for each place in the window, in row-major order."""
    spans = [(n - 1) * s + 1 for n, s in zip(call.result_shape, call.strides, strict=True)]
    starts = [()]
    for width in call.window:
        starts = [(*start, place) for start in starts for place in range(width)]
    ends = [[a + n for a, n in zip(start, spans, strict=True)] for start in starts]
    return [lax.slice(values, start, end, call.strides) for start, end in zip(starts, ends, strict=True)]


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _greatest(call: PoolCall, kernel: Any, values: jax.Array) -> jax.Array:
    return dispatch(call, values, explicit=kernel)


@_greatest.defjvp
def _greatest_jvp(call: PoolCall, kernel: Any, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    """Every point that is the greatest of its window has the same share of the derivative, whatever the kernel."""
    found = _greatest(call, kernel, *primals)
    ties = [part == found for part in window_slices(call, *primals)]
    count = sum(tie.astype(found.dtype) for tie in ties)
    moved = window_slices(call, *tangents)
    total = sum(jnp.where(tie, part, jnp.zeros_like(part)) for tie, part in zip(ties, moved, strict=True))
    return found, total / count  # type: ignore[return-value]

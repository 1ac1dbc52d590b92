"""What lies beyond the ends of a domain: where the value there comes from, and with which sign."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...errors import DeclarationError

EndRule = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(positions, length, numpy or jax.numpy) ↦ (which of 0 … length − 1 the value comes from; its sign: 1, −1 or 0)."""


def _zero(i: Any, n: Any, xp: Any) -> tuple[Any, Any]:
    return xp.clip(i, 0, n - 1), xp.where((i >= 0) & (i < n), 1, 0)


def _periodic(i: Any, n: Any, xp: Any) -> tuple[Any, Any]:
    return i % n, xp.ones_like(i)


def _reflect(i: Any, n: Any, xp: Any) -> tuple[Any, Any]:
    period = xp.maximum(2 * n - 2, 1)
    j = i % period
    return xp.minimum(j, period - j) % n, xp.ones_like(i)


def _symmetric(i: Any, n: Any, xp: Any) -> tuple[Any, Any]:
    j = i % (2 * n)
    return xp.minimum(j, 2 * n - 1 - j), xp.ones_like(i)


def _antisymmetric(i: Any, n: Any, xp: Any) -> tuple[Any, Any]:
    j = i % (2 * n)
    return xp.minimum(j, 2 * n - 1 - j), xp.where(j < n, 1, -1)


END_RULES: Final[Mapping[str, EndRule]] = {
    "zero": _zero,
    "periodic": _periodic,
    "reflect": _reflect,
    "symmetric": _symmetric,
    "antisymmetric": _antisymmetric,
}
"""By name: 0; uₙ₊ₖ = uₖ; u₋ₖ = uₖ (wall on the end point); u₋ₖ = uₖ₋₁ and u₋ₖ = −uₖ₋₁ (wall half a step beyond it)."""


def check_ends(boundary: Any, num: int, what: str) -> tuple[str, ...]:
    """One end rule's name for each of `num` domains or axes. Raises: DeclarationError."""
    names = (boundary,) * num if isinstance(boundary, str) else tuple(boundary)
    if len(names) != num:
        raise DeclarationError(f"{what}: `boundary` is one name, or {num} of them; got {len(names)}.")
    for name in names:
        if name not in END_RULES:
            raise DeclarationError(f"{what}: unknown boundary {name!r}. Known: {', '.join(END_RULES)}.")
    return names


def sources(name: str, start: int, stop: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the values at the positions start … stop − 1 of a domain come from, and their signs; not traced."""
    index, sign = END_RULES[name](np.arange(start, stop), length, np)
    return np.asarray(index), np.asarray(sign)


def grow(values: jax.Array, ends: Sequence[str], lower: Sequence[int], upper: Sequence[int]) -> jax.Array:
    """An array with the values beyond its ends: `lower` and `upper` points more on its first axes, axis by axis."""
    shape = values.shape
    pads = [(a, b, 0) for a, b in zip(lower, upper, strict=True)]
    pads += [(0, 0, 0)] * (values.ndim - len(pads))
    grown = lax.pad(values, jnp.zeros((), values.dtype), pads)
    for axis, (name, low, high) in enumerate(zip(ends, lower, upper, strict=True)):
        for start, stop in ((-low, 0), (shape[axis], shape[axis] + high)):
            if name == "zero" or start == stop:
                continue
            index, sign = sources(name, start, stop, shape[axis])
            strip = jnp.take(grown, jnp.asarray(index + low), axis=axis)
            if (sign != 1).any():
                strip = strip * along_axis(jnp.asarray(sign, values.dtype), axis, values.ndim)
            grown = lax.dynamic_update_slice_in_dim(grown, strip, start + low, axis)
    return grown


def along_axis(vector: jax.Array, axis: int, rank: int) -> jax.Array:
    """A vector laid along one axis of an array of the given rank."""
    return vector.reshape([-1 if a == axis else 1 for a in range(rank)])

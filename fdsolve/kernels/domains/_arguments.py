"""What the functions of this package are given, converted and checked once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ...errors import DeclarationError


def to_values(values: Any, what: str, name: str = "values") -> jax.Array:
    """An array of floating or complex numbers. Raises: DeclarationError."""
    array = jnp.asarray(values)
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        raise DeclarationError(
            f"{what}: `{name}` holds floating or complex numbers; got {array.dtype}. Write `{name}.astype(float)`."
        )
    return array


def known(array: Any) -> np.ndarray | None:
    """An argument's values, for checks; None where they are traced."""
    return None if isinstance(array, Tracer) else np.asarray(array)


def common_dtype(values: jax.Array, others: Sequence[Any]) -> Any:
    """The values' own precision, complex where anything is complex."""
    if any(jnp.issubdtype(jnp.asarray(other).dtype, jnp.complexfloating) for other in others):
        return jnp.promote_types(values.dtype, jnp.complex64)
    return values.dtype


@dataclass(frozen=True)
class Taps:
    """A stencil's offsets in points, one for each axis, and how far they reach; its weights are arrays apart."""

    offsets: tuple[tuple[int, ...], ...]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.offsets[0])

    @property
    def lower(self) -> tuple[int, ...]:
        """How many points below a point are read, on each axis."""
        return tuple(max(0, -min(column)) for column in zip(*self.offsets, strict=True))

    @property
    def upper(self) -> tuple[int, ...]:
        """How many points above a point are read, on each axis."""
        return tuple(max(0, max(column)) for column in zip(*self.offsets, strict=True))


def to_taps(stencil: Any, what: str, rank: int | None = None) -> tuple[Taps, tuple[Any, ...]]:
    """Offsets and weights of a stencil given as `{offset: weight}`. Raises: DeclarationError."""
    if not isinstance(stencil, Mapping) or not stencil:
        raise DeclarationError(
            f"{what}: a stencil is a mapping of offsets to weights, such as {{-1: 1.0, 0: -2.0, 1: 1.0}} or "
            f"{{(0, 1): 0.5, (1, 0): 0.5}}; got {stencil!r}."
        )
    offsets = tuple(_to_offset(offset, what) for offset in stencil)
    ranks = {len(offset) for offset in offsets}
    if len(ranks) > 1 or len(set(offsets)) < len(offsets):
        raise DeclarationError(f"{what}: offsets are distinct and have one number for each axis; got {offsets}.")
    if rank is not None and ranks != {rank}:
        raise DeclarationError(
            f"{what}: offsets have one number for each of the {rank} axes; got {offsets[0]}. A point's own is "
            f"{(0,) * rank}."
        )
    return Taps(offsets), tuple(stencil.values())


def _to_offset(offset: Any, what: str) -> tuple[int, ...]:
    items = offset if isinstance(offset, tuple) else (offset,)
    if not items or not all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        raise DeclarationError(f"{what}: an offset is a whole number, or a tuple of one for each axis; got {offset!r}.")
    return tuple(int(item) for item in items)


def to_counts(value: Any, rank: int, what: str, name: str) -> tuple[int, ...]:
    """A positive number of points for each axis, from one number or a sequence. Raises: DeclarationError."""
    items = (value,) * rank if isinstance(value, int | np.integer) else tuple(value)
    if len(items) != rank or not all(isinstance(item, int | np.integer) and item > 0 for item in items):
        raise DeclarationError(f"{what}: `{name}` is a positive whole number, or {rank} of them; got {value!r}.")
    return tuple(int(item) for item in items)


def stack_weights(weights: Sequence[Any], dtype: Any, shape: tuple[int, ...], what: str) -> jax.Array:
    """Weights as one array, of the shape (offsets,), or (offsets, *shape) where one differs from point to point.

    Raises: DeclarationError.
    """
    arrays = [jnp.asarray(weight).astype(dtype) for weight in weights]
    for array in arrays:
        if array.ndim and array.shape != shape:
            raise DeclarationError(f"{what}: a weight is a number, or an array of shape {shape}; got {array.shape}.")
    if any(array.ndim for array in arrays):
        arrays = [jnp.broadcast_to(array, shape) for array in arrays]
    return jnp.stack(arrays)

"""Linear recurrences along an axis: uₙ = aₙ uₙ₋₁ + bₙ."""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from ...errors import DeclarationError
from .._selection import dispatch
from ._arguments import common_dtype, to_values

WHAT = "recurrence"


@dataclass(frozen=True)
class RecurrenceCall:
    """A recurrence of `length` steps for `batch` lines at once, of numbers (`size` 0) or of vectors of `size`."""

    operation: ClassVar[str] = "recurrence"
    length: int
    batch: int
    size: int
    dtype: str


def recurrence(
    a: ArrayLike,
    b: ArrayLike,
    initial: ArrayLike | None = None,
    *,
    axis: int = 0,
    reverse: bool = False,
    kernel: Any = "auto",
) -> jax.Array:
    """uₙ = aₙ uₙ₋₁ + bₙ along an axis: step by step, or as a parallel prefix where that is faster.

    `b` has the shape of the result. `a` broadcasts to it; or has one axis more and then holds matrices, and the last
    axis of `b` vectors: uₙ = Aₙ uₙ₋₁ + bₙ (a recurrence of order m is one of vectors of m values). `initial` is the
    value before the first, one axis less than `b`; 0 if not given. `reverse` runs from the end: uₙ = aₙ uₙ₊₁ + bₙ.
    Derivatives run the same kernel the other way and keep `a` and u only.

    Source: G. E. Blelloch, Prefix sums and their applications, CMU-CS-90-190 (1990). Raises: DeclarationError.

    >>> import jax.numpy as jnp
    >>> recurrence(0.5, jnp.ones(4))
    Array([1.   , 1.5  , 1.75 , 1.875], dtype=...)
    """
    b = to_values(b, WHAT, "b")
    a = jnp.asarray(a)
    dtype = common_dtype(b, [a] if initial is None else [a, initial])
    a, b = a.astype(dtype), b.astype(dtype)
    of_vectors = a.ndim == b.ndim + 1
    if a.ndim > b.ndim and not (of_vectors and b.ndim > 1 and a.shape[-2:] == (b.shape[-1],) * 2):
        raise DeclarationError(
            f"{WHAT}: `a` holds numbers and broadcasts to `b`, or square matrices for vectors along the last axis of "
            f"`b`; got the shapes {a.shape} and {b.shape}."
        )
    axes = b.ndim - 1 if of_vectors else b.ndim
    if not -axes <= axis < axes:
        raise DeclarationError(f"{WHAT}: `axis` is one of the {axes} axes of `b` it can run along; got {axis}.")
    axis %= axes
    a = _spread(a, (*b.shape, b.shape[-1]) if of_vectors else b.shape)
    a, b = jnp.moveaxis(a, axis, 0), jnp.moveaxis(b, axis, 0)
    if reverse:
        a, b = jnp.flip(a, 0), jnp.flip(b, 0)
    if initial is not None and b.shape[0]:
        first = _spread(jnp.asarray(initial).astype(dtype), b.shape[1:], "initial")
        b = b.at[0].add(_apply(a[0], first, of_vectors))
    result = _solve(a, b, of_vectors, kernel)
    return jnp.moveaxis(jnp.flip(result, 0) if reverse else result, 0, axis)


def _spread(array: jax.Array, shape: tuple[int, ...], name: str = "a") -> jax.Array:
    try:
        return jnp.broadcast_to(array, shape)
    except ValueError:
        raise DeclarationError(f"{WHAT}: `{name}` broadcasts to the shape {shape}; got {array.shape}.") from None


def _apply(a: jax.Array, u: jax.Array, of_vectors: bool) -> jax.Array:
    return jnp.einsum("...ij,...j->...i", a, u) if of_vectors else a * u


def _solve(a: jax.Array, b: jax.Array, of_vectors: bool, kernel: Any) -> jax.Array:
    """Along axis 0, from zero. As a linear solve with (I − aS), S the shift: its derivatives are solves too."""
    batch = prod(b.shape[1:-1] if of_vectors else b.shape[1:])
    call = RecurrenceCall(b.shape[0], batch, b.shape[-1] if of_vectors else 0, str(b.dtype))
    if not call.length:
        return b

    def run(coefficients: jax.Array, rhs: jax.Array) -> jax.Array:
        return dispatch(call, coefficients, rhs, explicit=kernel)

    def residual(u: jax.Array) -> jax.Array:
        before = jnp.concatenate([jnp.zeros_like(u[:1]), u[:-1]])
        return u - _apply(a, before, of_vectors)

    def solve(_: Any, rhs: jax.Array) -> jax.Array:
        return run(a, rhs)

    def transpose_solve(_: Any, rhs: jax.Array) -> jax.Array:
        following = jnp.concatenate([a[1:], jnp.zeros_like(a[:1])])
        following = jnp.swapaxes(following, -1, -2) if of_vectors else following
        return jnp.flip(run(jnp.flip(following, 0), jnp.flip(rhs, 0)), 0)

    return lax.custom_linear_solve(residual, b, solve, transpose_solve)

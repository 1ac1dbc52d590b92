"""Different operators on different parts of a grid: the stencil at a point is that of its label."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ...errors import DeclarationError
from .._selection import dispatch
from ._arguments import Taps, common_dtype, known, to_taps, to_values
from ._ends import check_ends, grow

WHAT = "grouped"


@dataclass(frozen=True)
class GroupedCall:
    """Stencils for `groups` labels on points of `shape`; weights are numbers, or matrices (`num_out`, `num_in`)."""

    operation: ClassVar[str] = "grouped"
    taps: Taps
    shape: tuple[int, ...]
    groups: int
    matrix: tuple[int, int] | None
    dtype: str


def grouped(
    stencil: Any,
    values: ArrayLike,
    labels: ArrayLike,
    *,
    boundary: Any = "zero",
    kernel: Any = "auto",
) -> jax.Array:
    """Σₖ wₖ[label(p)] u(p + oₖ): an operator for each subdomain, chosen point by point.

    `stencil` maps offsets to one weight for each label, of shape (labels,); or to a matrix for each, (labels, out, in),
    and then the last axis of `values` holds the `in` components of a system. `labels` has the grid's shape and counts
    from 0; a point with −1 has no operator and gives 0. (A traced label that is none gives NaN.) Neighbours are read
    whatever their label. `boundary`, one name or one for each axis, is "zero", "periodic", "reflect", "symmetric" or
    "antisymmetric". Raises: DeclarationError.

    >>> import jax.numpy as jnp
    >>> u, material = jnp.asarray([1.0, 2.0, 4.0, 8.0]), jnp.asarray([0, 0, 1, -1])
    >>> grouped({-1: jnp.asarray([1.0, 0.5]), 1: jnp.asarray([1.0, 0.5])}, u, material)
    Array([2., 5., 5., 0.], dtype=...)
    """
    values, have, labels = to_values(values, WHAT), known(labels), jnp.asarray(labels)
    taps, given = to_taps(stencil, WHAT)
    weights = _to_weights(given)
    _check(taps, weights, values, labels)
    if have is not None and have.size and not -1 <= have.min() <= have.max() < weights.shape[1]:
        raise DeclarationError(
            f"{WHAT}: there are weights for the labels 0 to {weights.shape[1] - 1} (−1 for no operator); got labels "
            f"from {have.min()} to {have.max()}."
        )
    shape = values.shape[: taps.rank]
    dtype = common_dtype(values, [weights])
    ends = check_ends(boundary, taps.rank, WHAT)
    groups = weights.shape[1]
    matrix = (weights.shape[2], weights.shape[3]) if weights.ndim == 4 else None
    call = GroupedCall(taps, shape, groups, matrix, str(jnp.dtype(dtype)))
    clipped = jnp.clip(labels, 0, groups - 1).astype(jnp.int32)
    grown = grow(values.astype(dtype), ends, taps.lower, taps.upper)
    result = dispatch(call, grown, weights.astype(dtype), clipped, explicit=kernel)

    def at_points(condition: jax.Array) -> jax.Array:
        return condition.reshape(*shape, *(1 for _ in range(result.ndim - len(shape))))

    result = jnp.where(at_points(labels == -1), jnp.zeros_like(result), result)
    if have is not None:
        return result
    return jnp.where(at_points((labels < -1) | (labels >= groups)), jnp.full_like(result, jnp.nan), result)


def _to_weights(given: tuple[Any, ...]) -> jax.Array:
    """One array: offset, label (and row, column)."""
    arrays = [to_values(weight, WHAT, "weights") for weight in given]
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1 or arrays[0].ndim not in (1, 3):
        raise DeclarationError(
            f"{WHAT}: each offset has one weight for each label, all of shape (labels,), or all (labels, out, in); got "
            f"shapes {', '.join(map(str, shapes))}."
        )
    dtype = arrays[0].dtype
    for array in arrays[1:]:
        dtype = jnp.promote_types(dtype, array.dtype)
    return jnp.stack([array.astype(dtype) for array in arrays])


def _check(taps: Taps, weights: jax.Array, values: jax.Array, labels: jax.Array) -> None:
    rank = taps.rank
    wanted = rank + 1 if weights.ndim == 4 else rank
    if values.ndim != wanted or (weights.ndim == 4 and values.shape[-1] != weights.shape[3]):
        parts = f", and {weights.shape[3]} components last" if weights.ndim == 4 else ""
        raise DeclarationError(
            f"{WHAT}: `values` has the {rank} axes of the offsets{parts}; got the shape {values.shape}."
        )
    if not jnp.issubdtype(labels.dtype, jnp.integer) or labels.shape != values.shape[:rank]:
        raise DeclarationError(
            f"{WHAT}: `labels` holds whole numbers and has the grid's shape {values.shape[:rank]}; got "
            f"{labels.dtype} of shape {labels.shape}."
        )

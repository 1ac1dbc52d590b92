"""Stencils on domains of different length or shape, packed one after the other into one array."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ...errors import DeclarationError
from .._selection import dispatch
from ._arguments import Taps, common_dtype, known, stack_weights, to_taps, to_values
from ._ends import check_ends

WHAT = "ragged"


@dataclass(frozen=True)
class RaggedCall:
    """A stencil on packed domains of `total` points in all.

    `shapes` are those of the domains; None where they are lines whose lengths are an operand. `ends` names what lies
    beyond each domain's ends; `channels` is the shape of what a point holds.
    """

    operation: ClassVar[str] = "ragged"
    taps: Taps
    shapes: tuple[tuple[int, ...], ...] | None
    ends: tuple[str, ...]
    total: int
    channels: tuple[int, ...]
    dtype: str


def ragged(
    stencil: Any,
    values: ArrayLike,
    domains: Any,
    *,
    boundary: str | Sequence[str] = "zero",
    kernel: Any = "auto",
) -> jax.Array:
    """Σ wₖ u(i + oₖ) on each of several domains packed along the first axis of `values`; none reads its neighbour.

    `stencil` maps offsets to weights: numbers, or one for each packed point. `domains` are the lengths of lines, or the
    shapes of boxes, each packed in row-major order: they tell how the array is cut up, and are part of the compiled
    program. Lengths given as a JAX array are an operand instead, traced or not; points after the last domain give 0.
    Further axes of `values` are channels, all treated alike. `boundary`, one name or one for each domain, is "zero",
    "periodic", "reflect" (u₋ₖ = uₖ), "symmetric" (u₋ₖ = uₖ₋₁) or "antisymmetric" (u₋ₖ = −uₖ₋₁).
    Raises: DeclarationError.

    >>> import jax.numpy as jnp
    >>> packed = jnp.asarray([1.0, 2.0, 3.0, 10.0, 20.0])
    >>> ragged({1: 1.0, 0: -1.0}, packed, (3, 2), boundary="symmetric")
    Array([ 1.,  1.,  0., 10.,  0.], dtype=...)
    """
    values = to_values(values, WHAT)
    if not values.ndim:
        raise DeclarationError(f"{WHAT}: `values` has the packed points along its first axis; got a single number.")
    taps, weights = to_taps(stencil, WHAT)
    dtype = common_dtype(values, weights)
    total = values.shape[0]
    lengths = domains if isinstance(domains, jax.Array) else None
    shapes = None if lengths is not None else _to_shapes(domains, taps.rank, total)
    num = _check_lengths(lengths, taps.rank, total) if lengths is not None else len(shapes or ())
    call = RaggedCall(taps, shapes, check_ends(boundary, num, WHAT), total, values.shape[1:], str(jnp.dtype(dtype)))
    stacked = stack_weights(weights, dtype, (total,), WHAT)
    operands = (values.astype(dtype), stacked) if lengths is None else (values.astype(dtype), stacked, lengths)
    return dispatch(call, *operands, explicit=kernel)


def _to_shapes(domains: Any, rank: int, total: int) -> tuple[tuple[int, ...], ...]:
    shapes = tuple((int(s),) if isinstance(s, int | np.integer) else tuple(int(n) for n in s) for s in domains)
    for shape in shapes:
        if len(shape) != rank or any(n < 1 for n in shape):
            raise DeclarationError(
                f"{WHAT}: a domain has a length of at least 1 for each of the stencil's {rank} axes; got {shape}."
            )
    points = sum(prod(shape) for shape in shapes)
    if points != total:
        raise DeclarationError(f"{WHAT}: the domains have {points} points in all, and `values` has {total}.")
    return shapes


def _check_lengths(lengths: jax.Array, rank: int, total: int) -> int:
    if lengths.ndim != 1 or not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise DeclarationError(
            f"{WHAT}: lengths of domains are one array of whole numbers; got {lengths.dtype} of shape {lengths.shape}."
        )
    if rank != 1:
        raise DeclarationError(
            f"{WHAT}: domains given by a JAX array are lines, and the stencil has {rank} axes. Give their shapes, as "
            f"tuples."
        )
    have = known(lengths)
    if have is not None and (have.sum() > total or (have < 0).any()):
        raise DeclarationError(f"{WHAT}: lengths {lengths} are not those of domains within {total} points.")
    return lengths.shape[0]

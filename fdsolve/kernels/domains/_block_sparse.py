"""A stencil, or any function of neighbours, on the tiles of a grid where something happens, and only there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import add
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ...errors import DeclarationError
from .._selection import dispatch
from ._arguments import Taps, common_dtype, known, to_counts, to_taps, to_values
from ._ends import check_ends, grow

WHAT = "block_sparse"


@dataclass(frozen=True)
class BlockSparseCall:
    """A function of neighbours on the active tiles of a grid of `shape`, a multiple of `tile`.

    `lower` and `upper` are how far it reads; `num_active` the number of active tiles, if it is known or bounded.
    `point` is the shape of what a point holds in the result.
    """

    operation: ClassVar[str] = "block_sparse"
    shape: tuple[int, ...]
    tile: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    num_active: int | None
    point: tuple[int, ...]
    dtype: str

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of tiles along each axis."""
        return tuple(n // size for n, size in zip(self.shape, self.tile, strict=True))

    @property
    def num_tiles(self) -> int:
        """The number of tiles in all."""
        return prod(self.counts)

    @property
    def window(self) -> tuple[int, ...]:
        """A tile's shape with what is read around it."""
        return tuple(a + n + b for a, n, b in zip(self.lower, self.tile, self.upper, strict=True))


def block_sparse(
    stencil: Any,
    values: ArrayLike,
    active: ArrayLike,
    *,
    tile: int | Sequence[int] = 32,
    reach: Any = None,
    boundary: Any = "zero",
    elsewhere: ArrayLike = 0.0,
    capacity: int | None = None,
    kernel: Any = "auto",
) -> jax.Array:
    """The stencil's result where `active` is true, and `elsewhere` at all other points, which costs next to nothing.

    `stencil` maps offsets to weights; or is a function of a block of values that gives its result on the block's
    interior, `reach` points less on each side (a number, or one for each axis). A function may be nonlinear, and is
    evaluated at every point of active tiles. `active` is a mask of points (a tile is active where one of its points
    is), or of whole tiles, `tile` points wide. `elsewhere` is a number or an array like the result. Further axes of
    `values` are components. `boundary`, one name or one for each axis, is "zero", "periodic", "reflect", "symmetric"
    or "antisymmetric".

    `capacity` says for how many active tiles to compile where the mask is traced, else a sixteenth and a quarter of
    them; where there are more, everything is computed. The result depends neither on that nor on `tile` and kernel.
    Raises: DeclarationError.

    >>> import jax.numpy as jnp
    >>> u = jnp.asarray([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    >>> block_sparse({-1: 1.0, 0: -2.0, 1: 1.0}, u, u > 0, tile=2)
    Array([ 0.,  0., -2.,  0.,  0.,  0.,  0.,  0.], dtype=...)
    """
    values, have, active = to_values(values, WHAT), known(active), jnp.asarray(active)
    rank = active.ndim
    if active.dtype != bool or not 0 < rank <= values.ndim:
        raise DeclarationError(
            f"{WHAT}: `active` is a mask of booleans over the grid's axes; got {active.dtype} of shape {active.shape}. "
            f"Write `active != 0`."
        )
    tile = to_counts(tile, rank, WHAT, "tile")
    ends = check_ends(boundary, rank, WHAT)
    apply, lower, upper, values = _to_function(stencil, values, rank, reach)
    shape = values.shape[:rank]
    counts = tuple(-(-n // size) for n, size in zip(shape, tile, strict=True))
    tiles, points = _to_masks(active, shape, tile, counts)
    window = tuple(a + n + b for a, n, b in zip(lower, tile, upper, strict=True))
    found = _check_function(apply, window, tile, values)
    padded = tuple(n * size for n, size in zip(counts, tile, strict=True))
    bound = _to_capacity(capacity) if have is None else int(_to_tiles(have, shape, tile, counts, np).sum())
    call = BlockSparseCall(padded, tile, lower, upper, bound, found.shape[rank:], str(found.dtype))
    rest = [(0, a - b) for a, b in zip(padded, shape, strict=True)] + [(0, 0)] * (values.ndim - rank)
    grown = jnp.pad(grow(values, ends, lower, upper), rest, mode="edge")
    result = dispatch(call, apply, grown, tiles, explicit=kernel)[tuple(slice(0, n) for n in shape)]
    held = points.reshape(*shape, *(1 for _ in call.point))
    return jnp.where(held, result, _to_result(elsewhere, result))


def _to_function(
    stencil: Any, values: jax.Array, rank: int, reach: Any
) -> tuple[Callable[[jax.Array], jax.Array], tuple[int, ...], tuple[int, ...], jax.Array]:
    """A function of blocks, how far it reads, and the values in its dtype."""
    if not callable(stencil):
        taps, weights = to_taps(stencil, WHAT, rank)
        if reach is not None or any(jnp.ndim(weight) for weight in weights):
            raise DeclarationError(
                f"{WHAT}: a stencil's weights are numbers, and its reach is that of its offsets; give a function of "
                f"blocks for other things."
            )
        dtype = common_dtype(values, weights)
        stacked = jnp.stack([jnp.asarray(weight).astype(dtype) for weight in weights])
        return lambda block: _weigh(taps, stacked, block), taps.lower, taps.upper, values.astype(dtype)
    if reach is None:
        raise DeclarationError(f"{WHAT}: a function of blocks wants `reach`, how many points it reads on each side.")
    reaches = (reach,) * rank if isinstance(reach, int | np.integer) else tuple(reach)
    if len(reaches) != rank or not all(isinstance(r, int | np.integer) and r >= 0 for r in reaches):
        raise DeclarationError(f"{WHAT}: `reach` is a number of points, or one for each axis; got {reach!r}.")
    reaches = tuple(int(r) for r in reaches)
    function: Any = stencil
    return function, reaches, reaches, values


def _weigh(taps: Taps, weights: jax.Array, block: jax.Array) -> jax.Array:
    """A constant stencil on the interior of a block."""
    sizes = [n - a - b for n, a, b in zip(block.shape, taps.lower, taps.upper, strict=False)]
    terms = []
    for number, offset in enumerate(taps.offsets):
        spans = [slice(o + a, o + a + n) for o, a, n in zip(offset, taps.lower, sizes, strict=True)]
        terms.append(weights[number] * block[tuple(spans)])
    return reduce(add, terms)


def _to_masks(
    active: jax.Array, shape: tuple[int, ...], tile: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """Which tiles are active, and which points."""
    if active.shape == shape:
        return _to_tiles(active, shape, tile, counts, jnp), active
    if active.shape != counts:
        raise DeclarationError(
            f"{WHAT}: `active` has the shape of the grid, {shape}, or that of its tiles, {counts}; got {active.shape}."
        )
    points = active
    for axis, size in enumerate(tile):
        points = jnp.repeat(points, size, axis)
    return active, points[tuple(slice(0, n) for n in shape)]


def _to_tiles(active: Any, shape: tuple[int, ...], tile: tuple[int, ...], counts: tuple[int, ...], xp: Any) -> Any:
    """Which tiles are active, in numpy or jax.numpy."""
    if active.shape != shape:
        return active
    rest = [(0, n * size - have) for n, size, have in zip(counts, tile, shape, strict=True)]
    pairs = [size for pair in zip(counts, tile, strict=True) for size in pair]
    return xp.pad(active, rest).reshape(pairs).any(tuple(range(1, len(pairs), 2)))


def _check_function(
    apply: Callable[[jax.Array], jax.Array], window: tuple[int, ...], tile: tuple[int, ...], values: jax.Array
) -> jax.ShapeDtypeStruct:
    """What the function makes of one tile."""
    block = jax.ShapeDtypeStruct((*window, *values.shape[len(tile) :]), values.dtype)
    found = jax.eval_shape(apply, block)
    if not isinstance(found, jax.ShapeDtypeStruct) or found.shape[: len(tile)] != tile:
        raise DeclarationError(
            f"{WHAT}: of a block of shape {block.shape} the function gives the interior, {tile} points; got "
            f"{getattr(found, 'shape', found)}. Give the `reach` by which it shrinks a block on each side."
        )
    return found


def _to_capacity(capacity: int | None) -> int | None:
    if capacity is not None and (not isinstance(capacity, int) or capacity < 1):
        raise DeclarationError(f"{WHAT}: `capacity` is a number of tiles, at least 1; got {capacity!r}.")
    return capacity


def _to_result(elsewhere: Any, result: jax.Array) -> jax.Array:
    array = jnp.asarray(elsewhere).astype(result.dtype)
    if array.ndim and array.shape != result.shape:
        raise DeclarationError(
            f"{WHAT}: `elsewhere` is a number, or an array of the result's shape {result.shape}; got {array.shape}."
        )
    return array

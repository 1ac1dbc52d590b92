"""The operation "stencil": a constant affine stencil on a block of points, and its two portable kernels."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import DeclarationError
from ._registry import register


@dataclass(frozen=True)
class StencilCall:
    """Weigh and sum the neighbours of every point of a block.

    result[p] = Σₖ weights[k] · values[p + offsets[k] + lower]. The result has `shape`; `values` the shape of the block
    grown by the reach of the offsets, `grown`; both and the weights, one for each offset, have `dtype`, a name such as
    "<f8".
    """

    operation: ClassVar[str] = "stencil"
    shape: tuple[int, ...]
    dtype: str
    offsets: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.offsets:
            raise DeclarationError("A stencil reads at least one point; got no offsets.")
        if wrong := [o for o in self.offsets if len(o) != len(self.shape)]:
            raise DeclarationError(f"The offset {wrong[0]} is not one of {len(self.shape)} axes, shape {self.shape}.")
        dtype = np.dtype(self.dtype)
        if not jnp.issubdtype(dtype, jnp.inexact):
            raise DeclarationError(f"A stencil weighs floats or complex numbers; got dtype {self.dtype}.")
        object.__setattr__(self, "dtype", dtype.name if dtype.kind == "V" else dtype.str)  # bfloat16 has no code

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def lower(self) -> tuple[int, ...]:
        """How many points before the block are read, axis by axis."""
        return tuple(max(0, -min(along)) for along in zip(*self.offsets, strict=True))

    @property
    def upper(self) -> tuple[int, ...]:
        """How many points after the block are read, axis by axis."""
        return tuple(max(0, *along) for along in zip(*self.offsets, strict=True))

    @property
    def grown(self) -> tuple[int, ...]:
        """The shape of the values read."""
        return tuple(n + a + b for n, a, b in zip(self.shape, self.lower, self.upper, strict=True))

    @property
    def is_complex(self) -> bool:
        """Whether values and weights are complex."""
        return bool(jnp.issubdtype(np.dtype(self.dtype), jnp.complexfloating))

    def cache_key(self) -> str:
        """Shape class (extents rounded up to powers of two), dtype and offsets."""
        sizes = "x".join(str(1 << max(n - 1, 0).bit_length()) for n in self.shape)
        return f"shape {sizes}; dtype {self.dtype}; offsets {self.offsets}"

    def examples(self) -> tuple[jax.Array, jax.Array]:
        """Values and weights to measure on, from a fixed seed."""
        random = np.random.default_rng(7)

        def draw(shape: tuple[int, ...]) -> jax.Array:
            array = random.standard_normal(shape)
            array = array + 1j * random.standard_normal(shape) if self.is_complex else array
            return jnp.asarray(array.astype(np.dtype(self.dtype)))

        return draw(self.grown), draw((len(self.offsets),))


@register("stencil", backend="slices", priority=100)
def slices(call: StencilCall, values: jax.Array, weights: jax.Array) -> jax.Array:
    """Shifted slices, weighed and summed: one fused loop, every dtype and rank."""
    total = None
    for number, offset in enumerate(call.offsets):
        start = [o + low for o, low in zip(offset, call.lower, strict=True)]
        part = lax.slice(values, start, [a + n for a, n in zip(start, call.shape, strict=True)])
        term = part * weights[number]
        total = term if total is None else total + term
    assert total is not None
    return total


@register("stencil", backend="reference", priority=-100)
def reference(call: StencilCall, values: jax.Array, weights: jax.Array) -> jax.Array:
    """Every neighbour of every point gathered by its index, then weighed: slow, obviously right, the judge."""
    points = jnp.indices(call.shape).reshape(call.rank, 1, -1)  # axis, 1, point
    moves = jnp.asarray(call.offsets).T[:, :, None] + jnp.asarray(call.lower)[:, None, None]  # axis, offset, 1
    neighbours = values[tuple(points.astype(jnp.int32) + moves.astype(jnp.int32))]  # offset, point
    return (weights[:, None] * neighbours).sum(axis=0).reshape(call.shape)

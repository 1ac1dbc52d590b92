"""The operation "conv": what a convolution is, without its arrays."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...errors import DeclarationError


@dataclass(frozen=True)
class ConvCall:
    """A batch of grouped convolutions (correlations, as everywhere in JAX) over any number of axes.

    out[g, n, o, q] = Σ꜀ Σₛ rhs[g, o, c, s] · x[g, n, c, q·stride + s·rhs_dilation − low], where x is lhs with
    `lhs_dilation` − 1 zeros between its points and zeros around it. Every convolution of `jax.lax` has this form,
    groups of features and of the batch as the first axis; and so have its two transposes and its batches, which is why
    the form is closed under differentiation and `vmap`.

    `size` and `window` are the extents of lhs and rhs; `padding` has a pair (low, high) for each axis, of any sign;
    `dtype` is that of the operands, `result` that of the sum; `precision` two names of `jax.lax.Precision`, or None.
    """

    operation: ClassVar[str] = "conv"
    groups: int
    batch: int
    features_in: int
    features_out: int
    size: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    dtype: str
    result: str
    precision: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        factors = dict(strides=self.strides, lhs_dilation=self.lhs_dilation, rhs_dilation=self.rhs_dilation)
        for name, given in {"window": self.window, "padding": self.padding, **factors}.items():
            if len(given) != self.rank:
                raise DeclarationError(f"{name} has an entry for each of {self.rank} axes, got {given}.")
        for name, given in factors.items():
            if any(factor < 1 for factor in given):
                raise DeclarationError(f"{name} are at least 1, got {given}.")
        object.__setattr__(self, "dtype", jnp.dtype(self.dtype).name)
        object.__setattr__(self, "result", jnp.dtype(self.result).name)

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.size)

    @property
    def out(self) -> tuple[int, ...]:
        """The extents of the result."""
        found = []
        for axis in range(self.rank):
            room = self.dilated[axis] + sum(self.padding[axis])
            reach = dilate(self.window[axis], self.rhs_dilation[axis])
            found.append(0 if room < reach else (room - reach) // self.strides[axis] + 1)
        return tuple(found)

    @property
    def dilated(self) -> tuple[int, ...]:
        """The extents of lhs with zeros between its points."""
        return tuple(dilate(n, d) for n, d in zip(self.size, self.lhs_dilation, strict=True))

    @property
    def lhs_shape(self) -> tuple[int, ...]:
        """Group, batch, feature, axes."""
        return (self.groups, self.batch, self.features_in, *self.size)

    @property
    def rhs_shape(self) -> tuple[int, ...]:
        """Group, feature of the result, feature, axes."""
        return (self.groups, self.features_out, self.features_in, *self.window)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Group, batch, feature of the result, axes."""
        return (self.groups, self.batch, self.features_out, *self.out)

    @property
    def is_empty(self) -> bool:
        """Whether the result has no entries, or sums none."""
        return 0 in (prod(self.out_shape), prod(self.lhs_shape), prod(self.rhs_shape))

    @property
    def is_complex(self) -> bool:
        """Whether the operands are complex."""
        return bool(jnp.issubdtype(jnp.dtype(self.dtype), jnp.complexfloating))

    @property
    def accumulator(self) -> jnp.dtype:
        """The dtype to sum in: that of the result, float32 where that has half its width."""
        half = self.result in ("bfloat16", "float16") or self.result.startswith("float8")
        return jnp.dtype(jnp.float32 if half else self.result)

    @property
    def dot_precision(self) -> Any:
        """The precision as `lax.dot_general` takes it."""
        return None if self.precision is None else tuple(lax.Precision[name] for name in self.precision)

    def to_lhs(self) -> "ConvCall":
        """The convolution of the cotangent with the reversed kernel, features swapped, that is the transpose in lhs."""
        padding = []
        for axis in range(self.rank):
            reach = (self.window[axis] - 1) * self.rhs_dilation[axis]
            low = reach - self.padding[axis][0]
            room = (self.size[axis] - 1) * self.lhs_dilation[axis] + 1 + reach
            padding.append((low, room - dilate(self.out[axis], self.strides[axis]) - low))
        return replace(
            self,
            features_in=self.features_out,
            features_out=self.features_in,
            size=self.out,
            strides=self.lhs_dilation,
            padding=tuple(padding),
            lhs_dilation=self.strides,
            dtype=self.result,
        )

    def to_rhs(self) -> "ConvCall":
        """The convolution of lhs with the cotangent, batch and features swapped, that is the transpose in rhs."""
        padding = []
        for axis in range(self.rank):
            low = self.padding[axis][0]
            reach = (self.window[axis] - 1) * self.rhs_dilation[axis]
            room = reach + (self.out[axis] - 1) * self.strides[axis] + 1
            padding.append((low, room - self.dilated[axis] - low))
        return replace(
            self,
            batch=self.features_in,
            features_in=self.batch,
            window=self.out,
            strides=self.rhs_dilation,
            padding=tuple(padding),
            rhs_dilation=self.strides,
            dtype=self.result,
        )

    def cache_key(self) -> str:
        """Shape class (extents rounded up to powers of two), dtype and the window's structure."""

        def rounded(sizes: tuple[int, ...]) -> str:
            return "x".join(str(1 << max(n - 1, 0).bit_length()) for n in sizes)

        return (
            f"lhs {rounded(self.lhs_shape)}; rhs {rounded(self.rhs_shape[:3])}; window {self.window}; strides "
            f"{self.strides}; dilations {self.lhs_dilation} {self.rhs_dilation}; {self.dtype} to {self.result}"
        )

    def examples(self) -> tuple[jax.Array, jax.Array]:
        """Operands to measure on, from a fixed seed."""
        random = np.random.default_rng(7)

        def draw(shape: tuple[int, ...]) -> jax.Array:
            array = random.standard_normal(shape)
            if jnp.issubdtype(jnp.dtype(self.dtype), jnp.integer):
                array = np.rint(2 * array)
            array = array + 1j * random.standard_normal(shape) if self.is_complex else array
            return jnp.asarray(array.astype(jnp.dtype(self.dtype)))

        return draw(self.lhs_shape), draw(self.rhs_shape)


def dilate(size: int, factor: int) -> int:
    """The extent of `size` points with `factor` − 1 zeros between them."""
    return 0 if size == 0 else (size - 1) * factor + 1

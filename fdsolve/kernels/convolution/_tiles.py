"""How an implicit matrix product cuts a convolution along one axis into tiles, and how much memory one takes."""

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._call import ConvCall

BLOCK = 128  # points of the contraction: a block of the axis, S in the design this follows
ROWS = 512  # lines and blocks that one matrix product takes together, Q there
CHANNELS = 128  # groups that run together, C there
LIMIT = BLOCK * ROWS * CHANNELS  # entries of one tile


@dataclass(frozen=True)
class Cut:
    """An extent in `count` pieces of `size` points, the last of which may overlap the one before."""

    extent: int
    size: int
    count: int
    unit: int = 1

    @classmethod
    def of(cls, extent: int, most: int) -> "Cut":
        """As few pieces of at most `most` points as cover an extent, of one size."""
        count = -(-extent // max(1, most))
        return cls(extent, -(-extent // count), count)

    @property
    def padded(self) -> int:
        """The extent that the pieces fill: more than that asked for where an overlap would break the unit."""
        overlap = self.extent - self.size
        return self.extent if overlap >= 0 and overlap % self.unit == 0 else self.size * self.count

    def start(self, number: Any) -> Any:
        """Where a piece starts."""
        return jnp.minimum(number * self.size, self.padded - self.size)


@dataclass(frozen=True)
class Tiling:
    """A convolution along one axis as products with a banded matrix.

    The axis falls into blocks of `block` points of lhs, to which `width` points of the result belong. Those of block a
    need the blocks a to a + `bands` − 1, counted from point `first` of lhs, and the rows of the band
    T[r, b] = rhs[(lhs_dilation · r − `remainder` − stride · b) / rhs_dilation], zero where there is no such point.
    """

    call: ConvCall
    axis: int
    width: int

    @classmethod
    def of(cls, call: ConvCall) -> "Tiling":
        """The tiling of a call that `why_not` lets pass."""
        axis = next((a for a in range(call.rank) if not _is_idle(call, a)), call.rank - 1)
        stride, dilation = call.strides[axis], call.lhs_dilation[axis]
        unit = dilation // gcd(stride, dilation)
        reach = (call.window[axis] - 1) * call.rhs_dilation[axis] + 1
        wanted = min(max(reach // stride, 32), BLOCK * dilation // stride, call.out[axis])
        return cls(call, axis, max(1, wanted // unit) * unit)

    @property
    def unit(self) -> int:
        """Points of the result after which the zeros between the points of lhs lie as before."""
        dilation = self.call.lhs_dilation[self.axis]
        return dilation // gcd(self.call.strides[self.axis], dilation)

    @property
    def block(self) -> int:
        """Points of lhs in a block."""
        return self.width * self.call.strides[self.axis] // self.call.lhs_dilation[self.axis]

    @property
    def first(self) -> int:
        """The point of lhs at or before the first that the window meets."""
        return -self.call.padding[self.axis][0] // self.call.lhs_dilation[self.axis]

    @property
    def remainder(self) -> int:
        """How far after it the window starts."""
        return -self.call.padding[self.axis][0] - self.first * self.call.lhs_dilation[self.axis]

    @property
    def bands(self) -> int:
        """How many blocks the points of a block of the result need."""
        a = self.axis
        last = (self.width - 1) * self.call.strides[a] + (self.call.window[a] - 1) * self.call.rhs_dilation[a]
        return -(-((self.remainder + last) // self.call.lhs_dilation[a] + 1) // self.block)

    @property
    def before(self) -> int:
        """Lines before the axis."""
        return prod(self.call.size[: self.axis])

    @property
    def after(self) -> int:
        """Lines after the axis."""
        return prod(self.call.size[self.axis + 1 :])

    @property
    def trailing(self) -> Cut:
        """Lines after the axis, in tiles."""
        return Cut.of(self.after, ROWS)

    @property
    def along(self) -> Cut:
        """Points of the result along the axis, in tiles of whole blocks."""
        out = self.call.out[self.axis]
        blocks = -(-out // self.width)
        count = max(-(-blocks // max(1, ROWS // self.trailing.size)), 2 if out % self.width and blocks > 1 else 1)
        return Cut(out, -(-blocks // count) * self.width, count, self.unit)

    @property
    def blocks(self) -> int:
        """Blocks in a tile."""
        return self.along.size // self.width

    @property
    def leading(self) -> Cut:
        """Lines before the axis, in tiles."""
        return Cut.of(self.before, ROWS // (self.trailing.size * self.blocks))

    @property
    def batches(self) -> Cut:
        """The batch, in tiles."""
        return Cut.of(self.call.batch, ROWS // (self.trailing.size * self.blocks * self.leading.size))

    @property
    def loaded(self) -> int:
        """Points of lhs along the axis that a tile reads."""
        return (self.blocks + self.bands - 1) * self.block

    @property
    def band_size(self) -> int:
        """Entries of the banded matrices of one group."""
        return self.call.features_in * self.call.features_out * self.bands * self.block * self.width

    @property
    def groups(self) -> Cut:
        """The groups, in tiles."""
        return Cut.of(self.call.groups, min(CHANNELS, max(1, LIMIT // self.held)))

    @property
    def held(self) -> int:
        """Entries that a tile of one group takes: the band and the sum thrice, what is read six times.

        As they are, as the matrix product wants them, and what makes them, for which a tile is read with zeros around.
        """
        lines = self.batches.size * self.leading.size * self.trailing.size
        read = lines * self.call.features_in * self.loaded
        summed = lines * self.call.features_out * self.along.size
        return 6 * read + 3 * (self.band_size + summed)

    def tail(self, entry: Any) -> tuple[Any, ...]:
        """An entry for the axis of the lines after, which is there only where they are more than one.

        An axis of one point at the end makes XLA copy the whole array for a layout that is the same.
        """
        return (entry,) if self.after > 1 else ()

    def load(self, values: jax.Array, place: tuple[Any, ...]) -> jax.Array:
        """What the tile of the result at `place` reads of lhs, zeros where the window meets none of its points.

        All are (group, batch, feature, before, axis, after), but see `tail`.
        """
        stride, dilation = self.call.strides[self.axis], self.call.lhs_dilation[self.axis]
        size, length = self.call.size[self.axis], self.loaded
        start = self.first + place[4] * stride // dilation
        lead = (self.groups.size, self.batches.size, self.call.features_in, self.leading.size)
        last = self.tail(self.trailing.size)

        def cut(at: Any, points: int) -> jax.Array:
            return lax.dynamic_slice(values, (*place[:4], at, *place[5:]), (*lead, points, *last))

        def beyond() -> jax.Array:
            points = min(size, length)
            at = jnp.clip(start, 0, size - points)
            around = [(length, length, 0) if axis == 4 else (0, 0, 0) for axis in range(values.ndim)]
            wide = lax.pad(cut(at, points), jnp.zeros((), values.dtype), around)
            return lax.dynamic_slice_in_dim(wide, start - at + length, length, 4)

        furthest = self.first + (self.along.padded - self.along.size) * stride // dilation
        if self.first >= 0 and furthest + length <= size:
            return cut(start, length)
        if size < length:
            return beyond()
        return lax.cond((start >= 0) & (start + length <= size), lambda: cut(start, length), beyond)

    def make_band(self, weights: jax.Array) -> jax.Array:
        """The banded matrices (group, features_out, feature, bands · block, width) of weights (…, window)."""
        call, a = self.call, self.axis
        rows = lax.broadcasted_iota(jnp.int32, (self.bands * self.block, self.width), 0)
        columns = lax.broadcasted_iota(jnp.int32, (self.bands * self.block, self.width), 1)
        place = call.lhs_dilation[a] * rows - self.remainder - call.strides[a] * columns
        tap = place // call.rhs_dilation[a]
        held = (place % call.rhs_dilation[a] == 0) & (tap >= 0) & (tap < call.window[a])
        found = jnp.take(weights, jnp.clip(tap, 0, call.window[a] - 1), axis=3)
        return jnp.where(held, found, jnp.zeros((), weights.dtype))


def why_not(call: ConvCall) -> str | None:
    """Why a convolution is not one along an axis that tiles can hold; None if it is."""
    if not jnp.issubdtype(jnp.dtype(call.dtype), jnp.inexact):
        return f"sums floats or complex numbers, and this is {call.dtype}"
    axes = [axis for axis in range(call.rank) if not _is_idle(call, axis)]
    if call.rank == 0 or len(axes) > 1:
        return f"serves windows along one axis, and this one has {call.window} points on {call.rank} axes"
    if call.is_empty:
        return None
    tiling = Tiling.of(call)
    if tiling.block > BLOCK:
        return f"serves strides up to {BLOCK} times the dilation of lhs, and this is {call.strides}"
    if tiling.held > LIMIT:
        return f"a tile holds at most {LIMIT} entries, and with this window and features it has {tiling.held}"
    return None


def _is_idle(call: ConvCall, axis: int) -> bool:
    """Whether a convolution leaves an axis alone."""
    same = call.window[axis] == call.strides[axis] == call.lhs_dilation[axis] == 1
    return same and call.padding[axis] == (0, 0)


def tile_bound(call: ConvCall) -> int:
    """Bytes that the kernel holds at a time, beside operands, result and at most one copy of lhs in another layout.

    No more than `LIMIT` entries of the sum.
    """
    tiling = Tiling.of(call)
    return tiling.groups.size * tiling.held * max(call.accumulator.itemsize, jnp.dtype(call.dtype).itemsize)

"""How a field is taken apart into modes, axis by axis, and what becomes of a stencil there."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..transforms import AbstractLine, Mirror, Mirrored, Ring, Still, along, complex_of
from ._band import BandShape
from ._base import Side, SystemOutline
from ._matrix import MatrixLayout, Offset

MIRRORS = {"value": -1, "slope": 1}
"""Sides that continue the field as its mirror image, and with which sign."""


@dataclass(frozen=True)
class Modes:
    """How a field is transformed: `lines` by axis, the axis solved by bands `banded`, the matrix' `layout`."""

    lines: tuple[AbstractLine, ...]
    banded: int | None
    layout: MatrixLayout

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """Where rows have entries."""
        return self.layout.blocks[0][2]

    @property
    def dtype(self) -> np.dtype:
        """The eigenvalues' dtype."""
        own = np.dtype(self.layout.dtype)
        return complex_of(own) if any(isinstance(line, Ring) for line in self.lines) else own

    @property
    def order(self) -> tuple[int, ...]:
        """The axes in the order of their transforms: those that give real numbers first, the ring of real ones next."""
        found = [a for a, line in enumerate(self.lines) if not isinstance(line, Still)]
        return tuple(
            sorted(found, key=lambda a: (not isinstance(self.lines[a], Mirrored), not _halved(self.lines[a]), -a))
        )

    @property
    def places(self) -> tuple[int, ...]:
        """The axes as they lie after `forward`: the banded one first, the one transformed last in the end."""
        found = [a for a in range(len(self.lines)) if a != self.banded]
        for axis in self.order:
            at = found.index(axis)
            found[at], found[-1] = found[-1], found[at]
        return tuple(found) if self.banded is None else (self.banded, *found)

    @property
    def band(self) -> BandShape:
        """The matrices of the banded axis."""
        assert self.banded is not None
        along_it = [o[self.banded] for o in self.offsets]
        wraps = self.layout.wraps[self.banded] and any(along_it)
        return BandShape(self.lines[self.banded].size, max(0, -min(along_it)), max(0, *along_it, 0), wraps)

    def cut(self, values: jax.Array) -> jax.Array:
        """The unknown points, the banded axis first."""
        starts = [line.start for line in self.lines]
        values = lax.slice(values, starts, [line.start + line.size for line in self.lines])
        return values if self.banded is None else jnp.moveaxis(values, self.banded, 0)

    def paste(self, values: jax.Array, like: jax.Array) -> jax.Array:
        """The inverse of `cut`, zero elsewhere."""
        values = values if self.banded is None else jnp.moveaxis(values, 0, self.banded)
        rest = [(line.start, n - line.start - line.size, 0) for line, n in zip(self.lines, like.shape, strict=True)]
        return lax.pad(values.astype(like.dtype), jnp.zeros((), like.dtype), rest)

    def _swaps(self) -> list[tuple[int, int]]:
        """(axis, where it lies before its transform)."""
        found = [a for a in range(len(self.lines)) if a != self.banded]
        swaps = []
        for axis in self.order:
            at = found.index(axis)
            swaps.append((axis, at + (self.banded is not None)))
            found[at], found[-1] = found[-1], found[at]
        return swaps

    def forward(self, values: jax.Array) -> jax.Array:
        """The coefficients of all modes, axes as in `places`."""
        for axis, at in self._swaps():  # each transform works on the last axis, where its numbers are neighbours
            values = self.lines[axis].forward(jnp.swapaxes(values, at, -1), values.ndim - 1)
        return values

    def backward(self, values: jax.Array) -> jax.Array:
        """The inverse of `forward`."""
        for axis, at in self._swaps()[::-1]:
            values = jnp.swapaxes(self.lines[axis].backward(values, values.ndim - 1), at, -1)
        return values

    @property
    def centre(self) -> tuple[int, ...]:
        """A point so far from all walls that no row reads it twice, itself and its mirror image."""
        ends = [_ends(line) for line in self.lines]
        return tuple(
            line.start + (line.size - 1 + low - high) // 2 for line, (low, high) in zip(self.lines, ends, strict=True)
        )

    @property
    def walls(self) -> list[tuple[int, int]]:
        """(axis, index) of mirrors about unknown points: rows there hold weights twice, columns once."""
        found = []
        for axis, line in enumerate(self.lines):
            if isinstance(line, Mirrored) and self.layout.reach[axis]:
                low, high = _ends(line)
                found += [(axis, line.start)] * low + [(axis, line.start + line.size - 1)] * high
        return found

    def scale(self, turned: jax.Array, dtype: Any) -> jax.Array:
        """The diagonal W with W A W⁻¹ = Aᵀ if the matrix is turned, ones if not: ½ for each wall a point is on."""
        found = jnp.ones((1,) * len(self.lines), dtype)
        for axis, index in self.walls:
            half = np.where(np.arange(self.layout.shapes[0][axis]) == index, 0.5, 1.0).astype(dtype)
            found = found * jnp.where(turned, jnp.asarray(along(half, axis, len(self.lines))), jnp.ones((), dtype))
        return found

    def factor(self, offset: Offset) -> jax.Array | None:
        """Π e^{iθₐoₐ} − 1 of all modes, over the transformed axes, axes as in `places`; None for zero."""
        found: jax.Array | None = None
        for axis, line in enumerate(self.lines):
            if axis == self.banded or offset[axis] == 0:
                continue
            shift = along(line.shift(offset[axis], line), self.places.index(axis), len(self.lines))
            # Behind a barrier: XLA would compute whole tables of modes while compiling.
            shift = lax.optimization_barrier(jnp.asarray(shift.astype(self.dtype)))
            found = shift if found is None else found + shift + found * shift
        return found

    @property
    def empty(self) -> np.ndarray:
        """Which modes vanish at all points, along the transformed axes as in `places`."""
        found = np.zeros((1,) * len(self.lines), bool)
        for axis, line in enumerate(self.lines):
            if axis != self.banded:
                found = found | along(line.empty, self.places.index(axis), len(self.lines))
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the modes, axes as in `places`."""
        return tuple(
            self.lines[a].size if isinstance(self.lines[a], Still) else self.lines[a].angles.size for a in self.places
        )


def modes_of(outline: SystemOutline, asked: str | None) -> Modes | str:
    """How the field of a system is transformed, or why it is not."""
    layout = outline.layout
    if layout is None:
        return "rows read points anywhere"
    if len(layout.fields) > 1:
        return f"fields {', '.join(layout.fields)} are coupled; transforms serve one"
    if outline.holes:
        return "points are cut out"
    if outline.masked:
        return f"{outline.masked} holds where it is true at run time, and transforms want the equation at every point"
    if asked is not None and asked not in outline.axes:
        return f"there is no axis `{asked}`; the axes are {', '.join(outline.axes)}"
    kept = {a: why for a in range(layout.ndim) if (why := _why_banded(outline, a)) is not None}
    kept |= {a: "weights vary along it" for a, varies in enumerate(outline.varies) if varies and a not in kept}
    if asked is not None:
        kept[outline.axes.index(asked)] = "asked for"
    if len(kept) > 1:
        found = "; ".join(f"{outline.axes[a]}: {why}" for a, why in kept.items())
        return f"more than one axis has no transform ({found})"
    banded = next(iter(kept), None)
    if not outline.constant and not outline.varies and banded is None:
        return "weights vary; Transform(axis=...) names one axis along which they may"
    lines, halved = [], False
    for axis, size in enumerate(layout.shapes[0]):
        reach = layout.reach[axis]
        if axis == banded or not reach:
            lines.append(Still(0, size))
            continue
        low, high = outline.sides[axis]
        half = low.kind == "periodic" and not halved and not outline.complex
        halved = halved or half
        line = Ring(0, size, half=half) if low.kind == "periodic" else _mirrored(low, high, size)
        least = 2 * reach + 1 + sum(_ends(line))
        if line.size < least:
            return f"{line.size} unknown points along {outline.axes[axis]} are too few for its rows, which take {least}"
        lines.append(line)
    return Modes(tuple(lines), banded, layout)


def _why_banded(outline: SystemOutline, axis: int) -> str | None:
    """Why an axis has no transform."""
    assert outline.layout is not None
    offsets, wraps = outline.layout.blocks[0][2], outline.layout.wraps[axis]
    if not outline.uniform[axis]:
        return "stretched"
    if not outline.layout.reach[axis]:
        return None
    if any(
        (side.kind == "periodic") != wraps or side.kind not in ("periodic", *MIRRORS) for side in outline.sides[axis]
    ):
        return "a side that does not mirror"
    mirrored = {tuple(-x if a == axis else x for a, x in enumerate(o)) for o in offsets}
    even = mirrored == set(offsets) and (not outline.mirrors or outline.mirrors[axis])
    return None if wraps or even else "a stencil that is not symmetric beside walls"


def _mirrored(low: Side, high: Side, size: int) -> Mirrored:
    mirrors = [Mirror(MIRRORS[side.kind], side.on_point) for side in (low, high)]
    out = [int(mirror == Mirror(-1, True)) for mirror in mirrors]  # a point with a given value is not unknown
    return Mirrored(out[0], size - sum(out), *mirrors)


def _ends(line: AbstractLine) -> tuple[int, int]:
    """Whether there are mirrors about unknown points at the ends."""
    if not isinstance(line, Mirrored):
        return 0, 0
    return int(line.low == Mirror(1, True)), int(line.high == Mirror(1, True))


def _halved(line: AbstractLine) -> bool:
    return isinstance(line, Ring) and line.half

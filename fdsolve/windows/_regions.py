"""Which windows each function is assigned to: index keys become disjoint boxes of windows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..region import Box, Points
from ._arguments import Geometry

MAX_SEPARATE = 4
"""A stepped range of at most this many points on an axis becomes that many boxes."""

Range = tuple[int | float, int | float, int]
"""Array indices start, start + step, … below stop; the ends may be infinite."""

Key = tuple[tuple[Range, ...], ...]
"""The ranges of indices on each axis; axes left out are not restricted."""

EVERYWHERE: Range = (-math.inf, math.inf, 1)


@dataclass(frozen=True)
class Lattice:
    """The points of a box whose distance from its start is a multiple of `step`, axis by axis."""

    box: Box
    step: tuple[int, ...]

    @property
    def dense(self) -> bool:
        """Whether these are all points of the box."""
        return all(s == 1 for s in self.step)


@dataclass(frozen=True)
class Patch:
    """Windows of a box that share a function: those in `within` (if given) and in none of `without`."""

    box: Box
    function: int
    within: Lattice | None = None
    without: tuple[Lattice, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the patch is all of its box."""
        return self.within is None and not self.without


@dataclass(frozen=True, eq=False)
class Assignments:
    """Functions and the keys each was assigned to, in order; the last one wins, uncovered windows take the first."""

    functions: tuple[Callable[..., Any], ...]
    keys: tuple[tuple[int, Key], ...]


def index_key(index: Any, shape: tuple[int, ...]) -> Key:
    """The key of `F[index] = …` for an array of this shape: integers, slices, lists of integers and Ellipsis."""
    items = list(index) if isinstance(index, tuple) else [index]
    if sum(item is Ellipsis for item in items) > 1:
        raise DeclarationError(f"F[{_show(index)}]: an index has one `...` at most.")
    if any(item is Ellipsis for item in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [Ellipsis] * (len(shape) - len(items) + 1)
    if len(items) > len(shape):
        raise DeclarationError(
            f"F[{_show(index)}] has {len(items)} entries, the array of shape {shape} {len(shape)} axes."
        )
    return tuple(_ranges(item, n, index) for item, n in zip(items, shape, strict=False))


def table_key(key: Any) -> Key:
    """The key of a function table's entry: on each axis an index, (start, stop) or (start, stop, step).

    An infinite stop has no end, an infinite index is any; an empty key is every window.
    """
    return tuple((_table_range(item, key),) for item in key)


def _table_range(item: Any, key: Any) -> Range:
    parts = tuple(item) if isinstance(item, tuple | list) else (item,)
    if not 1 <= len(parts) <= 3 or not all(isinstance(p, int | float | np.number) for p in parts):
        raise DeclarationError(
            f"A key of a function table holds an index, (start, stop) or (start, stop, step) an axis, got {key!r}."
        )
    if len(parts) == 1:
        return EVERYWHERE if math.isinf(parts[0]) else (parts[0], parts[0] + 1, 1)
    step = int(parts[2]) if len(parts) == 3 else 1
    if step < 1:
        raise DeclarationError(f"A key of a function table has a positive step, got {key!r}.")
    return (parts[0], parts[1], step)


def _ranges(item: Any, size: int, index: Any) -> tuple[Range, ...]:
    if item is Ellipsis:
        return (EVERYWHERE,)
    if isinstance(item, slice):
        return (_slice_range(item, size),)
    if isinstance(item, int | np.integer) and not isinstance(item, bool):
        return (_place(int(item), size, index),)
    if isinstance(item, list) and all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in item):
        return tuple(_place(int(i), size, index) for i in item)
    if isinstance(item, tuple):
        return (_table_range(item, index),)
    raise DeclarationError(
        f"F[{_show(index)}] holds {item!r}; an index is an integer, a slice, a list of integers or `...`."
    )


def _place(i: int, size: int, index: Any) -> Range:
    if not -size <= i < size:
        raise DeclarationError(f"F[{_show(index)}]: index {i} lies outside an axis of {size} points.")
    at = i % size
    return (at, at + 1, 1)


def _slice_range(item: slice, size: int) -> Range:
    step = 1 if item.step is None else int(item.step)
    if step < 0:
        points = range(*item.indices(size))
        return (points[-1], points[0] + 1, -step) if points else (0, 0, 1)
    start = 0 if item.start is None else int(item.start)
    stop = size if item.stop is None else int(item.stop)
    # Ends past the array are kept: they reach windows centred in the padding.
    return (start + size if start < 0 else start, stop + size if stop < 0 else stop, step)


def _show(index: Any) -> str:
    def one(item: Any) -> str:
        if item is Ellipsis:
            return "..."
        if isinstance(item, slice):
            ends = "".join(f"{'' if a is None else a}:" for a in (item.start, item.stop))
            return ends[:-1] if item.step is None else f"{ends}{item.step}"
        return repr(item)

    return ", ".join(one(item) for item in (index if isinstance(index, tuple) else (index,)))


def split(assignments: Assignments, geometry: Geometry) -> tuple[Patch, ...]:
    """Disjoint patches that hold every window once, small ones first."""
    left = Points.of_box(Box.of_shape(geometry.counts))
    patches: list[Patch] = []
    later: list[Lattice] = []
    for function, key in reversed(assignments.keys):
        for lattice in _lattices(key, geometry):
            covered = left.intersect(Points.of_box(lattice.box))
            for part in covered.parts:
                within = None if lattice.dense else lattice
                patches.append(Patch(part.box, function, within, _meeting(later, part.box)))
            if lattice.dense:
                left = left.subtract(Points.of_box(lattice.box))
            elif not covered.empty:
                later.append(lattice)
    patches.extend(Patch(part.box, 0, None, _meeting(later, part.box)) for part in left.parts)
    return tuple(sorted(patches, key=lambda patch: (patch.box.size, patch.box, patch.function)))


def _meeting(lattices: Sequence[Lattice], box: Box) -> tuple[Lattice, ...]:
    return tuple(one for one in lattices if not one.box.intersect(box).empty)


def _lattices(key: Key, geometry: Geometry) -> list[Lattice]:
    """The windows whose centres a key holds; ranges of few points become boxes."""
    by_axis: list[list[tuple[int, int, int]]] = []
    for axis in range(geometry.ndim):
        found = []
        for one in key[axis] if axis < len(key) else (EVERYWHERE,):
            found.extend(_windows(one, geometry.first[axis], geometry.strides[axis], geometry.counts[axis]))
        by_axis.append(found)
    return [
        Lattice(Box(tuple(r[0] for r in ranges), tuple(r[1] for r in ranges)), tuple(r[2] for r in ranges))
        for ranges in product(*by_axis)
    ]


def _windows(wanted: Range, first: int, stride: int, count: int) -> list[tuple[int, int, int]]:
    """Numbers p of the windows with first + p·stride in a range, as ranges (start, stop, step)."""
    start, stop, step = wanted
    low = 0 if start == -math.inf else max(0, math.ceil((start - first) / stride))
    high = count if stop == math.inf else min(count, math.ceil((stop - first) / stride))
    if step > 1:
        period = step // math.gcd(step, stride)
        hits = [p for p in range(low, min(low + period, high)) if (first + p * stride - int(start)) % step == 0]
        if not hits:
            return []
        low, step = hits[0], period
    if low >= high:
        return []
    num = (high - 1 - low) // step + 1
    if step > 1 and num <= MAX_SEPARATE:
        return [(p, p + 1, 1) for p in range(low, high, step)]
    return [(low, low + (num - 1) * step + 1, step)]

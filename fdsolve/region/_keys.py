"""Indices, slices, lists and coordinates of one axis, turned into positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..errors import DeclarationError
from ._box import Box
from ._layout import Layout
from ._points import Points
from ._terms import Term, Terms

MAX_RUNS = 4


class Picked(NamedTuple):
    """What a key picks on one axis: positions; whether the axis is dropped; whether they are listed one by one."""

    positions: np.ndarray
    dropped: bool = False
    listed: bool = False


@dataclass(frozen=True, eq=False)
class Selection:
    """The positions a key picks on each axis; an axis indexed by a single integer is dropped from its shape.

    `listed`: whether they are given one by one. The two ends of an axis of two points are then walls, not all of it.
    """

    layout: Layout
    positions: tuple[np.ndarray, ...]
    dropped: tuple[bool, ...]
    listed: tuple[bool, ...]

    @classmethod
    def of(cls, layout: Layout, picked: Sequence["Picked"]) -> "Selection":
        """The selection of what is picked on each axis."""
        return cls(layout, *zip(*((one.positions, one.dropped, one.listed) for one in picked), strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape an array assigned to this selection broadcasts to."""
        return tuple(p.size for p, gone in zip(self.positions, self.dropped, strict=True) if not gone)

    @property
    def kept_axes(self) -> tuple[str, ...]:
        """Names of the axes of `shape`."""
        return tuple(name for name, gone in zip(self.layout.names, self.dropped, strict=True) if not gone)

    def to_terms(self) -> Terms:
        """The selection as terms: few runs of positions give boxes, many give a mask."""
        has_time = self.layout.grid.time is not None
        levels = np.zeros(self.layout.num_levels, bool)
        levels[self.positions[0] if has_time else slice(None)] = True
        space, listed = self.positions[has_time:], self.listed[has_time:]
        shape = self.layout.space_shape
        runs = [
            [(0, 1), (1, 2)] if alone and n == 2 == np.unique(p).size else _runs(p)
            for p, alone, n in zip(space, listed, shape, strict=True)
        ]
        if all(len(r) <= MAX_RUNS for r in runs):
            boxes = [Box(tuple(a for a, _ in c), tuple(b for _, b in c)) for c in product(*runs)]
            points = Points(tuple(p for box in boxes for p in Points.of_box(box).parts))
        else:
            mask = np.zeros(shape, bool)
            mask[np.ix_(*space)] = True
            points = Points.of_mask(Box.of_shape(shape), mask)
        return Terms(self.layout, (Term(levels, points),))


def _runs(positions: np.ndarray) -> list[tuple[int, int]]:
    ordered = np.unique(positions)
    cuts = np.flatnonzero(np.diff(ordered) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(ordered, cuts)]


def resolve_axis_key(layout: Layout, axis: str, key: Any, what: str) -> Picked:
    """What an integer, slice or list picks on one axis."""
    size = layout.shape[layout.names.index(axis)]
    if isinstance(key, bool | np.bool_):
        raise DeclarationError(f"{what}: `{key}` is no position on axis `{axis}`; give an integer, slice or list.")
    if isinstance(key, int | np.integer):
        return Picked(np.array([_position(int(key), size, axis, what)]), dropped=True)
    if isinstance(key, slice):
        for part in (key.start, key.stop, key.step):
            if part is not None and not isinstance(part, int | np.integer):
                raise DeclarationError(
                    f"{what}: slices in `[]` take integer positions, got {part!r} on axis `{axis}`. "
                    f"For coordinates write `.loc[dict({axis}=...)]`."
                )
        if key.step == 0:
            raise DeclarationError(f"{what}: the step of the slice on axis `{axis}` is zero.")
        for bound, last in ((key.start, size - 1), (key.stop, size)):
            if bound is not None and not -size <= bound <= max(size, last):
                raise DeclarationError(
                    f"{what}: the slice bound {bound} lies outside axis `{axis}`, which has {size} points."
                )
        return Picked(np.arange(size)[key])
    array = _as_array(key)
    if _means_a_mask(array, size):
        raise DeclarationError(
            f"{what}: an array of {array.dtype} and shape {array.shape} is no key for axis `{axis}`. A mask is a "
            f"boolean array, as of mask.astype(bool): of one axis, or by itself of the shape of space, "
            f"{layout.space_shape}; fd.region[mask] & fd.region[1:] is a part of one."
        )
    if array.dtype == bool and array.ndim == 1:
        if array.size != size:
            raise DeclarationError(f"{what}: the mask on axis `{axis}` has {array.size} entries; it needs {size}.")
        return Picked(np.flatnonzero(array))
    if array.ndim == 1 and (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        return Picked(np.array([_position(int(k), size, axis, what) for k in array], int), listed=True)
    raise DeclarationError(
        f"{what}: {' '.join(repr(key).split())} is no key for axis `{axis}`; give an integer, a slice, a list of "
        f"integers "
        f"or `...`."
    )


def _means_a_mask(array: np.ndarray, size: int) -> bool:
    """Whether numbers were meant to say of each point whether it belongs: 0 and 1 by point are no positions."""
    if array.ndim > 1 or array.dtype.kind not in "iuf":
        return array.ndim > 1 and array.size > 0 and array.dtype.kind in "biuf"
    return 1 < array.size == size > np.unique(array).size and bool(np.isin(array, (0, 1)).all())


def _as_array(key: Any) -> np.ndarray:
    try:
        return np.asarray(key)
    except ValueError:  # a ragged list
        return np.empty((0, 0))


def _position(key: int, size: int, axis: str, what: str) -> int:
    if not -size <= key < size:
        raise DeclarationError(f"{what}: position {key} lies outside axis `{axis}`, which has {size} points.")
    return key % size


def resolve_coordinate_key(layout: Layout, axis: str, key: Any, what: str) -> Picked:
    """What a coordinate, a slice of coordinates (both ends included) or a list of them picks on one axis."""
    owner = layout.grid.axes[axis]
    place = () if axis == layout.grid.time_name else (axis in layout.faces,)
    try:
        if isinstance(key, slice):
            if key.step is not None:
                raise DeclarationError(f"A slice of coordinates has no step, got {key.step!r}. Leave it out.")
            start, stop = owner.indices_between(key.start, key.stop, *place)
            return Picked(np.arange(start, stop))
        if np.ndim(key) == 0:
            return Picked(np.array([owner.index_of(key, *place)]), dropped=True)
        return Picked(np.array([owner.index_of(value, *place) for value in _as_array(key)], int), listed=True)
    except DeclarationError as error:
        raise DeclarationError(f"{what}, axis `{axis}`: {error}") from None

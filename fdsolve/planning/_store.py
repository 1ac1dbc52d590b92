"""The arrays a plan runs on: built once, passed as operands, never part of the plan's identity."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import PlanningError
from ..grid import Grid
from ..region import Layout, Part
from ..schemes import weights as finite_difference_weights
from ..stencil import ProfileRead

MAX_PARTS = 16
"""Slices that are put together sooner than entries are gathered."""
Builder = Callable[[tuple[int, ...], tuple[int, ...]], Any]
"""Makes an array over the entities start … stop − 1 of each of its axes."""
Entries = Callable[[tuple[int, ...], tuple[int, ...]], list[np.ndarray | None]]
"""Which entries of what was given these entities have, axis by axis; None along time."""


@dataclass
class Profile:
    """An array labelled by axes, made once it is known which entities are read; `entries`: of which it is made."""

    axes: tuple[str, ...]
    build: Builder
    entries: Entries | None = None
    start: list[int] | None = None
    stop: list[int] | None = None

    def need(self, start: tuple[int, ...], stop: tuple[int, ...]) -> None:
        """Widens the range of entities that will be read."""
        if self.start is None or self.stop is None:
            self.start, self.stop = list(start), list(stop)
        self.start = [min(a, b) for a, b in zip(self.start, start, strict=True)]
        self.stop = [max(a, b) for a, b in zip(self.stop, stop, strict=True)]

    @property
    def repeats(self) -> tuple[np.ndarray | None, ...] | None:
        """What `entries` says of all that is read, where some entry is read as more than one entity; None elsewhere."""
        if self.entries is None or self.start is None or self.stop is None:
            return None
        found = self.entries(tuple(self.start), tuple(self.stop))
        again = [None if one is None or len(np.unique(one)) == len(one) else one for one in found]
        return tuple(again) if any(one is not None for one in again) else None


@dataclass
class Store:
    """All labelled and whole arrays of a problem by operand name."""

    grid: Grid
    real: Any
    profiles: dict[str, Profile] = field(default_factory=dict)
    wholes: dict[str, Any] = field(default_factory=dict)
    masks: dict[str, Part] = field(default_factory=dict)

    def add_array(self, name: str, axes: tuple[str, ...], faces: frozenset[str], array: Any) -> None:
        """Adds an array over the whole of its axes; beyond walls it is mirrored, on periodic axes it repeats."""
        array = jnp.asarray(array)

        def entries(start: tuple[int, ...], stop: tuple[int, ...]) -> list[np.ndarray | None]:
            ranges = zip(axes, start, stop, strict=True)
            return [
                None if axis == self.grid.time_name else self._mirrored(axis, axis in faces, *r) for axis, *r in ranges
            ]

        def build(start: tuple[int, ...], stop: tuple[int, ...]) -> Any:
            result = array
            for position, index in enumerate(entries(start, stop)):
                if index is not None:
                    result = taken(result, index, position)
                elif position == 0:
                    result = result[start[position] : stop[position]]
            return result

        self.profiles[name] = Profile(axes, build, entries)

    @property
    def repeats(self) -> dict[str, tuple[np.ndarray | None, ...]]:
        """Of the labelled arrays that hold entries more than once, beyond ends: which entry each is, axis by axis."""
        found = {name: profile.repeats for name, profile in self.profiles.items()}
        return {name: one for name, one in found.items() if one is not None}

    def _mirrored(self, axis: str, face: bool, start: int, stop: int) -> np.ndarray:
        owner, index = self.grid.space_axis(axis), np.arange(start, stop)
        size = owner.size(face)
        if owner.periodic:
            return index % size
        if owner.shift(face):
            index = np.where(index < 0, -1 - index, index)
            return np.where(index >= size, 2 * size - 1 - index, index)
        return np.where((index := np.abs(index)) >= size, 2 * (size - 1) - index, index)

    def find(self, read: ProfileRead) -> Profile:
        """The profile an operand names; coordinates, spacings and weights are made when first asked for."""
        if read.name not in self.profiles:
            self.profiles[read.name] = Profile(read.axes, self._geometry(read.name))
        return self.profiles[read.name]

    def _geometry(self, name: str) -> Builder:
        kind, axis, *rest = name.split(" ")
        face = bool(rest) and rest[0] == "face"
        owner = self.grid.space_axis(axis)

        def build(start: tuple[int, ...], stop: tuple[int, ...]) -> Any:
            if kind == "coordinate" and "around" in rest:  # of the point on the axis that stands there
                values = owner.positions(face, 0, owner.size(face))[np.arange(start[0], stop[0]) % owner.size(face)]
            elif kind == "coordinate":
                values = owner.positions(face, start[0], stop[0])
            elif kind == "spacing":
                values = owner.spacings(face, start[0], stop[0])
            elif kind == "measure":
                ends = [part for part in rest if part.startswith("mirrored-")]
                measure = " ".join(rest[int(face) + len(ends) :])
                mirrored = "mirrored-lower" in ends, "mirrored-upper" in ends
                values = owner.measure(measure, face, start[0], stop[0], mirrored)
            else:
                derivative, offsets, index = rest[-3:]
                reach = [float(part) for part in offsets.split(",")]
                values = _stretched_weights(owner, face, start[0], stop[0], int(derivative), reach)[:, int(index)]
            return jnp.asarray(values, self.real)

        return build


def taken(array: Any, index: np.ndarray, axis: int) -> Any:
    """The entries of an array along an axis, cut out run by run: slices, unlike a gather, are cheap to transpose."""
    if np.array_equal(index, np.arange(array.shape[axis])):
        return array
    runs = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
    if len(runs) > MAX_PARTS:
        return jnp.take(array, index, axis=axis)
    parts = [lax.slice_in_dim(array, int(run[0]), int(run[-1]) + 1, axis=axis) for run in runs]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=axis)


def _stretched_weights(
    owner: Any, face: bool, start: int, stop: int, derivative: int, offsets: list[float]
) -> np.ndarray:
    """Weights of a finite difference at each entity, from the positions of its neighbours."""
    here = owner.positions(face, start, stop)
    columns = []
    for offset in offsets:
        halves = owner.shift(face) + round(2 * offset)
        other = owner.shift(True) == halves % 2
        moved = (halves - owner.shift(other)) // 2
        columns.append(owner.positions(other, start + moved, stop + moved))
    neighbours = np.stack(columns, axis=-1) - here[:, None]
    return np.stack([finite_difference_weights(derivative, row) for row in neighbours])


@dataclass(frozen=True)
class Extent:
    """Where a run-time array starts: its first entry is that of the entity `origin` on each axis."""

    name: str
    axes: tuple[str, ...]
    origin: tuple[int, ...]


def check_covers(name: str, axes: tuple[str, ...], shape: tuple[int, ...], grid: Grid, faces: frozenset[str]) -> None:
    """Refuses an array whose shape is not that of the axes it is labelled by."""
    layout = Layout(grid, faces)
    by_name = dict(zip(layout.names, layout.shape, strict=True))
    for axis in axes:
        if axis not in by_name:
            raise PlanningError(
                f"The {name} is labelled by axis `{axis}`; the axes are {', '.join(grid.names)}. Name one of these."
            )
    wanted = tuple(by_name[axis] for axis in axes)
    if tuple(shape) != wanted:
        raise PlanningError(
            f"The {name} has shape {tuple(shape)} along ({', '.join(axes)}), and the grid has {wanted} points there. "
            f"Give it that shape{_or_faces(axes, tuple(shape), wanted, layout)}."
        )


def _or_faces(axes: tuple[str, ...], shape: tuple[int, ...], points: tuple[int, ...], layout: Layout) -> str:
    """The words that put an array on faces, where it has as many entries as there are of these."""
    moved = [axis for axis, size, number in zip(axes, shape, points, strict=True) if size != number]
    if not set(moved) <= set(layout.space) - layout.faces:
        return ""
    there = Layout(layout.grid, layout.faces | set(moved))
    if shape != tuple(dict(zip(there.names, there.shape, strict=True))[axis] for axis in axes):
        return ""
    labels, places = ", ".join(f'"{axis}"' for axis in axes), ", ".join(f'{axis}="face"' for axis in moved)
    return f", or say that it lies on faces: fd.along(array, {labels}, at=dict({places}))"

"""What is kept of a saved level: parts of fields, and means, integrals and extremes along axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..grid import Axis, Grid
from ..region import Box, Layout, Points
from ..stencil import Scope
from ._save import AbstractSave, Derived, plan_saves


@dataclass(frozen=True)
class Cut:
    """Every `step`-th of the points start … stop − 1 along an axis; `drop`: one of them, without the axis."""

    axis: str
    start: int
    stop: int
    step: int = 1
    drop: bool = False


@dataclass(frozen=True)
class Reduction:
    """A `kind` ("mean", "integral", "max", "min") along axes, with the volumes of cells as weights, outside holes."""

    kind: str
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """What is kept of a field at a saved level: done in turn. `shape` is that of what is kept."""

    name: str
    steps: tuple[Cut | Reduction, ...]
    shape: tuple[int, ...]
    axes: tuple[str, ...]

    @property
    def weighted(self) -> bool:
        """Whether the volumes of the cells are needed."""
        return any(isinstance(one, Reduction) for one in self.steps)

    def kept(self, sizes: Mapping[str, int]) -> dict[str, range]:
        """The points that are left along each axis, of so many, but for axes of reductions; of a dropped axis one."""
        found = {axis: range(size) for axis, size in sizes.items()}
        for one in self.steps:
            if isinstance(one, Cut):
                found[one.axis] = found[one.axis][one.start : one.stop : one.step]
            else:
                found = {axis: points for axis, points in found.items() if axis not in one.axes}
        return found


@dataclass(frozen=True)
class Showing:
    """What is kept of each saved level, by field; `averaged`: as means over the levels since the last save."""

    fields: tuple[Shown, ...]
    averaged: bool = False

    def of(self, name: str) -> Shown:
        """That of a field."""
        return next(one for one in self.fields if one.name == name)


def length_key(name: str, axis: str) -> str:
    """The operand that holds what an axis contributes to the volumes of a field's cells."""
    return f"lengths of {name} along {axis}"


def inside_key(name: str) -> str:
    """The operand that says which points of a field are outside holes; there is none without holes."""
    return f"points of {name}"


def plan_showing(save: AbstractSave | None, scope: Scope, names: Sequence[str]) -> Any:
    """What the steps of a save mean for each field; None where fields are kept as they are."""
    if not isinstance(save, Derived):
        return None
    kept = tuple(names)
    grid, averaged = scope.grid, any(kind == "averaged" for kind, _ in save.asked)
    if averaged and grid.time is not None and plan_saves(save, grid.time).interpolates:
        raise DeclarationError("save=….averaged() takes means over whole levels: give times of levels to fd.at(...).")
    for kind, given in save.asked:
        if kind == "only":
            unknown = [name for name in given if name not in names]
            if unknown:
                raise DeclarationError(
                    f"save=….only({unknown[0]!r}): there is no such field; there are {', '.join(names)}."
                )
            kept = tuple(name for name in kept if name in given)
    for name in kept:
        order = next((kind for kind, _ in save.asked if kind in ("max", "min")), None)
        if order is not None and jnp.issubdtype(scope.dtypes[name], jnp.complexfloating):
            raise DeclarationError(
                f"save=….{order}: `{name}` is complex, and complex numbers have no order. Keep its levels and take the "
                f"{order} of their size; or leave it out, save=….only(...)."
            )
    return Showing(tuple(_shown(save, grid, scope.layouts[name], name) for name in kept), averaged)


def _shown(save: Derived, grid: Grid, layout: Layout, name: str) -> Shown:
    axes, ranges = list(layout.space), {a: range(n) for a, n in zip(layout.space, layout.space_shape, strict=True)}
    steps: list[Cut | Reduction] = []
    for kind, given in save.asked:
        if kind in ("isel", "sel"):
            for axis, value in given:
                cut = _cut(grid, layout, name, kind, axis, value, axes, ranges)
                steps.append(cut)
                ranges[axis] = ranges[axis][cut.start : cut.stop : cut.step]
                if cut.drop:
                    axes.remove(axis)
        elif kind in ("mean", "integral", "max", "min"):
            along = tuple(given) or tuple(axes)
            for axis in along:
                if axis not in axes:
                    raise DeclarationError(f"save=….{kind}({axis!r}): what is left of `{name}` has {_axes(axes)}.")
                axes.remove(axis)
            steps.append(Reduction(kind, along))
    return Shown(name, tuple(steps), tuple(len(ranges[axis]) for axis in axes), tuple(axes))


def _axes(axes: Sequence[str]) -> str:
    return f"the axes {', '.join(axes)}" if axes else "no axes"


def _cut(
    grid: Grid, layout: Layout, name: str, kind: str, axis: str, value: Any, axes: list[str], ranges: dict[str, range]
) -> Cut:
    if axis not in axes:
        raise DeclarationError(f"save=….{kind}({axis}=...): what is left of `{name}` has {_axes(axes)}.")
    size = len(ranges[axis])
    if kind == "sel":
        if len(ranges[axis]) != grid.space_axis(axis).size(axis in layout.faces):
            raise DeclarationError(f"save=….sel({axis}=...) comes before other cuts along `{axis}`.")
        value = _to_index(grid.space_axis(axis), axis in layout.faces, value)
    if isinstance(value, slice):
        if isinstance(value.step, int | np.integer) and value.step < 1:
            raise DeclarationError(
                f"save=….{kind}({axis}={value}) goes by steps of {value.step}; take 1 or more, and turn axes round "
                f"afterwards."
            )
        start, stop, step = value.indices(size)
        if stop <= start:
            raise DeclarationError(f"save=….{kind}({axis}={value}) of `{name}` keeps no point of {size}.")
        return Cut(axis, start, stop, step)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DeclarationError(f"save=….{kind}({axis}=...) takes an index or a slice, got {value!r}.")
    index = int(value) + size if value < 0 else int(value)
    if not 0 <= index < size:
        raise DeclarationError(f"save=….{kind}({axis}={value}) is outside the {size} points of `{name}`.")
    return Cut(axis, index, index + 1, 1, True)


def _to_index(owner: Axis, face: bool, value: Any) -> Any:
    if not isinstance(value, slice):
        return owner.index_of(value, face)
    if value.step is not None and (isinstance(value.step, bool) or not isinstance(value.step, int)):
        raise DeclarationError(f"save=….sel takes slices of coordinates with a whole step, got {value.step!r}.")
    return slice(*owner.indices_between(value.start, value.stop, face), value.step)


def weights_of(
    showing: Any, grid: Grid, layouts: dict[str, Layout], holes: dict[str, Points], real: Any
) -> dict[str, np.ndarray]:
    """The operands that reductions need: lengths by axis, and what lies outside holes of fixed shape."""
    found = {}
    for one in showing.fields if showing is not None else ():
        if not one.weighted:
            continue
        layout = layouts[one.name]
        for axis in grid.space:
            found[length_key(one.name, axis)] = grid.lengths(axis, axis in layout.faces).astype(real)
        if not holes[one.name].empty:
            found[inside_key(one.name)] = ~holes[one.name].to_mask(Box.of_shape(layout.space_shape))
    return found


def bytes_of(showing: Any, arrays: Any) -> int:
    """Bytes of a saved level."""
    if showing is None:
        return sum(prod(one.shape) * np.dtype(one.dtype).itemsize for one in arrays)
    sizes = {one.name: np.dtype(one.dtype).itemsize for one in arrays}
    return sum(prod(one.shape) * sizes[one.name] for one in showing.fields)

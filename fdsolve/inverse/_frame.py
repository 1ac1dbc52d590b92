"""What is known of a parameter's axes: by names, a grid, spacings, or labels of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..grid import Axis, Grid, Time, in_axis_units
from ..units import is_quantity, to_name, units_of
from ._lines import Line, Lines


@dataclass(frozen=True, eq=False)
class Labels:
    """What a parameter says of itself, where it does: its axes in their order, its coordinates by axis, its units."""

    dims: tuple[str, ...] = ()
    coords: Mapping[str, Any] = field(default_factory=dict)
    units: str | None = None

    @classmethod
    def of(cls, value: Any) -> "Labels":
        """Those of a labelled array or a quantity; none of anything else."""
        if isinstance(value, xr.DataArray):
            coords = {str(name): one.variable for name, one in value.coords.items()}
            return cls(tuple(map(str, value.dims)), coords, units_of(value))
        return cls(units=to_name(value.unit)) if is_quantity(value) else cls()


@dataclass(frozen=True, eq=False)
class Frame:
    """What was said of a parameter's axes: `what` begins messages."""

    what: str
    axes: tuple[str, ...] | None
    grid: Grid | None
    spacing: dict[str, float] | float | None
    labels: Labels | None = None

    def beside(self, parameter: Any) -> "Frame":
        """With what a parameter says of itself, unless that is known."""
        return self if self.labels is not None else replace(self, labels=Labels.of(parameter))

    def lines(self, shape: tuple[int, ...]) -> tuple[Lines, tuple[int, ...]]:
        """The axes of an array of a shape, and those along which slopes count."""
        names = self._names(shape)
        lines = tuple(self._line(name, num) for name, num in zip(names, shape, strict=True))
        if self.axes is None:
            return Lines(lines), tuple(range(len(shape)))
        unknown = [name for name in self.axes if name not in names]
        if unknown:
            raise DeclarationError(
                f"{self.what}: axes= names `{unknown[0]}`, and the axes are {', '.join(map(str, names))}."
            )
        return Lines(lines), tuple(names.index(name) for name in self.axes)

    def in_place(self, values: Any, shape: tuple[int, ...]) -> Any:
        """A labelled array in the order of an array's axes and of its places along them; anything else as it is.

        Raises: DeclarationError where the places differ.
        """
        if not isinstance(values, xr.DataArray):
            return values
        names, dims = self._names(shape), tuple(map(str, values.dims))
        along = tuple(self._axis_of(dim) for dim in dims)
        for dim, name in zip(dims, along, strict=True):
            if dim in values.coords and name in names:
                places = self._places(name, shape[names.index(name)])
                values = values.isel({dim: self._order(name, self._along(name, values.coords[dim]), places)})
        moved = set(along) == set(names)
        return values.transpose(*(dims[along.index(name)] for name in names)).data if moved else values.data

    def _names(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        ndim = len(shape)
        if len(self._own) == ndim > 0:
            return self._own
        if self.grid is not None:
            known = self._on_grid(self.grid, shape)
        elif isinstance(self.spacing, dict):
            whole = len(self.spacing) == ndim and set(self.axes or ()) <= set(self.spacing)
            known = tuple(self.spacing) if whole else self.axes
        else:
            known = tuple(range(ndim)) if self.axes is None else self.axes
        if known is None or len(known) != ndim:
            raise DeclarationError(
                f"{self.what}: the parameter has {ndim} axes; give as many by name, in their order: a grid of so many "
                f"space axes, spacing=dict(x=0.1, ...) or axes=('x', ...). Got {known}."
            )
        return known

    def _on_grid(self, grid: Grid, shape: tuple[int, ...]) -> tuple[str, ...]:
        """All axes of space, those that are named in their order, or all of the grid: the first of these that has the
        named ones and fits. Else those in the order of the grid that do, if sizes leave no choice."""
        named, ndim = self.axes or (), len(shape)
        likely = [names for names in (grid.space, named, grid.names) if len(names) == ndim and {*named} <= {*names}]
        fitting = [names for names in likely if _fits(grid, names, shape)]
        if named and not fitting:
            among = [names for names in combinations(grid.names, ndim) if {*named} <= {*names}]
            fitting = [names for names in among if _fits(grid, names, shape)]
            if len(fitting) > 1:
                known = " or ".join(f"along {', '.join(names)}" for names in fitting)
                raise DeclarationError(
                    f"{self.what}: axes= names {', '.join(named)}, and the {' × '.join(map(str, shape))} values of the "
                    f"parameter may lie {known}. Give the parameter as a DataArray with the names of its dimensions."
                )
        return (*fitting, *likely, named or grid.space)[0]

    @property
    def _own(self) -> tuple[str, ...]:
        """The axes of a labelled parameter, if all of them are known."""
        own = tuple(self._axis_of(dim) for dim in (self.labels or Labels()).dims)
        if self.grid is not None:
            known = set(own) <= set(self.grid.names)
        else:
            known = set(own) <= set(self.spacing) if isinstance(self.spacing, dict) else True
        return own if known and len(set(own)) == len(own) else ()

    def _axis_of(self, dim: str) -> str:
        """The axis that a dimension lies along: `x_face` is that of the faces of `x`, as Datasets have it."""
        name = dim.removesuffix("_face")
        return name if self.grid is not None and dim not in self.grid and name in self.grid.space else dim

    def _on_faces(self, name: str, num: int, axis: Axis) -> bool:
        """Whether a parameter of so many values along an axis lies on its faces."""
        own = (self.labels or Labels()).dims
        return num != axis.num or (bool(self._own) and any(self._axis_of(dim) == name != dim for dim in own))

    def _line(self, name: Any, num: int) -> Line:
        if self.grid is not None:
            return self._from_axis(name, num, self.grid[name])
        step = self.spacing.get(name) if isinstance(self.spacing, dict) else self.spacing
        if isinstance(self.spacing, dict) and step is None:
            raise DeclarationError(f"{self.what}: spacing= has no axis `{name}`; it has {', '.join(self.spacing)}.")
        step = 1.0 if step is None else float(step)
        return Line(np.full(num - 1, step), np.full(num, step), (step / 2, step / 2), False)

    def _from_axis(self, name: str, num: int, axis: Axis | Time) -> Line:
        if num not in _sizes(axis):
            others = [] if self.grid is None else [one for one in self.grid.names if one != name]
            advice = f" Where it has other axes, name them in their order: axes=('{others[0]}',)." if others else ""
            raise DeclarationError(
                f"{self.what}: the parameter has {num} points along `{name}`, where the grid has {_sizes_text(axis)}."
                f"{advice}"
            )
        if isinstance(axis, Time):
            widths = np.full(num, axis.step)
            if num == axis.num:
                widths[[0, -1]] /= 2
            return Line(np.full(num - 1, axis.step), widths, (widths[0] - axis.step / 2,) * 2, False)
        face = self._on_faces(name, num, axis)
        points = axis.positions(face, 0, num + 1 if axis.periodic else num)
        ends = axis.ends(face)
        beyond = float(points[0] - ends[0]), float(ends[-1] - points[num - 1])
        return Line(np.diff(points), np.diff(ends), beyond, axis.periodic)

    def _places(self, name: str, num: int) -> list[np.ndarray]:
        """Where the values along an axis may lie; nothing where that is not known."""
        labels = self.labels or Labels()
        own = [labels.coords[dim] for dim in labels.dims if self._axis_of(dim) == name and dim in labels.coords]
        if own and own[0].shape == (num,):
            return [self._along(name, own[0])]
        return places_on(self.grid[name], num) if self.grid is not None else []

    def _along(self, name: str, coordinate: Any) -> np.ndarray:
        """The values of a coordinate: in the units of its axis where that is known."""
        if self.grid is None or name not in self.grid:
            return np.asarray(coordinate.values)
        return in_axis_units(coordinate, self.grid[name], name, self.what)

    def _order(self, name: str, given: np.ndarray, places: list[np.ndarray]) -> np.ndarray:
        """Which of the given places are those of the parameter, one after the other."""
        if not places:
            return np.arange(len(given))
        if (order := order_of(given, places)) is not None:
            return order
        raise DeclarationError(
            f"{self.what}: prior= lies at other places along `{name}` than the parameter, from {given[0]} to "
            f"{given[-1]} and from {places[0][0]} to {places[0][-1]}. Bring it there: prior.interp({name}=...)."
        )


def places_on(axis: Axis | Time, num: int) -> list[np.ndarray]:
    """Where so many values along an axis may lie; nothing where it has another number of places."""
    if num not in _sizes(axis):
        return []
    if isinstance(axis, Time):
        levels, first = [axis.points, *([axis.datetimes()] if axis.since is not None else [])], axis.num - num
        return [one[first:] for one in levels]
    faces = (False, True) if axis.periodic else (num != axis.num,)
    return [axis.positions(face, 0, num) for face in faces]


def order_of(given: np.ndarray, places: Sequence[np.ndarray]) -> np.ndarray | None:
    """The order in which the given places are those of the first that they can be; None where they are others."""
    for wanted in places:
        order = np.argsort(given)[np.argsort(np.argsort(wanted))] if given.shape == wanted.shape else None
        if order is not None and _same(given[order], wanted):
            return order
    return None


def _sizes(axis: Axis | Time) -> tuple[int, int]:
    """How many values a parameter along an axis may have: at points, or faces; at all levels, or those after the
    first."""
    return (axis.num, axis.num - 1) if isinstance(axis, Time) else (axis.num, axis.size(True))


def _sizes_text(axis: Axis | Time) -> str:
    if isinstance(axis, Time):
        return f"{axis.num} levels, {axis.num - 1} after the first"
    return f"{axis.num} points" + (
        "" if axis.periodic else f" and {axis.size(True)} {'faces' if axis.cells else 'midpoints'}"
    )


def _fits(grid: Grid, names: tuple[str, ...], shape: tuple[int, ...]) -> bool:
    return all(num in _sizes(grid[name]) for name, num in zip(names, shape, strict=True))


def _same(given: np.ndarray, wanted: np.ndarray) -> bool:
    if not (np.issubdtype(given.dtype, np.number) and np.issubdtype(wanted.dtype, np.number)):
        return bool(np.array_equal(given, wanted))
    return bool(np.allclose(given, wanted, rtol=1e-6, atol=1e-6 * float(np.ptp(wanted)) / max(wanted.size, 1)))


def to_frame(what: str, axes: Any, grid: Any, spacing: Any) -> Frame:
    """The frame, checked as far as it can be without the parameter."""
    if grid is not None and spacing is not None:
        raise DeclarationError(f"{what}: give grid= or spacing=, not both.")
    if grid is not None and not isinstance(grid, Grid):
        raise DeclarationError(f"{what}: grid= takes a fd.Grid, got {type(grid).__name__}.")
    names = (axes,) if isinstance(axes, str) else axes if axes is None else _to_names(what, axes)
    if grid is not None:
        for name in names or ():
            grid[name]
    steps = list(spacing.values()) if isinstance(spacing, dict) else [] if spacing is None else [spacing]
    if not all(is_positive(step) for step in steps):
        raise DeclarationError(f"{what}: spacing= takes positive distances, dict(x=0.1, y=0.1), got {spacing!r}.")
    return Frame(what, names, grid, spacing)


def _to_names(what: str, axes: Any) -> tuple[str, ...]:
    if not isinstance(axes, list | tuple) or not all(isinstance(name, str) for name in axes):
        raise DeclarationError(f"{what}: axes= takes names of axes, 'x' or ('x', 'y'), got {axes!r}.")
    if not axes:
        raise DeclarationError(f"{what}: axes= names none. Leave it out, and all of them count.")
    twice = [name for name in axes if axes.count(name) > 1]
    if twice:
        raise DeclarationError(f"{what}: axes= names `{twice[0]}` twice. Name each axis once.")
    return tuple(axes)


def is_positive(value: Any) -> bool:
    """Whether a value is a finite number above 0, without a unit."""
    if isinstance(value, bool | str) or is_quantity(value) or np.ndim(value):
        return False
    try:
        return 0 < float(value) < np.inf
    except (TypeError, ValueError):
        return False

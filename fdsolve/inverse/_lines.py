"""The axes of a parameter, for integrals of its slopes."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..grid import Axis, Grid


@dataclass(frozen=True, eq=False)
class Line:
    """One axis: distances to the next point, (num − 1,) or (num,) if periodic, and widths of points, (num,)."""

    distances: np.ndarray
    widths: np.ndarray
    periodic: bool


@dataclass(frozen=True, eq=False)
class Lines:
    """All axes of an array."""

    each: tuple[Line, ...]

    def volumes(self, between: int | None) -> np.ndarray:
        """Volumes around the points, or around the middles between them along one axis."""
        result = np.ones(())
        for axis, line in enumerate(self.each):
            result = np.multiply.outer(result, line.distances if axis == between else line.widths)
        return result

    def slope(self, array: jax.Array, axis: int) -> jax.Array:
        """(mᵢ₊₁ − mᵢ)/Δ along an axis, at the middles."""
        line = self.each[axis]
        rise = jnp.roll(array, -1, axis) - array if line.periodic else jnp.diff(array, axis=axis)
        return rise / self._column(line.distances, axis, array)

    def change_of_slope(self, slope: jax.Array, axis: int) -> jax.Array:
        """The second derivative at the points that have two neighbours."""
        line = self.each[axis]
        if line.periodic:
            return (slope - jnp.roll(slope, 1, axis)) / self._column(line.widths, axis, slope)
        return jnp.diff(slope, axis=axis) / self._column(line.widths[1:-1], axis, slope)

    def inner(self, volumes: np.ndarray, axis: int) -> np.ndarray:
        """The volumes of the points that have two neighbours along an axis."""
        return volumes if self.each[axis].periodic else np.take(volumes, range(1, volumes.shape[axis] - 1), axis)

    def _column(self, values: np.ndarray, axis: int, like: jax.Array) -> jax.Array:
        return jnp.asarray(values.reshape([-1 if k == axis else 1 for k in range(len(self.each))]), like.dtype)


@dataclass(frozen=True, eq=False)
class Frame:
    """What was said of a parameter's axes: `what` begins messages."""

    what: str
    axes: tuple[str, ...] | None
    grid: Grid | None
    spacing: dict[str, float] | float | None
    dims: tuple[str, ...] = ()
    """The axes of a labelled parameter, in its order."""

    def lines(self, shape: tuple[int, ...]) -> tuple[Lines, tuple[int, ...]]:
        """The axes of an array of a shape, and those along which slopes count."""
        names = self._names(len(shape))
        lines = tuple(self._line(name, num) for name, num in zip(names, shape, strict=True))
        if self.axes is None:
            return Lines(lines), tuple(range(len(shape)))
        unknown = [name for name in self.axes if name not in names]
        if unknown:
            raise DeclarationError(
                f"{self.what}: axes= names `{unknown[0]}`, and the axes are {', '.join(map(str, names))}."
            )
        return Lines(lines), tuple(names.index(name) for name in self.axes)

    def _names(self, ndim: int) -> tuple[Any, ...]:
        known: tuple[Any, ...] | None = None
        if len(self.dims) == ndim > 0 and self._names_all(self.dims):
            return self.dims
        if self.grid is not None:
            known = self.grid.space
        elif isinstance(self.spacing, dict):
            known = tuple(self.spacing)
        if known is None or len(known) != ndim:
            known = self.axes if self.axes is not None or known is not None else tuple(range(ndim))
        if known is None or len(known) != ndim:
            raise DeclarationError(
                f"{self.what}: the parameter has {ndim} axes; give as many by name, in their order: a grid of so many "
                f"space axes, spacing=dict(x=0.1, ...) or axes=('x', ...). Got {known}."
            )
        return known

    def arranged(self, values: Any, ndim: int) -> Any:
        """A labelled array in the order of the parameter's axes; anything else as it is."""
        if not isinstance(values, xr.DataArray):
            return values
        names = self._names(ndim)
        return (values.transpose(*names) if set(values.dims) == set(names) else values).values

    def _names_all(self, dims: tuple[str, ...]) -> bool:
        """Whether the frame knows all axes of a labelled parameter."""
        if self.grid is not None:
            return set(dims) <= {*self.grid.space, self.grid.time_name}
        return set(dims) <= set(self.spacing) if isinstance(self.spacing, dict) else True

    def _line(self, name: Any, num: int) -> Line:
        if self.grid is not None:
            return self._from_axis(name, num, self.grid[name])
        step = self.spacing.get(name) if isinstance(self.spacing, dict) else self.spacing
        if isinstance(self.spacing, dict) and step is None:
            raise DeclarationError(f"{self.what}: spacing= has no axis `{name}`; it has {', '.join(self.spacing)}.")
        step = 1.0 if step is None else float(step)
        return Line(np.full(num - 1, step), np.full(num, step), False)

    def _from_axis(self, name: str, num: int, axis: Any) -> Line:
        if not isinstance(axis, Axis):  # a parameter along time
            return Line(np.full(axis.num - 1, axis.step), _widths(axis.points), False)
        face = num != axis.num
        if num != axis.size(face):
            raise DeclarationError(
                f"{self.what}: the parameter has {num} points along `{name}`, where the grid has {axis.num}."
            )
        points = axis.positions(face, 0, num)
        if axis.periodic:
            distances = np.diff(axis.positions(face, 0, num + 1))
            return Line(distances, (distances + np.roll(distances, 1)) / 2, True)
        return Line(np.diff(points), np.full(num, axis.step) if axis.cells and axis.uniform else _widths(points), False)


def _widths(points: np.ndarray) -> np.ndarray:
    """What of the line is nearest to each point, (num,)."""
    ends = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])
    return np.diff(ends) if points.size > 1 else np.ones(1)


def to_frame(what: str, axes: Any, grid: Any, spacing: Any) -> Frame:
    """The frame, checked as far as it can be without the parameter."""
    if grid is not None and spacing is not None:
        raise DeclarationError(f"{what}: give grid= or spacing=, not both.")
    if grid is not None and not isinstance(grid, Grid):
        raise DeclarationError(f"{what}: grid= takes a fd.Grid, got {type(grid).__name__}.")
    names = (axes,) if isinstance(axes, str) else None if axes is None else tuple(axes)
    if grid is not None:
        for name in names or ():
            grid[name]
    steps = list(spacing.values()) if isinstance(spacing, dict) else [] if spacing is None else [spacing]
    if any(isinstance(step, bool | str) or np.ndim(step) or not step > 0 for step in steps):
        raise DeclarationError(f"{what}: spacing= takes positive distances, dict(x=0.1, y=0.1), got {spacing!r}.")
    return Frame(what, names, grid, spacing)

"""Named axes together."""

import keyword
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from ..errors import DeclarationError
from ..pictures import code, page, table
from ._axis import Axis
from ._metric import METRICS, check_metrics, half_way
from ._time import Time


@dataclass(frozen=True, init=False, repr=False)
class Grid:
    """Named axes, in the order of declaration and so of array dimensions; a `Time`, if any, comes first.

    An axis is reached as `grid.x` or `grid["x"]`. Grids of equal axes in equal order are equal, and hash.

    Raises: DeclarationError, for a name that cannot serve in rules, and for a Time that is not first.

    >>> y = Axis.from_points([0.0, 0.1, 0.3], units="m")
    >>> grid = Grid(t=Time(0.0, 0.5, num=11), x=Axis(0.0, 2.0, num=51), y=y)
    >>> grid
    Grid 11 × 51 × 3
    ├── t: Time(0.0, 0.5, num=11), step 0.05
    ├── x: Axis(0.0, 2.0, num=51), step 0.04
    └── y: Axis(0.0, 0.3, num=3, stretched, units="m"), spacing 0.1 to 0.2
    >>> grid.shape, grid.x.step, grid.space
    ((11, 51, 3), 0.04, ('x', 'y'))
    """

    _axes: tuple[tuple[str, Axis | Time], ...]

    def __init__(self, **axes: Any) -> None:
        if not axes:
            raise DeclarationError(
                "A Grid wants at least one axis, got none. Give one by name: `Grid(x=Axis(0, 1, 51))`."
            )
        for name, axis in axes.items():
            _check_name(name, set(axes))
            if not isinstance(axis, Axis | Time):
                message = f"Axis `{name}` of a Grid must be an `Axis` or a `Time`, got {axis!r}."
                raise DeclarationError(f"{message} Write `{name}=Axis(lower, upper, num)`.")
        _check_times([name for name, axis in axes.items() if isinstance(axis, Time)], next(iter(axes)))
        check_metrics({name: axis for name, axis in axes.items() if isinstance(axis, Axis)})
        object.__setattr__(self, "_axes", tuple(axes.items()))

    @property
    def axes(self) -> dict[str, Axis | Time]:
        """Every axis by name, in order; a copy."""
        return dict(self._axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all axes, in order."""
        return tuple(name for name, _ in self._axes)

    @property
    def space(self) -> tuple[str, ...]:
        """The names of the axes other than time, in order."""
        return tuple(name for name, axis in self._axes if isinstance(axis, Axis))

    @property
    def time_name(self) -> str | None:
        """The name of the time axis, or None."""
        name, axis = self._axes[0]
        return name if isinstance(axis, Time) else None

    @property
    def time(self) -> Time | None:
        """The time axis, or None."""
        axis = self._axes[0][1]
        return axis if isinstance(axis, Time) else None

    def space_axis(self, name: str) -> Axis:
        """The space axis of a name that is known to be one."""
        axis = self.axes[name]
        assert isinstance(axis, Axis)
        return axis

    def volumes(self, faces: Collection[str] = ()) -> Float64[np.ndarray, "*space"]:
        """The volume of the cell around each point, over the space axes: ∏ ∫f dq of the coordinates' metrics.

        On the axes named in `faces`, that around each face. Cells end half-way to the next point and at the walls.
        Missing angles count as one radian (a missing azimuth and colatitude: as one of the solid angle), missing
        lengths as one unit.

        >>> float(Grid(r=Axis(0.0, 1.0, num=8, cells=True, metric="radius")).volumes().sum())
        0.5
        """
        result = np.ones(())
        for name in self.space:
            result = np.multiply.outer(result, self.lengths(name, name in faces))
        return result

    def lengths(self, name: str, face: bool = False) -> Float64[np.ndarray, " num"]:
        """What an axis contributes to the volumes around its points, or faces: ∫f dq over each cell."""
        axis = self.space_axis(name)
        ends = half_way(axis, face, 0, axis.size(face))
        ends = ends if axis.periodic else np.clip(ends, axis.lower, axis.upper)
        metric = METRICS.get(axis.metric or "")
        return np.diff(metric.content(ends) if metric is not None else ends)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many points each axis has, in order."""
        return tuple(axis.num for _, axis in self._axes)

    @property
    def ndim(self) -> int:
        """How many axes there are, time included."""
        return len(self._axes)

    # Any, not Axis | Time: which of the two a name stands for no type checker can know.
    def __getitem__(self, name: Any) -> Any:
        axes = self.axes
        if not isinstance(name, str) or name not in axes:
            known = ", ".join(f"`{known}`" for known in axes)
            shown = f"`{name}`" if isinstance(name, str) else repr(name)
            raise UnknownAxisError(f"This Grid has no axis {shown}; its axes are {known}. Call an axis by its name.")
        return axes[name]

    def __getattr__(self, name: str) -> Any:
        if "_axes" not in vars(self):  # copy and pickle ask before there are axes to look in
            raise AttributeError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self.axes

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.names]

    def __repr__(self) -> str:
        lines = ["Grid " + " × ".join(str(num) for num in self.shape)]
        for name, axis in self._axes:
            branch = "└──" if name == self.names[-1] else "├──"
            lines.append(f"{branch} {name}: {axis!r}, {_step_text(axis)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [_row(name, axis) for name, axis in self._axes]
        title = "Grid " + " × ".join(str(num) for num in self.shape)
        return page(title, table(rows, ("axis", "points", "range", "step", "units", "kind")))


def _row(name: str, axis: Axis | Time) -> tuple[object, ...]:
    """An axis in a notebook: name, points, ends, spacing, unit, kind."""
    if isinstance(axis, Time):
        ends, kind = (axis.start, axis.stop), "time" + (f" since {axis.since}" if axis.since is not None else "")
    else:
        marks = {"periodic": axis.periodic, "cells": axis.cells, "stretched": not axis.uniform}
        ends = (axis.lower, axis.upper)
        kind = ", ".join(filter(None, [*(mark for mark, holds in marks.items() if holds), axis.metric])) or "nodes"
    return code(name), axis.num, f"{ends[0]:g} … {ends[1]:g}", _step_text(axis).split(" ", 1)[1], axis.units or "", kind


class UnknownAxisError(DeclarationError, AttributeError):
    """A name that no axis has; an AttributeError too, as `hasattr` and `copy` expect of `grid.name`."""


_RESERVED = frozenset(name for name in vars(Grid) if not name.startswith("_"))


def _check_name(name: str, names: set[str]) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        message = f"The name of an axis must be a Python name that does not begin with `_`, got {name!r}."
        raise DeclarationError(f"{message} Rules take it as an argument: choose one like `x` or `depth`.")
    if name in _RESERVED:
        taken = ", ".join(sorted(_RESERVED))
        message = f"The name of an axis must not be one that a Grid uses itself ({taken}), got `{name}`."
        raise DeclarationError(f"{message} Choose another.")
    if name[0] == "d" and name[1:] in names:
        message = f"Axis `{name}` has the name that rules give to the spacing of axis `{name[1:]}`."
        raise DeclarationError(f"{message} Rename one of the two.")


def _check_times(times: list[str], first: str) -> None:
    if len(times) > 1:
        message = f"A Grid has at most one Time, got {len(times)}: {', '.join(f'`{name}`' for name in times)}."
        raise DeclarationError(f"{message} Make the others an `Axis`.")
    if times and times[0] != first:
        message = f"The Time of a Grid is declared first, got `{times[0]}` after `{first}`."
        raise DeclarationError(f"{message} Write `Grid({times[0]}=Time(...), {first}=...)`.")


def _step_text(axis: Axis | Time) -> str:
    if isinstance(axis, Time) or axis.uniform:
        return f"step {axis.step:.4g}"
    return f"spacing {axis.spacing.min():.4g} to {axis.spacing.max():.4g}"

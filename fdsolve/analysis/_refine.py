"""A declaration on grids of more points: the same walls, the same regions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..field import Assignment, Field
from ..grid import Axis, Grid, Time

_STENCIL = 8


def refined_grid(grid: Grid, factor: float, power: float) -> Grid:
    """The grid with its spacings divided by `factor`, and its time step by `factor` to a power."""
    axes: dict[str, Any] = {}
    for name, axis in grid.axes.items():
        if isinstance(axis, Time):
            steps = max(1, round((axis.num - 1) * factor**power))
            since = None if axis.since is None else str(axis.since)
            axes[name] = Time(axis.start, axis.stop, num=steps + 1, since=since, units=axis.units)
        else:
            axes[name] = _refined_axis(name, axis, factor)
    return Grid(**axes)


def _refined_axis(name: str, axis: Axis, factor: float) -> Axis:
    intervals = axis.num if axis.cells or axis.periodic else axis.num - 1
    wanted = intervals * factor
    count = round(wanted)
    if count < 2 or abs(count - wanted) > 1e-6 * wanted:
        raise DeclarationError(
            f"fd.manufactured: axis `{name}` has {intervals} intervals, and {factor:g} times as many are no whole "
            f"number."
        )
    options: dict[str, Any] = dict(cells=axis.cells, periodic=axis.periodic, units=axis.units, metric=axis.metric)
    num = count if axis.cells or axis.periodic else count + 1
    if axis.uniform:
        return Axis(axis.lower, axis.upper, num, **options)
    points = _on_mapping(axis, factor, num)
    if axis.periodic:
        options["period"] = axis.length
    return Axis.from_points(points, **options)


def _on_mapping(axis: Axis, factor: float, num: int) -> np.ndarray:
    """Points of a stretched axis at finer indices, on the smooth mapping i ↦ x through the given ones.

    By Lagrange's polynomial through the nearest points: the mapping is as smooth as it needs to be for the order of a
    scheme to show.
    """
    reach = _STENCIL if axis.periodic else 0
    own = np.asarray(axis.positions(False, -reach, axis.num + reach))
    indices = np.arange(-reach, axis.num + reach)
    offset = 0.5 if axis.cells else 0.0
    wanted = (np.arange(num) + offset) / factor - offset
    width = min(_STENCIL, own.size)
    points = []
    for at in wanted:
        first = int(np.clip(np.floor(at) + reach - width // 2 + 1, 0, own.size - width))
        points.append(_lagrange(indices[first : first + width], own[first : first + width], at))
    return np.asarray(points)


def _lagrange(nodes: np.ndarray, values: np.ndarray, at: float) -> float:
    total = 0.0
    for k, node in enumerate(nodes):
        others = np.delete(nodes, k)
        total += values[k] * float(np.prod((at - others) / (node - others)))
    return total


def refined_field(one: Field, grid: Grid, change: Callable[[Assignment], Assignment]) -> Field:
    """The field on another grid: each region found there anew, each assignment changed."""
    fine = Field(one.name, grid, at=one.at, units=one.units, dtype=one.dtype)
    for own in one.assignments:
        what = f"fd.manufactured, on the finer grid: {one.name}{own.region!r}"
        terms = own.region.resolve(fine.layout, what)
        moved = Assignment(own.region, terms, own.rule, own.adds, own.component, own.partners)
        fine.assignments.append(change(moved))
    return fine

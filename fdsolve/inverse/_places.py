"""Where observations lie in the arrays of a solution: indices and shares along each axis."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError
from ..grid import Axis, Grid, in_axis_units
from ..planning import Plan, check_sign
from ..solution import Solution

ON_POINT = 1e-6
"""How far from a point, in steps, a place still lies on it."""


@dataclass(frozen=True, eq=False)
class Along:
    """One dimension of a solution's array: the coordinates of its points; `period` closes it, where values repeat with
    a `sign`; `counted` ones are numbers of receivers, which lie nowhere between. `ends` are how far it is known: to
    walls beyond the middles of cells."""

    name: str
    points: np.ndarray
    period: float | None
    counted: bool = False
    ends: tuple[float, float] | None = None
    step: float = 1.0
    """How far apart points lie where there is one."""
    on_faces: bool = False
    sign: int = 1

    def locate(
        self, values: np.ndarray, what: str, text: Callable[[float], str] = "{:g}".format
    ) -> tuple[np.ndarray, np.ndarray]:
        """The point below each value, counted on from period to period, and the share of the one above; `text` writes
        coordinates in messages.

        Between the last point and a wall the last two are extrapolated: a share is negative, or more than 1.
        """
        points, periods = self.points, np.zeros(values.shape, int)
        if self.period is not None:
            periods = np.floor((values - points[0]) / self.period).astype(int)
            values = points[0] + (values - points[0]) % self.period
            points = np.append(points, points[0] + self.period)
        steps = np.diff(points) if points.size > 1 else np.full(1, self.step)
        low, high = (points[0], points[-1]) if self.ends is None or self.period is not None else self.ends
        slack = ON_POINT * np.array([steps[0], steps[-1]])
        outside = (values < low - slack[0]) | (values > high + slack[1])
        if outside.any():
            hint = "; save those times" if self.name != "receiver" and points.size == 1 else ""
            first, last, wrong = (text(one) for one in (low, high, values[outside][0]))
            raise DeclarationError(
                f"{what}: {int(outside.sum())} observations lie outside axis `{self.name}`, where the solution has "
                f"{first} to {last}{hint}; the first at {wrong}. Leave them out."
            )
        if points.size == 1:
            return np.zeros(values.shape, int), np.zeros(values.shape)
        left = np.clip(np.searchsorted(points, values, side="right") - 1, 0, points.size - 2)
        share = (values - points[left]) / steps[left]
        above = np.abs(share - 1) < ON_POINT
        left, share = np.where(above, left + 1, left), np.where(above | (np.abs(share) < ON_POINT), 0.0, share)
        if self.counted and share.any():
            raise DeclarationError(f"{what}: receivers are counted 0, 1, …; got {values[share != 0][0]:g}.")
        return left + periods * self.points.size, share


@dataclass(frozen=True, eq=False)
class Places:
    """All observations of a field: index and share along each dimension, (num,) each."""

    lines: tuple[Along, ...]
    values: tuple[np.ndarray | None, ...]
    texts: tuple[Callable[[float], str], ...]
    lower: tuple[np.ndarray, ...]
    shares: tuple[np.ndarray, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the solution's array."""
        return tuple(line.points.size for line in self.lines)

    @property
    def has_receivers(self) -> bool:
        return any(line.counted for line in self.lines)

    def _corners(self) -> Any:
        """The points around all places: indices along each dimension, and weights. A point without weight is read
        nowhere: what lies there may be nan."""
        for sides in product(*((0, 1) if share.any() else (0,) for share in self.shares)):
            index, weight = [], np.ones(1)
            for side, lower, share, line in zip(sides, self.lower, self.shares, self.lines, strict=True):
                period, point = np.divmod(lower + side * (share != 0), line.points.size)
                index.append(point)
                weight = weight * (share if side else 1 - share) * np.where(period % 2 == 0, 1, line.sign)
            yield tuple(index), weight

    def sample(self, array: jax.Array) -> jax.Array:
        """The array at the places, (num,)."""
        total = jnp.zeros((), array.dtype)
        for index, weight in self._corners():
            found = array.at[index].get(mode="promise_in_bounds")
            total = total + found * jnp.asarray(weight, array.real.dtype)
        return total

    def touches(self, mask: np.ndarray) -> np.ndarray:
        """Whether a place reads a point of a mask over the last dimensions, (num,)."""
        hit = np.zeros(self.lower[0].shape, bool)
        for index, weight in self._corners():
            hit |= mask[index[len(index) - mask.ndim :]] & (np.broadcast_to(weight, hit.shape) != 0)
        return hit

    def show(self, number: int) -> str:
        """A place, for messages."""
        known = zip(self.lines, self.values, self.texts, strict=True)
        return ", ".join(f"{line.name}={text(value[number])}" for line, value, text in known if value is not None)


def lines_of(solution: Solution, name: str) -> list[Along]:
    """The dimensions of a field's saved history, with axes of which one point was saved; without those along which a
    mean or the like was."""
    grid = solution.plan.problem.scope.grid
    faces, signs = solution.plan.problem.scope.layouts[name].faces, dict(solution.plan.structure.signs)[name]
    found = [] if grid.time is None else [Along(str(grid.time_name), solution.times, None)]
    for axis, kept in kept_points(solution.plan, name).items():
        owner, face = grid.space_axis(axis), axis in faces
        size = owner.size(face)
        points = owner.positions(face, 0, size)[kept.start : kept.stop : kept.step]
        ends = owner.lower if kept[0] == 0 else points[0], owner.upper if kept[-1] == size - 1 else points[-1]
        sign = signs[grid.space.index(axis)]
        check_sign(sign, axis, name, "Observations reach")
        found.append(Along(axis, points, _period(owner, points), False, ends, owner.length / owner.num, face, sign))
    return found


def kept_points(plan: Plan, name: str) -> dict[str, range]:
    """Which points of a field were saved along each axis of which any were."""
    layout, showing = plan.problem.scope.layouts[name], plan.structure.showing
    sizes = dict(zip(layout.space, layout.space_shape, strict=True))
    return {axis: range(size) for axis, size in sizes.items()} if showing is None else showing.of(name).kept(sizes)


def _period(owner: Axis, points: np.ndarray) -> float | None:
    """The length of a periodic axis, unless what was cut out of it leaves a gap."""
    if not owner.periodic or points.size == 1 < owner.num:
        return None
    gap = owner.length - (points[-1] - points[0])
    return owner.length if gap <= (1 + ON_POINT) * max(np.diff(points), default=owner.length) else None


def find_places(observed: xr.DataArray, lines: list[Along], kept: np.ndarray, grid: Grid, what: str) -> Places:
    """Where the observations that count lie."""
    _check_dims(observed, lines, what)
    _check_reduced(observed, lines, kept, grid, what)
    values, texts, lower, shares = [], [], [], []
    for line in lines:
        found, text = _coordinates(observed, line, kept, grid, what)
        values.append(found)
        texts.append(text)
        at = np.full(int(kept.sum()), line.points[0]) if found is None else found
        index, share = line.locate(at, what, text)
        lower.append(index)
        shares.append(share)
    return Places(tuple(lines), tuple(values), tuple(texts), tuple(lower), tuple(shares))


def check_receivers(
    observed: xr.DataArray, places: Places, kept: np.ndarray, columns: Mapping[str, list[Any]], grid: Grid, what: str
) -> None:
    """Refuses observations that say they lie elsewhere than the receivers they are numbered for; `columns` are the
    receivers' coordinates by axis, those that are traced not looked at."""
    if not columns:
        return
    sizes = dict(zip(observed.dims, observed.shape, strict=True))
    numbers = next(index for line, index in zip(places.lines, places.lower, strict=True) if line.counted)
    for axis, column in columns.items():
        if axis not in observed.coords or any(isinstance(one, Tracer) for one in column):
            continue
        given = np.ravel(np.asarray(_variable(observed, axis, axis, grid, what).set_dims(sizes).values, float))[kept]
        own = np.asarray(column, float)[numbers]
        wrong = np.flatnonzero(~np.isclose(given, own, rtol=1e-6, atol=1e-6 * max(float(np.ptp(own)), 1e-300)))
        if wrong.size:
            first = wrong[0]
            raise DeclarationError(
                f"{what}: observations for receiver {numbers[first]} lie at {axis}={given[first]:g}, and that receiver "
                f"at {axis}={own[first]:g}. Number them as the receivers are: observations.assign_coords(receiver=...)."
            )


def _check_dims(observed: xr.DataArray, lines: list[Along], what: str) -> None:
    """Each dimension must be placed by some coordinate."""
    names = {one for line in lines for one in _names(line)}
    placed = {dim for name in names & set(observed.coords) for dim in observed.coords[name].dims}
    placed |= {line.name for line in lines if line.counted}
    lost = [str(dim) for dim in observed.dims if dim not in placed]
    if lost:
        absent = [line.name for line in lines if not set(_names(line)) & set(observed.coords)]
        wanted = absent or [line.name for line in lines]
        raise DeclarationError(
            f"{what}: nothing says where the observations lie along their dimension `{lost[0]}`. Give coordinates "
            f"along it, of {', '.join(f'`{one}`' for one in wanted)}: "
            f"observations.assign_coords({wanted[-1]}=('{lost[0]}', places))."
        )
    for line in lines:
        count = observed.sizes.get(line.name, line.points.size)
        if line.counted and line.name not in observed.coords and count != line.points.size:
            raise DeclarationError(
                f"{what}: the observations are of {count} receivers, and nothing says which of the {line.points.size} "
                f"these are. Give their numbers, counted from 0: observations.assign_coords({line.name}=[...])."
            )


def _check_reduced(observed: xr.DataArray, lines: list[Along], kept: np.ndarray, grid: Grid, what: str) -> None:
    """Refuses observations at several places along an axis of which a mean or the like was saved."""
    sizes = dict(zip(observed.dims, observed.shape, strict=True))
    for axis in grid.space if not any(line.counted for line in lines) else ():
        if axis in observed.coords and all(line.name != axis for line in lines):
            values = np.ravel(observed.coords[axis].variable.set_dims(sizes).values)[kept]
            if (values != values[0]).any():
                raise DeclarationError(
                    f"{what}: the observations lie at several places along `{axis}`, along which the solution saved "
                    f"one value for all. Save the points: fd.every(1), or reduce the observations as the solution is."
                )


def _names(line: Along) -> tuple[str, ...]:
    """How the coordinate along a dimension may be called, first as it is called where the field lies."""
    names = line.name, f"{line.name}_face"
    return names[::-1] if line.on_faces else names


def _find(observed: xr.DataArray, line: Along) -> str | None:
    """What the coordinate along a dimension is called, if there is one: a scalar, as cuts of a Dataset leave on fields
    that lie elsewhere, comes after one along a dimension."""
    found = [name for name in _names(line) if name in observed.coords]
    return next((name for name in found if observed.coords[name].ndim), found[0] if found else None)


def _variable(observed: xr.DataArray, name: str, axis: str, grid: Grid, what: str) -> xr.Variable:
    """A coordinate in the units of its axis; the numbers of receivers as they are."""
    found = observed.coords[name].variable
    owner = grid.axes.get(axis)
    return found if owner is None else xr.Variable(found.dims, in_axis_units(found, owner, name, what))


def _coordinates(
    observed: xr.DataArray, line: Along, kept: np.ndarray, grid: Grid, what: str
) -> tuple[np.ndarray | None, Callable[[float], str]]:
    """The coordinates of the observations that count along one axis, None where they need none; how to write them."""
    name = _find(observed, line)
    text: Callable[[float], str] = "{:g}".format
    sizes = dict(zip(observed.dims, observed.shape, strict=True))
    if name is not None:
        variable = _variable(observed, name, line.name, grid, what)
    elif line.counted and line.name in observed.dims:
        variable = xr.Variable((line.name,), np.arange(sizes[line.name], dtype=float))
    elif line.points.size == 1:
        return None, text
    else:
        raise DeclarationError(
            f"{what}: the observations have no coordinate `{line.name}`, of which the solution has {line.points.size} "
            f"points. Give it: observations.assign_coords({line.name}=...)."
        )
    values = np.ravel(np.asarray(variable.set_dims(sizes).values))[kept]
    if values.dtype.kind == "m":
        values = _since_start(values, line, grid, what)
    if values.dtype.kind in "MOUS":
        if line.name != grid.time_name or grid.time is None:
            raise DeclarationError(f"{what}: the coordinate `{line.name}` is numbers, got dtype {values.dtype}.")
        text = grid.time.text_like(np.datetime64(0, "ns"))
        values = grid.time.to_number(values)
    values = values.astype(float)
    if not np.isfinite(values).all():
        raise DeclarationError(f"{what}: the coordinate `{line.name}` is not finite where there are observations.")
    return values, text


def _since_start(values: np.ndarray, line: Along, grid: Grid, what: str) -> np.ndarray:
    """Times after time 0 as datetimes."""
    if line.name != grid.time_name or grid.time is None or grid.time.since is None:
        raise DeclarationError(
            f"{what}: the coordinate `{line.name}` is numbers, got dtype {values.dtype}. Divide it by the unit of the "
            f"axis, as in times / np.timedelta64(1, 's')"
            + (", or give the Time `since=`." if line.name == grid.time_name else ".")
        )
    return grid.time.since + values

"""DataArrays matched to the axes of the grid by dimension name and coordinate, or resampled to them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError
from ..field import Interpolate
from ..grid import Axis, Time, in_axis_units
from ..region import Layout


@dataclass(frozen=True, eq=False)
class Labelled:
    """An array over whole axes of a layout; entries outside the region it was given for have no meaning."""

    axes: tuple[str, ...]
    array: Any


def label_dataarray(value: Any, layout: Layout, what: str, needed: dict[str, np.ndarray]) -> Labelled:
    """A DataArray matched by dimension name and coordinate; `needed` are the positions that must be there.

    A dimension `x_face`, as `solution.to_xarray()` has it, is that of the faces of axis `x`. Values may be traced;
    coordinates in other units than their axis' are converted.
    """
    resample = isinstance(value, Interpolate)
    source = _renamed(value.array if resample else value, layout, what)
    unknown = [str(dim) for dim in source.dims if dim not in layout.names]
    if unknown:
        raise DeclarationError(
            f"{what}: the DataArray has a dimension `{unknown[0]}`; the axes are {', '.join(layout.names)}. Take one "
            f"of it, dataarray.isel({unknown[0]}=0), or rename it: dataarray.rename({unknown[0]}=...)."
        )
    axes = tuple(name for name in layout.names if name in source.dims)
    source = source.transpose(*axes)
    data = source.variable.data
    array = data if isinstance(data, Tracer) else np.asarray(data)
    if resample and not isinstance(array, Tracer):
        _check_gaps(array, source, what)
    for position, name in enumerate(axes):
        line = _Line.of(source, layout, name, needed[name], what)
        array = line.resample(array, position) if resample else spread(array, position, line.match(), line.size)
    return Labelled(axes, array)


def faces_named(source: xr.DataArray, layout: Layout) -> frozenset[str]:
    """The axes whose faces a DataArray names as its dimensions, `x_face`."""
    dims = {str(dim) for dim in source.dims}
    return frozenset(axis for axis in layout.space if f"{axis}_face" in dims and axis not in dims)


def spread(array: Any, position: int, places: np.ndarray, size: int) -> Any:
    """The array with its entries at `places` of an axis of `size`, and elsewhere the entry before (or the first).

    What lies elsewhere is no value of the region, but the stages of a step from the level before the region's first
    one interpolate from there: they find the first entry.
    """
    if np.array_equal(places, np.arange(size)):
        return array
    order = np.argsort(places)
    before = np.searchsorted(places[order], np.arange(size), side="right") - 1
    take = np.take if isinstance(array, np.ndarray) else jnp.take
    return take(array, order[np.maximum(before, 0)], axis=position)


def axis_coordinates(layout: Layout, name: str) -> np.ndarray:
    """Coordinates of all points of a layout on an axis, as numbers."""
    owner = layout.grid.axes[name]
    return (
        owner.points
        if isinstance(owner, Time)
        else owner.positions(name in layout.faces, 0, owner.size(name in layout.faces))
    )


def _renamed(source: xr.DataArray, layout: Layout, what: str) -> xr.DataArray:
    """The DataArray with dimensions called by their axes."""
    faces = faces_named(source, layout)
    wrong = sorted(faces - layout.faces)
    if wrong:
        raise DeclarationError(
            f"{what}: the DataArray lies on faces of axis `{wrong[0]}` (its dimension is `{wrong[0]}_face`), where the "
            f"field has points. Give its values there: fd.interpolate(dataarray.rename({wrong[0]}_face={wrong[0]!r}))."
        )
    return source.drop_vars(faces, errors="ignore").rename({f"{axis}_face": axis for axis in faces})


def _check_gaps(array: np.ndarray, source: xr.DataArray, what: str) -> None:
    """Refuses to resample what has gaps: they would spread to the points around them."""
    wrong = np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)
    if wrong.any():
        first = np.argwhere(wrong)[0]
        at = ", ".join(
            f"{name} = {source.coords[name].values[i] if name in source.coords else i}"
            for name, i in zip(source.dims, first, strict=True)
        )
        raise DeclarationError(
            f"{what}: fd.interpolate takes an array without gaps; {int(wrong.sum())} of {wrong.size} values are nan"
            + (f", the first at {at}" if at else "")
            + ". Fill them first, for example by dataarray.interpolate_na(...)."
        )


def _as_numbers(coordinates: np.ndarray, layout: Layout, name: str, what: str) -> np.ndarray:
    if np.issubdtype(coordinates.dtype, np.datetime64):
        owner = layout.grid.axes[name]
        if not isinstance(owner, Time):
            raise DeclarationError(f"{what}: axis `{name}` is no time axis, but the DataArray has datetimes on it.")
        try:
            numbers = owner.to_number(coordinates)
        except DeclarationError as error:
            raise DeclarationError(f"{what}: the DataArray has datetimes along `{name}`. {error}") from None
    elif coordinates.dtype.kind in "iuf":
        numbers = np.asarray(coordinates, float)
    else:
        raise DeclarationError(
            f"{what}: the DataArray's coordinates along `{name}` are of dtype {coordinates.dtype}; numbers or "
            f"datetimes "
            f"are wanted."
        )
    text = _text(coordinates, layout, name)
    once, counts = np.unique(numbers, return_counts=True)
    if not np.isfinite(numbers).all() or (counts > 1).any():
        wrong = f"{text(once[counts > 1][0])} twice" if np.isfinite(numbers).all() else "nan or inf"
        raise DeclarationError(
            f"{what}: the DataArray has {wrong} among its coordinates along `{name}`; give each coordinate once."
        )
    return numbers


def _text(coordinates: np.ndarray, layout: Layout, name: str) -> Callable[[float], str]:
    """How messages write coordinates along an axis: as these are."""
    owner = layout.grid.axes[name]
    return owner.text_like(coordinates) if isinstance(owner, Time) else "{:g}".format


@dataclass(frozen=True, eq=False)
class _Line:
    """A DataArray along one axis of a layout, whose points it is matched to or resampled at.

    `length` entries at `numbers` (None: it has no coordinates); `own` are the coordinates of the axis, of which those
    at the positions `needed` must be there; `units` says for messages what they were converted from, if they were;
    `text` writes coordinates.
    """

    name: str
    axis: Axis | Time
    length: int
    numbers: np.ndarray | None
    own: np.ndarray
    needed: np.ndarray
    units: str
    text: Callable[[float], str]
    what: str

    @classmethod
    def of(cls, source: xr.DataArray, layout: Layout, name: str, needed: np.ndarray, what: str) -> "_Line":
        """The line of an axis."""
        given = dict(source.coords).get(name)  # coords.get would make one up where there is none
        values = None if given is None else in_axis_units(given, layout.grid.axes[name], name, what)
        numbers = None if values is None else _as_numbers(values, layout, name, what)
        units = "" if given is None else _converted(given, values, layout, name)
        own = axis_coordinates(layout, name)
        text = _text(own if values is None else values, layout, name)
        return cls(name, layout.grid.axes[name], source.sizes[name], numbers, own, needed, units, text, what)

    @property
    def size(self) -> int:
        """How many points the axis has."""
        return self.own.size

    def match(self) -> np.ndarray:
        """The positions on the axis of the entries."""
        if self.numbers is None:
            return self._match_by_number()
        step = np.min(np.diff(self.own)) if self.size > 1 else 1.0
        places = np.clip(np.searchsorted(self.own, self.numbers), 0, self.size - 1)
        left = np.clip(places - 1, 0, self.size - 1)
        nearer = np.abs(self.own[left] - self.numbers) < np.abs(self.own[places] - self.numbers)
        places = np.where(nearer, left, places)
        wrong = np.abs(self.own[places] - self.numbers) > 1e-6 * step
        missing = np.setdiff1d(self.needed, places[~wrong])
        if missing.size:
            self._refuse_missing(self.numbers, missing)
        if wrong.any():
            first = self.text(float(self.numbers[wrong][0]))
            raise DeclarationError(
                f"{self.what}: the DataArray's coordinate {self.name} = {first} is no point of the "
                f"axis; select the grid's coordinates first, or write fd.interpolate(dataarray)."
            )
        return places

    def _match_by_number(self) -> np.ndarray:
        if self.length == self.size:
            return np.arange(self.size)
        if self.length == self.needed.size:
            return self.needed
        raise DeclarationError(
            f"{self.what}: the DataArray has {self.length} entries along `{self.name}`; the region has "
            f"{self.needed.size}."
        )

    def _refuse_missing(self, numbers: np.ndarray, missing: np.ndarray) -> NoReturn:
        """Says which coordinates the DataArray lacks."""
        own, text = self.own, self.text
        reached = numbers.min() <= own[missing].min() and own[missing].max() <= numbers.max()
        hint = (
            "To resample it linearly write fd.interpolate(dataarray)."
            if reached
            else "It does not reach them: give it these coordinates as well, or assign to a region that it covers."
        )
        raise DeclarationError(
            f"{self.what}: the DataArray has no entry at {self.name} = {text(float(own[missing[0]]))} "
            f"(its `{self.name}` runs from {text(numbers.min())} to {text(numbers.max())} with {self.length} entries, "
            f"the axis from {text(own.min())} to {text(own.max())} with {self.size}{self.units}); {missing.size} of "
            f"the region's {self.needed.size} coordinates differ. {hint}"
        )

    def resample(self, array: Any, position: int) -> Any:
        """The array, linear in the coordinate along the axis at `position`, at all points of the axis.

        The coordinate may run either way; a periodic axis goes on with its first entries.
        """
        if self.numbers is None:
            raise DeclarationError(
                f"{self.what}: fd.interpolate needs coordinates along `{self.name}`; the DataArray has none."
            )
        xp: Any = np if isinstance(array, np.ndarray) else jnp
        order = np.argsort(self.numbers)
        numbers, array = self.numbers[order], xp.take(array, order, axis=position)
        owner = self.axis
        if isinstance(owner, Axis) and owner.periodic and np.ptp(numbers) < owner.length * (1 - 1e-9):
            first, last = (xp.take(array, np.array([end]), axis=position) for end in (0, -1))
            numbers = np.concatenate([[numbers[-1] - owner.length], numbers, [numbers[0] + owner.length]])
            array = xp.concatenate([last, array, first], axis=position)
        self._check_reach(numbers)
        if numbers.size == 1:
            return xp.repeat(array, self.size, axis=position)
        right = np.clip(np.searchsorted(numbers, self.own), 1, numbers.size - 1)
        share = np.clip((self.own - numbers[right - 1]) / (numbers[right] - numbers[right - 1]), 0.0, 1.0)
        share = share.reshape([-1 if a == position else 1 for a in range(array.ndim)])
        if isinstance(array, Tracer):  # in its own precision
            array = array.astype(jnp.result_type(array.dtype, float))
            share = share.astype(array.real.dtype)
        left = xp.take(array, right - 1, axis=position)
        return left * (1 - share) + xp.take(array, right, axis=position) * share

    def _check_reach(self, numbers: np.ndarray) -> None:
        """Refuses to extrapolate."""
        own, text = self.own, self.text
        slack = 1e-6 * (own[1] - own[0]) if own.size > 1 else 0.0
        low, high = own[self.needed].min(), own[self.needed].max()
        if low < numbers[0] - slack or high > numbers[-1] + slack:
            whose = "axis" if self.needed.size == own.size else "region along axis"
            raise DeclarationError(
                f"{self.what}: fd.interpolate does not extrapolate: {whose} `{self.name}` runs from {text(low)} to "
                f"{text(high)}, the DataArray from {text(numbers[0])} to {text(numbers[-1])}{self.units}. "
                f"Extend the DataArray, or give values to the part of the grid that it covers."
            )


def _converted(given: xr.DataArray, values: Any, layout: Layout, name: str) -> str:
    """Says that coordinates were converted to the units of an axis; empty where they were not."""
    same = np.array_equal(values, given.values)
    return "" if same else f', in "{layout.grid.axes[name].units}" as converted from "{given.attrs["units"]}"'

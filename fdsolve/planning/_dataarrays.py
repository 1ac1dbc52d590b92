"""DataArrays matched to the axes of the grid by dimension name and coordinate, or resampled to them."""

import warnings
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import DeclarationError, FdsolveWarning
from ..field import Interpolate
from ..grid import Axis, Time
from ..region import Layout

_SAME_UNITS = (
    {"m", "meter", "meters", "metre", "metres"},
    {"s", "sec", "second", "seconds"},
    {"min", "minute", "minutes"},
    {"h", "hr", "hour", "hours"},
    {"d", "day", "days"},
    {"rad", "radian", "radians"},
    {"deg", "degree", "degrees", "degrees_north", "degrees_east"},
)


@dataclass(frozen=True, eq=False)
class Labelled:
    """An array over whole axes of a layout; entries outside the region it was given for have no meaning."""

    axes: tuple[str, ...]
    array: Any


def label_dataarray(value: Any, layout: Layout, what: str, needed: dict[str, np.ndarray]) -> Labelled:
    """A DataArray matched by dimension name and coordinate; `needed` are the positions that must be there.

    A dimension `x_face`, as `solution.to_xarray()` has it, is that of the faces of axis `x`.
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
    array = np.asarray(source.transpose(*axes).data)
    if resample:
        _check_gaps(array, source.transpose(*axes), what)
    for position, name in enumerate(axes):
        size = layout.shape[layout.names.index(name)]
        coordinates = source.coords[name].values if name in source.coords else None
        units = source.coords[name].attrs.get("units") if name in source.coords else None
        if resample:
            array = _resample(array, position, coordinates, layout, name, needed[name], what, units)
            continue
        places = _match(coordinates, array.shape[position], layout, name, needed[name], what, units)
        array = np.asarray(spread(array, position, places, size))
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
    return jnp.take(jnp.asarray(array), order[np.maximum(before, 0)], axis=position)


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
    once, counts = np.unique(numbers, return_counts=True)
    if not np.isfinite(numbers).all() or (counts > 1).any():
        wrong = f"{once[counts > 1][0]:g} twice" if np.isfinite(numbers).all() else "nan or inf"
        raise DeclarationError(
            f"{what}: the DataArray has {wrong} among its coordinates along `{name}`; give each coordinate once."
        )
    return numbers


def _match(
    coordinates: np.ndarray | None,
    length: int,
    layout: Layout,
    name: str,
    needed: np.ndarray,
    what: str,
    units: Any,
) -> np.ndarray:
    size = layout.shape[layout.names.index(name)]
    if coordinates is None:
        if length == size:
            return np.arange(size)
        if length == needed.size:
            return needed
        raise DeclarationError(
            f"{what}: the DataArray has {length} entries along `{name}`; the region has {needed.size}."
        )
    numbers, own = _as_numbers(coordinates, layout, name, what), axis_coordinates(layout, name)
    step = np.min(np.diff(own)) if own.size > 1 else 1.0
    places = np.clip(np.searchsorted(own, numbers), 0, size - 1)
    left = np.clip(places - 1, 0, size - 1)
    places = np.where(np.abs(own[left] - numbers) < np.abs(own[places] - numbers), left, places)
    wrong = np.abs(own[places] - numbers) > 1e-6 * step
    missing = np.setdiff1d(needed, places[~wrong])
    if missing.size:
        reached = numbers.min() <= own[missing].min() and own[missing].max() <= numbers.max()
        hint = (
            "To resample it linearly write fd.interpolate(dataarray)."
            if reached
            else "It does not reach them: give it these coordinates as well, or assign to a region that it covers."
        )
        raise DeclarationError(
            f"{what}: the DataArray has no entry at {name} = {own[missing[0]]:g} (its `{name}` runs from "
            f"{numbers.min():g} to {numbers.max():g} with {length} entries, the axis from {own.min():g} to "
            f"{own.max():g} with {size}{_units_text(units, layout, name)}); {missing.size} of the region's "
            f"{needed.size} coordinates differ. {hint}"
        )
    if wrong.any():
        raise DeclarationError(
            f"{what}: the DataArray's coordinate {name} = {numbers[wrong][0]:g} is no point of the axis; select the "
            f"grid's coordinates first, or write fd.interpolate(dataarray)."
        )
    return places


def _resample(
    array: np.ndarray,
    position: int,
    coordinates: np.ndarray | None,
    layout: Layout,
    name: str,
    needed: np.ndarray,
    what: str,
    units: Any,
) -> np.ndarray:
    """Linear in the coordinate, which may run either way; a periodic axis goes on with its first entries."""
    if coordinates is None:
        raise DeclarationError(f"{what}: fd.interpolate needs coordinates along `{name}`; the DataArray has none.")
    numbers, own = _as_numbers(coordinates, layout, name, what), axis_coordinates(layout, name)
    order = np.argsort(numbers)
    numbers, array = numbers[order], np.take(array, order, axis=position)
    owner = layout.grid.axes[name]
    if isinstance(owner, Axis) and owner.periodic and np.ptp(numbers) < owner.length * (1 - 1e-9):
        first, last = np.take(array, [0], axis=position), np.take(array, [-1], axis=position)
        numbers = np.concatenate([[numbers[-1] - owner.length], numbers, [numbers[0] + owner.length]])
        array = np.concatenate([last, array, first], axis=position)
    slack = 1e-6 * (own[1] - own[0]) if own.size > 1 else 0.0
    low, high = own[needed].min(), own[needed].max()
    if low < numbers[0] - slack or high > numbers[-1] + slack:
        whose = "axis" if needed.size == own.size else "region along axis"
        raise DeclarationError(
            f"{what}: fd.interpolate does not extrapolate: {whose} `{name}` runs from {low:g} to {high:g}, "
            f"the DataArray from {numbers[0]:g} to {numbers[-1]:g}{_units_text(units, layout, name)}."
        )
    if _units_text(units, layout, name):
        warnings.warn(
            f"{what}: fd.interpolate takes coordinates as they are{_units_text(units, layout, name)}. Convert them "
            f"first: dataarray.assign_coords({name}=...).",
            FdsolveWarning,
            stacklevel=2,
        )
    if numbers.size == 1:
        return np.repeat(array, own.size, axis=position)
    right = np.clip(np.searchsorted(numbers, own), 1, numbers.size - 1)
    share = np.clip((own - numbers[right - 1]) / (numbers[right] - numbers[right - 1]), 0.0, 1.0)
    share = share.reshape([-1 if a == position else 1 for a in range(array.ndim)])
    left = np.take(array, right - 1, axis=position)
    return left * (1 - share) + np.take(array, right, axis=position) * share


def _units_text(units: Any, layout: Layout, name: str) -> str:
    """Says that a DataArray measures an axis in other units than the grid does; empty where it does not."""
    own = layout.grid.axes[name].units
    if not isinstance(units, str) or own is None or " since " in units:
        return ""
    one, other = units.strip(), str(own).strip()
    if one == other or any({one, other} <= names for names in _SAME_UNITS):
        return ""
    return f'; its units are "{one}", those of the axis "{other}"'

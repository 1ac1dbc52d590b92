"""Arrays and DataArrays given by users, matched to the axes of the grid."""

import warnings
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError, FdsolveWarning
from ..field import AbstractBoundary, Along, Assignment, Interpolate
from ..grid import Time
from ..region import Box, Coordinates, Index, Layout


@dataclass(frozen=True, eq=False)
class Labelled:
    """An array over whole axes of a layout; entries outside the region it was given for have no meaning."""

    axes: tuple[str, ...]
    array: Any


def label_assigned(value: Any, assignment: Assignment, layout: Layout, what: str) -> Labelled | None:
    """An assigned array labelled by axes; None for a scalar."""
    if isinstance(value, Along):
        return _label_along(value, layout, what, _region_positions(assignment, layout, what))
    if isinstance(value, xr.DataArray | Interpolate):
        return label_dataarray(value, layout, what, _region_positions(assignment, layout, what))
    shape = np.shape(value)
    if shape == ():
        return None
    region = assignment.region
    if isinstance(region, Index | Coordinates):
        return _embed(value, region.select(layout, what), layout, what)
    if shape == layout.shape:
        return Labelled(layout.names, value)
    if shape == layout.space_shape:
        return Labelled(layout.space, value)
    terms = assignment.terms.terms
    if len(terms) == 1 and terms[0].predicate is None and shape == (terms[0].points.count,):
        mask = terms[0].points.to_mask(Box.of_shape(layout.space_shape))
        full = jnp.zeros(layout.space_shape, jnp.asarray(value).dtype)
        return Labelled(layout.space, full.at[np.nonzero(mask)].set(value))
    raise DeclarationError(
        f"{what}: an array of shape {shape} fits neither the field, {layout.shape}, nor its space, "
        f"{layout.space_shape}, nor the number of points of the region. Give it one of these shapes, or label it: "
        f'fd.along(array, "{layout.space[-1]}").'
    )


def _region_positions(assignment: Assignment, layout: Layout, what: str) -> dict[str, np.ndarray]:
    region = assignment.region
    if isinstance(region, Index | Coordinates):
        selection = region.select(layout, what)
        return dict(zip(layout.names, selection.positions, strict=True))
    return {name: np.arange(size) for name, size in zip(layout.names, layout.shape, strict=True)}


def _label_along(value: Along, layout: Layout, what: str, needed: dict[str, np.ndarray]) -> Labelled:
    """An array labelled by axes, as long as each axis or as the region along it; its axes in grid order."""
    unknown = [name for name in value.axes if name not in layout.names]
    if unknown:
        raise DeclarationError(
            f"{what}: fd.along names the axis `{unknown[0]}`; the axes are {', '.join(layout.names)}."
        )
    if value.faces - layout.faces:
        raise DeclarationError(
            f"{what}: fd.along puts the array on faces of axis `{min(value.faces - layout.faces)}`, where the field "
            f"has "
            f"points. Give its values there."
        )
    order = tuple(name for name in layout.names if name in value.axes)
    array = jnp.transpose(jnp.asarray(value.array), [value.axes.index(name) for name in order])
    for position, name in enumerate(order):
        length, size = array.shape[position], layout.shape[layout.names.index(name)]
        if length not in (size, needed[name].size):
            raise DeclarationError(
                f"{what}: fd.along has {length} entries along `{name}`; the axis has {size}"
                + (f", the region {needed[name].size}." if needed[name].size < size else ".")
            )
        if length != size:
            array = _spread(array, position, needed[name], size)
    return Labelled(order, array)


def _embed(value: Any, selection: Any, layout: Layout, what: str) -> Labelled:
    shape, wanted = np.shape(value), selection.shape
    kept = selection.kept_axes
    try:
        fits = np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise DeclarationError(
            f"{what}: an array of shape {shape} does not broadcast to the region, which is "
            + ", ".join(f"{name}: {size}" for name, size in zip(kept, wanted, strict=True))
            + '. Give it that shape, or label it by axes: fd.along(array, "'
            + f'{layout.space[-1]}").'
        )
    array = jnp.asarray(value)
    array = array.reshape((1,) * (len(wanted) - array.ndim) + array.shape)
    axes = tuple(name for name, size in zip(kept, array.shape, strict=True) if size > 1)
    array = array.reshape(tuple(size for size in array.shape if size > 1))
    by_name = dict(zip(layout.names, selection.positions, strict=True))
    for position, name in enumerate(axes):
        if np.unique(by_name[name]).size < by_name[name].size:
            raise DeclarationError(f"{what}: a point of axis `{name}` is named more than once, for several values.")
        array = _spread(array, position, by_name[name], layout.shape[layout.names.index(name)])
    return Labelled(axes, array)


def _spread(array: Any, position: int, places: np.ndarray, size: int) -> Any:
    """The array with its entries at `places` of an axis of `size`, and elsewhere the entry before (or the first).

    What lies elsewhere is no value of the region, but the stages of a step from the level before the region's first
    one interpolate from there: they find the first entry.
    """
    if np.array_equal(places, np.arange(size)):
        return array
    order = np.argsort(places)
    before = np.searchsorted(places[order], np.arange(size), side="right") - 1
    return jnp.take(jnp.asarray(array), order[np.maximum(before, 0)], axis=position)


def label_dataarray(value: Any, layout: Layout, what: str, needed: dict[str, np.ndarray]) -> Labelled:
    """A DataArray matched by dimension name and coordinate; `needed` are the positions that must be there."""
    resample = isinstance(value, Interpolate)
    source = value.array if resample else value
    unknown = [str(dim) for dim in source.dims if dim not in layout.names]
    if unknown:
        raise DeclarationError(
            f"{what}: the DataArray has a dimension `{unknown[0]}`; the axes are {', '.join(layout.names)}."
        )
    axes = tuple(name for name in layout.names if name in source.dims)
    array = np.asarray(source.transpose(*axes).data)
    for position, name in enumerate(axes):
        size = layout.shape[layout.names.index(name)]
        coordinates = source.coords[name].values if name in source.coords else None
        if resample:
            array = _resample(array, position, coordinates, layout, name, what)
            continue
        places = _match(coordinates, array.shape[position], layout, name, needed[name], what)
        array = np.asarray(_spread(array, position, places, size))
    return Labelled(axes, array)


def check_range(value: Any, dtype: Any, what: str) -> None:
    """Refuses whole numbers that a field of whole numbers cannot hold, where they would wrap around."""
    if isinstance(value, Tracer) or not jnp.issubdtype(dtype, jnp.integer):
        return
    array, limits = np.asarray(value), jnp.iinfo(dtype)
    if array.dtype.kind not in "iuO" or not array.size:
        return
    for extreme in (array.min(), array.max()):
        if not limits.min <= extreme <= limits.max:
            raise DeclarationError(
                f"{what}: {extreme} lies outside what dtype {np.dtype(dtype)} holds, {limits.min} to {limits.max}. "
                f"Declare "
                f"the field with a larger dtype."
            )


def warn_of_gaps(array: Any, axes: tuple[str, ...], assignment: Assignment, layout: Layout, what: str) -> None:
    """Warns of nan in an assigned array, such as the gaps of a measured record: they would spread over the field.

    What the first level takes from it is left to the check of the initial state; a boolean array or a predicate may
    leave out the points in question, so only keys of positions and coordinates are looked at.
    """
    time = layout.grid.time_name
    value = not isinstance(assignment.rule, AbstractBoundary)
    first = value and time not in axes and any(term.levels[0] for term in assignment.terms.terms)
    if isinstance(array, Tracer) or first or not isinstance(assignment.region, Index | Coordinates):
        return
    wrong = np.isnan(np.asarray(array))
    if wrong.any():
        at = ", ".join(
            f"{name} = {axis_coordinates(layout, name)[i]:g}"
            for name, i in zip(axes, np.argwhere(wrong)[0], strict=True)
        )
        warnings.warn(
            f"{what}: {int(wrong.sum())} of {wrong.size} values are nan, the first at {at}; they would spread. Fill "
            f"such "
            f"gaps first, for example by dataarray.interpolate_na(...).",
            FdsolveWarning,
            stacklevel=2,
        )


def axis_coordinates(layout: Layout, name: str) -> np.ndarray:
    """Coordinates of all points of a layout on an axis, as numbers."""
    owner = layout.grid.axes[name]
    return (
        owner.points
        if isinstance(owner, Time)
        else owner.positions(name in layout.faces, 0, owner.size(name in layout.faces))
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
    coordinates: np.ndarray | None, length: int, layout: Layout, name: str, needed: np.ndarray, what: str
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
        raise DeclarationError(
            f"{what}: the DataArray has no entry at {name} = {own[missing[0]]:g} (its `{name}` runs from "
            f"{numbers.min():g} to {numbers.max():g} with {length} entries); {missing.size} of the region's "
            f"{needed.size} coordinates differ. To resample it linearly write fd.interpolate(dataarray)."
        )
    if wrong.any():
        raise DeclarationError(
            f"{what}: the DataArray's coordinate {name} = {numbers[wrong][0]:g} is no point of the axis; select the "
            f"grid's coordinates first, or write fd.interpolate(dataarray)."
        )
    return places


def _resample(
    array: np.ndarray, position: int, coordinates: np.ndarray | None, layout: Layout, name: str, what: str
) -> np.ndarray:
    if coordinates is None:
        raise DeclarationError(f"{what}: fd.interpolate needs coordinates along `{name}`; the DataArray has none.")
    numbers, own = _as_numbers(coordinates, layout, name, what), axis_coordinates(layout, name)
    order = np.argsort(numbers)
    numbers, array = numbers[order], np.take(array, order, axis=position)
    slack = 1e-6 * (own[1] - own[0]) if own.size > 1 else 0.0
    if own.min() < numbers[0] - slack or own.max() > numbers[-1] + slack:
        raise DeclarationError(
            f"{what}: fd.interpolate does not extrapolate: axis `{name}` runs from {own.min():g} to {own.max():g}, "
            f"the DataArray from {numbers[0]:g} to {numbers[-1]:g}."
        )
    right = np.clip(np.searchsorted(numbers, own), 1, numbers.size - 1)
    share = np.clip((own - numbers[right - 1]) / (numbers[right] - numbers[right - 1]), 0.0, 1.0)
    shape = [-1 if a == position else 1 for a in range(array.ndim)]
    share = share.reshape(shape)
    return np.take(array, right - 1, axis=position) * (1 - share) + np.take(array, right, axis=position) * share

"""Arrays and DataArrays given by users, matched to the axes of the grid."""

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError, FdsolveWarning
from ..field import AbstractBoundary, Along, Assignment, Interpolate
from ..region import Box, Coordinates, Index, Layout
from ._dataarrays import Labelled, label_dataarray, spread
from ._dataarrays import axis_coordinates as axis_coordinates


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
            array = spread(array, position, needed[name], size)
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
        array = spread(array, position, by_name[name], layout.shape[layout.names.index(name)])
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

"""Labelled arrays of a stream: their axes are kept beside their values, which come as plain arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..field import Along, Interpolate, Whole
from ..grid import Grid
from ._order import in_places


class Labels:
    """The axes of the parameters and inputs that were given labelled, by name."""

    def __init__(self, params: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        given = {**params, **inputs}
        self._of = {name: value for name, value in given.items() if isinstance(value, Along | Whole | xr.DataArray)}
        self._followed, self._grid = frozenset(params), None
        for name, value in given.items():
            if isinstance(value, Interpolate):
                raise DeclarationError(
                    f"fd.online: `{name}` is to be resampled, and its gradient would be at other places. Bring it to "
                    f"the grid first: {name}=dataarray.interp(...)."
                )

    def attach(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name with the labels that they stand for."""
        return {name: self._labelled(name, value) for name, value in values.items()}

    def _labelled(self, name: str, value: Any) -> Any:
        like = self._of.get(name)
        if isinstance(like, Whole):
            return Whole(value)
        return Along(value, *_axes(like)) if isinstance(like, Along | xr.DataArray) else value

    def on(self, grid: Grid, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The examples of the inputs in the order of a grid, which is that of all values from here on.

        Raises: DeclarationError for DataArrays whose coordinates are not those of the grid, and for parameters that
        are not in its order, which is that of their gradients.
        """
        self._grid, found = grid, dict(inputs)
        for name, value in self._of.items():
            if not isinstance(value, xr.DataArray):
                continue
            numbers = value.copy(data=np.arange(value.size).reshape(value.shape))
            order = in_places(numbers, grid, f"fd.online: `{name}`", strict=True).values
            if name not in self._followed:
                found[name] = found[name].reshape(-1)[order]
            elif not np.array_equal(order, numbers.values):
                raise DeclarationError(
                    f"fd.online: `{name}` is in another order than the grid, and its gradient would be. Bring it into "
                    f"that: {name}.sortby({list(map(str, value.dims))})."
                )
        return found

    def take(self, name: str, value: Any, what: str) -> Any:
        """A value that comes later, in the order of the first. Raises DeclarationError where its axes or places are
        others."""
        like = self._of.get(name)
        if not isinstance(value, Along | xr.DataArray):
            return plain_array(value)
        if like is None or isinstance(like, Whole):
            raise DeclarationError(f"{what}: `{name}` had no axes at the start, and has {_shown(value)} here.")
        wanted, own = _axes(like), _axes(value)
        if set(wanted[0]) != set(own[0]) or wanted[1] != own[1]:
            raise DeclarationError(
                f"{what}: `{name}` has the axes {_shown(like)} at the start, and {_shown(value)} here."
            )
        if isinstance(value, xr.DataArray) and self._grid is not None:
            value = in_places(value, self._grid, f"{what}: `{name}`", strict=True)
        return plain_array(value).transpose([own[0].index(axis) for axis in wanted[0]])


def plain_array(value: Any) -> Any:
    """The entries of a labelled array, in its order of axes; anything else as it is."""
    if isinstance(value, Along | Whole):
        return value.array
    return value.data if isinstance(value, xr.DataArray) else value


def in_order(value: xr.DataArray, grid: Grid) -> Any:
    """The entries of a labelled array in the grid's order of axes where it has no others."""
    axes = [name for name in grid.axes if name in _axes(value)[0]]
    if len(axes) < value.ndim:
        return value.data
    return value.data.transpose([_axes(value)[0].index(axis) for axis in axes])


def _axes(value: Along | xr.DataArray) -> tuple[tuple[str, ...], frozenset[str]]:
    if isinstance(value, Along):
        return value.axes, value.faces
    dims = [str(dim) for dim in value.dims]
    axes = tuple(dim.removesuffix("_face") for dim in dims)
    return axes, frozenset(axis for axis, dim in zip(axes, dims, strict=True) if axis != dim)


def _shown(value: Along | xr.DataArray) -> str:
    return ", ".join(_axes(value)[0]) or "none"

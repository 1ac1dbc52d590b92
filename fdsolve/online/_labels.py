"""Labelled arrays of a stream: their axes are kept beside their values, which come as plain arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..field import Along, Interpolate, Whole
from ..grid import Grid, Time


class Labels:
    """The axes of the parameters and inputs that were given labelled, by name."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._of = {name: value for name, value in given.items() if isinstance(value, Along | Whole | xr.DataArray)}
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

    def check(self, grid: Grid) -> None:
        """Raises DeclarationError for DataArrays whose coordinates are not those of the grid, in its order."""
        for name, value in self._of.items():
            if isinstance(value, xr.DataArray):
                _check(name, value, grid)

    def take(self, name: str, value: Any, what: str) -> Any:
        """A value that comes later, in the order of the first. Raises DeclarationError where its axes are others."""
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
        return plain_array(value).transpose([own[0].index(axis) for axis in wanted[0]])


def plain_array(value: Any) -> Any:
    """The entries of a labelled array, in its order of axes; anything else as it is."""
    if isinstance(value, Along | Whole):
        return value.array
    return value.data if isinstance(value, xr.DataArray) else value


def in_order(value: Any, grid: Grid) -> Any:
    """The entries of a labelled array in the grid's order of axes where it has no others; anything else as it is."""
    if not isinstance(value, xr.DataArray):
        return value
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


def _check(name: str, value: xr.DataArray, grid: Grid) -> None:
    axes, faces = _axes(value)
    for axis, dim in zip(axes, map(str, value.dims), strict=True):
        if dim not in value.coords:
            continue
        owner = grid.axes[axis]
        points = (
            owner.points if isinstance(owner, Time) else owner.positions(axis in faces, 0, owner.size(axis in faces))
        )
        given = np.asarray(value.coords[dim].values)
        if isinstance(owner, Time) and given.dtype.kind in "MO":
            given = owner.to_number(given)
        step = np.ptp(points) / max(points.size - 1, 1)
        if given.shape != points.shape or not np.allclose(given.astype(float), points, rtol=0, atol=1e-6 * step):
            raise DeclarationError(
                f"fd.online: `{name}` lies at other places along `{axis}` than the grid, or in another order. Bring it "
                f"there: {name}.interp({dim}=...) or {name}.sortby({dim!r})."
            )

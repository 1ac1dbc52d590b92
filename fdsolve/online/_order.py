"""Entries of labelled arrays by their coordinates, as the grid, or the first step of a stream, has them."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..grid import Grid, Time, in_axis_units


def in_places(
    value: xr.DataArray, grid: Grid, what: str, known: Mapping[str, np.ndarray] | None = None, *, strict: bool = False
) -> xr.DataArray:
    """A DataArray with its entries along whole axes of the grid in the order of these, found by coordinate.

    Along other dimensions, and parts of axes, they are brought into the order of `known`, the coordinates of the first
    step, where they are the same ones. Without coordinates entries are taken by position. `strict`: a dimension `x` is
    that of points, and may not lie on faces.

    Raises: DeclarationError where coordinates along an axis of space, or a whole axis, are others.
    """
    for dim in map(str, value.dims):
        if dim not in value.coords:
            continue
        places = _places(grid, dim, value.sizes[dim], strict)
        wanted = places or ([known[dim]] if known and dim in known else [])
        given = coordinates(value, grid, dim, what)
        order = next((one for one in (order_of(given, one) for one in wanted) if one is not None), None)
        if order is not None:
            value = value if np.array_equal(order, np.arange(order.size)) else value.isel({dim: order})
        elif wanted and (places or _axis(grid, dim) in grid.space):
            whose = "the grid" if places else "the first step"
            raise DeclarationError(
                f"{what} lies at other places along `{dim}` than {whose}: {_shown(given)}, where {_shown(wanted[0])} "
                f"are wanted. Bring it there: dataarray.interp({dim}=...); or, if its labels say nothing, take them "
                f"away: dataarray.drop_vars({dim!r})."
            )
    return value


def order_of(given: np.ndarray, wanted: np.ndarray) -> np.ndarray | None:
    """Which of the given coordinates are the wanted ones, one after the other; None where they are others."""
    if given.shape != wanted.shape or (given.dtype.kind in "fiu") != (wanted.dtype.kind in "fiu"):
        return None
    first, last = np.argsort(given, kind="stable"), np.argsort(wanted, kind="stable")
    if given.dtype.kind in "fiu":
        step = np.ptp(wanted) / max(wanted.size - 1, 1)
        same = np.allclose(given[first].astype(float), wanted[last], rtol=0, atol=1e-6 * step if step else 1e-12)
    else:
        same = np.array_equal(given[first], wanted[last])
    return first[np.argsort(last)] if same else None


def coordinates(value: xr.DataArray, grid: Grid, dim: str, what: str) -> np.ndarray:
    """The coordinates along a dimension, in the units of its axis, if it is one: datetimes as numbers there."""
    owner = grid.axes.get(_axis(grid, dim))
    if owner is None:
        return np.asarray(value.coords[dim].values)
    given = in_axis_units(value.coords[dim], owner, dim, what)
    return owner.to_number(given) if isinstance(owner, Time) and given.dtype.kind in "MO" else given


def _axis(grid: Grid, dim: str) -> str:
    name = dim.removesuffix("_face")
    return name if dim not in grid and name in grid.space else dim


def _places(grid: Grid, dim: str, num: int, strict: bool) -> list[np.ndarray]:
    """Where so many values along all of an axis may lie; nothing where they are not on one, or a part of it."""
    name = _axis(grid, dim)
    if name not in grid.axes:
        return []
    owner = grid.axes[name]
    if isinstance(owner, Time):
        return [owner.points] if num == owner.num else []
    faces = (True,) if name != dim else (False,) if strict else (False, True)
    return [owner.positions(face, 0, num) for face in faces if num == owner.size(face)]


def _shown(points: np.ndarray) -> str:
    """Coordinates in messages."""
    texts = [f"{one:g}" if isinstance(one, float) else str(one) for one in points.tolist()]
    return ", ".join(texts if len(texts) < 6 else (*texts[:2], "…", texts[-1]))

"""Labelled parameters in the order of axes that a loss takes plain arrays in."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import numpy as np
import xarray as xr

from ..errors import DeclarationError, FdsolveWarning
from ..grid import Grid, in_axis_units, noting_grids
from ._frame import order_of, places_on
from ._names import is_leaf, named_leaves, path_name
from ._regularise import Tikhonov, TotalVariation


def in_order(initial: Any, grid: Any, regularise: Any, trial: Callable[[], Any]) -> Any:
    """`initial` with its DataArrays in the order of axes of `grid`, or else of the grid of a term of regularisation, or
    that on which the loss solves something in a `trial`.

    Warns where none of them tells the order, and sizes do not tell a wrong one. Raises DeclarationError where entries
    lie in another order along an axis than there, or elsewhere.
    """
    if grid is not None and not isinstance(grid, Grid):
        raise DeclarationError(f"grid= takes the grid of what the loss solves, as u.grid; got {grid!r}.")
    leaves = named_leaves(initial)
    labelled = [one for one in leaves.values() if isinstance(one, xr.DataArray) and one.ndim]
    if not labelled:
        return initial
    grids = [grid] if grid is not None else _grids_of(regularise)
    if not grids and any(one.ndim > 1 or _turns(one) for one in labelled):
        grids = _grids_in(trial)
    alone = next(iter(leaves), "")

    def ordered(path: Any, value: Any) -> Any:
        return _ordered(path_name(path) if path else alone, value, grids) if isinstance(value, xr.DataArray) else value

    return jax.tree_util.tree_map_with_path(ordered, initial, is_leaf=is_leaf)


def _grids_of(regularise: Any) -> list[Grid]:
    terms = regularise if isinstance(regularise, list | tuple) else [regularise]
    known = [one.frame.grid for one in terms if isinstance(one, Tikhonov | TotalVariation)]
    return [one for one in known if one is not None]


def _grids_in(trial: Callable[[], Any]) -> list[Grid]:
    """What fails here fails again, and is told, when it is asked for."""
    with noting_grids() as grids, suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial()
    return grids


def _turns(value: xr.DataArray) -> bool:
    """Whether entries do not lie one behind the other, or are not known to."""
    along = [value.coords[dim].values for dim in value.dims if dim in value.coords]
    return any(not (one[1:] > one[:-1]).all() for one in along)


def _elsewhere(name: str, value: xr.DataArray, dims: dict[str, Any], grid: Grid) -> str | None:
    """Why entries do not lie as the grid's do, along axes (by the dimensions along them) with as many; None if so."""
    for axis, dim in dims.items():
        if dim not in value.coords or not (places := places_on(grid[axis], value.sizes[dim])):
            continue
        given = in_axis_units(value.coords[dim], grid[axis], axis, f"fd.invert: `{name}`")
        order, wanted = order_of(given, places), places[0]
        if order is None:
            return (
                f"fd.invert: `{name}` lies at other places along `{axis}` than the grid, from {given[0]} to "
                f"{given[-1]} and from {wanted[0]} to {wanted[-1]}; the loss gets its entries as a plain array. Bring "
                f"it there, {name}.interp({dim}=...), or leave the places out, {name}.drop_vars({dim!r})."
            )
        if not np.array_equal(order, np.arange(order.size)):
            return (
                f"fd.invert: `{name}` lies along `{axis}` in another order than the grid; the loss gets its entries "
                f"as a plain array. Sort it: {name}.sortby({dim!r})."
            )
    return None


def _ordered(name: str, value: xr.DataArray, grids: list[Grid]) -> xr.DataArray:
    dims = {str(dim).removesuffix("_face"): dim for dim in value.dims}
    known = [grid for grid in grids if set(dims) <= set(grid.axes)]
    reasons = [_elsewhere(name, value, dims, grid) for grid in known]
    for grid, reason in zip(known, reasons, strict=True):
        if reason is None:
            return value.transpose(*(dims[axis] for axis in grid.axes if axis in dims))
    if reasons:
        raise DeclarationError(reasons[0] or "")
    sizes = [size for size in value.shape if size > 1]
    ours = value.dims == tuple(f"{name}_{axis}" for axis in range(value.ndim))
    if grids and set(dims).isdisjoint(grids[0].axes):
        return value
    if grids:  # an axis of the grid beside one that is none, perhaps a misspelt one
        own = ", ".join(f"`{dim}`" for dim in dims if dim not in grids[0].axes)
        _warn(
            f"`{name}` has the axes {', '.join(map(str, value.dims))}, and the grid {', '.join(grids[0].axes)}; the "
            f"loss gets it as a plain array with its own. Rename {own} if an axis of the grid is meant, "
            f"{name}.rename(...), or give an array without labels."
        )
    elif len(set(sizes)) < len(sizes) and not ours:
        _warn(
            f"`{name}` has the axes {', '.join(map(str, value.dims))}, some of one size; the loss gets it as a plain "
            f"array with these, whatever order it takes arrays in. Say of which grid they are, and they come in its "
            f"order: fd.invert(..., grid=u.grid)."
        )
    return value


def _warn(text: str) -> None:
    warnings.warn(text, FdsolveWarning, stacklevel=7)

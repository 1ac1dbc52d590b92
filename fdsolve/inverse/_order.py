"""Labelled parameters in the order of axes that a loss takes plain arrays in."""

from typing import Any

import jax
import xarray as xr

from ..errors import DeclarationError
from ..grid import Grid
from ._names import is_leaf, named_leaves, path_name
from ._regularise import Tikhonov, TotalVariation


def in_order(initial: Any, grid: Any, regularise: Any) -> Any:
    """`initial` with its DataArrays in the order of axes of `grid`, or of a grid of the terms of regularisation.

    Raises: DeclarationError where no grid tells the order and sizes do not tell a wrong one.
    """
    if grid is not None and not isinstance(grid, Grid):
        raise DeclarationError(f"grid= takes the grid of what the loss solves, as u.grid; got {grid!r}.")
    grids = _grids_of(regularise) if grid is None else [grid]
    alone = next(iter(named_leaves(initial)), "")

    def ordered(path: Any, value: Any) -> Any:
        return _ordered(path_name(path) if path else alone, value, grids) if isinstance(value, xr.DataArray) else value

    return jax.tree_util.tree_map_with_path(ordered, initial, is_leaf=is_leaf)


def _grids_of(regularise: Any) -> list[Grid]:
    terms = regularise if isinstance(regularise, list | tuple) else [regularise]
    known = [one.frame.grid for one in terms if isinstance(one, Tikhonov | TotalVariation)]
    return [one for one in known if one is not None]


def _ordered(name: str, value: xr.DataArray, grids: list[Grid]) -> xr.DataArray:
    dims = {str(dim).removesuffix("_face"): dim for dim in value.dims}
    for grid in grids:
        if set(dims) <= set(grid.axes):
            return value.transpose(*(dims[axis] for axis in grid.axes if axis in dims))
    sizes = [size for size in value.shape if size > 1]
    ours = value.dims == tuple(f"{name}_{axis}" for axis in range(value.ndim))
    if len(set(sizes)) < len(sizes) and not ours and not (grids and set(dims).isdisjoint(grids[0].axes)):
        raise DeclarationError(
            f"`{name}` has the axes {', '.join(map(str, value.dims))}, some of one size, and the loss gets a plain "
            f"array, which it may take in another order. Say of which grid they are: fd.invert(..., grid=u.grid), and "
            f"it comes in the grid's order; or give the values alone, {name}.values."
        )
    return value

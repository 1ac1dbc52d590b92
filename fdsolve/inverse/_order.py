"""Labelled parameters in the order of axes that a loss takes plain arrays in."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import xarray as xr

from ..errors import DeclarationError, FdsolveWarning
from ..grid import Grid, noting_grids
from ._names import is_leaf, named_leaves, path_name
from ._regularise import Tikhonov, TotalVariation


def in_order(initial: Any, grid: Any, regularise: Any, trial: Callable[[], Any]) -> Any:
    """`initial` with its DataArrays in the order of axes of `grid`, or else of the grid of a term of regularisation, or
    that on which the loss solves something in a `trial`.

    Warns where none of them tells the order, and sizes do not tell a wrong one.
    """
    if grid is not None and not isinstance(grid, Grid):
        raise DeclarationError(f"grid= takes the grid of what the loss solves, as u.grid; got {grid!r}.")
    leaves = named_leaves(initial)
    if not any(isinstance(one, xr.DataArray) and one.ndim > 1 for one in leaves.values()):
        return initial
    grids = [grid] if grid is not None else _grids_of(regularise) or _grids_in(trial)
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


def _ordered(name: str, value: xr.DataArray, grids: list[Grid]) -> xr.DataArray:
    dims = {str(dim).removesuffix("_face"): dim for dim in value.dims}
    for grid in grids:
        if set(dims) <= set(grid.axes):
            return value.transpose(*(dims[axis] for axis in grid.axes if axis in dims))
    sizes = [size for size in value.shape if size > 1]
    ours = value.dims == tuple(f"{name}_{axis}" for axis in range(value.ndim))
    if len(set(sizes)) < len(sizes) and not ours and not (grids and set(dims).isdisjoint(grids[0].axes)):
        warnings.warn(
            f"`{name}` has the axes {', '.join(map(str, value.dims))}, some of one size; the loss gets it as a plain "
            f"array with these, whatever order it takes arrays in. Say of which grid they are, and they come in its "
            f"order: fd.invert(..., grid=u.grid).",
            FdsolveWarning,
            stacklevel=6,
        )
    return value

"""What comes with a step, for the loss: plain arrays, in the order of the grid and of the first step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from jax import tree_util

from ..errors import DeclarationError
from ..field import check_numbers
from ..grid import Grid
from ..units import quantity, units_of
from ._labels import in_order
from ._order import coordinates, in_places

Places = Mapping[str, Mapping[str, np.ndarray]]
"""Coordinates of labelled data: by where they stand in the data, and by dimension."""


def plain_data(data: Any, grid: Grid, known: Places, in_units: bool) -> tuple[Any, Places]:
    """The data without labels, and where they lie; `known` is where those of the first step did. `in_units` makes
    quantities of those that say what units they are in.

    Raises: DeclarationError for what is no number or array, and for data that lie elsewhere.
    """
    found: dict[str, Mapping[str, np.ndarray]] = {}

    def plain(path: Any, leaf: Any) -> Any:
        where = tree_util.keystr(path)
        what = f"step: data{where}"
        if isinstance(leaf, xr.Dataset):
            raise DeclarationError(f"{what} is a Dataset. Give the arrays that the loss takes: dict(dataset).")
        values = leaf.variable.data if isinstance(leaf, xr.DataArray) else leaf
        check_numbers(values, f"{what}: the loss takes numbers and arrays,")
        if not isinstance(leaf, xr.DataArray):
            return leaf
        leaf = in_places(leaf, grid, what, known.get(where))
        dims = [str(dim) for dim in leaf.dims if dim in leaf.coords]
        found[where] = {dim: coordinates(leaf, grid, dim, what) for dim in dims}
        entries = in_order(leaf, grid)
        return quantity(entries, units_of(leaf)) if in_units else entries

    return tree_util.tree_map_with_path(plain, data, is_leaf=lambda leaf: isinstance(leaf, xr.DataArray)), found

"""What comes with a step, for the loss: plain arrays, in the order of the grid and of the first step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from jax import tree_util

from ..errors import DeclarationError
from ..field import check_numbers
from ..grid import Grid
from ..units import conversion, measure_different_things, quantity, rescaled, same_text, units_of
from ._labels import in_order
from ._order import coordinates, in_places

Places = Mapping[str, Mapping[str, np.ndarray]]
"""Coordinates of labelled data: by where they stand in the data, and by dimension."""


def plain_data(data: Any, grid: Grid, known: Places, units: Mapping[str, str], in_units: bool) -> tuple[Any, Places]:
    """The data without labels, and where they lie; `known` is where those of the first step did. `in_units` makes
    quantities of those that say what units they are in; others come in the `units` of the field of their name.

    Raises: DeclarationError for what is no number or array, for data that lie elsewhere, and for data in other units
    than a field of which it is not known that they are its.
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
        if in_units:
            return quantity(in_order(leaf, grid), units_of(leaf))
        names = (leaf.name, *(one.key for one in path[-1:] if isinstance(one, tree_util.DictKey)))
        return in_order(_in_units(leaf, next((name for name in names if name in units), None), units, what), grid)

    return tree_util.tree_map_with_path(plain, data, is_leaf=lambda leaf: isinstance(leaf, xr.DataArray)), found


def _in_units(leaf: xr.DataArray, name: Any, units: Mapping[str, str], what: str) -> xr.DataArray:
    """Data in the units of the field `name`, if they have such a name."""
    given = units_of(leaf)
    if given is None:
        return leaf
    if name is not None:
        return rescaled(leaf, conversion(given, {units[name]: 1}, what, f"`{name}`"))
    other = next((one for one in units if not measure_different_things(given, units[one])), None)
    if other is None or any(same_text(given, one) for one in units.values()):
        return leaf
    raise DeclarationError(
        f'{what} is in "{given}", and `{other}` in "{units[other]}"; the loss gets plain numbers. If it is of '
        f"`{other}`, say so, and it is converted: .rename({other!r}). Otherwise take the attribute off: .drop_attrs()."
    )

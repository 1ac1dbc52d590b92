"""Names and times of what a solve returns."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..files import time_units
from ..planning import Cut, Plan
from ..units import quantity


def find(arrays: Mapping[str, jax.Array], name: Any) -> jax.Array:
    """The array of a field."""
    if not isinstance(name, str) or name not in arrays:
        raise DeclarationError(
            f"The solution has no field {name!r}; it has {', '.join(map(repr, arrays))}. Call it by name."
        )
    return arrays[name]


def time_coordinate(plan: Plan, times: np.ndarray) -> xr.Variable:
    """The coordinate of the time axis for a Dataset, as datetimes where the axis has `since=`."""
    time, name = plan.problem.scope.grid.time, plan.problem.scope.grid.time_name
    assert time is not None
    if time.since is None:  # no `axis`: CF knows a time by its date of reference, and this one has none
        return xr.Variable(name, times, {**({"units": time.units} if time.units else {}), "long_name": "time"})
    levels = time.datetimes()
    position = np.clip((times - time.start) / time.step, 0.0, time.num - 1)
    left = np.floor(position + 1e-6).astype(int)
    share = np.where(np.abs(position - left) < 1e-6, 0.0, position - left)
    step = (levels[np.minimum(left + 1, time.num - 1)] - levels[left]).astype("int64")
    values = levels[left] + np.round(share * step).astype("int64").astype("timedelta64[ns]")
    exact = time_units(levels[0], *np.unique(np.diff(levels)))
    attributes = {"standard_name": "time", "long_name": "time", "axis": "T", "units_metadata": "leap_seconds: none"}
    return xr.Variable(name, values, attributes, encoding=exact)


def in_units(plan: Plan, arrays: Mapping[str, jax.Array], name: Any, shown: bool = False) -> Any:
    """The array of a field; as a quantity where the declaration had quantities.

    `shown`: it is what a save kept of the field. Integrals along straight axes have the units of these besides; those
    along curved ones stay magnitudes.
    """
    array = find(arrays, name)
    if plan.problem.units is None:
        return array
    grid, showing = plan.problem.scope.grid, plan.structure.showing if shown else None
    steps = () if showing is None else showing.of(name).steps
    folds = [one for one in steps if not isinstance(one, Cut) and one.kind == "integral"]
    along = [grid.space_axis(axis) for one in folds for axis in one.axes]
    if any(axis.metric for axis in along):
        return array
    owner = next(one for one in plan.problem.fields if one.name == name)
    return quantity(array, owner.units, *(axis.units for axis in along))

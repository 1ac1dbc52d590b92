"""What receivers recorded."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import RunError
from ..planning import Plan, Receivers
from ._dataset import CONVENTIONS, axis_attributes, field_attributes, plan_attributes
from ._names import in_units, time_coordinate


@dataclass(frozen=True, eq=False)
class Records:
    """Fields at receivers: `records["u"]` has the shape (times, receivers); `records.times` are the recorded times."""

    plan: Plan = field(repr=False)
    places: Receivers = field(repr=False)
    arrays: Mapping[str, jax.Array] = field(repr=False)

    def __getitem__(self, name: Any) -> Any:
        return in_units(self.plan, self.arrays, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def keys(self) -> Iterable[str]:
        """The names of the fields."""
        return self.arrays.keys()

    @property
    def times(self) -> np.ndarray:
        """The recorded times, in the units of the time axis; those up to the end of a run that ended early."""
        time, count = self.plan.problem.scope.grid.time, len(next(iter(self.arrays.values())))
        assert time is not None
        return np.asarray(self.places.times(time))[:count]

    def to_xarray(self) -> xr.Dataset:
        """The records as a Dataset over time and `receiver`, with the receivers' coordinates. Needs concrete values."""
        grid = self.plan.problem.scope.grid
        columns = {axis: [place.coordinates[axis] for place in self.places.places] for axis in grid.space}
        everything = [*self.arrays.values(), *(value for column in columns.values() for value in column)]
        if any(isinstance(value, Tracer) for value in everything):
            raise RunError("to_xarray needs concrete values: call it outside jit and grad, on what they return.")
        dims = (grid.time_name, "receiver")
        numbered = {"long_name": "number of the receiver", "cf_role": "timeseries_id"}
        coords: dict[str, Any] = {
            str(grid.time_name): time_coordinate(self.plan, self.times),
            "receiver": ("receiver", np.arange(len(self.places.places), dtype=np.int32), numbered),
        }
        for axis, column in columns.items():
            coords[axis] = ("receiver", np.asarray(column, float), axis_attributes(grid, axis))
        data = {
            one.name: (dims, np.asarray(self.arrays[one.name]), field_attributes(one))
            for one in self.plan.problem.fields
        }
        described = {"Conventions": CONVENTIONS, "featureType": "timeSeries", **plan_attributes(self.plan)}
        return xr.Dataset(data, coords, attrs=described)

    def __repr__(self) -> str:
        names, times = ", ".join(self.arrays), self.times
        return f"Records({names} at {len(self.places.places)} receivers, t = {times[0]:g} … {times[-1]:g})"

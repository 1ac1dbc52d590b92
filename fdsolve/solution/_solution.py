"""What a solve returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError, RunError
from ..planning import Plan


@dataclass(frozen=True, eq=False)
class Final:
    """The last level of each field, by name."""

    arrays: Mapping[str, jax.Array]

    def __getitem__(self, name: Any) -> jax.Array:
        return _find(self.arrays, name)


@dataclass(frozen=True, eq=False)
class Solution:
    """The saved states of a solve.

    `solution["u"]` is the history of a field, shape (times, *space) (or its space shape on a grid without time);
    `solution.final["u"]` the last level; `solution.times` the saved times; `solution.plan` what ran. Points inside
    holes are nan in real and complex fields.
    """

    plan: Plan
    history: Mapping[str, jax.Array] = field(repr=False)
    last: Mapping[str, jax.Array] = field(repr=False)

    def __getitem__(self, name: Any) -> jax.Array:
        return _find(self.history, name)

    @property
    def final(self) -> Final:
        """The last level of each field."""
        return Final(self.last)

    @property
    def times(self) -> np.ndarray:
        """The saved times, in the units of the time axis; empty on a grid without time."""
        return np.asarray(self.plan.save.times) if self.plan.problem.scope.grid.time is not None else np.empty(0)

    def to_xarray(self) -> xr.Dataset:
        """The saved states as a Dataset: dimensions and coordinates by axis name, units and parameters as attributes.

        A staggered field has its own dimension, `x_face`, with the coordinates of the faces. Needs concrete values.
        """
        if any(isinstance(array, Tracer) for array in self.history.values()):
            raise RunError("to_xarray needs concrete values: call it outside jit and grad, on what they return.")
        grid = self.plan.problem.scope.grid
        data, coords = {}, {}
        if grid.time is not None:
            coords[grid.time_name] = _time_coordinate(self)
        for one in self.plan.problem.fields:
            dims = [] if grid.time is None else [grid.time_name]
            for axis in grid.space:
                face = axis in one.layout.faces
                dim = f"{axis}_face" if face else axis
                dims.append(dim)
                owner = grid.space_axis(axis)
                attributes = {"units": owner.units} if owner.units else {}
                coords[dim] = (dim, owner.positions(face, 0, owner.size(face)), attributes)
            attributes = {"units": one.units} if one.units else {}
            data[one.name] = (tuple(dims), np.asarray(self.history[one.name]), attributes)
        return xr.Dataset(data, coords, attrs=_attributes(self.plan))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(array.shape)}" for name, array in self.history.items())
        times = self.times
        span = f", t = {times[0]:g} … {times[-1]:g}" if times.size else ""
        return f"Solution({shapes}{span})"


def _find(arrays: Mapping[str, jax.Array], name: Any) -> jax.Array:
    if not isinstance(name, str) or name not in arrays:
        raise DeclarationError(
            f"The solution has no field {name!r}; it has {', '.join(map(repr, arrays))}. Call it by name."
        )
    return arrays[name]


def _time_coordinate(solution: Solution) -> Any:
    time, name = solution.plan.problem.scope.grid.time, solution.plan.problem.scope.grid.time_name
    assert time is not None
    attributes = {"units": time.units} if time.units and time.since is None else {}
    if time.since is None:
        return (name, solution.times, attributes)
    origin = time.datetimes()[0]
    per_level = (time.datetimes()[1] - origin) / np.timedelta64(1, "ns")
    nanoseconds = np.round((solution.times - time.start) / time.step * per_level).astype("int64")
    return (name, origin + nanoseconds.astype("timedelta64[ns]"), attributes)


def _attributes(plan: Plan) -> dict[str, Any]:
    """Parameters that fit into attributes, and the rules."""
    attributes: dict[str, Any] = {}
    for name, value in plan.parameters.items():
        if isinstance(value, Tracer):
            continue
        if isinstance(value, bool | int | float | str):
            attributes[name] = int(value) if isinstance(value, bool) else value
        elif isinstance(value, np.ndarray | np.generic | jax.Array) and np.size(value) <= 16 and np.ndim(value) <= 1:
            attributes[name] = np.asarray(value).item() if np.ndim(value) == 0 else np.asarray(value)
    for name, assignments in plan.problem.assignments.items():
        attributes[f"rules_{name}"] = "; ".join(a.describe(name) for a in assignments)
    return attributes

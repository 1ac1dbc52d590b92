"""Solutions as Datasets: CF coordinates, bounds and units, SGRID and COMODO for staggered grids, what was solved."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..field import Field, are_keys
from ..files import GROWS, RUN
from ..grid import Axis, Grid
from ..planning import Cut, Plan, Reduction, Showing, Shown
from ..units import is_quantity, name_of
from ._names import time_coordinate
from ._sgrid import TOPOLOGY, letters_of, location_of, shift_of, topology

CONVENTIONS = "CF-1.11"
_ANGLES = ("angle", "colatitude", "azimuth")
"""What an axis measures in radians."""
FIRST_NAMES = ("Conventions", "title", "source", "plan", GROWS, RUN)
"""Attributes of every Dataset, or of stores; a parameter of such a name is written as `parameter_<name>`."""


def make_dataset(plan: Plan, times: np.ndarray, history: Mapping[str, Any]) -> xr.Dataset:
    """The fields over time and space. `history` are concrete arrays by field, (times, *space)."""
    grid, fields = plan.problem.scope.grid, plan.problem.fields
    faced = sorted({axis for one in fields for axis in one.layout.faces})
    coords: dict[str, Any] = {}
    if grid.time is not None:
        coords[str(grid.time_name)] = time_coordinate(plan, times)
    for axis in grid.space:
        # With a staggered field every axis has both of its coordinates: the description of the grid names them all.
        used = {axis in one.layout.faces for one in fields} if not faced else {False, True}
        for face in sorted(used):
            coords |= space_coordinates(grid, axis, face)
    data: dict[str, Any] = {}
    staggers = topology(grid) if faced else None
    showing, first = plan.structure.showing, [] if grid.time is None else [str(grid.time_name)]
    for one in fields if showing is None else ():
        dims = first + [f"{axis}_face" if axis in one.layout.faces else axis for axis in grid.space]
        attributes = field_attributes(one)
        if staggers is not None:
            attributes |= {"grid": TOPOLOGY, "location": location_of(grid, one.layout.faces)}
        data[one.name] = (tuple(dims), np.asarray(history[one.name]), attributes)
    if showing is not None:
        return _parts(plan, showing, coords, first, history)
    conventions = CONVENTIONS
    if staggers is not None:
        data[TOPOLOGY] = ((), np.int32(0), staggers)
        conventions = f"{CONVENTIONS} SGRID-0.3"
    return xr.Dataset(data, coords, attrs={"Conventions": conventions, **plan_attributes(plan)})


def _parts(plan: Plan, showing: Showing, coords: dict[str, Any], first: list[str], history: Mapping[str, Any]) -> Any:
    """What a save kept of fields: each with the coordinates of what is left of it; where two differ, under its own."""
    grid, by_name, found = plan.problem.scope.grid, {one.name: one for one in plan.problem.fields}, []
    whole = xr.Dataset(coords=coords)
    for part in showing.fields:
        one, cut, methods = by_name[part.name], whole, []
        called = {axis: f"{axis}_face" if axis in one.layout.faces else axis for axis in grid.space}
        for step in part.steps:
            if isinstance(step, Cut):
                dim, kept = called[step.axis], slice(step.start, step.stop, step.step)
                cut = _at_point(cut, dim, step.start) if step.drop else cut.isel({dim: kept})
                continue
            for axis in step.axes:
                cut = _as_one_cell(cut, called[axis])
            methods.append(f"{': '.join(called[axis] for axis in step.axes)}: {_METHODS[step.kind]}")
        if showing.averaged:
            methods.append(f"{first[0]}: mean")
        dims = [*first, *(called[axis] for axis in part.axes)]
        attributes = _reduced_attributes(one, grid, part) | ({"cell_methods": " ".join(methods)} if methods else {})
        left = {name: array for name, array in cut.coords.items() if set(array.dims) <= {*dims, "bnds"}}
        found.append(xr.Dataset({one.name: (dims, np.asarray(history[one.name]), attributes)}, left))
    merged = xr.merge(found, compat="no_conflicts", join="outer") if len(found) > 1 else found[0]
    return merged.assign_attrs({"Conventions": CONVENTIONS, **plan_attributes(plan)})


def _at_point(coords: xr.Dataset, dim: str, index: int) -> xr.Dataset:
    """Coordinates at one point of a dimension, which has no cell any more."""
    at = coords[dim].isel({dim: index})
    attributes = {name: value for name, value in at.attrs.items() if name != "bounds"}
    return coords.drop_dims(dim).assign_coords({dim: ((), at.values, attributes)})


def _as_one_cell(coords: xr.Dataset, dim: str) -> xr.Dataset:
    """Coordinates without a dimension: what is left of it is one cell, from its first end to its last."""
    attributes, ends = coords[dim].attrs, coords[f"{dim}_bnds"].values
    ends = np.array([ends[0, 0], ends[-1, 1]])
    return coords.drop_dims(dim).assign_coords({dim: ((), ends.mean(), attributes), f"{dim}_bnds": ("bnds", ends)})


_METHODS = {"mean": "mean", "integral": "sum", "max": "maximum", "min": "minimum"}


def _reduced_attributes(one: Field, grid: Grid, part: Shown) -> dict[str, Any]:
    """The attributes of what was kept of a field: an integral is in other units, and is not the quantity itself."""
    attributes = field_attributes(one)
    lengths = [
        None if grid.space_axis(axis).metric else grid.space_axis(axis).units
        for step in part.steps
        if isinstance(step, Reduction) and step.kind == "integral"
        for axis in step.axes
    ]
    if lengths:
        attributes.pop("standard_name", None)
        units = [attributes.pop("units", None), *lengths]
        if all(units):
            attributes["units"] = " ".join(map(str, units))
    return attributes


def field_attributes(one: Field) -> dict[str, Any]:
    """Units and what the declaration gives besides; the name stands for a long name."""
    return {**({"units": one.units} if one.units else {}), "long_name": one.name, **dict(one.attrs or {})}


def space_coordinates(grid: Grid, axis: str, face: bool) -> dict[str, Any]:
    """The coordinate of the points, or faces, of an axis, and the bounds of their cells."""
    owner, name = grid.space_axis(axis), f"{axis}_face" if face else axis
    attributes = axis_attributes(grid, axis)
    if face:
        attributes["long_name"] = f"{attributes['long_name']}, at faces"
        attributes["c_grid_axis_shift"] = shift_of(owner)
    bounds = f"{name}_bnds"
    ends = owner.ends(face)
    return {
        name: (name, owner.positions(face, 0, owner.size(face)), {**attributes, "bounds": bounds}),
        bounds: ((name, "bnds"), np.stack([ends[:-1], ends[1:]], axis=1)),
    }


def axis_attributes(grid: Grid, axis: str) -> dict[str, Any]:
    """Units, CF's letter of the axis, and what the declaration gives besides."""
    owner: Axis = grid.space_axis(axis)
    units = owner.units or ("rad" if owner.metric in _ANGLES else None)
    attributes: dict[str, Any] = {"units": units} if units else {}
    attributes["long_name"] = f"{axis} ({owner.metric})" if owner.metric else axis
    letter = letters_of(grid).get(axis)
    if letter == "Z" and not units:
        letter = None  # what CF takes for a height has units
    if letter is not None:
        attributes["axis"] = letter
    if letter == "Z":
        attributes["positive"] = "down" if axis == "depth" else "up"
    return {**attributes, **dict(owner.attrs)}


def plan_attributes(plan: Plan) -> dict[str, Any]:
    """What was solved and with what: versions, the plan, the rules, and the parameters that fit into attributes."""
    problem = plan.problem
    title = f"{', '.join(problem.names)} over {', '.join(problem.scope.grid.names)}"
    attributes: dict[str, Any] = {"title": title, "source": versions(), "plan": str(plan)}
    for name, assignments in plan.problem.assignments.items():
        attributes[f"rules_{name}"] = "; ".join(a.describe(name) for a in assignments)
    for name, value in plan.parameters.items():
        key = name
        while key in FIRST_NAMES or key in attributes:
            key = f"parameter_{key}"
        if is_quantity(value):
            attributes[f"{key}_units"], value = name_of(value.unit), value.mantissa
        if not isinstance(value, Tracer) and (written := _written(value)) is not None:
            attributes[key] = written
    return attributes


def versions() -> str:
    """The versions of what computed."""
    package = importlib.import_module(__name__.partition(".")[0])
    python = ".".join(map(str, sys.version_info[:3]))
    return f"fdsolve {package.__version__} (JAX {jax.__version__}, NumPy {np.__version__}, Python {python})"


def _written(value: Any) -> Any:
    """A parameter as NetCDF holds attributes: text, a number, or up to 16 of them; None for others."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float | complex | np.ndarray | np.generic | jax.Array):
        return None
    array = np.asarray(jax.random.key_data(value) if are_keys(value) else value)
    if array.size > 16 or array.ndim > 1 or not array.size:
        return None
    if array.dtype.kind == "b":
        array = array.astype(np.int8)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        return str(array.tolist())
    return array.item() if array.ndim == 0 else array

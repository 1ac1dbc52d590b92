"""The units of DataArrays that are assigned, against those of the field they are for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

from ..boundary import Dirichlet, Neumann
from ..field import Assignment, Field, Interpolate, Rate, Residual, bare
from ..units import conversion, rescaled, units_of
from ._units import map_values


def in_declared_units(
    together: Sequence[Field], assignments: Mapping[str, tuple[Assignment, ...]]
) -> dict[str, tuple[Assignment, ...]]:
    """The assignments with the values of DataArrays in the units that the fields are declared in.

    Values are in the field's units, rates in those over the time axis', fluxes of `Neumann` in those over the axes'.
    DataArrays without units, fields without, coefficients of other conditions and parameters are taken as they are.

    Raises: DeclarationError where units differ and cannot be converted.
    """
    return {one.name: tuple(_converted(one, given) for given in assignments[one.name]) for one in together}


def _converted(owner: Field, assignment: Assignment) -> Assignment:
    wanted, whose = _wanted(owner, assignment.rule)
    if not wanted:
        return assignment
    what = f"The DataArray of rule {assignment.describe(owner.name)}"

    def convert(value: Any) -> Any:
        source = value.array if isinstance(value, Interpolate) else value
        given = units_of(source)
        if not isinstance(source, xr.DataArray) or given is None:
            return value
        made = rescaled(source, conversion(given, wanted, what, whose))
        return value if made is source else Interpolate(made) if isinstance(value, Interpolate) else made

    rule = map_values(assignment.rule, convert)
    return assignment if rule is assignment.rule else replace(assignment, rule=rule)


def _wanted(owner: Field, rule: Any) -> tuple[dict[str, int], str]:
    """The units that the arrays of a rule have, by power, and of what they are; none where that is not known."""
    if owner.units is None or isinstance(rule, Residual) or not _is_array(bare(rule)):
        return {}, ""
    units, name = str(owner.units), f"`{owner.name}`"
    if isinstance(rule, Rate):
        time = owner.grid.time.units if owner.grid.time is not None else None
        return ({units: 1, str(time): -1} if time is not None else {}), f"the rate of {name}"
    if isinstance(rule, Neumann):
        lengths = {owner.grid.space_axis(axis).units for axis in owner.grid.space}
        plain = all(owner.grid.space_axis(axis).metric is None for axis in owner.grid.space)
        known = plain and len(lengths) == 1 and None not in lengths
        return ({units: 1, str(lengths.pop()): -1} if known else {}), f"∂{owner.name}/∂n"
    return {units: 1}, name


def _is_array(value: Any) -> bool:
    """Whether a rule is made of an array whose units are those of values, rates or fluxes."""
    return isinstance(value, xr.DataArray | Interpolate | Dirichlet | Neumann)

"""The units of DataArrays that are assigned, against those of the field they are for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

from ..field import AbstractBoundary, Assignment, Dimension, Field, Interpolate, Rate, Residual, bare
from ..units import conversion, rescaled, units_of
from ._units import changed, map_values
from ._wall_units import across, told

_SHOWN = {Dimension(field=1): "`{}`", Dimension(field=1, length=-1): "∂{}/∂n"}
"""What stands at a wall, in messages; other coefficients go by their names."""


def in_declared_units(
    together: Sequence[Field], assignments: Mapping[str, tuple[Assignment, ...]]
) -> dict[str, tuple[Assignment, ...]]:
    """The assignments with the values of DataArrays in the units that the fields are declared in.

    Values are in the field's units, rates in those over the time axis', fluxes of `Neumann` in those over the axes',
    speeds of `Outflow` in the axes' over the time axis', and so on; the terms of `Robin` are in the units of the first
    of its coefficients that has any. DataArrays without units, fields without, and parameters are taken as they are.

    Raises: DeclarationError where units differ and cannot be converted.
    """
    return {one.name: tuple(_converted(one, given) for given in assignments[one.name]) for one in together}


def _converted(owner: Field, assignment: Assignment) -> Assignment:
    rule, what = assignment.rule, f"The DataArray of rule {assignment.describe(owner.name)}"
    if isinstance(rule, AbstractBoundary):
        made = _converted_wall(owner, assignment, what)
    else:
        wanted, whose = _wanted(owner, rule)
        made = map_values(rule, lambda value: _in_units(value, wanted, what, whose)) if wanted else rule
    return assignment if made is rule else replace(assignment, rule=made)


def _in_units(value: Any, wanted: Mapping[str, int], what: str, whose: str) -> Any:
    """A DataArray in some units; anything else as it is, and what says nothing of its units."""
    source = _source(value)
    given = units_of(source)
    if not isinstance(source, xr.DataArray) or given is None:
        return value
    made = rescaled(source, conversion(given, wanted, what, whose))
    return value if made is source else Interpolate(made) if isinstance(value, Interpolate) else made


def _source(value: Any) -> Any:
    return value.array if isinstance(value, Interpolate) else value


def _wanted(owner: Field, rule: Any) -> tuple[dict[str, int], str]:
    """The units that the array of a rule is in, by power, and of what they are; none where that is not known."""
    if owner.units is None or isinstance(rule, Residual) or not isinstance(bare(rule), xr.DataArray | Interpolate):
        return {}, ""
    units, name = str(owner.units), f"`{owner.name}`"
    if isinstance(rule, Rate):
        time = owner.grid.time.units if owner.grid.time is not None else None
        return ({units: 1, str(time): -1} if time is not None else {}), f"the rate of {name}"
    return {units: 1}, name


def _converted_wall(owner: Field, assignment: Assignment, what: str) -> Any:
    """A condition with its arrays in the units that they stand in, where these are known."""
    rule = assignment.rule
    given = {key: units_of(_source(getattr(rule, key))) for key in rule.dimensions} if told(rule) else {}
    given = {key: units for key, units in given.items() if units is not None}
    if not given:
        return rule
    names = _names(owner, assignment)
    powers = {key: _powers(dimension, names) for key, dimension in rule.dimensions.items()}
    values, first = {}, next(iter(given))
    for key in given:
        wanted, shown = powers[key], _SHOWN.get(rule.dimensions[key], f"its `{key}`").format(owner.name)
        if rule.shares_factor:
            wanted = _beside(powers[first], given[first], wanted)
            shown = f"{shown} beside `{first}`"
        if wanted is not None and (key != first or not rule.shares_factor):
            values[key] = _in_units(getattr(rule, key), wanted, what, shown)
    return changed(rule, values)


def _names(owner: Field, assignment: Assignment) -> tuple[str | None, str | None, str | None]:
    """The units of the field, of the axes across the walls (None where they differ or are angles) and of time."""
    axes = [owner.grid.space_axis(axis) for axis in across(assignment, owner.layout)]
    lengths = {axis.units for axis in axes if axis.metric is None}
    length = lengths.pop() if len(lengths) == 1 and all(axis.metric is None for axis in axes) else None
    time = owner.grid.time.units if owner.grid.time is not None else None
    return tuple(None if one is None else str(one) for one in (owner.units, length, time))  # type: ignore


def _powers(dimension: Dimension, names: tuple[str | None, ...]) -> Counter[str] | None:
    """The units of what has a dimension, by power; None where one of them is not known."""
    result: Counter[str] = Counter()
    for name, power in zip(names, (dimension.field, dimension.length, dimension.time), strict=True):
        if power and name is None:
            return None
        if power and name is not None:
            result[name] += power
    return result


def _beside(first: Counter[str] | None, given: str, own: Counter[str] | None) -> Counter[str] | None:
    """The units of a term beside one in the units `given`: the same but for the powers in which the two differ."""
    if first is None or own is None:
        return None
    result = Counter({given: 1})
    result.update(own)
    result.subtract(first)
    return Counter({name: power for name, power in result.items() if power})

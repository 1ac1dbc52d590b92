"""Quantities in a declaration: taken apart into magnitudes, with what they were measured in put aside for the check."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from ..errors import PlanningError
from ..field import AbstractBoundary, Along, Assignment, Dimension, Field, Interpolate, Marked, Residual, Whole
from ..grid import Axis, Grid
from ..region import Layout
from ..units import (
    ONE,
    Measure,
    System,
    UnitName,
    Worth,
    in_words,
    is_quantity,
    magnitude,
    measure_of,
    name_of,
    rescaled,
    scaled,
    to_unit,
)
from ._arrays import label_assigned
from ._wall_units import WallUnits, told, with_plain_numbers

_VALUE = Dimension(field=1)
_ANGLES = ("angle", "colatitude", "azimuth")
Convert = Callable[[Any, Any], Any]
"""Takes a magnitude in the units that run and the unit it was given in (None: as it was)."""


@dataclass(frozen=True, eq=False)
class Units:
    """What the names of a declaration are measured in.

    `worths` are those of axes, fields and parameters, `shown` the units as they were written; `parameters` are in
    magnitudes; `named` are the assignments with each quantity read from a parameter of its own, which `extra` holds.
    `notes` are for the plan.
    """

    system: System
    worths: Mapping[str, Worth]
    shown: Mapping[str, str]
    parameters: Mapping[str, Any]
    named: Mapping[str, tuple[Assignment, ...]]
    extra: Mapping[str, Any]
    notes: tuple[str, ...]

    def measure(self, name: str) -> Measure | None:
        """The unit of an axis, a field or a parameter; None where it is not known."""
        return self.worths[name].measure

    def show(self, measure: Measure) -> str:
        """A unit in words."""
        return self.system.show(measure)


@dataclass(frozen=True, eq=False)
class Separated:
    """A declaration in magnitudes, and its units."""

    assignments: dict[str, tuple[Assignment, ...]]
    parameters: dict[str, Any]
    units: Units | None


def separate(
    together: Sequence[Field], assignments: dict[str, tuple[Assignment, ...]], parameters: Mapping[str, Any]
) -> Separated:
    """Takes the quantities of a declaration apart. Without any, it stays as it is, and there are no units."""
    grid = together[0].grid
    declared = {**{name: axis.units for name, axis in grid.axes.items()}, **{one.name: one.units for one in together}}
    used = [name for name, value in parameters.items() if _holds_quantity(value)]
    used += [one.describe(name) for name, ones in assignments.items() for one in ones if _holds_quantity(one.rule)]
    if not used and not any(isinstance(name, UnitName) for name in declared.values()):
        return Separated(assignments, dict(parameters), None)
    _refuse_missing(grid, together, declared, used)
    found = {name: to_unit(units) for name, units in declared.items()}
    measures = {name: measure_of(unit) for name, unit in found.items() if unit is not None}
    measures |= {name: ONE for name, units in declared.items() if units is None}  # angles
    system = System.of([(str(declared[name]), measures[name]) for name in measures])
    notes = [
        f"units {units!r} of `{name}` are none that saiunit knows: what reads it is not checked"
        for name, units in declared.items()
        if name not in measures
    ]
    worths = {name: Worth(measures.get(name), name in measures, frozenset({name})) for name in declared}
    shown = {name: str(units) for name, units in declared.items()}
    taker = _Taker(system, worths, shown)
    plain = {name: taker.parameter(name, value) for name, value in parameters.items()}
    layouts = {one.name: one.layout for one in together}
    bare, named, extra = {}, {}, {}
    for name, given in assignments.items():
        ones = tuple(taker.in_grid_units(one, layouts[name], name) for one in given)
        bare[name] = tuple(taker.plain(one) for one in ones)
        pairs = zip(ones, bare[name], strict=True)
        named[name] = tuple(taker.named(one, plainly, layouts[name], name, extra) for one, plainly in pairs)
    return Separated(bare, plain, Units(system, worths, shown, plain, named, extra, tuple(notes)))


def _refuse_missing(grid: Grid, together: Sequence[Field], declared: Mapping[str, Any], used: list[str]) -> None:
    """Quantities want units of all that rules read: those of the axes and of the fields."""
    missing = []
    for name, axis in grid.axes.items():
        if declared[name] is None and not (isinstance(axis, Axis) and axis.metric in _ANGLES):
            kind = "Axis" if isinstance(axis, Axis) else "Time"
            missing.append(f'{kind} `{name}` has no units= (such as "{"m" if kind == "Axis" else "s"}")')
    missing += [f'Field `{one.name}` has no units= ("1" if it has none)' for one in together if one.units is None]
    if missing:
        why = f"`{used[0]}` is a quantity" if used and "[" not in used[0] else "quantities take part"
        raise PlanningError(f"Units are checked, as {why}; what is missing: {'; '.join(missing)}.")


def _holds_quantity(value: Any) -> bool:
    return is_quantity(value) or any(is_quantity(part) for part in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """What a rule or a parameter is made of."""
    if isinstance(value, Along | Whole):
        yield value.array
    elif isinstance(value, Marked):
        yield value.function
        yield from _parts(value.function)
        if isinstance(value, Residual):
            yield value.guess
            yield from _parts(value.guess)
    elif isinstance(value, AbstractBoundary):
        yield from (getattr(value, key) for key in value.numbers)
        for coefficient in value.coefficients:
            yield coefficient
            yield from _parts(coefficient)


@dataclass(frozen=True, eq=False)
class _Taker:
    """Takes quantities apart, and keeps what the parameters among them are measured in."""

    system: System
    worths: dict[str, Worth]
    shown: dict[str, str]

    def parameter(self, name: str, value: Any) -> Any:
        """A parameter in magnitudes; what it is measured in is kept under its name."""
        number, unit = self._apart(value)
        source = frozenset({name})
        if unit is not None:
            self.worths[name] = Worth(self.system.adopt(measure_of(unit)), True, source)
            self.shown[name] = f"in {name_of(unit)}"
            return number
        self.worths[name] = Worth(None if _is_nothing(value) else ONE, True, source)
        self.shown[name] = "without a unit"
        return value

    def _apart(self, value: Any) -> tuple[Any, Any]:
        """A value's magnitude in the units that run, and its unit (None: it has none)."""
        if is_quantity(value):
            unit = value.unit
            return scaled(magnitude(value), self.system.factor(measure_of(unit))), unit
        if isinstance(value, Along | Whole) and is_quantity(value.array):
            number, unit = self._apart(value.array)
            return replace(value, array=number), unit
        source: Any = value.array if isinstance(value, Interpolate) else value
        unit = to_unit(source.attrs.get("units")) if isinstance(source, xr.DataArray) else None
        if unit is None:
            return value, None
        source = rescaled(source, self.system.factor(measure_of(unit)))
        return (Interpolate(source) if isinstance(value, Interpolate) else source), unit

    def plain(self, assignment: Assignment) -> Assignment:
        """An assignment in magnitudes."""
        rule = map_values(assignment.rule, lambda value: self._apart(value)[0])
        return assignment if rule is assignment.rule else replace(assignment, rule=rule)

    def named(
        self, assignment: Assignment, plain: Assignment, layout: Layout, name: str, extra: dict[str, Any]
    ) -> Assignment:
        """An assignment whose quantities are parameters of their own, and whose arrays cover whole axes.

        So are plain coefficients of conditions, in the units that they stand in. Raises PlanningError where the
        coefficients of a condition do not go together, and for values with units in a field whose unit is not known.
        """

        def convert(value: Any, is_value: bool, meant: Measure | None = None) -> Any:
            number, unit = self._apart(value)
            if unit is not None and is_value and not self.worths[name].known:
                raise PlanningError(
                    f"Rule {plain.describe(name)}: saiunit does not know the unit {self.shown[name]!r} of `{name}`, "
                    f"and cannot tell what the value {_shown(value, unit)} is in it. Give a plain number in that "
                    f"unit, or `{name}` one that saiunit knows."
                )
            pinned = _pinned(number, plain, layout, name)
            if unit is None and (meant is None or _is_zero(number)):
                return pinned
            key = f"quantity_{len(extra)}"
            extra[key] = pinned
            own = meant if unit is None else self.system.adopt(measure_of(unit))
            self.worths[key] = Worth(own, True, frozenset({key}))
            self.shown[key] = "without a unit" if unit is None else f"in {name_of(unit)}"
            return _reading(key, _shown(value, unit))

        rule = assignment.rule
        if not told(rule):
            is_value = not isinstance(rule, Marked | AbstractBoundary)
            return replace(assignment, rule=map_values(rule, partial(convert, is_value=is_value)))
        meant = self._meant(assignment, layout, name)
        values = {}
        for key, dimension in rule.dimensions.items():
            is_value = dimension == _VALUE and not rule.shares_factor
            values[key] = map_values(getattr(rule, key), partial(convert, meant=meant[key], is_value=is_value))
        return replace(assignment, rule=changed(rule, values))

    def _meant(self, assignment: Assignment, layout: Layout, name: str) -> dict[str, Measure | None]:
        """The units that plain coefficients of a condition stand in; None where that is not known."""
        rule, units = assignment.rule, WallUnits.of(assignment, name, layout, self.system, self.worths)
        values = {key: getattr(rule, key) for key in rule.dimensions}
        factor: Measure | None = ONE
        if rule.shares_factor:
            found = {key: self._apart(value)[1] for key, value in values.items()}
            known = {key: self.system.adopt(measure_of(unit)) for key, unit in found.items() if unit is not None}
            factor = units.factor(rule.dimensions, known)
            if not known and not any(map(_is_function, values.values())):
                factor = units.field  # as if the field itself were among the terms
        meant: dict[str, Measure | None] = {}
        for key, dimension in rule.dimensions.items():
            # What is in the field's own unit needs no parameter: a number takes it from what it is added to.
            free = dimension == _VALUE and not rule.shares_factor
            own = None if free else units.measure(dimension)
            meant[key] = None if own is None or factor is None else own * factor
        return meant

    def in_grid_units(self, assignment: Assignment, layout: Layout, name: str) -> Assignment:
        """An assignment whose rule has its widths and speeds as plain numbers. Raises PlanningError."""
        rule = assignment.rule
        if not isinstance(rule, AbstractBoundary) or not any(is_quantity(getattr(rule, key)) for key in rule.numbers):
            return assignment
        units = WallUnits.of(assignment, name, layout, self.system, self.worths)
        return replace(assignment, rule=with_plain_numbers(assignment, units))


def map_values(rule: Any, convert: Callable[[Any], Any]) -> Any:
    """A rule with its values converted: numbers, arrays and quantities, also inside rates and conditions."""
    if isinstance(rule, Residual):
        return changed(rule, {"function": map_values(rule.function, convert), "guess": map_values(rule.guess, convert)})
    if isinstance(rule, Marked):
        return changed(rule, {"function": map_values(rule.function, convert)})
    if isinstance(rule, AbstractBoundary):
        own = {field.name: getattr(rule, field.name) for field in fields(rule)}  # type: ignore[arg-type]
        meant = {key: value for key, value in own.items() if any(value is one for one in rule.coefficients)}
        return changed(rule, {key: map_values(value, convert) for key, value in meant.items()})
    return rule if rule is None or _is_function(rule) else convert(rule)


def changed(rule: Any, values: Mapping[str, Any]) -> Any:
    """A copy with other values; the rule itself where there are none. Values were checked when it was made."""
    if all(getattr(rule, key) is value for key, value in values.items()):
        return rule
    result = copy.copy(rule)
    for key, value in values.items():
        object.__setattr__(result, key, value)
    return result


def _is_function(value: Any) -> bool:
    return callable(value) and not hasattr(value, "dtype")


def _is_zero(value: Any) -> bool:
    """Whether a number is zero, which has any unit."""
    return isinstance(value, int | float) and value == 0


def _pinned(value: Any, assignment: Assignment, layout: Layout, name: str) -> Any:
    """An assigned array over the whole of its axes, whatever the region was; numbers as they are."""
    inner = value.array if isinstance(value, Whole) else value
    labelled = label_assigned(inner, assignment, layout, f"Rule {assignment.describe(name)}")
    if labelled is None:
        return value
    return Along(labelled.array, labelled.axes, layout.faces & frozenset(labelled.axes))


def _reading(key: str, name: str) -> Callable[[Any], Any]:
    """A rule that gives the value of a parameter."""

    def read(value: Any) -> Any:
        return value

    parameter = inspect.Parameter(key, inspect.Parameter.POSITIONAL_ONLY)
    read.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    read.__name__ = name
    return read


def _shown(value: Any, unit: Any) -> str:
    """A quantity, or a plain number or array where `unit` is None, in messages."""
    if unit is None:
        return str(value) if isinstance(value, int | float | complex) else type(value).__name__
    return in_words(value) if is_quantity(value) else f"array in {name_of(unit)}"


def _is_nothing(value: Any) -> bool:
    """Whether a parameter is a whole number, a flag, a function: what has no unit to miss."""
    if (
        value is None
        or isinstance(value, bool | int | str | bytes)
        or (callable(value) and not hasattr(value, "dtype"))
    ):
        return True
    dtype = getattr(value, "dtype", None)
    return dtype is not None and np.dtype(dtype).kind in "iub"


def in_magnitudes(problem: Any) -> tuple[tuple[Field, ...], dict[str, Any]]:
    """The fields and parameters of a problem without its quantities: the same numbers, and no units to check."""
    axes = {
        name: changed(axis, {"units": axis.units and str(axis.units)}) for name, axis in problem.scope.grid.axes.items()
    }
    found = []
    for one in problem.fields:
        units = one.units and str(one.units)
        plain = Field(one.name, Grid(**axes), at=one.at, units=units, dtype=one.dtype, attrs=one.attrs)
        plain.assignments.extend(problem.assignments[one.name])
        found.append(plain)
    return tuple(found), dict(problem.units.parameters)


def longer(grid: Grid, names: frozenset[str], factor: float) -> Grid:
    """The grid with some axes longer by a factor."""
    axes = {}
    for name, axis in grid.axes.items():
        if name not in names or not isinstance(axis, Axis):
            axes[name] = axis
            continue
        options = {"periodic": axis.periodic, "cells": axis.cells, "metric": axis.metric}
        if axis.uniform:
            axes[name] = Axis(axis.lower * factor, axis.upper * factor, axis.num, **options)
            continue
        period = axis.length * factor if axis.periodic else None
        axes[name] = Axis.from_points(axis.points * factor, period=period, **options)
    return Grid(**axes)


def groups(grid: Grid, units: Units) -> dict[frozenset[str], Measure | None]:
    """The space axes that are measured alike, with their unit; angles have none and are left out."""
    found: dict[Any, set[str]] = {}
    for name in grid.space:
        worth = units.worths[name]
        if worth.known and (worth.measure is None or worth.measure.is_one):
            continue
        found.setdefault(worth.measure if worth.known else name, set()).add(name)
    return {frozenset(names): key if isinstance(key, Measure) else None for key, names in found.items()}

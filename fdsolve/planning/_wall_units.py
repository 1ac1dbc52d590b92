"""What the numbers at a wall are measured in, from the units of the field, of the axis across and of time."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import PlanningError
from ..field import AbstractBoundary, Assignment, Dimension
from ..grid import Grid, scaling_axes
from ..region import Layout, Points
from ..units import ONE, Measure, System, Worth, is_quantity, magnitude, measure_of, name_of, scaled
from ._walls import claim_walls


@dataclass(frozen=True, eq=False)
class WallUnits:
    """The units at the walls of an assignment; None where one is not known, or not the same for all of them.

    `label` is the assignment in messages.
    """

    label: str
    system: System
    field: Measure | None
    length: Measure | None
    time: Measure | None

    @classmethod
    def of(
        cls, assignment: Assignment, name: str, layout: Layout, system: System, worths: Mapping[str, Worth]
    ) -> "WallUnits":
        """Those of an assignment to the field `name`."""
        found = [_length(layout.grid, axis, worths) for axis in across(assignment, layout)]
        alike = bool(found) and found[0] is not None and all(one is not None and one == found[0] for one in found)
        time = layout.grid.time_name
        return cls(
            assignment.describe(name),
            system,
            worths[name].measure,
            found[0] if alike else None,
            None if time is None else worths[time].measure,
        )

    def measure(self, dimension: Dimension) -> Measure | None:
        """The unit of what has a dimension; None where that is not known."""
        result = ONE
        powers = (dimension.field, dimension.length, dimension.time)
        for one, power in zip((self.field, self.length, self.time), powers, strict=True):
            if power and one is None:
                return None
            result = result if one is None or not power else result * one**power
        return result

    def number(self, key: str, value: Any, dimension: Dimension) -> Any:
        """A quantity that a condition takes as a plain number, in the units of the grid. Raises PlanningError."""
        wanted = self.measure(dimension)
        if wanted is None:
            raise PlanningError(
                f"{self.label}: the axes across these walls have no unit in common that is known, and {key}= is in "
                f"{name_of(value.unit)}. Give it as a plain number in their units, wall by wall."
            )
        given = measure_of(value.unit)
        if given.exponents != wanted.exponents:
            raise PlanningError(
                f"{self.label}: {key}= is in {name_of(value.unit)}; in {self.system.show(wanted)} it would fit."
            )
        factor = given.size / wanted.size
        return scaled(magnitude(value), 1.0 if abs(factor - 1) < 1e-14 else factor)

    def factor(self, dimensions: Mapping[str, Dimension], given: Mapping[str, Measure]) -> Measure | None:
        """The unit that coefficients have in common beyond their dimensions, from those whose unit is known.

        None where it is not told. Raises PlanningError where they differ.
        """
        units = {key: self.measure(dimensions[key]) for key in given}
        found = {key: given[key] / unit for key, unit in units.items() if unit is not None}
        if not found:
            return None
        agreed = max(found.values(), key=lambda one: sum(one.is_like(other) for other in found.values()))
        others = [key for key, one in found.items() if not one.is_like(agreed)]
        if others:
            shown = [f"{self.system.show(one)} (`{key}`)" for key, one in found.items()]
            wanted = [f"`{key}` in {self.system.show(agreed * units[key])}" for key in others]  # type: ignore[operator]
            kept = " and ".join(f"`{key}`" for key in found if key not in others)
            raise PlanningError(
                f"the terms of {self.label} have units {_listed(shown)}; beside {kept}, {_listed(wanted)} would fit."
            )
        return agreed


def with_plain_numbers(assignment: Assignment, units: WallUnits) -> Any:
    """The rule of an assignment to walls with its widths and speeds as magnitudes in the units of the grid."""
    rule = assignment.rule
    held = {key: getattr(rule, key) for key in rule.numbers if is_quantity(getattr(rule, key))}
    if not held:
        return rule
    result = copy.copy(rule)
    for key, value in held.items():
        object.__setattr__(result, key, units.number(key, value, rule.numbers[key]))
    return result


def told(rule: Any) -> bool:
    """Whether it is told what the coefficients of a rule are measured in."""
    return isinstance(rule, AbstractBoundary) and len(rule.dimensions) == len(rule.coefficients) > 0


def across(assignment: Assignment, layout: Layout) -> tuple[str, ...]:
    """The axes across the walls that a region lies on; all of them for a hole."""
    points = Points()
    for term in assignment.terms.terms:
        points = points.union(term.points)
    sides = claim_walls(points, layout).walls
    return tuple(dict.fromkeys(layout.space[side.axis] for side in sides)) or layout.space


def _length(grid: Grid, axis: str, worths: Mapping[str, Worth]) -> Measure | None:
    """The unit of the distance along an axis: of arcs that of the radius; not known without one."""
    measure = worths[axis].measure
    if grid.space_axis(axis).metric is None or measure != ONE:
        return measure
    radii = [other for other in scaling_axes(grid.axes, axis) if worths[other].measure != ONE]
    return worths[radii[0]].measure if radii else None


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"

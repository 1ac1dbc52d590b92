"""A declaration on a finer grid: the same points and regions, closer together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import FdsolveError
from ..field import Field
from ..grid import Axis, Grid, Time
from ..planning import Plan, final, make_plan
from ..region import Layout


def scaled_plan(plan: Plan, at: Mapping[str, float], space: float, time: float) -> Plan | str:
    """The plan of the same declaration with all spacings and the time step scaled; or why there is none.

    Only what rules read of spacings and coordinates changes: regions and arrays stay as they were, by index. A place
    `at` which weights are frozen keeps its coordinates.
    """
    grid = plan.problem.scope.grid
    own_time = grid.time
    assert own_time is not None
    axes: dict[str, Any] = {}
    for name, axis in grid.axes.items():
        if isinstance(axis, Time):
            first, last = (at.get(name, axis.start) * (1 - time) + end * time for end in (axis.start, axis.stop))
            axes[name] = Time(first, last, num=axis.num, units=axis.units)
        else:
            lower, upper = (at.get(name, axis.lower) * (1 - space) + end * space for end in (axis.lower, axis.upper))
            axes[name] = Axis(lower, upper, axis.num, periodic=axis.periodic, cells=axis.cells, units=axis.units)
    fields = [_on_grid(one, Grid(**axes)) for one in plan.problem.fields]
    try:
        return make_plan(fields, plan.parameters, plan.structure.stepper, final())
    except FdsolveError as error:
        return str(error)


def _on_grid(one: Field, grid: Grid) -> Field:
    """A field with the same assignments, by index, on another grid of the same shape."""
    moved = Field(one.name, grid, at=one.at, units=one.units, dtype=one.dtype)
    moved.assignments.extend(_relaid(one.assignments, moved.layout))
    return moved


def _relaid(assignments: Sequence[Any], layout: Layout) -> list[Any]:
    return [replace(a, terms=replace(a.terms, layout=layout)) for a in assignments]

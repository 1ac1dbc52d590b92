"""Phases: levels that share a structure, and on each of them the points that every rule defines."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..field import AbstractCondition, AbstractLayer, AbstractPeriodic, Assignment, Normal, Rate, Residual
from ..region import Box, Layout, Part, Points, Predicate
from ._poles import pole_walls
from ._problem import Problem
from ._walls import Claims, Side, claim_walls

_KINDS = {Rate: "rate", Residual: "residual"}


@dataclass(frozen=True, eq=False)
class Span:
    """The points on which one assignment acts in a phase, in the order of assignment; on which wall, if that counts."""

    index: int
    assignment: Assignment
    points: Points
    predicate: Predicate | None
    kind: str  # "value" | "rate" | "residual"
    adds: bool
    side: Side | None = None


@dataclass(frozen=True, eq=False)
class WallSpan:
    """The wall points for which a condition supplies ghost values."""

    index: int
    assignment: Assignment
    side: Side
    points: Points


@dataclass(frozen=True, eq=False)
class LayerSpan:
    """The points of a layer along a wall."""

    index: int
    assignment: Assignment
    side: Side
    points: Points


@dataclass(frozen=True, eq=False)
class Hole:
    """An inner region cut out by a ghost condition; `predicate` where its shape depends on parameters. It repeats
    beyond the ends of the axes that are `rings`."""

    index: int
    assignment: Assignment
    points: Points
    predicate: Predicate | None
    rings: frozenset[int]


@dataclass(eq=False)
class FieldPhase:
    """One field in one phase."""

    spans: list[Span] = field(default_factory=list)
    walls: list[WallSpan] = field(default_factory=list)
    layers: list[LayerSpan] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    values: Points = field(default_factory=Points)
    rates: Points = field(default_factory=Points)
    residuals: Points = field(default_factory=Points)
    uncovered: Points = field(default_factory=Points)


@dataclass(eq=False)
class Phase:
    """Levels with the same structure: `levels` (sorted), and each field's points."""

    levels: np.ndarray
    fields: dict[str, FieldPhase]


def make_phases(problem: Problem) -> tuple[list[Phase], list[int]]:
    """The phases of a problem, and the index of the phase of each level."""
    columns = [
        term.levels
        for name in problem.names
        for assignment in problem.assignments[name]
        for term in assignment.terms.terms
    ]
    signature = np.stack(columns)
    patterns: dict[bytes, int] = {}
    of_level = [patterns.setdefault(signature[:, n].tobytes(), len(patterns)) for n in range(signature.shape[1])]
    phases = []
    for phase in range(len(patterns)):
        levels = np.flatnonzero(np.asarray(of_level) == phase)
        phases.append(Phase(levels, {name: _field_phase(problem, name, int(levels[0])) for name in problem.names}))
    return phases, of_level


def is_initial(levels: np.ndarray) -> bool:
    """Whether levels are the first few and not all: those of an initial state."""
    count = int(levels.sum())
    return 0 < count < levels.size and bool(levels[:count].all())


def _are_starting(problem: Problem, name: str) -> list[bool]:
    """Which assignments of a field give its first levels, one after the other or together, by what reads no field:
    `u[0] = f` and `u[1] = g` as `u[:2]`. At their levels boundary conditions stay what they are, and come before them.
    """
    found, count = [], 0
    levels = [np.logical_or.reduce([term.levels for term in one.terms.terms]) for one in problem.assignments[name]]
    fixed = [_reads_no_field(one.rule, problem.names) for one in problem.assignments[name]]
    for _ in levels:
        more = [int(np.flatnonzero(own)[-1]) + 1 for own, still in zip(levels, fixed, strict=True)
                if own.any() and not own[-1] and still and int(np.argmax(own)) <= count and _is_run(own)]  # fmt: skip
        if max(more, default=0) <= count:
            break
        count = max(more)
    for own, still in zip(levels, fixed, strict=True):
        found.append(is_initial(own) or bool(still and own.any() and not own[count:].any()))
    return found


def _is_run(levels: np.ndarray) -> bool:
    """Whether levels follow each other without a gap."""
    at = np.flatnonzero(levels)
    return int(at[-1] - at[0]) + 1 == at.size


def _reads_no_field(rule: Any, names: Sequence[str]) -> bool:
    """Whether a rule is values, or a function of coordinates and parameters alone."""
    if isinstance(rule, Number) or hasattr(rule, "dtype"):
        return True
    if not inspect.isfunction(rule):
        return False
    return not set(inspect.signature(rule).parameters) & set(names)


@dataclass(frozen=True, eq=False)
class _Entry:
    index: int
    assignment: Assignment
    points: Points
    predicate: Predicate | None
    starting: bool
    claims: Claims | None


def _active_entries(problem: Problem, name: str, level: int) -> list[_Entry]:
    layout = problem.scope.layouts[name]
    entries, starting = [], _are_starting(problem, name)
    for index, assignment in enumerate(problem.assignments[name]):
        if isinstance(assignment.rule, AbstractLayer):
            continue
        condition = isinstance(assignment.rule, AbstractCondition)
        for points, predicate in _active_points(assignment, level):
            claims = None
            if condition:
                _check_predicate(assignment, predicate, name, problem)
                joins = isinstance(assignment.rule, AbstractPeriodic)
                claims = Claims({}, points) if predicate is not None else claim_walls(points, layout, seams=joins)
                _check_not_periodic(claims, layout, assignment, name)
            entries.append(_Entry(index, assignment, points, predicate, starting[index], claims))
    first = next((i for i, entry in enumerate(entries) if entry.starting and entry.claims is None), None)
    if first is None:
        return entries
    # The initial state stands at its levels: conditions come before it there, wherever they were assigned.
    moved = [entry for entry in entries[first:] if entry.claims is not None]
    stay = [entry for entry in entries[first:] if entry.claims is None]
    return entries[:first] + moved + stay


def _active_points(assignment: Assignment, level: int) -> list[tuple[Points, Predicate | None]]:
    """The points of an assignment at a level: those it covers in any case together, then those under predicates."""
    active = [term for term in assignment.terms.terms if term.levels[level]]
    certain = Points()
    for term in active:
        if term.predicate is None:
            certain = certain.union(term.points) if certain.parts else term.points  # as it was written: ends apart
    found: list[tuple[Points, Predicate | None]] = [] if certain.empty else [(certain, None)]
    return found + [(term.points, term.predicate) for term in active if term.predicate is not None]


def _field_phase(problem: Problem, name: str, level: int) -> FieldPhase:
    layout, result = problem.scope.layouts[name], FieldPhase()
    entries = _active_entries(problem, name, level)
    in_order = sorted(entries, key=lambda entry: entry.index)  # also where the initial state stands before conditions
    _place_ghosts(in_order, layout, result)
    poles = pole_walls(layout, [(wall.side, wall.points) for wall in result.walls])
    result.walls.extend(WallSpan(-1, assignment, side, points) for assignment, side, points in poles)
    covered = Points()
    for hole in result.holes:
        if hole.predicate is None:
            covered = covered.union(hole.points)
    walls: dict[Side, Points] = {}
    for entry in reversed(entries):
        kind = _KINDS.get(type(entry.assignment.rule), "value")
        points = entry.points if entry.claims is None else _valued_points(entry, layout, walls)
        visible = points.subtract(covered)
        for side, part in _by_side(entry, visible):
            adds = entry.assignment.adds
            result.spans.append(Span(entry.index, entry.assignment, part, entry.predicate, kind, adds, side))
        if entry.predicate is None and not entry.assignment.adds:
            covered = covered.union(points)
    result.spans.reverse()
    result.layers = _find_layers(problem, name, level)
    _sort_kinds(result, layout)
    return result


def _by_side(entry: _Entry, points: Points) -> list[tuple[Side | None, Points]]:
    """Points by the wall they lie on, for a condition that asks for the normal there; all together for others."""
    if points.empty:
        return []
    if entry.claims is None or not asks_for_normal(entry.assignment.rule):
        return [(None, points)]
    found, rest = [], points
    for side, wall in entry.claims.walls.items():
        part = rest.intersect(wall)
        rest = rest.subtract(wall)
        if not part.empty:
            found.append((side, part))
    return found + ([] if rest.empty else [(None, rest)])


def asks_for_normal(condition: AbstractCondition) -> bool:
    """Whether a rule of a condition has `fd.boundary.normal` among its arguments."""
    rules = [one for one in condition.coefficients if callable(one) and not hasattr(one, "dtype")]
    return any(isinstance(p.default, Normal) for one in rules for p in inspect.signature(one).parameters.values())


def _find_layers(problem: Problem, name: str, level: int) -> list[LayerSpan]:
    """The layers of a field, each with its points within its width of a wall."""
    layout, found = problem.scope.layouts[name], []
    for index, assignment in enumerate(problem.assignments[name]):
        if not isinstance(assignment.rule, AbstractLayer):
            continue
        for points, predicate in _active_points(assignment, level):
            claims = claim_walls(points, layout)
            if predicate is not None or not claims.inner.empty:
                raise DeclarationError(
                    f"{assignment.describe(name)}: a layer lies along walls, as in "
                    f"{name}[dict({layout.space[0]}=[0, -1])] = {assignment.rule!r}; take such a region."
                )
            _check_not_periodic(claims, layout, assignment, name)
            for side, wall in claims.walls.items():
                thick = thicken(wall, side, layout, assignment.rule.width)
                if not thick.empty:
                    found.append(LayerSpan(index, assignment, side, thick))
    return found


def thicken(wall: Points, side: Side, layout: Layout, width: float) -> Points:
    """The points behind the points of a wall, as far as `width` along the axis."""
    name, size = layout.space[side.axis], layout.space_shape[side.axis]
    axis = layout.grid.space_axis(name)
    places = axis.positions(name in layout.faces, 0, size)
    depths = axis.upper - places if side.upper else places - axis.lower
    count = int(np.count_nonzero(depths < width))
    start, stop = (size - count, size) if side.upper else (0, count)
    parts = []
    for part in wall.parts:
        mask = None if part.mask is None else part.mask.repeat(count, axis=side.axis)
        parts.append(Part(part.box.with_range(side.axis, start, stop), mask))
    return Points(tuple(parts)) if count else Points()


def _place_ghosts(entries: list[_Entry], layout: Layout, result: FieldPhase) -> None:
    """Finds the wall points and holes of each ghost condition that no later rule or condition took away."""
    rules, holes, walls = Points(), Points(), {}
    for entry in reversed(entries):
        if entry.claims is None:
            if entry.predicate is None and not entry.assignment.adds and not entry.starting:
                rules = rules.union(entry.points)
            continue
        joins = isinstance(entry.assignment.rule, AbstractPeriodic)
        for side, wall in entry.claims.walls.items():
            points = wall.subtract(rules).subtract(walls.get(side, Points()))
            points = points if joins else points.subtract(holes)  # the ends stay joined beside a hole
            walls[side] = walls.get(side, Points()).union(wall)
            if not points.empty:
                result.walls.append(WallSpan(entry.index, entry.assignment, side, points))
        if entry.claims.inner.empty:
            continue
        points = entry.claims.inner.subtract(rules).subtract(holes)
        if not points.empty and not entry.assignment.rule.sets_value_on_points:
            result.holes.append(Hole(entry.index, entry.assignment, points, entry.predicate, frozenset()))
        if entry.predicate is None:
            holes = holes.union(entry.claims.inner)
    result.walls.reverse()
    rings = {axis for axis, name in enumerate(layout.space) if layout.grid.space_axis(name).periodic}
    rings |= {one.side.axis for one in result.walls if isinstance(one.assignment.rule, AbstractPeriodic)}
    result.holes[:] = [replace(one, rings=frozenset(rings)) for one in reversed(result.holes)]


def sets_value(layout: Layout, wall: WallSpan) -> bool:
    """Whether a condition sets the values on a wall, besides the ghost values beyond it."""
    on_point = layout.shift(layout.space[wall.side.axis]) == 0
    return on_point and bool(wall.assignment.rule.sets_value_on_points)


def _sets_value_at(entry: _Entry, side: Side, layout: Layout) -> bool:
    on_point = layout.shift(layout.space[side.axis]) == 0
    return on_point and bool(entry.assignment.rule.sets_value_on_points)


def _valued_points(entry: _Entry, layout: Layout, later: dict[Side, Points]) -> Points:
    """The points whose value a condition sets: not those where a later condition took over the same wall."""
    assert entry.claims is not None
    valued = entry.claims.inner if entry.assignment.rule.sets_value_on_points else Points()
    for side, wall in entry.claims.walls.items():
        if _sets_value_at(entry, side, layout):
            valued = valued.union(wall.subtract(later.get(side, Points())))
        later[side] = later.get(side, Points()).union(wall)
    return valued


def _sort_kinds(result: FieldPhase, layout: Layout) -> None:
    whole = Points.of_box(Box.of_shape(layout.space_shape))
    cut = Points()
    for hole in result.holes:
        if hole.predicate is None:
            cut = cut.union(hole.points)
    for span in result.spans:
        if span.adds or span.predicate is not None:
            continue
        if span.kind == "rate":
            result.rates = result.rates.union(span.points)
        elif span.kind == "residual":
            result.residuals = result.residuals.union(span.points)
        else:
            result.values = result.values.union(span.points)
    covered = result.rates.union(result.values).union(result.residuals)
    result.uncovered = whole.subtract(covered).subtract(cut)


def _check_predicate(assignment: Assignment, predicate: Predicate | None, name: str, problem: Problem) -> None:
    if predicate is None or assignment.rule.sets_value_on_points:
        return
    names = {argument for leaf in predicate.leaves for argument in inspect.signature(leaf.function).parameters}  # type: ignore[arg-type]
    if problem.scope.grid.time_name in names:
        raise DeclarationError(
            f"{assignment.describe(name)}: a hole that moves in time has no ghost values where it uncovers points; "
            f"give a moving obstacle its value instead, for example Dirichlet(0.0)."
        )


def _check_not_periodic(claims: Claims, layout: Layout, assignment: Assignment, name: str) -> None:
    joins = isinstance(assignment.rule, AbstractPeriodic)
    if joins and not claims.inner.empty:
        raise DeclarationError(
            f"{assignment.describe(name)}: a periodic condition joins two walls; assign it to both, as in "
            f"{name}[dict({layout.space[0]}=[0, -1])] = {assignment.rule!r}."
        )
    for side in claims.walls:
        axis = layout.space[side.axis]
        owner = layout.grid.space_axis(axis)
        if joins and not owner.periodic and not owner.cells:
            raise DeclarationError(
                f"{assignment.describe(name)}: axis `{axis}` has a node on each wall, and a periodic condition would "
                f"make them the same place twice. Declare it with cells=True, or with periodic=True."
            )
        if owner.periodic and not joins:
            raise DeclarationError(
                f"{assignment.describe(name)}: axis `{axis}` is periodic, it has no wall. Drop the condition or "
                f"declare the axis without periodic=True."
            )

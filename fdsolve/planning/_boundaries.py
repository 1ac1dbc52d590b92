"""Which condition holds at each end of each axis, as the plan prints it."""

from ..field import AbstractCondition, describe_rule
from ..region import Box, Points
from ._phases import FieldPhase, Phase
from ._problem import Problem
from ._walls import Side


def show_boundaries(problem: Problem, phase: Phase) -> tuple[str, ...]:
    """One line a field with the conditions at its walls, its holes and layers; none where no field has any."""
    if not any(one.walls or one.holes or one.layers for one in phase.fields.values()):
        return ()
    return tuple(_show_field(problem, name, one) for name, one in phase.fields.items())


def _show_field(problem: Problem, name: str, one: FieldPhase) -> str:
    layout, parts = problem.scope.layouts[name], []
    for position, axis in enumerate(layout.space):
        if layout.grid.space_axis(axis).periodic:
            signs = {describe_rule(w.assignment.rule) for w in one.walls if w.side.axis == position}
            parts.append(f"{axis} {' and '.join(sorted(signs)) or 'periodic'}")
            continue
        for side in (Side(position, False), Side(position, True)):
            parts.append(f"{axis} {side.word} {_show_side(problem, name, one, side)}")
    parts += [f"hole {describe_rule(hole.assignment.rule)}" for hole in one.holes]
    layers = dict.fromkeys((describe_rule(layer.assignment.rule), layer.side) for layer in one.layers)
    parts += [f"{label} along {layout.space[side.axis]} {side.word}" for label, side in layers]
    return f"{name}: {', '.join(parts)}"


def _show_side(problem: Problem, name: str, one: FieldPhase, side: Side) -> str:
    """The conditions on a side; the rule that gives the values there, where it is no rate; or "none"."""
    shape = problem.scope.layouts[name].space_shape
    at = side.index(shape)
    rest = Points.of_box(Box.of_shape(shape).with_range(side.axis, at, at + 1))
    found: dict[str, None] = {}
    for wall in one.walls:
        if wall.side == side:
            found[describe_rule(wall.assignment.rule)] = None
            rest = rest.subtract(wall.points)
    for span in one.spans:
        value = span.kind == "value" and not callable(span.assignment.rule) and not span.adds
        if not value or isinstance(span.assignment.rule, AbstractCondition):
            continue
        part = rest.intersect(span.points)
        if not part.empty:
            found[f"value {describe_rule(span.assignment.rule)}"] = None
            rest = rest.subtract(part)
    for hole in one.holes:
        rest = rest.subtract(hole.points)
    return " and ".join([*found, *(["none"] if not rest.empty else [])])

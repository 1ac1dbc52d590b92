"""The stepper meets the problem: what its checks see of the rates, and what the structure keeps for it."""

import inspect
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..errors import PlanningError
from ..region import Box
from ..schemes import AbstractStepper, Outline, RateOutline
from ..stencil import Reader, RuleContext, StateRead, trace
from ._arcs import in_coordinate
from ._order import Parallel
from ._pieces import Piece, RuleBook
from ._problem import Problem
from ._stability import main_phase, varies
from ._structure import PhaseStructure, Segment, Structure
from ._timed import is_timed

_ARGUMENT = inspect.Parameter("spacing", inspect.Parameter.POSITIONAL_ONLY)


def bind_stepper(
    problem: Problem, structure: Structure, of_level: list[int], stepper: AbstractStepper, speeds: dict[str, int]
) -> Structure:
    """The structure with its stepper, once the stepper agrees to take the rates.

    `speeds` are the traced rules for propagation speeds by field.
    """
    layouts, axes = problem.scope.layouts, problem.scope.grid.space
    shifts = tuple((name, tuple(layouts[name].shift(axis) for axis in axes)) for name in sorted(layouts))
    if stepper.estimates_speed:
        _check_speed_shows(structure, stepper)
    outline, linear = _outline(problem, structure, of_level)
    bound = stepper.bind(outline)
    phases = tuple(_with_speeds(phase, speeds) for phase in structure.phases)
    return replace(
        structure,
        stepper=bound,
        phases=phases,
        segments=_with_starts(structure, bound.starting_steps),
        linear_rules=linear,
        timed_rules=_timed_rules(structure),
        shifts=shifts,
    )


def _check_speed_shows(structure: Structure, stepper: AbstractStepper) -> None:
    """Refuses rates whose speed does not show in what they read themselves."""
    hidden = {one.name for one in structure.arrays if one.hidden}
    for phase in structure.phases:
        for piece in phase.rates:
            if any(read.field in hidden for read in structure.rules[piece.rule].reads):
                raise PlanningError(
                    f"{stepper!r} measures the speed in what rates read, and {piece.label} reads what an operation "
                    f"computed beforehand, such as fluxes. Give the speed: fd.CFL({getattr(stepper, 'number', 0.5)}, "
                    f"speed=lambda {piece.field}: abs({piece.field}[...])), the largest of the waves'."
                )


def describe_plain(structure: Structure, stepper: AbstractStepper) -> str:
    """What the plan notes of a stepper where no rule is a rate."""
    rules = structure.rules
    pieces = [p for p in main_phase(structure).values if p.role == "value" and rules[p.rule].reads]
    return stepper.describe_plain([(p.label, frozenset(r.level for r in rules[p.rule].reads)) for p in pieces])


def trace_speeds(problem: Problem, book: RuleBook, stepper: AbstractStepper, rated: list[str]) -> dict[str, int]:
    """The stepper's rules for speeds as one rule Σ_i |a_i|/Δx_i at the points of the first field with a rate."""
    if not stepper.speed_rules or not rated:
        return {}
    scope, name = problem.scope, rated[0]
    what, rules = f"The speed of {stepper!r}", dict(stepper.speed_rules)
    stepper.check_axes(scope.grid.space)

    def call(reader: Reader) -> tuple[Any, list[Any]]:
        context = RuleContext(scope, scope.layouts[name], reader, what, stage=True)
        total = 0.0
        for axis in scope.grid.space:
            function = rules.get(axis, rules.get(""))
            if function is not None:
                speed = abs(context.call(function) if callable(function) else function)
                speed = in_coordinate(context, axis, speed, 1)
                total = total + speed / context.argument(f"d{axis}", _ARGUMENT)
        return total, context.shifted_constants

    return {name: book.number(("speed", name), lambda: trace(call, what, scope.real))}


def _with_speeds(phase: PhaseStructure, speeds: dict[str, int]) -> PhaseStructure:
    given = dict(phase.given)
    pieces = tuple(
        Piece(name, box, rule, None, None, "speed", False, "speed")
        for name, rule in speeds.items()
        for box in given.get(name, ())
    )
    return replace(phase, speeds=pieces)


def _with_starts(structure: Structure, count: int) -> tuple[Segment, ...]:
    """The segments, with the first `count` levels that have rates cut off and marked."""
    if not count:
        return structure.segments
    found = [(n, segment) for segment in structure.segments for n in range(segment.start, segment.stop)]
    rated = [n for n, segment in found if structure.phases[_phase_at(segment, n)].rates][:count]
    result = []
    for segment in structure.segments:
        starting = [n for n in rated if segment.start <= n < segment.stop]
        marks = [starting[0], starting[-1] + 1] if starting else []
        cuts = [segment.start, *marks, segment.stop]
        for start, stop in pairwise(cuts):
            if start < stop:
                phases = segment.phases
                if len(phases) > 1:
                    phases = phases[start - segment.start : stop - segment.start]
                result.append(Segment(start, stop, phases, start in starting))
    return tuple(result)


def _phase_at(segment: Segment, level: int) -> int:
    return segment.phases[level - segment.start if len(segment.phases) > 1 else 0]


def _timed_rules(structure: Structure) -> frozenset[int]:
    """Rules of walls and ghosts beside rates that are known in time: a value that reads the state is none."""
    found = set()
    for phase in (phase for phase in structure.phases if phase.rates):
        given = {name for name, _ in phase.given}
        for stage in phase.stages:
            piece = stage.piece if isinstance(stage, Parallel) else None
            if piece is None or piece.field not in given or piece.role not in ("value", "ghost"):
                continue
            rule = structure.rules[piece.rule]
            if piece.role == "ghost" or not rule.reads:
                found.add(piece.rule)
    return frozenset(number for number in found if is_timed(structure.rules[number], structure.time_axis))


def _outline(problem: Problem, structure: Structure, of_level: list[int]) -> tuple[Outline, frozenset[int]]:
    """The rates as steppers' checks see them, and the rules of the linear part."""
    rated = [phase for phase in structure.phases if phase.rates]
    fields = [name for name, _ in rated[0].given]
    rates: list[RateOutline] = []
    reasons: dict[int, str] = {}
    implicit: set[int] = set()
    for phase in rated:
        reach = _reaches(structure, phase)
        for piece in phase.rates:
            rule = structure.rules[piece.rule]
            why_not = _why_not_linear(structure, phase, fields, piece)
            reasons[piece.rule] = reasons.get(piece.rule, "") or why_not
            implicit |= {piece.rule} if piece.implicit else set()
            reads = {other for read in rule.reads for other in reach[read.field]} & set(fields)
            one = RateOutline(piece.field, piece.label, piece.group, piece.implicit, frozenset(reads), why_not)
            if one not in rates:
                rates.append(one)
    linear = implicit or {number for number, why_not in reasons.items() if not why_not}
    older = tuple(
        dict.fromkeys(
            piece.label
            for phase in rated
            for piece in phase.values
            if not piece.stretched and any(read.level < 0 for read in structure.rules[piece.rule].reads)
        )
    )
    absorbing = next((piece.label for phase in rated for piece in phase.rates if piece.stretched), "")
    outline = Outline(
        tuple(rates),
        older,
        _changes(structure, of_level),
        _not_periodic(problem, structure, rated),
        absorbing,
        problem.scope.grid.space,
    )
    return outline, frozenset(linear)


def _reaches(structure: Structure, phase: PhaseStructure) -> dict[str, set[str]]:
    """For each field what its values depend on: itself, and what plain rules and ghosts of it read in turn."""
    direct: dict[str, set[str]] = {one.name: {one.name} for one in structure.arrays}
    for piece in phase.values:
        direct[piece.field] |= {read.field for read in structure.rules[piece.rule].reads}
    changed = True
    while changed:
        changed = False
        for name, found in direct.items():
            more = set().union(*(direct[other] for other in found))
            changed |= not more <= found
            direct[name] = found | more
    whole = {name for name, _ in phase.given}
    # A field without any rate is known by what it is made of.
    return {name: found if name in whole else found - {name} for name, found in direct.items()}


def _why_not_linear(structure: Structure, phase: PhaseStructure, fields: list[str], piece: Piece) -> str:
    rule, storage = structure.rules[piece.rule], structure.array(piece.field)
    other = next((read.field for read in rule.reads if read.field not in fields), None)
    if not rule.affine:
        return "is not affine"
    if not rule.reads:
        return "reads no field"
    if other is not None:
        return f"reads `{other}`, which has no rate"
    if any(not isinstance(o, StateRead) for o in rule.operands) and varies(rule):
        return "has coefficients that vary in space or time"
    replaced = any(other.field == piece.field and other.replaces for other in phase.rates)
    if replaced or piece.mask is not None or piece.predicate is not None or piece.box != Box.of_shape(storage.shape):
        return "acts on a part of the points"
    return ""


def _changes(structure: Structure, of_level: list[int]) -> str:
    """How the points with rates change from one level to the next, from the first level with rates on."""
    first = next(n for n, phase in enumerate(of_level) if structure.phases[phase].rates)
    points = structure.phases[of_level[first]].points
    for level in range(first, len(of_level)):
        if structure.phases[of_level[level]].points != points:
            return f"those points change at level {level}"
    return ""


def _not_periodic(problem: Problem, structure: Structure, rated: list[PhaseStructure]) -> str:
    grid = problem.scope.grid
    for axis in grid.space:
        if not grid.space_axis(axis).periodic:
            return f"axis `{axis}` is not periodic"
        if not grid.space_axis(axis).uniform:
            return f"axis `{axis}` is stretched"
    for phase in rated:
        taken = {piece.field for piece in phase.values if piece.predicate is not None}
        taken |= {piece.field for piece in phase.rates if piece.mask is not None and not piece.adds}
        for name, boxes in phase.given:
            if name in taken or boxes != (Box.of_shape(structure.array(name).shape),):
                return f"`{name}` has points without a rate"
    signs = dict(structure.signs)
    for position, axis in enumerate(grid.space):
        found = {name: signs[name][position] for phase in rated for name, _ in phase.given}
        if 0 in found.values() or len(set(found.values())) > 1:
            return f"{' and '.join(f'`{name}`' for name in found)} repeat with different signs along axis `{axis}`"
    return ""

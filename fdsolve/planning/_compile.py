"""From phases to pieces: traced rules on disjoint boxes, ghost layers, and the checks of what they read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from ..errors import PlanningError
from ..field import AbstractAbsorber, AbstractPeriodic, Residual
from ..region import Box, Part, Points
from ..stencil import StateRead
from ._beside import NearHoles, near_holes
from ._ghosts import Halo, ghost_pieces
from ._hidden import add_hidden_pieces, find_views
from ._hole_points import images
from ._layers import Standing, layer_rule, note_idle_layers, split_by_layers
from ._masks import mask_of
from ._near import split_near_walls
from ._phases import FieldPhase, Hole, Phase, Span, sets_value
from ._pieces import Piece, RuleBook
from ._pml import find_pairs, find_stretches
from ._pml_pieces import add_memory_pieces, check_linear, refuse_hole, split_by_stretches
from ._pml_speed import prepare_stretches
from ._poles import BeyondPole
from ._problem import Problem
from ._rate_groups import rate_group
from ._reads import check_parameter_reads, check_reads, show_points
from ._seams import check_sign, find_signs
from ._uses import find_uses, inflow_notes

LOOSE = 2
"""How many times as many points as a set has a masked box around it may have."""


@dataclass(eq=False)
class PhasePieces:
    """The pieces of one phase: those that set levels (ghosts included) and those that give rates."""

    levels: np.ndarray
    values: list[Piece] = field(default_factory=list)
    rates: list[Piece] = field(default_factory=list)
    given: dict[str, Points] = field(default_factory=dict)
    guesses: list[Piece] = field(default_factory=list)


@dataclass(eq=False)
class Compiled:
    """All phases as pieces, and the width of the ghost layers of each field."""

    phases: list[PhasePieces]
    halos: dict[str, Halo]
    hidden: dict[str, Box]
    book: RuleBook
    notes: list[str]

    @cached_property
    def views(self) -> frozenset[str]:
        """The hidden fields that live no longer than the rates of a level."""
        return find_views(self.book, self.phases)


def compile_phases(problem: Problem, phases: list[Phase], of_level: list[int], staged: bool = False) -> Compiled:
    """Traces every rule, splits regions near holes and in layers, and adds the ghost layers that reads need.

    `staged` says that the stepper takes the rates where a recursion from the level before holds.
    """
    book, notes = RuleBook(problem), []
    book.signs.update(find_signs(problem.names, problem.scope.grid, phases))
    book.stretches = find_stretches(problem, phases[of_level[-1]])
    book.paired = find_pairs(problem, book.stretches)
    compiled = [_compile_phase(book, phase) for phase in phases]
    _refuse_idle_sums(problem, phases, notes)
    hidden = add_hidden_pieces(book, phases, compiled)
    hidden |= add_memory_pieces(book, phases, compiled, any(one.rates for one in compiled), staged)
    notes += prepare_stretches(book, phases[of_level[-1]])
    halos = _find_halos(problem, book, compiled)
    for name in problem.names:
        for axis, sign, *width in zip(problem.scope.grid.space, book.signs[name], *halos[name], strict=True):
            if any(width):
                check_sign(sign, axis, name, f"Rules read `{name}`")
    uses = find_uses(book, phases, [[*pieces.values, *pieces.rates] for pieces in compiled])
    for phase, pieces in zip(phases, compiled, strict=True):
        for name in problem.names:
            ghosts = ghost_pieces(book, name, phase, halos[name], uses)
            pieces.values.extend(ghosts.values)
            pieces.rates.extend(ghosts.rates)
            pieces.given[name] = pieces.given[name].union(ghosts.given)
            notes.extend(note for note in ghosts.notes if note not in notes)
    for phase_index, pieces in enumerate(compiled):
        for piece in (*pieces.values, *pieces.rates):
            check_reads(problem, book, phases, of_level, phase_index, pieces.levels, piece)
            owner = book.owner(piece.field)
            check_parameter_reads(problem, book, phases[phase_index].fields[owner].walls, piece)
    notes.extend(book.notes)
    _note_overwritten(problem, phases, notes)
    _note_unread_walls(problem, phases, halos, notes)
    notes.extend(inflow_notes(book, phases, [[*pieces.values, *pieces.rates] for pieces in compiled]))
    for name in problem.names:
        notes.extend(note_idle_layers(name, [phase.fields[name] for phase in phases]))
    return Compiled(compiled, halos, hidden, book, notes)


def _compile_phase(book: RuleBook, phase: Phase) -> PhasePieces:
    result = PhasePieces(phase.levels)
    problem = book.problem
    has_time = problem.scope.grid.time is not None
    for name in problem.names:
        one = phase.fields[name]
        _check_covered(problem, name, one, phase, has_time)
        result.given[name] = _around_gaps(one.rates)
    holes = near_holes(book, phase)
    for name in problem.names:
        one = phase.fields[name]
        for span in one.spans:
            points = _compatible_points(name, span, one, has_time and int(phase.levels[0]) == 0)
            if points.empty:
                continue
            into = result.rates if span.kind == "rate" else result.values
            result.guesses.extend(_guess_pieces(book, name, span, points))
            for group, standing in split_by_layers(one, span, points, phase.levels):
                for part, stretched in split_by_stretches(book, name, span, group, int(phase.levels[0]), standing):
                    into.extend(_span_pieces(book, phase, name, span, part, holes, stretched))
        result.rates.extend(_layer_pieces(book, name, one))
        # After the rules: those reach into a hole whose shape is not known yet.
        for hole in one.holes:
            result.values.extend(_hole_pieces(book, name, hole))
    return result


def _check_covered(problem: Problem, name: str, one: FieldPhase, phase: Phase, has_time: bool) -> None:
    level = int(phase.levels[0])
    grid = problem.scope.grid
    whole = next(
        (hole for hole in one.holes if not one.spans and hole.points.count == _num_points(problem, name)), None
    )
    if whole is not None:
        raise PlanningError(
            f"{whole.assignment.describe(name)} cuts out every point of `{name}`. A boundary condition goes on the "
            f"walls, "
            f"`{name}[dict({grid.space[0]}=[0, -1])] = ...`, or on an inner part."
        )
    if not one.uncovered.empty:
        where = show_points(problem, name, one.uncovered, level if has_time else None)
        count = one.uncovered.count
        hint = f"an initial state, `{name}[0] = ...`" if has_time and not level else f"`{name}[...] = rule`"
        raise PlanningError(
            f"Field `{name}` has no rule on {where} ({count} point{'s' * (count > 1)}). Assign {hint}, before the "
            f"others."
        )
    if has_time and level == 0 and not one.rates.empty:
        where = show_points(problem, name, one.rates, 0)
        raise PlanningError(
            f"Field `{name}` has no initial state on {where}: the rule there is a rate. Assign `{name}[0] = ...`."
        )
    if not has_time and any(span.kind == "rate" for span in one.spans):
        raise PlanningError(
            f"Field `{name}` has a rate, but its grid has no time axis. Declare one first: fd.Grid(t=fd.Time(...), "
            + ", ".join(f"{axis}=..." for axis in grid.space)
            + ")."
        )


def _num_points(problem: Problem, name: str) -> int:
    return prod(problem.scope.layouts[name].space_shape)


def _hole_pieces(book: RuleBook, name: str, hole: Hole) -> list[Piece]:
    label = hole.assignment.describe(name)
    zero, pieces = book.constant(name, 0.0), []
    for part in hole.points.parts:
        mask, predicate = mask_of(book, part), None
        if hole.predicate is not None:
            predicate = book.predicate(name, hole.index, hole.assignment, hole.predicate)
        pieces.append(Piece(name, part.box, zero, mask, predicate, "hole", False, label))
    return pieces


def _compatible_points(name: str, span: Span, one: FieldPhase, initial: bool) -> Points:
    """The points of a span where its kind agrees with what lies below; over an initial state a rate has no effect."""
    if not span.adds and (span.predicate is None or span.kind == "value"):
        return span.points
    below = {"rate": one.rates, "residual": one.residuals, "value": one.values}
    same = below.pop(span.kind)
    label = span.assignment.describe(name)
    other = next((kind for kind, points in below.items() if not span.points.intersect(points).empty), "")
    if other and span.kind == "value":
        raise PlanningError(
            f"{label}: `+=` adds a value where the rule below is a {other}; add a {other}, `+= fd.{other}(...)`, or "
            f"take a region where values are set."
        )
    if span.kind == "residual" and other and span.adds:
        raise PlanningError(
            f"{label}: `+=` adds to an equation where the rule below is a {other}; assign `fd.residual(...)` there "
            f"first, or take a region where there is one."
        )
    if other and not span.adds and not initial:
        raise PlanningError(
            f"{label}: a {span.kind} under a run-time predicate lies over points whose rule gives a {other}; both must "
            f"be {span.kind}s."
        )
    return span.points.intersect(same)


def _refuse_idle_sums(problem: Problem, phases: list[Phase], notes: list[str]) -> None:
    """A `+=` of a rate must find a rate below it at some level; where it finds a value it is left out."""
    for name in problem.names:
        found: dict[int, tuple[Span, bool, bool]] = {}
        for phase in phases:
            one = phase.fields[name]
            for span in (span for span in one.spans if span.adds and span.kind == "rate"):
                _, acts, over = found.get(span.index, (span, False, False))
                acts = acts or not span.points.intersect(one.rates).empty
                over = over or (int(phase.levels[0]) > 0 and not span.points.intersect(one.values).empty)
                found[span.index] = (span, acts, over)
        for span, acts, over in found.values():
            label = span.assignment.describe(name)
            if not acts:
                raise PlanningError(
                    f"{label}: `+=` adds a rate to the rate below, and there is none. Assign one first, "
                    f"`{name}[...] = fd.rate(...)`, or add a value, without `fd.rate`."
                )
            if over:
                notes.append(f"{label} adds a rate where values are set: it has no effect there")


def _layer_pieces(book: RuleBook, name: str, one: FieldPhase) -> list[Piece]:
    """What damping layers add to the rates in them."""
    pieces = []
    for layer in one.layers:
        label = layer.assignment.describe(name)
        for part in layer.points.intersect(one.rates).parts:
            mask = mask_of(book, part)
            rule = layer_rule(book, name, layer)
            pieces.append(Piece(name, part.box, rule, mask, None, "rate", True, label))
    return pieces


def _span_pieces(
    book: RuleBook, phase: Phase, name: str, span: Span, points: Points, holes: NearHoles, standing: Standing
) -> list[Piece]:
    label = span.assignment.describe(name)
    away = book.rule(name, span.index, span.assignment, standing=standing)
    check_linear(book, away, label, standing.stretches)
    parts: list[tuple[Part, int]] = []
    layout = book.problem.scope.layouts[name]
    groups = split_near_walls(book, phase.fields, (layout, layout), away, points)
    for group, walls in groups:
        plain = book.rule(name, span.index, span.assignment, (), walls, standing)
        read = {r.field for r in book.reach(plain)}
        sweeps = span.kind == "value" and any(r.level == 0 and r.field == name for r in book.reach(plain))
        relevant = tuple(item for item in holes if item[0] in read)
        if relevant:
            near = _dilated(book.reach(plain), relevant, layout.space_shape)
            close = _as_one_part(group.intersect(near))
            refuse_hole(standing.stretches, close, label)
            beside = plain
            if not close.empty:
                beside = book.rule(name, span.index, span.assignment, relevant, walls, standing)
            if book.rules[beside] != book.rules[plain]:  # else all that it reads beside holes is stored
                parts += [(part, beside) for part in close.parts]
                group = group.subtract(near)
        parts += [(part, plain) for part in (group if sweeps else _around_gaps(group)).parts]
    predicate = None
    if span.predicate is not None:
        predicate = book.predicate(name, span.index, span.assignment, span.predicate)
    group, implicit = rate_group(book.problem.assignments[name], span.index)
    pieces = []
    for part, rule in parts:
        mask = mask_of(book, part)
        piece = Piece(name, part.box, rule, mask, predicate, span.kind, span.adds, label, None, group, implicit)
        pieces.append(replace(piece, stretched=bool(standing.stretches)))
    return pieces


def _guess_pieces(book: RuleBook, name: str, span: Span, points: Points) -> list[Piece]:
    """Where the iteration of a residual starts, if its rule says so."""
    if not isinstance(span.assignment.rule, Residual) or span.assignment.rule.guess is None:
        return []
    assignment = replace(span.assignment, rule=span.assignment.rule.guess, component=None, partners=())
    rule = book.rule(f"{name}", -1 - span.index, assignment)
    if book.rules[rule].reads:
        raise PlanningError(
            f"{span.assignment.describe(name)}: guess= is evaluated before the fields are known; let it read "
            f"coordinates and parameters only."
        )
    label = f"guess of {span.assignment.describe(name)}"
    pieces = []
    for part in points.parts:
        pieces.append(Piece(name, part.box, rule, mask_of(book, part), None, "guess", False, label))
    return pieces


def _as_one_part(points: Points) -> Points:
    """The same points as one box, masked where they do not fill it: one piece instead of many small ones."""
    if len(points.parts) < 2:
        return points
    box = points.bounds()
    return Points.of_mask(box, points.to_mask(box))


def _around_gaps(points: Points) -> Points:
    """The same points as one masked box, where few are missing in it: a rule on many boxes takes far longer."""
    if all(part.mask is None for part in points.parts) or points.bounds().size > LOOSE * points.count:
        return points
    return _as_one_part(points)


def _dilated(reads: Sequence[StateRead], holes: NearHoles, shape: tuple[int, ...]) -> Points:
    """The points whose reads may fall into a hole, across periodic ends too."""
    near = Points()
    for owner, hole, _ in holes:
        if hole.predicate is not None:
            return Points.of_box(Box.of_shape(shape))
        offsets = [r.offset for r in reads if r.field == owner]
        lower = tuple(max(0, *(o[a] for o in offsets)) if offsets else 0 for a in range(len(shape)))
        upper = tuple(max(0, *(-o[a] for o in offsets)) if offsets else 0 for a in range(len(shape)))
        grown = hole.points.bounds().grow(lower, upper)
        for offset in images(hole, shape):
            near = near.union(Points.of_box(grown.shift(offset).intersect(Box.of_shape(shape))))
    return near


def _find_halos(problem: Problem, book: RuleBook, phases: list[PhasePieces]) -> dict[str, Halo]:
    """Ghost layers that reads reach into, by field; widened until ghosts' own reads are served too."""
    ndim = len(problem.scope.grid.space)
    lower = {name: [0] * ndim for name in problem.names}
    upper = {name: [0] * ndim for name in problem.names}
    for phase in phases:
        for piece in (*phase.values, *phase.rates):
            for read in (r for r in book.rules[piece.rule].reads if not book.hides(r.field)):
                shape = problem.scope.layouts[read.field].space_shape
                box = piece.box.shift(read.offset)
                for axis in range(ndim):
                    lower[read.field][axis] = max(lower[read.field][axis], -box.start[axis])
                    upper[read.field][axis] = max(upper[read.field][axis], box.stop[axis] - shape[axis])
    return {name: (tuple(lower[name]), tuple(upper[name])) for name in problem.names}


def _note_overwritten(problem: Problem, phases: list[Phase], notes: list[str]) -> None:
    for name in problem.names:
        seen = set()
        for phase in phases:
            one = phase.fields[name]
            seen.update(item.index for item in (*one.spans, *one.walls, *one.holes, *one.layers))
        for index, assignment in enumerate(problem.assignments[name]):
            if index not in seen:
                notes.append(f"{assignment.describe(name)} is wholly overwritten by later assignments.")


def _note_unread_walls(problem: Problem, phases: list[Phase], halos: dict[str, Halo], notes: list[str]) -> None:
    for name in problem.names:
        walls = {(w.index, w.side): w for phase in phases for w in phase.fields[name].walls}
        for wall in walls.values():
            rule, axis = wall.assignment.rule, problem.scope.grid.space[wall.side.axis]
            seam = isinstance(rule, AbstractPeriodic) and problem.scope.grid.space_axis(axis).periodic  # lines too
            acts = seam or isinstance(rule, BeyondPole | AbstractAbsorber)
            if sets_value(problem.scope.layouts[name], wall) or acts:
                continue
            if halos[name][1 if wall.side.upper else 0][wall.side.axis] == 0:
                notes.append(
                    f"{wall.assignment.describe(name)} has no effect at the {wall.side.word} "
                    f"end of {axis}: no rule reads beyond it"
                )

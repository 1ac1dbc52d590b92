"""Ghost points: the layers beyond walls and periodic ends that rules read, each a piece like any other."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..errors import PlanningError
from ..field import AbstractEvolving, AbstractOrdered, AbstractPeriodic, Use
from ..region import Box, Layout, Part, Points
from ._beside import NearHoles, near_holes
from ._grid_wall import Beyond, ghost_rule, periodic_rule
from ._masks import mask_of
from ._phases import FieldPhase, Hole, Phase, WallSpan
from ._pieces import Piece, RuleBook
from ._pole_ghosts import pole_pieces
from ._poles import BeyondPole
from ._walls import Side

Halo = tuple[tuple[int, ...], tuple[int, ...]]
"""Number of ghost layers below and above, by space axis."""


Uses = dict[tuple[str, Side], Use]
"""How rules use the ghost values beyond a wall, by field."""


@dataclass(eq=False)
class Ghosts:
    """The ghost pieces of a field in a phase: those with a value, and those with a rate (and where these act)."""

    values: list[Piece] = field(default_factory=list)
    rates: list[Piece] = field(default_factory=list)
    given: Points = field(default_factory=Points)
    notes: list[str] = field(default_factory=list)

    def extend(self, other: "Ghosts") -> None:
        """Takes over the pieces of another."""
        self.values.extend(other.values)
        self.rates.extend(other.rates)
        self.given = self.given.union(other.given)
        self.notes.extend(other.notes)


def ghost_pieces(book: RuleBook, name: str, phase: Phase, halo: Halo, uses: Uses) -> Ghosts:
    """The ghost pieces of a field, axis by axis, so that corner ghosts are filled from ghosts filled before.

    Periodic axes come last: their ghosts repeat those of the walls beside them.
    """
    layout, one = book.problem.scope.layouts[name], phase.fields[name]
    shape, found, filled = layout.space_shape, Ghosts(), []
    _check_joined(layout, name, one.walls)
    for axis_index in sorted(range(len(shape)), key=lambda a: _repeats(layout, a, one.walls)):
        axis = layout.space[axis_index]
        for upper in (False, True):
            width = halo[1 if upper else 0][axis_index]
            side = Side(axis_index, upper)
            if width == 0:
                continue
            spans = [span for span in one.walls if span.side == side]
            if layout.grid.space_axis(axis).periodic:
                if width > shape[axis_index]:
                    raise PlanningError(
                        f"Axis `{axis}` has {shape[axis_index]} points, and a rule on `{name}` reads {width} points "
                        f"across its period. Give the axis more points."
                    )
                box = _layers(Box.of_shape(shape), side, 1, width, shape)
                box = _extend(box, filled, shape, halo)
                sign = spans[-1].assignment.rule.sign if spans else 1
                rule = periodic_rule(book, name, side, sign)
                label = spans[-1].assignment.describe(name) if spans else f"periodic {axis}"
                found.values.append(Piece(name, box, rule, None, None, "ghost", False, label))
                continue
            for span in spans:
                if isinstance(span.assignment.rule, BeyondPole):
                    at = _pole_box(span, filled, shape, halo)
                    found.values.extend(pole_pieces(book, name, span, width, at))
                    continue
                found.extend(_wall_pieces(book, name, phase, span, width, filled, halo, uses))
        filled.append(axis_index)
    return found


def _pole_box(span: WallSpan, filled: list[int], shape: tuple[int, ...], halo: Halo) -> Callable[[int], Box]:
    """The box of each layer beyond a pole."""
    bounds = span.points.bounds()
    return lambda layer: _extend(_layers(bounds, span.side, layer, 1, shape), filled, shape, halo)


def _repeats(layout: Layout, axis: int, walls: list[WallSpan]) -> bool:
    """Whether the ghosts of an axis repeat what lies at its other end."""
    joined = any(w.side.axis == axis and isinstance(w.assignment.rule, AbstractPeriodic) for w in walls)
    return joined or layout.grid.space_axis(layout.space[axis]).periodic


def _check_joined(layout: Layout, name: str, walls: list[WallSpan]) -> None:
    """A periodic condition joins two walls: both have it, all along, with the same sign."""
    for span in walls:
        rule, side = span.assignment.rule, span.side
        if not isinstance(rule, AbstractPeriodic):
            continue
        label, axis = span.assignment.describe(name), layout.space[side.axis]
        whole = Points.of_box(Box.of_shape(layout.space_shape))
        at = side.index(layout.space_shape)
        whole = Points.of_box(whole.bounds().with_range(side.axis, at, at + 1))
        across = [w for w in walls if w.side == Side(side.axis, not side.upper)]
        signs = {w.assignment.rule.sign for w in across if isinstance(w.assignment.rule, AbstractPeriodic)}
        if not whole.subtract(span.points).empty or signs != {rule.sign} or len(across) > 1:
            other = next((w for w in walls if w.side.axis == side.axis and w.index > span.index), None)
            after = f" after {other.assignment.describe(name)}, which stands on part of one" if other else ""
            raise PlanningError(
                f"{label}: a periodic condition joins the two walls of axis `{axis}`, and holds on the whole of both. "
                f"Assign it to both{after}, {name}[dict({axis}=[0, -1])] = {rule!r}."
            )


def _wall_pieces(
    book: RuleBook, name: str, phase: Phase, span: WallSpan, width: int, filled: list[int], halo: Halo, uses: Uses
) -> Ghosts:
    axis, shape = book.problem.scope.grid.space[span.side.axis], book.problem.scope.layouts[name].space_shape
    label = span.assignment.describe(name)
    most = shape[span.side.axis] - (
        book.problem.scope.layouts[name].shift(axis) == 0
    )  # a point on the wall is no mirror
    if width > most:
        raise PlanningError(
            f"{label}: rules read {width} points beyond the wall of axis `{axis}`, which has only {most} to mirror. "
            f"Give the axis more points."
        )
    use = uses.get((name, span.side), Use.DIFFUSION)
    found = Ghosts(notes=_loss(book, name, span, use))
    remembers, moves = bool(phase.levels[0] > 0), _moves(phase.fields[name], span, int(phase.levels[0]))
    for layer in range(1, width + 1):
        beyond = Beyond(name, span, layer, use, remembers)
        rule = ghost_rule(book, phase.fields[name], beyond, moves)
        if holes := _holes_behind(book, name, phase, beyond, rule):
            rule = ghost_rule(book, phase.fields[name], beyond, moves, holes)
        for part in span.points.parts:
            own = _layers(part.box, span.side, layer, 1, shape)
            whole = Part(_extend(own, filled, shape, halo))
            if part.mask is not None:
                ends = zip(own.start, whole.box.start, own.stop, whole.box.stop, strict=True)
                whole = Part(whole.box, np.pad(part.mask, [(a - b, d - c) for a, b, c, d in ends], mode="edge"))
            role = "rate" if moves else "ghost"
            named = f"ghost of {label}" if moves else label
            piece = Piece(name, whole.box, rule, mask_of(book, whole), None, role, False, named)
            (found.rates if moves else found.values).append(piece)
            if moves:
                found.given = found.given.union(Points.of_box(whole.box))
    return found


def _holes_behind(book: RuleBook, name: str, phase: Phase, beyond: Beyond, rule: int) -> NearHoles:
    """The holes of a field among the points that a layer of its ghost values is made of, not those under a hole."""
    side, num_axes = beyond.span.side, len(book.problem.scope.grid.space)
    reach = max((abs(read.offset[side.axis]) for read in book.rules[rule].reads if read.field == name), default=0)
    most = reach - beyond.layer

    def stands_before(hole: Hole) -> bool:
        feet = beyond.span.points.subtract(hole.points)
        inwards = (tuple(-side.outward * n * (a == side.axis) for a in range(num_axes)) for n in range(1, most + 1))
        rows = (feet.shift(offset) for offset in inwards)
        return hole.predicate is not None or any(not row.intersect(hole.points).empty for row in rows)

    repeated = isinstance(beyond.span.assignment.rule, AbstractPeriodic)  # from the other end, holes too
    if repeated or not any(stands_before(hole) for hole in phase.fields[name].holes):
        return ()
    return tuple(one for one in near_holes(book, phase) if one[0] == name and stands_before(one[1]))


def _moves(one: FieldPhase, span: WallSpan, level: int) -> bool:
    """Whether the ghost points beyond a wall are carried along by a stepper, as the points on it are."""
    rule = span.assignment.rule
    carried = level > 0 and not one.rates.intersect(span.points).empty
    return carried and isinstance(rule, AbstractEvolving) and rule.evolves


def _loss(book: RuleBook, name: str, span: WallSpan, use: Use) -> list[str]:
    """What the plan tells of a condition whose declared order is not stable beside the rules that read it."""
    rule, layout = span.assignment.rule, book.problem.scope.layouts[name]
    if not isinstance(rule, AbstractOrdered):
        return []
    axis = layout.space[span.side.axis]
    used = rule.stable_order(use, layout.shift(axis) == 0)
    if used == rule.order:
        return []
    return [
        f"{span.assignment.describe(name)} is of order {used} at the {span.side.word} wall of {axis}: rules read it as "
        f"{use.value}, and ghost values of order {rule.order} are unstable there"
    ]


def _layers(box: Box, side: Side, first: int, count: int, shape: tuple[int, ...]) -> Box:
    """The box moved to ghost layers first … first + count − 1 on a side."""
    if side.upper:
        start = shape[side.axis] + first - 1
        return box.with_range(side.axis, start, start + count)
    return box.with_range(side.axis, -first - count + 1, -first + 1)


def _extend(box: Box, filled: list[int], shape: tuple[int, ...], halo: Halo) -> Box:
    """The box grown into the ghosts of the axes filled before, where it touches their ends."""
    for other in filled:
        start = -halo[0][other] if box.start[other] == 0 else box.start[other]
        stop = shape[other] + halo[1][other] if box.stop[other] == shape[other] else box.stop[other]
        box = box.with_range(other, start, stop)
    return box

"""Pieces of hidden fields: on the points that rules read, in the phases that need them."""

from typing import Any

import numpy as np

from ..errors import PlanningError
from ..region import Box, Points
from ._beside import NearHoles, halves_between, near_holes, seen_from_outside, sees_stored
from ._derive import Hidden
from ._hole_points import points_around
from ._masks import mask_of
from ._near import split_near_walls
from ._phases import Phase
from ._pieces import Piece, RuleBook
from ._seams import without_sign


def add_hidden_pieces(book: RuleBook, phases: list[Phase], compiled: list[Any]) -> dict[str, Box]:
    """Adds the pieces of hidden fields to the phases that need them; returns the box that each is held on."""
    holes = [near_holes(book, phase) for phase in phases]
    rules = _rules(book, holes)
    needs = [_needs(book, one.values, rules) for one in compiled]
    of_rates = _needs(book, [piece for one in compiled for piece in one.rates], rules)
    boxes: dict[str, Box] = {}
    for need in (*needs, of_rates):
        for name, box in need.items():
            boxes[name] = _join(boxes[name], box) if name in boxes else box
    for phase, beside, one, need in zip(phases, holes, compiled, needs, strict=True):
        for name in book.hidden:
            if name in need or name in of_rates:
                one.values.extend(_pieces(book, phase, beside, book.hidden[name], boxes[name]))
    return boxes


def find_views(book: RuleBook, compiled: list[Any]) -> frozenset[str]:
    """The hidden fields that are read by rates alone, or by other such fields, at their own level."""
    found = set(book.hidden)
    pieces = [piece for one in compiled for piece in (*one.values, *one.rates)]
    while True:
        lost = set()
        for piece in pieces:
            numbers = [number for number in (piece.rule, piece.predicate) if number is not None]
            reads = [read for number in numbers for read in book.rules[number].reads]
            alone = piece.role == "rate" or piece.field in found
            lost |= {read.field for read in reads if read.level or not alone}
            lost |= {piece.field} if any(read.level for read in reads) else set()
        if found.isdisjoint(lost):
            return frozenset(found)
        found -= lost


def _rules(book: RuleBook, holes: list[NearHoles]) -> dict[str, list[int]]:
    """The rules of each hidden field: away from holes, and beside those of each phase where rules there see it.

    Tracing one may ask for others.
    """
    found = {name: [hidden.rule()] for name, hidden in book.hidden.items()}
    traced = set[str]()
    while pending := [name for name in book.hidden if name in _seen(book) - traced]:
        for name in pending:
            hidden = book.hidden[name]
            beside = [_rule_beside(book, hidden, _relevant(book, hidden, one)) for one in holes]
            found[name] = [hidden.rule(), *(number for number in dict.fromkeys(beside) if number is not None)]
        traced.update(pending)
    return found


def _seen(book: RuleBook) -> set[str]:
    """The hidden fields that hold what rules beside holes see."""
    return {name for (name, *_), stored in book.stored_beside.items() if stored}


def _rule_beside(book: RuleBook, hidden: Hidden, relevant: NearHoles) -> int | None:
    """The rule of a hidden field beside holes that it reads, if it holds there what is seen."""
    if not relevant or not sees_stored(book, hidden.name, relevant, hidden.owner):
        return None
    return hidden.rule((), relevant)


def _relevant(book: RuleBook, hidden: Hidden, holes: NearHoles) -> NearHoles:
    """Those holes that are of fields which a hidden field reads."""
    fields = {read.field for read in book.reach(hidden.rule())}
    return tuple(item for item in holes if item[0] in fields)


def _needs(book: RuleBook, pieces: list[Piece], rules: dict[str, list[int]]) -> dict[str, Box]:
    """The boxes of hidden fields that pieces read, and that those then read in turn."""
    found: dict[str, Box] = {}
    pending = [(piece.rule, piece.box) for piece in pieces]
    while pending:
        rule, box = pending.pop()
        for read in book.rules[rule].reads:
            if read.field not in book.hidden:
                continue
            hidden = book.hidden[read.field]
            wanted = box.shift(read.offset)
            if hidden.operation is not None:
                wanted = _join(wanted, Box.of_shape(hidden.layout.space_shape))
            if read.field in found:
                wanted = _join(wanted, found[read.field])
            if found.get(read.field) != wanted:
                found[read.field] = wanted
                whole = Box.of_shape(hidden.layout.space_shape)
                around = wanted if hidden.operation is None else whole
                pending.extend((number, around) for number in rules[hidden.name])
    return found


def _join(a: Box, b: Box) -> Box:
    start = tuple(min(p, q) for p, q in zip(a.start, b.start, strict=True))
    return Box(start, tuple(max(p, q) for p, q in zip(a.stop, b.stop, strict=True)))


def _pieces(book: RuleBook, phase: Phase, holes: NearHoles, hidden: Hidden, box: Box) -> list[Piece]:
    """The pieces of one hidden field: near walls without ghosts row by row, where an operation needs its values."""
    if hidden.operation is not None:
        _check_box(book, hidden, box)
        number = hidden.rule()
        signs = book.signs[hidden.name]
        return [
            Piece(hidden.name, box, number, None, None, "value", False, hidden.label, hidden.operation, signs=signs)
        ]
    away = hidden.rule()
    if not any(other.source == hidden.name for other in book.hidden.values()):
        return _pieces_about_holes(book, phase, holes, hidden, box)
    _refuse_holes(book, phase, hidden, away)
    target = book.problem.scope.layouts[hidden.owner]
    groups = split_near_walls(book, phase.fields, (hidden.layout, target), away, Points.of_box(box))
    return [
        Piece(hidden.name, part.box, hidden.rule(near), None, None, "value", False, hidden.label)
        for group, near in groups
        for part in group.parts
    ]


def _pieces_about_holes(book: RuleBook, phase: Phase, holes: NearHoles, hidden: Hidden, box: Box) -> list[Piece]:
    """The pieces of a hidden field on the points whose rule reads nothing of holes, and on those that are seen beside
    them.

    Elsewhere a point reads values of its own, if any. What would stand there is made of nothing that means anything,
    and may have no derivative.
    """
    reads_hole, stored = _reads_holes(book, phase, hidden, box), []
    relevant = _relevant(book, hidden, holes)
    beside = _rule_beside(book, hidden, relevant) if reads_hole.any() and hidden.name in _seen(book) else None
    stored.append((hidden.rule(), ~reads_hole))
    if beside is not None:
        own = book.problem.scope.layouts[hidden.owner]
        outside = seen_from_outside(relevant, own, halves_between(hidden.layout, own), box)
        stored.append((beside, reads_hole & outside))
    return [
        Piece(hidden.name, part.box, number, mask_of(book, part), None, "value", False, hidden.label)
        for number, mask in stored
        for part in Points.of_mask(box, mask).parts
    ]


def _reads_holes(book: RuleBook, phase: Phase, hidden: Hidden, box: Box) -> np.ndarray:
    """At which points of a box the rule of a hidden field reads points of holes, itself or through another one."""
    found = np.zeros(box.shape, bool)
    for read in book.rules[hidden.rule()].reads:
        there = box.shift(read.offset)
        if read.field in book.hidden:
            other = book.hidden[read.field]
            found |= _reads_holes(book, phase, other, there) if other.operation is None else False
        elif read.field in phase.fields:
            for hole in phase.fields[read.field].holes:
                if hole.predicate is None:
                    found |= points_around(hole, book.problem.scope.layouts[read.field].space_shape, there)
    return found


def _check_box(book: RuleBook, hidden: Hidden, box: Box) -> None:
    """Refuses reads of an operation's result beyond a wall."""
    grid, shape = book.problem.scope.grid, hidden.layout.space_shape
    for position, axis in enumerate(grid.space):
        beyond = max(-box.start[position], box.stop[position] - shape[position])
        if beyond > 0 and not grid.space_axis(axis).periodic:
            raise PlanningError(
                f"{hidden.label} is read {beyond} point{'s' * (beyond > 1)} beyond an end of axis `{axis}`; it is "
                f"known on the grid only. Read it at the point itself, or start the region further in."
            )
        if beyond > 0 and book.signs[hidden.name][position] == 0:
            raise PlanningError(f"{hidden.label}: {without_sign(axis)}")
        if beyond > shape[position]:
            raise PlanningError(f"{hidden.label} is read across more than one period of axis `{axis}`.")


def _refuse_holes(book: RuleBook, phase: Phase, hidden: Hidden, rule: int) -> None:
    for read in book.reach(rule):
        if read.field in phase.fields and phase.fields[read.field].holes:
            raise PlanningError(
                f"{hidden.label} needs values at every point, and `{read.field}` has a hole. Give the points of the "
                f"hole a value instead, for example fd.boundary.Dirichlet(0.0)."
            )

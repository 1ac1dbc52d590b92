"""The pieces of rules and of memory variables in absorbing layers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import PlanningError
from ..field import AbstractBoundary, bare
from ..region import Box, Points
from ._near import split_near_walls
from ._phases import Phase, Span
from ._pieces import Piece
from ._pml import Stretch
from ._pml_memory import AbstractEvolution, Continuous, Memory, Recursive, Staged


def split_by_stretches(
    book: Any, name: str, span: Span, points: Points, level: int, standing: Any
) -> list[tuple[Points, Any]]:
    """The points of a rule in groups that see the same absorbing layers; alone those that its reads reach into."""
    rule = span.assignment.rule
    function = bare(rule)
    given = isinstance(rule, AbstractBoundary) or not callable(function) or hasattr(function, "dtype")
    if level == 0 or given or not book.stretches:
        return [(points, standing)]
    away = book.rule(name, span.index, span.assignment, standing=standing)
    groups, layout = [(points, standing)], book.problem.scope.layouts[name]
    derived = any(read.field in book.hidden for read in book.rules[away].reads)
    for stretch in book.stretches:
        reach = max((abs(r.offset[stretch.side.axis]) for r in book.reach(away)), default=0)
        if not (reach or derived or stretch.axis in book.slopes[away]) and book.rules[away].affine:
            continue
        zone = Points.of_box(stretch.box(layout, reach + 1))
        divided = []
        for group, own in groups:
            inside, outside = group.intersect(zone), group.subtract(zone)
            if not outside.empty:
                divided.append((outside, own))
            if not inside.empty:
                divided.append((inside, replace(own, stretches=(*own.stretches, stretch))))
        groups = divided
    return groups


def check_linear(book: Any, number: int, label: str, stretches: Sequence[Stretch]) -> None:
    """Refuses rules in absorbing layers that are not affine in the fields."""
    if stretches and not book.rules[number].affine:
        raise PlanningError(
            f"{label} is not affine in the fields it reads, and absorbing layers, {stretches[0].label}, serve linear "
            f"waves. Give it a linear rule there, u[region] = ..., assigned last."
        )


def add_memory_pieces(book: Any, phases: list[Phase], compiled: list[Any], rates: bool, staged: bool) -> dict[str, Box]:
    """Adds the pieces of memory variables to all phases; returns the box that each is held on.

    `rates` says that a stepper advances the problem, `staged` that it evaluates rates where plain recursion holds.
    """
    boxes = _find_boxes(book, [piece for one in compiled for piece in (*one.values, *one.rates)])
    for name, memory in book.memories.by_name.items():
        box = boxes.setdefault(name, memory.layer.box(memory.layout))
        recursive = Staged() if rates and staged else Recursive()
        evolution = recursive if not rates or staged or memory.level < 0 else Continuous()
        for phase, one in zip(phases, compiled, strict=True):
            _add_to_phase(book, phase, one, memory, box, evolution)
    return boxes


def _find_boxes(book: Any, pieces: Sequence[Any]) -> dict[str, Box]:
    """The boxes on which memory variables are read: by pieces, and by each other.

    They begin where the first read of a piece that reaches into the layer finds them, a little before it: σ is 0 there,
    the variable stays 0, and all points of the piece follow one rule.
    """
    found: dict[str, Box] = {}
    pending = [(piece.rule, piece.box) for piece in pieces]
    while pending:
        rule, box = pending.pop()
        for read in book.rules[rule].reads:
            memory = book.memories.by_name.get(read.field)
            if memory is None:
                continue
            # As far before the layer as its rules begin (reach + 1), and as these read on from there.
            before_layer = 2 * (1 + max(abs(r.offset[memory.layer.side.axis]) for r in book.rules[rule].reads))
            wanted = memory.layer.clip(box.shift(read.offset), memory.layout, before_layer)
            if wanted.empty:
                continue
            before = found.get(read.field)
            joined = wanted if before is None else _join(before, wanted)
            if joined != before:
                found[read.field] = joined
                layers = tuple(one for one in book.stretches if _touches(one, memory, joined))
                pending.append((memory.rule((), layers, Recursive()), joined))
    return found


def _join(a: Box, b: Box) -> Box:
    start = tuple(min(p, q) for p, q in zip(a.start, b.start, strict=True))
    return Box(start, tuple(max(p, q) for p, q in zip(a.stop, b.stop, strict=True)))


def _zone(book: Any, other: Stretch, memory: Memory) -> Box:
    """The points of a memory variable from which its reads reach into another layer, those beyond walls too."""
    rule = memory.rule((), (memory.layer,), Recursive())
    reach = max((abs(r.offset[other.side.axis]) for r in book.reach(rule)), default=0) + 1
    box, far = other.box(memory.layout, reach), reach + memory.layout.space_shape[other.side.axis]
    for axis, size in enumerate(memory.layout.space_shape):
        start, stop = box.start[axis], box.stop[axis]
        box = box.with_range(axis, start - far if start == 0 else start, stop + far if stop == size else stop)
    return box


def _changes(other: Stretch, memory: Memory) -> bool:
    """Whether the rule of a memory variable is another one in another layer."""
    rules = memory.stretcher.book.rules
    alone, both = (rules[memory.rule((), layers, Recursive())] for layers in ((memory.layer,), (memory.layer, other)))
    return alone != both


def _touches(other: Stretch, memory: Memory, box: Box) -> bool:
    if other.side == memory.layer.side:
        return True
    if not _changes(other, memory):
        return False
    return not _zone(memory.stretcher.book, other, memory).intersect(box).empty


def _add_to_phase(book: Any, phase: Phase, one: Any, memory: Memory, box: Box, evolution: AbstractEvolution) -> None:
    level, continuous = int(phase.levels[0]), evolution.back == 0
    started = level > 0 and level + memory.level >= 0
    if not started or (continuous and not one.rates):
        rule = memory.hold() if started else book.constant(memory.name, 0.0)
        one.values.append(Piece(memory.name, box, rule, None, None, "value", False, memory.label, stretched=True))
        return
    pieces = [
        Piece(memory.name, part.box, rule, None, None, "rate" if continuous else "value", False, memory.label,
              stretched=True)
        for part, rule in _parts(book, phase, memory, box, evolution)
    ]  # fmt: skip
    (one.rates if continuous else one.values).extend(pieces)
    if continuous:
        one.given[memory.name] = Points.of_box(box)


def _parts(book: Any, phase: Phase, memory: Memory, box: Box, evolution: AbstractEvolution) -> list[tuple[Any, int]]:
    """The box in parts that see the same layers and the same open walls, each with its rule."""
    groups: list[tuple[Points, tuple[Stretch, ...]]] = [(Points.of_box(box), ())]
    for other in book.stretches:
        if other.side == memory.layer.side:
            groups = [(points, (*layers, other)) for points, layers in groups]
            continue
        if not _changes(other, memory):
            continue
        zone = Points.of_box(_zone(book, other, memory))
        divided = []
        for points, layers in groups:
            inside, outside = points.intersect(zone), points.subtract(zone)
            if not outside.empty:
                divided.append((outside, layers))
            if not inside.empty:
                divided.append((inside, (*layers, other)))
        groups = divided
    parts = []
    for points, layers in groups:
        away = memory.rule((), layers, evolution)
        for group, near in split_near_walls(book, phase.fields, (memory.layout, memory.target), away, points):
            parts += [(part, memory.rule(near, layers, evolution)) for part in group.parts]
    return parts


def refuse_hole(stretches: Sequence[Stretch], close: Points, label: str) -> None:
    """Refuses a hole within reach of a rule in an absorbing layer."""
    if stretches and not close.empty:
        raise PlanningError(
            f"{label} reads into a hole in the absorbing layer {stretches[0].label}. Keep holes and layers apart, or "
            f"give the points of the hole a value instead, for example fd.boundary.Dirichlet(0.0)."
        )

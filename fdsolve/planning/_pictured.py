"""The plan as a picture: which rule holds at each point of a field, and what it reads."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import pictures
from ..errors import DeclarationError
from ..pictures import Read, RegionMap, Rule
from ..region import Box
from ._order import pieces_of
from ._pieces import Piece
from ._problem import Problem
from ._structure import Array, PhaseStructure, Structure


def map_regions(
    problem: Problem, structure: Structure, holes: Mapping[str, Any], names: Any, level: Any, at: Any
) -> list[RegionMap]:
    """A map of regions for each of the fields that are asked for, at a level."""
    known = problem.names
    wanted = list(known) if names is None else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise DeclarationError(f"The plan has no field {name!r} to draw; it has {', '.join(known)}.")
    phase, title = _phase_at(structure, level)
    return [_map_field(problem, structure, holes[name], phase, structure.array(name), at, title) for name in wanted]


def _phase_at(structure: Structure, level: Any) -> tuple[PhaseStructure, str]:
    """What happens at a level, counted from the end if negative, and the levels it is told for."""
    count = structure.segments[-1].stop
    if isinstance(level, bool) or not isinstance(level, int) or not -count <= level < count:
        raise DeclarationError(
            f"level= takes the number of a level, from 0 to {count - 1} or from the end; got {level!r}."
        )
    number = level % count
    segment = next(one for one in structure.segments if one.start <= number < one.stop)
    phase = segment.phases[0] if len(segment.phases) == 1 else segment.phases[number - segment.start]
    if structure.time_axis is None:
        return structure.phases[phase], ""
    first, last = (segment.start, segment.stop - 1) if len(segment.phases) == 1 else (number, number)
    return structure.phases[phase], f", level{f' {first}' if first == last else f's {first} to {last}'}"


def _map_field(
    problem: Problem, structure: Structure, hole: Any, phase: PhaseStructure, array: Array, at: Any, title: str
) -> RegionMap:
    layout, grid = problem.scope.layouts[array.name], problem.scope.grid
    whole = Box.of_shape(array.shape).grow(tuple(max(0, n) for n in array.lower), tuple(max(0, n) for n in array.upper))
    drawn, held = _drawn_axes(grid, layout, array, at)
    numbers = np.full(tuple(whole.shape[a] for a in drawn), -1)
    rules: dict[tuple[str, bool, bool], int] = {}
    reads: dict[int, tuple[int, tuple[Read, ...]]] = {}
    for piece in _pieces(phase, array.name):
        mask = _mask_of(problem, piece, whole, drawn, held)
        if mask is None or not mask.any():
            continue
        ghost = piece.role == "ghost"
        label = (
            ("" if not piece.adds else "+= ")
            + piece.label.replace("`", "")
            + (" (where)" if piece.predicate is not None else "")
        )
        number = rules.setdefault((label, ghost, piece.role == "hole"), len(rules))
        numbers[mask] = number
        size = int(mask.sum())
        if size > reads.get(number, (0, ()))[0]:
            reads[number] = (size, _reads_of(problem, structure, piece))
    if not hole.empty:
        cut = _cut(hole.to_mask(whole), whole, held)
        told = np.isin(numbers, [number for key, number in rules.items() if key[2]])  # by the condition on its rim
        cut &= ~told
        if cut.any():
            numbers[cut] = rules.setdefault(("cut out", False, True), len(rules))
    made = tuple(
        Rule(
            ("ghost points: " if ghost else "hole: " if is_hole else "") + label,
            reads.get(number, (0, ()))[1],
            ghost,
            is_hole,
        )
        for (label, ghost, is_hole), number in rules.items()
    )
    numbers, made = _drop_covered(numbers, made)
    spaces = [layout.space[a] for a in drawn]
    owners = [grid.space_axis(name) for name in spaces]
    points = tuple(
        owner.positions(name in layout.faces, whole.start[a], whole.stop[a])
        for name, owner, a in zip(spaces, owners, drawn, strict=True)
    )
    inside = tuple((owner.lower, owner.upper) for owner in owners)
    cuts = ", ".join(f"{layout.space[a]} at {index}" for a, index in held.items())
    labels = tuple(pictures.name_with_unit(name, owner.units) for name, owner in zip(spaces, owners, strict=True))
    alike = len(owners) == 2 and owners[0].units == owners[1].units
    alike = alike and 1 / 6 < owners[0].length / owners[1].length < 6
    text = f"rules of {array.name}{title}" + (f" ({cuts})" if cuts else "")
    return RegionMap(array.name, text, numbers, points, labels, inside, layout.space, made, alike, structure.time_axis)


def _drop_covered(numbers: np.ndarray, rules: tuple[Rule, ...]) -> tuple[np.ndarray, tuple[Rule, ...]]:
    """Without the rules that others cover entirely."""
    kept = [number for number in range(len(rules)) if (numbers == number).any()]
    lookup = np.full(len(rules) + 1, -1)
    lookup[kept] = np.arange(len(kept))
    return lookup[numbers], tuple(rules[number] for number in kept)


def _pieces(phase: PhaseStructure, name: str) -> Iterator[Piece]:
    """The pieces of a field, those that cover others later."""
    found = [piece for piece in phase.rates if piece.field == name]
    guesses = {piece for stage in phase.stages for piece in getattr(stage, "guesses", ())}
    found += [p for stage in phase.stages for p in pieces_of(stage) if p.field == name and p not in guesses]
    return iter(sorted(found, key=lambda piece: ({"rate": 0, "ghost": 2, "hole": 3}.get(piece.role, 1), piece.adds)))


def _drawn_axes(grid: Any, layout: Any, array: Array, at: Any) -> tuple[tuple[int, ...], dict[int, int]]:
    """The axes that are drawn, and the index on each of the others: where `at` says, or in the middle."""
    held: dict[int, int] = {}
    if at is not None and not isinstance(at, Mapping):
        raise DeclarationError(f"at= takes a dict of coordinates by axis, as in at=dict(z=0.5); got {at!r}.")
    for name, value in (at or {}).items():
        if name not in layout.space:
            raise DeclarationError(f"at= names the axis {name!r}; the space axes are {', '.join(layout.space)}.")
        axis = layout.space.index(name)
        places = grid.space_axis(name).positions(name in layout.faces, 0, array.shape[axis])
        held[axis] = int(np.argmin(np.abs(places - float(value))))
    rest = [axis for axis in range(len(array.shape)) if axis not in held]
    if not rest:
        raise DeclarationError("at= leaves no axis to draw; leave one out.")
    for axis in rest[2:]:
        held[axis] = array.shape[axis] // 2
    return tuple(rest[:2]), held


def _mask_of(
    problem: Problem, piece: Piece, whole: Box, drawn: tuple[int, ...], held: Mapping[int, int]
) -> np.ndarray | None:
    """The points of a piece on the axes drawn; None where the cut does not meet it."""
    box = piece.box.intersect(whole)
    if box.empty or any(not box.start[a] <= index < box.stop[a] for a, index in held.items()):
        return None
    part = problem.store.masks.get(piece.mask) if piece.mask is not None else None
    if part is None or part.mask is None:
        mask = np.zeros(tuple(whole.shape[a] for a in drawn), bool)
        mask[tuple(slice(box.start[a] - whole.start[a], box.stop[a] - whole.start[a]) for a in drawn)] = True
        return mask
    full = np.zeros(whole.shape, bool)
    common = part.box.intersect(box)
    full[common.slices(whole.start)] = part.mask[common.slices(part.box.start)]
    return _cut(full, whole, held)


def _cut(full: np.ndarray, whole: Box, held: Mapping[int, int]) -> np.ndarray:
    """A mask of all points, at the indices held."""
    return full[tuple(held[a] - whole.start[a] if a in held else slice(None) for a in range(whole.ndim))]


def _reads_of(problem: Problem, structure: Structure, piece: Piece) -> tuple[Read, ...]:
    """What a rule reads, as distances from its point; of derived values, by their own indices."""
    layouts = problem.scope.layouts
    own = layouts[piece.field]
    found: dict[Read, None] = {}
    for read in structure.rules[piece.rule].reads:
        other = layouts.get(read.field, own)
        moved = (o + (other.shift(a) - own.shift(a)) / 2 for o, a in zip(read.offset, own.space, strict=True))
        found[Read(read.field, read.level, tuple(moved))] = None
    return tuple(found)

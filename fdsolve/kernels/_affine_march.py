"""Which marches are one constant affine map, level after level, on boxes with periodic ends and mirrors for walls.

What a wall is follows from what its pieces do, whatever condition they come from: values of ghost points are followed
back to the unknown points they copy, on a small copy of the problem with the same walls.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ..planning import Parallel, PhaseStructure, Piece, Structure
from ..region import Box
from ..schemes import AbstractOneStep
from ..stencil import StateRead
from ..transforms import AbstractLine, Mirror, Mirrored, Ring, Still
from ._affine_rules import facts_of, why_not_constant
from ._affine_walls import Images, follow, shrink
from ._march_call import MarchCall


@dataclass(frozen=True)
class AffineField:
    """A field's unknown points, how it continues beyond them on each axis, and how many levels of it are held."""

    name: str
    box: Box
    lines: tuple[AbstractLine, ...]
    held: int


@dataclass(frozen=True)
class AffineMarch:
    """A level as a constant affine map of the levels before it.

    `pieces` give values or rates of the unknown points, in the order of evaluation; `rated` says which. `symmetric`:
    all weights are symmetric on all axes, so the modes are multiplied by real numbers. `linear`: there is no constant.
    """

    fields: tuple[AffineField, ...]
    pieces: tuple[Piece, ...]
    rated: bool
    symmetric: bool
    linear: bool

    def field(self, name: str) -> AffineField:
        """A field by name."""
        return next(one for one in self.fields if one.name == name)

    @property
    def held(self) -> int:
        """How many levels the map takes."""
        return max(one.held for one in self.fields)


def affine_march(call: MarchCall) -> AffineMarch | str:
    """The march of a call as an affine map; or why it is none."""
    return _recognise(call.structure, call.phase, call.axes)


@lru_cache(maxsize=64)
def _recognise(structure: Structure, phase: PhaseStructure, axes: tuple[str, ...]) -> AffineMarch | str:
    for check in (_check_fields, _check_pieces, _check_stepper):
        if reason := check(structure, phase):
            return reason
    found = _main_pieces(structure, phase)
    if isinstance(found, str):
        return found
    if reason := _check_rest(structure, phase, found):
        return reason
    boxes = {piece.field: piece.box for piece in found}
    held = {one.name: max(one.kept, 1) for one in structure.arrays}
    small = shrink(structure, phase, found)
    if isinstance(small, str):
        return small
    images = follow(small)
    fields = []
    for one in structure.arrays:
        lines = [_line(structure, small, images, boxes, one.name, axis) for axis in range(len(axes))]
        if isinstance(bad := next((line for line in lines if isinstance(line, str)), None), str):
            return bad
        kept = tuple(line for line in lines if isinstance(line, AbstractLine))
        fields.append(AffineField(one.name, boxes[one.name], kept, held[one.name]))
    march = AffineMarch(tuple(fields), found, bool(phase.rates), False, False)
    if reason := _check_images(structure, small, images, march) or _check_modes(march):
        return reason
    if asymmetric := _asymmetry(structure, march, lambda line: isinstance(line, Mirrored)):
        return asymmetric
    symmetric = not _asymmetry(structure, march, lambda line: not isinstance(line, Still))
    everything = [*phase.rates, *(stage.piece for stage in phase.stages if isinstance(stage, Parallel))]
    linear = all(facts_of(structure.rules[piece.rule]).linear for piece in everything)
    return _with_real_ring(structure, replace(march, symmetric=symmetric, linear=linear))


def _check_fields(structure: Structure, phase: PhaseStructure) -> str:
    for one in structure.arrays:
        if one.hidden:
            return "derived views are stored on the way"
        if np.dtype(one.dtype).kind not in "fc":
            return f"`{one.name}` holds no real or complex numbers"
    if len({one.dtype for one in structure.arrays}) > 1:
        return "fields of different dtypes"
    return "receivers listen on the way" if structure.recording is not None else ""


def _check_pieces(structure: Structure, phase: PhaseStructure) -> str:
    for stage in phase.stages:
        if not isinstance(stage, Parallel):
            return f"{stage.pieces[0].label} reads its own level"
    for piece in (*phase.rates, *(stage.piece for stage in phase.stages if isinstance(stage, Parallel))):
        if piece.role == "hole":
            return f"`{piece.field}` has a hole"
        if piece.mask is not None or piece.predicate is not None:
            return f"{piece.label} holds on a part of a box"
        if piece.operation is not None:
            return f"{piece.label} acts on all points at once"
        if piece.stretched:
            return f"{piece.label} stands in an absorbing layer"
        if reason := why_not_constant(structure.rules[piece.rule], structure.time_axis):
            return f"{piece.label} {reason}"
    return ""


def _check_stepper(structure: Structure, phase: PhaseStructure) -> str:
    if not phase.rates:
        return ""
    if not isinstance(structure.stepper, AbstractOneStep):
        return f"{structure.stepper!r} is not a one-step method with the same factors in every step"
    if structure.stepper.solves:
        return f"{structure.stepper!r} solves systems of equations"
    rated = {name for name, boxes in phase.given if len(boxes) == 1}
    plain = [one.name for one in structure.arrays if one.name not in rated]
    return f"`{plain[0]}` has no rate on one box" if plain else ""


def _main_pieces(structure: Structure, phase: PhaseStructure) -> tuple[Piece, ...] | str:
    """The pieces of the unknown points; for each field all on the same box."""
    if phase.rates:
        boxes = {name: box for name, (box,) in phase.given}
        found = phase.rates
    else:
        values = [s.piece for s in phase.stages if isinstance(s, Parallel) and s.piece.role == "value"]
        moving = [p for p in values if structure.rules[p.rule].reads]
        boxes = {p.field: p.box for p in sorted(moving, key=lambda p: p.box.size)}
        found = tuple(p for p in values if p.box == boxes.get(p.field))
    for one in structure.arrays:
        own = [p for p in found if p.field == one.name]
        if not own:
            return f"no rule moves `{one.name}`"
        if len([p for p in own if not p.adds]) != 1 or own[0].adds or any(p.box != boxes[one.name] for p in own):
            return f"`{one.name}` follows several rules"
    if phase.rates and any(r.level != 0 for p in found for r in structure.rules[p.rule].reads):
        return "a rate reads an older level"
    return found


def _check_rest(structure: Structure, phase: PhaseStructure, main: tuple[Piece, ...]) -> str:
    """What is beside the unknown points is constant, or ± a point of the same level."""
    for stage in phase.stages:
        assert isinstance(stage, Parallel)
        piece = stage.piece
        if piece in main:
            continue
        rule = structure.rules[piece.rule]
        if not rule.reads:
            continue
        facts = facts_of(rule)
        copies = len(rule.reads) == 1 and rule.reads[0].level == 0 and rule.reads[0].field == piece.field
        if not copies or not facts.fixed or abs(abs(facts.samples[0, 0]) - 1) > 1e-6 or piece.adds:
            return f"{piece.label} is no mirror"
        if facts.samples[0, 0].imag:
            return f"{piece.label} is no mirror"
    return ""


def _reads(structure: Structure, march_pieces: tuple[Piece, ...]) -> list[tuple[Piece, StateRead]]:
    return [(piece, read) for piece in march_pieces for read in structure.rules[piece.rule].reads]


def _line(
    structure: Structure, small: Any, images: Images, boxes: dict[str, Box], name: str, axis: int
) -> AbstractLine | str:
    """How a field continues along an axis: told by the first points beyond its ends.

    A field that is read at its own points alone continues as another one on the same points.
    """
    start, size = boxes[name].start[axis], boxes[name].shape[axis]
    if not any(read.offset[axis] for _, read in _reads(structure, small.main)):
        return Still(start, size)

    def beyond(name: str) -> list[tuple[int, int] | None]:
        here = small.box(name)
        return [images.look(name, here, axis, at) for at in (here.start[axis] - 1, here.stop[axis])]

    told = (one for one in (name, *boxes) if boxes[one] == boxes[name] and beyond(one) != [None, None])
    (low, high), here = beyond(next(told, name)), small.box(name)
    first, last = here.start[axis], here.stop[axis] - 1
    around = {seen[1] for seen, end in ((low, last), (high, first)) if seen is not None and seen[0] == end}
    ends = (low is None or low[0] == last) and (high is None or high[0] == first)
    if ends and around in ({1}, {-1}):
        return Ring(start, size, around.pop())
    if low is None or high is None:
        return f"rules reach beyond one end of axis {axis} only, or a wall of `{name}` has no mirror"
    walls = [_mirror(low, first, 1), _mirror(high, last, -1)]
    if None in walls:
        return f"a wall of `{name}` is no mirror"
    return Mirrored(start, size, *(wall for wall in walls if wall is not None))


def _mirror(seen: tuple[int, int], end: int, inwards: int) -> Mirror | None:
    """The mirror whose first image stands for the point seen, with its sign."""
    at, sign = seen
    if sign == 0:
        return Mirror(-1, True)
    if at == end:
        return Mirror(sign, False)
    return Mirror(1, True) if (at, sign) == (end + inwards, 1) else None


def _check_images(structure: Structure, small: Any, images: Images, march: AffineMarch) -> str:
    """All that the rules read is what the lines say stands there."""
    for piece, read in _reads(structure, small.main):
        here, source = small.box(piece.field), small.box(read.field)
        lines = [
            replace(line, start=begin, size=count)
            for line, begin, count in zip(march.field(read.field).lines, source.start, source.shape, strict=True)
        ]
        wanted = [
            line.image(np.arange(begin, end) + offset - line.start)
            for line, begin, end, offset in zip(lines, here.start, here.stop, read.offset, strict=True)
        ]
        if not images.agree(read.field, here.shift(read.offset), source.start, wanted):
            return f"{piece.label} reads points of `{read.field}` that are neither unknown nor mirrored"
    return ""


def _check_modes(march: AffineMarch) -> str:
    """All fields have the same modes."""
    first = march.fields[0]
    for other in march.fields[1:]:
        for a, b in zip(first.lines, other.lines, strict=True):
            same = (a.start, a.size) == (b.start, b.size) if isinstance(a, Still) else True
            if type(a) is not type(b) or not same or not np.array_equal(a.angles, b.angles):
                return f"`{first.name}` and `{other.name}` have different modes"
    return ""


def _asymmetry(structure: Structure, march: AffineMarch, wanted: Callable[[AbstractLine], bool]) -> str:
    """Which rule is not symmetric on an axis where it is wanted; "" for none.

    The weight at an offset equals the one at the mirrored offset, times the parities of the two fields.
    """
    for piece in march.pieces:
        rule = structure.rules[piece.rule]
        facts = facts_of(rule)
        for axis, name in product(range(len(march.fields[0].lines)), dict.fromkeys(r.field for r in rule.reads)):
            own, other = march.field(piece.field).lines[axis], march.field(name).lines[axis]
            if not wanted(own):
                continue
            if not facts.analytic:
                return f"{piece.label} has weights that branch, beside a wall"
            weights = {(r.level, r.offset): facts.samples[:, k] for k, r in enumerate(rule.reads) if r.field == name}
            ways = _reflections(own, other)
            scale = max(np.abs(w).max() for w in weights.values())
            for (level, offset), found in weights.items():
                for centre, sign in ways:
                    across = (*offset[:axis], centre - offset[axis], *offset[axis + 1 :])
                    mirrored = weights.get((level, across), np.zeros(()))
                    if not np.abs(found - sign * mirrored).max() <= 100 * np.finfo(rule.dtype).eps * scale:
                        return f"{piece.label} is not symmetric in `{name}` along axis {axis}, which has walls"
    return ""


def _reflections(own: AbstractLine, other: AbstractLine) -> list[tuple[int, int]]:
    """Where reflections of the points of two fields take an offset: o → centre − o, and the sign, for each wall."""
    if not (isinstance(own, Mirrored) and isinstance(other, Mirrored)):
        return [(2 * (other.start - own.start), 1)]
    moved = 2 * (other.start - own.start) + other.centre - own.centre
    end = moved + other.period - own.period
    return [(moved, own.low.parity * other.low.parity), (end, own.high.parity * other.high.parity)]


def _with_real_ring(structure: Structure, march: AffineMarch) -> AffineMarch:
    """Of real values the first periodic axis keeps one half of the modes."""
    lines = march.fields[0].lines
    axis = next((a for a, line in enumerate(lines) if isinstance(line, Ring) and line.sign == 1), None)
    if axis is None or np.dtype(structure.arrays[0].dtype).kind == "c":
        return march
    fields = []
    for one in march.fields:
        line = one.lines[axis]
        assert isinstance(line, Ring)
        changed = (*one.lines[:axis], replace(line, half=True), *one.lines[axis + 1 :])
        fields.append(replace(one, lines=changed))
    return replace(march, fields=tuple(fields))

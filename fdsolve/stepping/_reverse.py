"""Which levels can be taken back: what the traced rules of a phase say, before anything runs.

A plain rule that takes the oldest level kept at its own point times ±1, and at no other point, is solved for it: the
values it gave less all else it reads. Points whose rule reads nothing but the level itself (walls, ghosts) are set
again. All others lose: what the first ones read of them is kept at every step, and the rest is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..errors import PlanningError
from ..planning import Parallel, PhaseStructure, Piece, Solve, Structure, pieces_of
from ..region import Box, Points
from ..stencil import (
    Operand,
    ProfileRead,
    StateRead,
    Traced,
    WholeRead,
)
from ._weights import old_weight, weight_operands

NO_POINTS = Points()


@dataclass(frozen=True, eq=False)
class Lost:
    """A piece that is not undone, and why."""

    piece: Piece
    reason: str


@dataclass(eq=False)
class Reversal:
    """How a level of a phase of plain rules is taken back.

    `order`: the fields in the order in which their older levels are found; those that are computed beside them and not
    kept stand among them where they are needed. By field: `inverted` pieces with the weight of the old value, pieces
    that are set `again`, those `lost`, and the `kept` boxes. `blind`: pieces that read what is not known, by the
    operands and constants that their weights depend on.
    """

    order: tuple[str, ...] = ()
    inverted: dict[str, dict[Piece, complex]] = field(default_factory=dict)
    again: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    lost: dict[str, dict[Piece, str]] = field(default_factory=dict)
    kept: dict[str, tuple[Box, ...]] = field(default_factory=dict)
    blind: dict[Piece, tuple[frozenset[Operand], bool]] = field(default_factory=dict)

    @property
    def loses(self) -> bool:
        """Whether there are points that are not found again."""
        return any(self.lost.values())


def find_reversal(structure: Structure, phase: PhaseStructure, layer: str) -> Reversal:
    """How a phase of plain rules is undone. Raises PlanningError, naming the rule, where it loses everywhere."""
    for stage in phase.stages:
        if isinstance(stage, Solve):
            refuse(f"the equations for {', '.join(stage.fields)}", "they are solved anew at every level")
    outline = _Outline(structure, phase)
    outline.classify()
    reversal = Reversal(outline.sort(), outline.inverted, {}, outline.lost)
    _find_again(outline, reversal)
    _check_found(outline, reversal)
    if reversal.loses:
        needed = _find_needed(outline, reversal)
        _find_kept(outline, reversal, needed, layer == "saved")
    return reversal


COVERED = (
    "absorbing layers, which lose, cover all its points, or what these read; give the axis more points, or the layers "
    "fewer cells"
)


def refuse(what: str, reason: str) -> None:
    """What all refusals say."""
    raise PlanningError(
        f"Reversible() undoes updates that lose nothing, and {what} cannot be undone: {reason}. Take "
        f"fd.adjoint.Checkpointed(), which serves every rule."
    )


class _Outline:
    """The pieces of a phase by field, those that add apart."""

    def __init__(self, structure: Structure, phase: PhaseStructure):
        self.structure = structure
        self.pieces: dict[str, list[Piece]] = {one.name: [] for one in structure.arrays}
        self.adding: dict[str, list[Piece]] = {one.name: [] for one in structure.arrays}
        self.swept: set[Piece] = set()
        for stage in phase.stages:
            for piece in pieces_of(stage):
                (self.adding if piece.adds else self.pieces)[piece.field].append(piece)
                if not isinstance(stage, Parallel):
                    self.swept.add(piece)
        self.inverted: dict[str, dict[Piece, complex]] = {name: {} for name in self.pieces}
        self.lost: dict[str, dict[Piece, str]] = {name: {} for name in self.pieces}
        self.kept = {one.name: one.kept for one in structure.arrays}

    def rule(self, piece: Piece) -> Traced:
        return self.structure.rules[piece.rule]

    def adds_to(self, piece: Piece) -> list[Piece]:
        """The pieces that add to some of its values."""
        return [one for one in self.adding[piece.field] if not one.box.intersect(piece.box).empty]

    def classify(self) -> None:
        """Splits pieces of kept fields into those inverted, those lost, and the rest, which read no older level."""
        for name, pieces in self.pieces.items():
            for piece in pieces if self.kept[name] else ():
                found = self._weigh(piece)
                if isinstance(found, str):
                    self.lost[name][piece] = found
                elif found is not None:
                    self.inverted[name][piece] = found
        while gone := [n for n in self.pieces if self.lost[n] and not self.inverted[n]]:
            moved = False
            for name in self.inverted:
                for piece in list(self.inverted[name]):
                    read = {r.field for one in (piece, *self.adds_to(piece)) for r in self.rule(one).reads}
                    if (behind := sorted(read & set(gone))) and name not in behind:
                        self.inverted[name].pop(piece)
                        reason = next(iter(self.lost[behind[0]].values()))
                        self.lost[name][piece] = f"it reads `{behind[0]}`, which loses: {reason}"
                        moved = True
            if not moved:
                break

    def _weigh(self, piece: Piece) -> complex | str | None:
        """The weight of the old value, None for a piece that can be set again, or why it is lost."""
        rule, back = self.rule(piece), -self.kept[piece.field]
        if piece in self.swept:
            return "its points are computed one after the other"
        if piece.stretched:
            return "it lies in an absorbing layer"
        older = [read for read in rule.reads if read.level < 0]
        if not older:
            return None
        own = StateRead(piece.field, back, (0,) * piece.box.ndim)
        if own not in older:
            return f"it does not take its own value of the oldest level kept, t{back}"
        others = [r for r in older if r.field == piece.field and r.level == back and r != own]
        if others or piece.operation is not None:
            return f"it reads the oldest level kept, t{back}, beside its own point too"
        for one in self.adds_to(piece):
            if any(r.field == piece.field and r.level == back for r in self.rule(one).reads) or one.operation:
                return f"{one.label} adds what it reads of the oldest level kept, t{back}"
        return old_weight(rule, own)

    def sort(self) -> tuple[str, ...]:
        """The fields in the order in which their older levels are found, with those computed beside them."""
        waits: dict[str, set[str]] = {}
        pending = [name for name, kept in self.kept.items() if kept]
        while pending:
            name = pending.pop()
            if name in waits:
                continue
            waits[name] = set()
            own = [*self.inverted[name], *self.adding[name]]
            for piece in own if self.kept[name] else [*self.pieces[name], *self.adding[name]]:
                for read in self.rule(piece).reads:
                    oldest = self.kept[read.field] and read.level == -self.kept[read.field]
                    if read.field != name and (oldest or not self.kept[read.field]):
                        waits[name].add(read.field)
                        pending.append(read.field)
        order: list[str] = []
        names = [one.name for one in self.structure.arrays if one.name in waits]
        while len(order) < len(names):
            ready = [n for n in names if n not in order and waits[n] <= set(order)]
            if not ready:
                stuck = [n for n in names if n not in order]
                piece = next((p for n in stuck for p in (*self.inverted[n], *self.pieces[n])), None)
                what = piece.label if piece is not None else ", ".join(stuck)
                refuse(what, f"the older levels of {', '.join(f'`{n}`' for n in stuck)} are found from each other")
            order.append(ready[0])
        return tuple(order)


def _find_again(outline: _Outline, reversal: Reversal) -> None:
    """The pieces that are set again from the older level itself; the others are lost."""
    for name in outline.pieces:
        again = []
        for piece in outline.pieces[name] if outline.kept[name] else ():
            if piece in outline.inverted[name] or piece in outline.lost[name]:
                continue
            if reason := _not_again(outline, reversal, piece):
                outline.lost[name][piece] = reason
            else:
                again.append(piece)
        reversal.again[name] = tuple(again)


def _not_again(outline: _Outline, reversal: Reversal, piece: Piece) -> str:
    """Why a piece cannot be set again at the older level; empty where it can."""
    name, kept, order = piece.field, outline.kept, reversal.order
    found = set(order[: order.index(name)]) if name in order else set()
    added = outline.adds_to(piece)
    if added and (piece.mask is not None or piece.predicate is not None):
        return f"{added[0].label} adds to some of its points"
    for one in (piece, *added):
        for read in outline.rule(one).reads:
            known = read.field == name or (read.field in found and kept[read.field] == kept[name])
            if read.level or not kept[read.field] or not (known or kept[read.field] > kept[name]):
                return f"{one.label} reads more than the level itself"
        if one.predicate is not None and any(
            _is_timed(outline, o) for o in outline.structure.rules[one.predicate].operands
        ):
            return f"where {one.label} holds changes in time"
    return ""


def _is_timed(outline: _Outline, operand: Operand) -> bool:
    axis = outline.structure.time_axis
    if isinstance(operand, ProfileRead):
        return axis in operand.axes
    return isinstance(operand, WholeRead) and operand.name == "t"


def _check_found(outline: _Outline, reversal: Reversal) -> None:
    """Refuses fields that lose at every point."""
    for one in outline.structure.declared:
        lost = outline.lost[one.name]
        if one.kept and lost and not outline.inverted[one.name]:
            piece = max(lost, key=lambda p: p.box.size)
            refuse(piece.label, COVERED if piece.stretched else lost[piece])
    for name in reversal.order:
        if not outline.kept[name] and (wrong := [p for p in outline.pieces[name] if p in outline.swept]):
            refuse(wrong[0].label, "its points are computed one after the other")


def read_boxes(structure: Structure, piece: Piece, box: Box) -> list[tuple[StateRead, Box]]:
    """What a piece reads of fields at the points of a box."""
    reads = structure.rules[piece.rule].reads
    if piece.operation is not None:
        return [(read, structure.array(read.field).interior) for read in reads]
    return [(read, box.shift(read.offset)) for read in reads]


def _around(boxes: Sequence[Box]) -> Box:
    start = zip(*(box.start for box in boxes), strict=True)
    stop = zip(*(box.stop for box in boxes), strict=True)
    return Box(tuple(map(min, start)), tuple(map(max, stop)))


def _find_needed(outline: _Outline, reversal: Reversal) -> dict[str, Points]:
    """The points of each field that inverted pieces read, through those that are set again or computed beside."""
    structure = outline.structure
    needed = dict.fromkeys(outline.pieces, NO_POINTS)
    pending: list[tuple[Piece, Box]] = []
    for pieces in outline.inverted.values():
        for piece in pieces:
            pending.append((piece, piece.box))
            pending += [(one, one.box.intersect(piece.box)) for one in outline.adds_to(piece)]
    while pending:
        piece, box = pending.pop()
        by_field: dict[str, list[Box]] = {}
        for read, where in read_boxes(structure, piece, box):
            by_field.setdefault(read.field, []).append(where)
        for name, boxes in by_field.items():
            new = Points.of_box(_around(boxes)).subtract(needed[name])
            if new.empty:
                continue
            needed[name] = needed[name].union(new)
            sources = outline.pieces[name] if not outline.kept[name] else reversal.again[name]
            for source in (*sources, *outline.adding[name]):
                parts = (part.box.intersect(source.box) for part in new.parts)
                pending += [(source, part) for part in parts if not part.empty]
    return needed


def _find_kept(outline: _Outline, reversal: Reversal, needed: dict[str, Points], everything: bool) -> None:
    """What is kept at every step, and the pieces that read what is not known."""
    structure = outline.structure
    unknown: dict[str, Points] = {}
    for name, pieces in outline.lost.items():
        lost = NO_POINTS
        for piece in pieces:
            lost = lost.union(Points.of_box(piece.box))
        kept = lost if everything else lost.intersect(needed[name])
        if not kept.empty:
            reversal.kept[name] = tuple(part.box for part in kept.parts)
        unknown[name] = lost.subtract(kept)
    changed = True
    while changed:
        changed = False
        for name in outline.pieces:
            for piece in (*outline.pieces[name], *outline.adding[name]):
                if piece in reversal.blind:
                    continue
                met = [
                    (r, part) for r, box in read_boxes(structure, piece, piece.box)
                    if not (part := Points.of_box(box).intersect(unknown[r.field])).empty
                ]  # fmt: skip
                if not met:
                    continue
                _mark_blind(outline, reversal, piece)
                changed = True
                if piece in reversal.again[name] or not outline.kept[name]:
                    unknown[name] = unknown[name].union(_reached(structure, piece, met))


def _reached(structure: Structure, piece: Piece, met: Sequence[tuple[StateRead, Points]]) -> Points:
    """The points of a piece that read unknown ones."""
    if piece.operation is not None:
        return Points.of_box(piece.box)
    found = NO_POINTS
    for read, part in met:
        found = found.union(part.shift(tuple(-o for o in read.offset)).intersect(Points.of_box(piece.box)))
    return found


def _mark_blind(outline: _Outline, reversal: Reversal, piece: Piece) -> None:
    rule = outline.rule(piece)
    if not rule.affine or piece in outline.swept:
        refuse(piece.label, "it is not linear in an absorbing layer, whose state is not known on the way back")
    reversal.blind[piece] = weight_operands(rule)


def restricted(piece: Piece, box: Box) -> Piece:
    """The part of a piece in a box."""
    return replace(piece, box=box)

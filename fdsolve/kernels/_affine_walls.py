"""What stands at the points around the unknown ones, found on a small copy of a problem with the same walls."""

from dataclasses import dataclass, replace

import numpy as np

from ..planning import Array, Parallel, PhaseStructure, Piece, Structure
from ..region import Box
from ..stencil import StateRead
from ._affine_rules import facts_of

_UNSET = 9


@dataclass(frozen=True, eq=False)
class Small:
    """The pieces of a phase, in order, on smaller arrays, and the copy's periods: (from, to) by field and axis."""

    structure: Structure
    arrays: dict[str, Array]
    pieces: tuple[Piece, ...]
    main: tuple[Piece, ...]
    given: dict[str, Box]
    turns: dict[tuple[str, int], tuple[int, int]]

    def box(self, name: str) -> Box:
        """The unknown points of a field."""
        return self.given[name]

    def offset(self, piece: Piece, read: StateRead) -> tuple[int, ...]:
        """A read's offset there: as far as around the ring, if it was."""
        found = []
        for axis, offset in enumerate(read.offset):
            before, after = self.turns[piece.field, axis]
            found.append(after * np.sign(offset) if abs(offset) == before else offset)
        return tuple(int(o) for o in found)


@dataclass(frozen=True, eq=False)
class Images:
    """For each point of the padded arrays the unknown point whose value it repeats, and the sign (0: a constant)."""

    origins: dict[str, tuple[int, ...]]
    places: dict[str, np.ndarray]
    signs: dict[str, np.ndarray]

    def look(self, name: str, box: Box, axis: int, at: int) -> tuple[int, int] | None:
        """Index along an axis, and sign, of what stands at an index, in the middle of the other axes.

        None where nothing does.
        """
        middle = [(a + b) // 2 for a, b in zip(box.start, box.stop, strict=True)]
        middle[axis] = at
        index = tuple(m - o for m, o in zip(middle, self.origins[name], strict=True))
        if not 0 <= index[axis] < self.signs[name].shape[axis] or self.signs[name][index] == _UNSET:
            return None
        place = np.unravel_index(self.places[name][index], self.signs[name].shape)
        return int(place[axis]) + self.origins[name][axis], int(self.signs[name][index])

    def agree(self, name: str, box: Box, start: tuple[int, ...], wanted: list[tuple[np.ndarray, np.ndarray]]) -> bool:
        """Whether the points of a box repeat what is wanted: by axis the places from `start` on, and the signs."""
        shape, origin = self.signs[name].shape, self.origins[name]
        if not Box(origin, tuple(o + n for o, n in zip(origin, shape, strict=True))).contains(box):
            return False
        slices = box.slices(origin)
        signs, places = self.signs[name][slices], self.places[name][slices]
        sign = np.ones((), int)
        for axis, (_, own) in enumerate(wanted):
            sign = sign * np.reshape(own, [-1 if a == axis else 1 for a in range(box.ndim)])
        index = np.meshgrid(*(p + b - o for (p, _), b, o in zip(wanted, start, origin, strict=True)), indexing="ij")
        flat = np.ravel_multi_index([np.clip(i, 0, n - 1) for i, n in zip(index, shape, strict=True)], shape)
        return bool((signs == sign).all() and (places == flat)[sign != 0].all())


def shrink(structure: Structure, phase: PhaseStructure, main: tuple[Piece, ...]) -> Small | str:
    """The copy: every axis shortened in the middle, where nothing but the main pieces is."""
    pieces = [stage.piece for stage in phase.stages if isinstance(stage, Parallel)]
    rings = {
        (p.field, a, abs(r.offset[a]))
        for p in pieces
        for r in structure.rules[p.rule].reads
        for a in range(p.box.ndim)
        if p.role == "ghost" and abs(r.offset[a]) == structure.array(p.field).shape[a]
    }
    arrays = {one.name: one for one in structure.arrays}
    cuts: list[tuple[int, int]] = []
    for axis in range(len(structure.arrays[0].shape)):
        reach = 1 + max(
            [max(abs(one.lower[axis]), abs(one.upper[axis])) for one in structure.arrays]
            + [
                abs(read.offset[axis])
                for p in (*pieces, *main)
                for read in structure.rules[p.rule].reads
                if (p.field, axis, abs(read.offset[axis])) not in rings
            ]
        )
        least = min(one.shape[axis] for one in structure.arrays)
        cuts.append((reach + 1, max(0, least - (2 * reach + 5))))
    for p in (*pieces, *main):
        shape = arrays[p.field].shape
        for axis, (edge, cut) in enumerate(cuts):
            ends = (p.box.start[axis], p.box.stop[axis])
            if cut and any(edge < end < shape[axis] - edge for end in ends):
                return f"{p.label} ends within the domain"

    def moved(piece: Piece) -> Piece:
        shape = arrays[piece.field].shape
        start, stop = (
            tuple(e - c if c and e > n // 2 else e for e, n, (_, c) in zip(ends, shape, cuts, strict=True))
            for ends in (piece.box.start, piece.box.stop)
        )
        return replace(piece, box=Box(start, stop))

    small = {
        name: replace(one, shape=tuple(n - c for n, (_, c) in zip(one.shape, cuts, strict=True)))
        for name, one in arrays.items()
    }
    turns = {
        (name, axis): (one.shape[axis], one.shape[axis] - cuts[axis][1])
        for name, one in arrays.items()
        for axis in range(len(cuts))
    }
    chosen = tuple(moved(p) for p in main)
    given = {p.field: p.box for p in chosen}
    rest = tuple(moved(p) for p in pieces if p not in main)
    return Small(structure, small, rest, chosen, given, turns)


def follow(small: Small) -> Images:
    """What stands at each point of the padded arrays when all pieces have run."""
    origins, places, signs = {}, {}, {}
    for name, one in small.arrays.items():
        shape = one.padded_shape
        origins[name] = one.origin
        places[name] = np.arange(int(np.prod(shape))).reshape(shape)
        signs[name] = np.full(shape, _UNSET)
        signs[name][small.given[name].slices(one.origin)] = 1
    for piece in small.pieces:
        own = piece.box.slices(origins[piece.field])
        rule = small.structure.rules[piece.rule]
        if not rule.reads:
            signs[piece.field][own] = 0
            continue
        (read,) = rule.reads
        weight = int(np.sign(facts_of(rule).samples[0, 0].real))
        from_box = piece.box.shift(small.offset(piece, read)).slices(origins[piece.field])
        seen = signs[piece.field][from_box]
        places[piece.field][own] = places[piece.field][from_box]
        signs[piece.field][own] = np.where(seen == _UNSET, _UNSET, seen * weight)
    return Images(origins, places, signs)

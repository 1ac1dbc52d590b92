"""Tiles: how the points of a level are shared out, and which tiles are alike.

Tiles far from every edge of a box compute one rule without asking where they are; those at an edge choose point by
point. So that the former are not slowed by the latter, tiles are put into classes, and a kernel has a branch for each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ...region import Box
from ...stencil import StateRead
from ._operations import Program, stored_box

MAX_CLASSES = 32


@dataclass(frozen=True)
class Tiling:
    """Tiles of one shape that cover a box, numbered with the last axis fastest.

    `classes` lists, axis by axis, runs of tiles that are alike: first tile and the one after the last.
    """

    box: Box
    tile: tuple[int, ...]
    classes: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each axis."""
        return tuple(-(-n // t) for n, t in zip(self.box.shape, self.tile, strict=True))

    @property
    def num_tiles(self) -> int:
        return prod(self.counts)

    def leaves(self) -> Iterator[tuple[tuple[tuple[int, int], ...], Box]]:
        """Each class of tiles: its run on each axis, and the box of all their points."""
        for runs in product(*self.classes):
            start = tuple(o + a * t for o, (a, _), t in zip(self.box.start, runs, self.tile, strict=True))
            stop = tuple(o + b * t for o, (_, b), t in zip(self.box.start, runs, self.tile, strict=True))
            yield runs, Box(start, stop)


def make_tiling(program: Program, tile: Sequence[int], levels: int) -> Tiling:
    """Tiles over all points that are stored, `levels` levels in one pass."""
    boxes = [stored_box(one) for one, _ in program.state]
    rank = len(tile)
    hull = Box(
        tuple(min(box.start[a] for box in boxes) for a in range(rank)),
        tuple(max(box.stop[a] for box in boxes) for a in range(rank)),
    )
    fitted = tuple(min(t, 1 << (n - 1).bit_length()) for t, n in zip(tile, hull.shape, strict=True))
    margins = _margins(program, hull, levels)
    every = [*boxes, *(op.box for op in program.operations)]
    runs = [
        _runs(sorted({*(b.start[a] for b in every), *(b.stop[a] for b in every)}), hull, fitted[a], margins[a], a)
        for a in range(rank)
    ]
    if prod(len(one) for one in runs) > MAX_CLASSES:
        runs = [_merged(one) for one in runs]
    return Tiling(hull, fitted, tuple(tuple((a, b) for a, b, _ in one) for one in runs))


def _margins(program: Program, hull: Box, levels: int) -> list[int]:
    """How far tiles away from all edges read along each axis; only decides which tiles count as such."""
    margins = [0] * hull.ndim
    for op in program.operations:
        if any(2 * n < m for n, m in zip(op.box.shape, hull.shape, strict=True)):
            continue
        for a in range(hull.ndim):
            offsets = [abs(r.offset[a]) for r in op.rule.operands if isinstance(r, StateRead)]
            margins[a] += max((o for o in offsets if 2 * o < hull.shape[a]), default=0)
    return [levels * margin for margin in margins]


def _runs(edges: list[int], hull: Box, tile: int, margin: int, axis: int) -> list[tuple[int, int, bool]]:
    """Runs of tiles that lie, with a margin, between the same two edges, and of those that lie on edges."""
    count = -(-hull.shape[axis] // tile)
    starts = hull.start[axis] + tile * np.arange(count)
    below = np.searchsorted(edges, starts - margin, side="right")
    above = np.searchsorted(edges, starts + tile + margin, side="left")
    kinds = np.where(below == above, below, -1)
    cuts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), count]
    return [(a, b, bool(kinds[a] >= 0)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


def _merged(runs: list[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """The longest run between edges, and what lies before and after it."""
    plain = max((run for run in runs if run[2]), key=lambda run: run[1] - run[0], default=None)
    if plain is None:
        return [(runs[0][0], runs[-1][1], False)]
    sides = [(runs[0][0], plain[0], False), plain, (plain[1], runs[-1][1], False)]
    return [run for run in sides if run[1] > run[0]]

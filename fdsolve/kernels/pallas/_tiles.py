"""Tiles: how the points of a level are shared out, and which tiles are alike.

Tiles far from every edge of a box compute one rule without asking where they are; those at an edge choose point by
point. So that the former are not slowed by the latter, tiles are put into classes, and a kernel has a branch for each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import numpy as np

from ...region import Box
from ...stencil import StateRead
from ._operations import Program, stored_box

MAX_LOADS = 200
"""Loads in the code of a kernel with a branch for each edge and corner: a limit on the time to compile it."""
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tiling:
    """Tiles of one shape that cover a box, numbered with the last axis fastest.

    `classes` lists, axis by axis, runs of tiles that are alike: first tile and the one after the last. With `main`,
    one run on each axis, all tiles outside it make one class.
    """

    box: Box
    tile: tuple[int, ...]
    classes: tuple[Runs, ...]
    main: Runs | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each axis."""
        return tuple(-(-n // t) for n, t in zip(self.box.shape, self.tile, strict=True))

    @property
    def num_tiles(self) -> int:
        return prod(self.counts)

    def leaves(self) -> Iterator[tuple[Runs | None, Box]]:
        """Each class of tiles: its run on each axis (None: all tiles outside `main`), and the box of their points."""
        if self.main is not None:
            yield self.main, self._points(self.main)
            yield None, self._points(tuple((0, count) for count in self.counts))
            return
        for runs in product(*self.classes):
            yield runs, self._points(runs)

    def _points(self, runs: Runs) -> Box:
        start = tuple(o + a * t for o, (a, _), t in zip(self.box.start, runs, self.tile, strict=True))
        return Box(start, tuple(o + b * t for o, (_, b), t in zip(self.box.start, runs, self.tile, strict=True)))


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
    classes = tuple(tuple((a, b) for a, b, _ in one) for one in runs)
    # Where ghosts repeat the far end, one branch for all edges would compute each point once more for every end.
    split = program.wraps and prod(len(one) for one in runs) * _loads(program, levels) <= MAX_LOADS
    if not split:
        mains = [max((run for run in one if run[2]), key=lambda run: run[1] - run[0], default=None) for one in runs]
        if all(mains):
            return Tiling(hull, fitted, classes, tuple((run[0], run[1]) for run in mains if run is not None))
        classes = tuple(((0, -(-n // t)),) for n, t in zip(hull.shape, fitted, strict=True))
    return Tiling(hull, fitted, classes)


def _loads(program: Program, levels: int) -> int:
    """About how many entries a point reads in `levels` levels."""
    reads = max(sum(isinstance(r, StateRead) for r in op.rule.operands) for op in program.operations)
    return reads if levels == 1 else reads ** (levels - 1) * (reads + 1) // 2


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
    return [(a, b, bool(kinds[a] >= 0)) for a, b in pairwise(cuts)]

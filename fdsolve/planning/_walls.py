"""Which walls a boundary condition acts on: the geometry of its region."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..field import AbstractCondition, Assignment
from ..region import Box, Layout, Points


@dataclass(frozen=True, order=True)
class Side:
    """One end of a space axis: `upper` or lower."""

    axis: int
    upper: bool

    def index(self, shape: tuple[int, ...]) -> int:
        """Position of the outermost point on this side."""
        return shape[self.axis] - 1 if self.upper else 0

    @property
    def outward(self) -> int:
        """+1 or −1: the direction out of the grid."""
        return 1 if self.upper else -1

    @property
    def word(self) -> str:
        """What the end is called: "upper" or "lower"."""
        return "upper" if self.upper else "lower"

    def normal(self, ndim: int) -> tuple[int, ...]:
        """The outward axis direction, one number a space axis."""
        return tuple(self.outward if axis == self.axis else 0 for axis in range(ndim))


@dataclass(frozen=True, eq=False)
class Claims:
    """What a condition's region means: wall points by side, and the points that lie on no wall."""

    walls: dict[Side, Points]
    inner: Points


def claim_walls(points: Points, layout: Layout, *, seams: bool = True) -> Claims:
    """Finds the walls that a region lies on; without `seams`, those of periodic axes only where a box fills the end.

    A box lies on the walls of the axes on which it is one point thick and at an end (`u[dict(x=0)]`: the lower wall of
    x alone, corners included; both walls where x has one point). Any other region (a mask, or several boxes: corners
    that one box has are missing from its neighbour) lies on a wall where, away from the other walls, its points have no
    neighbour inwards in the region: with those of its pieces that lie on walls alone, and those walls that it covers.
    What lies on no wall is an inner region; a wedge on the floor is one, its tip of one point included.
    """
    shape, walls, inner = layout.space_shape, {}, []
    whole, own, common = Box.of_shape(shape), points, []
    rings = [axis for axis, name in enumerate(layout.space) if layout.grid.space_axis(name).periodic and not seams]
    if len(points.parts) != 1 or points.parts[0].mask is not None:
        mask = _wall_points(points.to_mask(whole), rings)
        own, common = Points.of_mask(whole, mask), _mask_sides(mask, rings)
    thin = [_thin_sides(part.box, shape, rings) if part.mask is None else [] for part in points.parts]
    every = [*common, *(side for sides in thin for side in sides)]
    # Along an axis of one point every region is thin: it is meant where no other axis is.
    meant = [side for side in every if shape[side.axis] > 1] or every
    for part, sides in zip(points.parts, thin, strict=True):
        rest = Points((part,))
        for side in (side for side in (*sides, *(one for one in common if one not in sides)) if side in meant):
            at = side.index(shape)
            face = part.restrict(part.box.with_range(side.axis, at, at + 1))
            wall = (points if side.axis in rings else own).intersect(Points(() if face is None else (face,)))
            if wall.empty:
                continue
            walls[side] = walls.get(side, Points()).union(wall)
            rest = rest.subtract(wall)
        inner.extend(rest.parts)
    return Claims(walls, Points(tuple(inner)).merged())


def even_ends(layout: Layout, assignments: Sequence[Assignment]) -> frozenset[tuple[str, bool]]:
    """The ends of curvilinear axes, by axis and whether upper, all along which conditions mirror a field evenly."""
    shape, even = layout.space_shape, {}
    if all(layout.grid.space_axis(axis).metric is None for axis in layout.space):
        return frozenset()
    for one in assignments:
        if not isinstance(one.rule, AbstractCondition):
            continue
        certain = [term.points for term in one.terms.terms if term.predicate is None]
        for points in certain:
            for side, wall in claim_walls(points, layout).walls.items():
                known = even.get(side, Points())
                even[side] = known.union(wall) if one.rule.even else known.subtract(wall)
    found = []
    for side, points in even.items():
        at = side.index(shape)
        if Points.of_box(Box.of_shape(shape).with_range(side.axis, at, at + 1)).subtract(points).empty:
            found.append((layout.space[side.axis], side.upper))
    return frozenset(found)


def _thin_sides(box: Box, shape: tuple[int, ...], rings: Sequence[int]) -> list[Side]:
    found = []
    for axis, (start, stop) in enumerate(zip(box.start, box.stop, strict=True)):
        fills = box.with_range(axis, 0, shape[axis]) == Box.of_shape(shape)
        if stop - start != 1 or (axis in rings and not fills):
            continue
        found += [Side(axis, upper) for upper, at_end in ((False, start == 0), (True, stop == shape[axis])) if at_end]
    return found


def _wall_points(full: np.ndarray, rings: Sequence[int]) -> np.ndarray:
    """The points of a region that may be a wall's: not those of pieces that reach inwards, but on walls it covers."""
    long = [axis for axis, size in enumerate(full.shape) if size > 1 and axis not in rings]
    inside = full.copy()
    for axis in long:
        np.moveaxis(inside, axis, 0)[[0, -1]] = False
    found = full & ~_spread(inside, full, rings)
    for axis in long:
        region, within, wall = (np.moveaxis(one, axis, 0) for one in (full, inside, found))
        for at, behind in ((0, 1), (-1, -2)):
            if region[at].all():
                wall[at] |= ~within[behind]
    return found


def _spread(seed: np.ndarray, within: np.ndarray, rings: Sequence[int]) -> np.ndarray:
    """The points of `within` that are joined to those of `seed` through neighbours along axes, around `rings` too."""
    while True:
        grown = seed.copy()
        for axis in range(seed.ndim):
            old, new = np.moveaxis(seed, axis, 0), np.moveaxis(grown, axis, 0)
            new[1:] |= old[:-1]
            new[:-1] |= old[1:]
            if axis in rings:
                new[0] |= old[-1]
                new[-1] |= old[0]
        grown &= within
        if np.array_equal(grown, seed):
            return seed
        seed = grown


def _mask_sides(full: np.ndarray, rings: Sequence[int]) -> list[Side]:
    found, shape = [], full.shape
    for axis in (axis for axis in range(len(shape)) if axis not in rings):
        across = [other for other in range(len(shape)) if other != axis]
        for upper in (False, True):
            side = Side(axis, upper)
            at = side.index(shape)
            face = np.take(full, at, axis=axis)
            behind = np.take(full, at - side.outward, axis=axis) if shape[axis] > 1 else np.zeros_like(face)
            away = np.ones(face.shape, bool)
            for other in range(face.ndim):
                edge = np.zeros(face.shape[other], bool)
                edge[[0, -1]] = face.shape[other] > 2 and across[other] not in rings
                away &= ~edge.reshape([-1 if a == other else 1 for a in range(face.ndim)])
            if (face & ~behind & away).any():
                found.append(side)
    return found

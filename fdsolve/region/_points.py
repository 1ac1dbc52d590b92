"""Sets of integer points: disjoint boxes, each with a mask where the set is no box."""

from dataclasses import dataclass

import numpy as np

from ._box import Box, merge_boxes


@dataclass(frozen=True, eq=False)
class Part:
    """The points of a box, or those of them where `mask` (of the box's shape) is true."""

    box: Box
    mask: np.ndarray | None = None

    def restrict(self, box: Box) -> "Part | None":
        """The points of this part inside `box`, as tightly boxed as they are; None where there are none."""
        common = self.box.intersect(box)
        if common.empty:
            return None
        if self.mask is None:
            return Part(common)
        return tighten(common, self.mask[common.slices(self.box.start)])

    def subtract(self, other: "Part") -> list["Part"]:
        """Disjoint parts with the points of this one outside the other."""
        common = self.box.intersect(other.box)
        if common.empty:
            return [self]
        kept = [part for box in self.box.subtract(common) if (part := self.restrict(box)) is not None]
        if other.mask is not None:
            left = ~other.mask[common.slices(other.box.start)]
            if self.mask is not None:
                left &= self.mask[common.slices(self.box.start)]
            if (part := tighten(common, left)) is not None:
                kept.append(part)
        return kept

    def intersect(self, other: "Part") -> "Part | None":
        """The points in both."""
        part = self.restrict(other.box)
        if part is None or other.mask is None:
            return part
        mask = other.mask[part.box.slices(other.box.start)]
        return tighten(part.box, mask if part.mask is None else mask & part.mask)

    @property
    def count(self) -> int:
        """Number of points."""
        return self.box.size if self.mask is None else int(np.count_nonzero(self.mask))

    def shift(self, offset: tuple[int, ...]) -> "Part":
        """The part moved by `offset`."""
        return Part(self.box.shift(offset), self.mask)


def tighten(box: Box, mask: np.ndarray) -> Part | None:
    """The part with the true points of `mask`: shrunk to their bounding box, without a mask where all are true."""
    start, stop = list(box.start), list(box.stop)
    for axis in range(box.ndim):
        hit = np.flatnonzero(mask.any(axis=tuple(a for a in range(box.ndim) if a != axis)))
        if hit.size == 0:
            return None
        start[axis], stop[axis] = box.start[axis] + int(hit[0]), box.start[axis] + int(hit[-1]) + 1
    tight = Box(tuple(start), tuple(stop))
    inner = mask[tight.slices(box.start)]
    return Part(tight, None if inner.all() else np.ascontiguousarray(inner))


@dataclass(frozen=True, eq=False)
class Points:
    """A set of points as disjoint parts."""

    parts: tuple[Part, ...] = ()

    @classmethod
    def of_box(cls, box: Box) -> "Points":
        return cls(() if box.empty else (Part(box),))

    @classmethod
    def of_mask(cls, box: Box, mask: np.ndarray) -> "Points":
        part = tighten(box, mask)
        return cls(() if part is None else (part,))

    def subtract(self, other: "Points") -> "Points":
        """The points of this set outside the other."""
        parts = list(self.parts)
        for cut in other.parts:
            parts = [piece for part in parts for piece in part.subtract(cut)]
        return Points(tuple(parts)).merged()

    def union(self, other: "Points") -> "Points":
        """The points in either set."""
        return Points((*self.subtract(other).parts, *other.parts)).merged()

    def intersect(self, other: "Points") -> "Points":
        """The points in both sets."""
        found = (a.intersect(b) for a in self.parts for b in other.parts)
        return Points(tuple(part for part in found if part is not None)).merged()

    def shift(self, offset: tuple[int, ...]) -> "Points":
        """The set moved by `offset`."""
        return Points(tuple(part.shift(offset) for part in self.parts))

    def merged(self) -> "Points":
        """The same set with neighbouring plain boxes joined."""
        plain = [part.box for part in self.parts if part.mask is None]
        masked = tuple(part for part in self.parts if part.mask is not None)
        return Points((*(Part(box) for box in merge_boxes(plain)), *masked))

    @property
    def empty(self) -> bool:
        return not self.parts

    @property
    def count(self) -> int:
        """Number of points."""
        return sum(part.count for part in self.parts)

    def contains(self, other: "Points") -> bool:
        """Whether every point of `other` is in this set."""
        return other.subtract(self).empty

    def to_mask(self, box: Box) -> np.ndarray:
        """A boolean array over `box`, true at the points of this set."""
        mask = np.zeros(box.shape, bool)
        for part in self.parts:
            common = part.box.intersect(box)
            if not common.empty:
                view = mask[common.slices(box.start)]
                view |= True if part.mask is None else part.mask[common.slices(part.box.start)]
        return mask

    def bounds(self) -> Box:
        """The smallest box around the set."""
        starts = zip(*(part.box.start for part in self.parts), strict=True)
        stops = zip(*(part.box.stop for part in self.parts), strict=True)
        return Box(tuple(min(a) for a in starts), tuple(max(b) for b in stops))

    def __str__(self) -> str:
        return " ∪ ".join(str(part.box) + ("" if part.mask is None else "*") for part in self.parts) or "∅"

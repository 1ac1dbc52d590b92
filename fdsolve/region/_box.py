"""Boxes of integer points, the shape that almost every region is."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, order=True)
class Box:
    """The points p with start[a] <= p[a] < stop[a] on each axis a; indices may be negative (ghost points)."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> "Box":
        """All points of an array of this shape."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(max(0, b - a) for a, b in zip(self.start, self.stop, strict=True))

    @property
    def ndim(self) -> int:
        return len(self.start)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def empty(self) -> bool:
        return any(b <= a for a, b in zip(self.start, self.stop, strict=True))

    def intersect(self, other: "Box") -> "Box":
        """The points in both."""
        return Box(
            tuple(max(a, b) for a, b in zip(self.start, other.start, strict=True)),
            tuple(min(a, b) for a, b in zip(self.stop, other.stop, strict=True)),
        )

    def meets(self, other: "Box") -> bool:
        """Whether there are points in both."""
        sides = zip(self.start, self.stop, other.start, other.stop, strict=True)
        return all(a < d and c < b and a < b and c < d for a, b, c, d in sides)

    def subtract(self, other: "Box") -> Iterator["Box"]:
        """Disjoint boxes that hold the points of this one outside the other (at most two an axis)."""
        common = self.intersect(other)
        if common.empty:
            if not self.empty:
                yield self
            return
        start, stop = list(self.start), list(self.stop)
        for axis in range(self.ndim):
            if start[axis] < common.start[axis]:
                yield Box(tuple(start), (*stop[:axis], common.start[axis], *stop[axis + 1 :]))
            if common.stop[axis] < stop[axis]:
                yield Box((*start[:axis], common.stop[axis], *start[axis + 1 :]), tuple(stop))
            start[axis], stop[axis] = common.start[axis], common.stop[axis]

    def shift(self, offset: tuple[int, ...]) -> "Box":
        """The box moved by `offset`."""
        return Box(
            tuple(a + o for a, o in zip(self.start, offset, strict=True)),
            tuple(b + o for b, o in zip(self.stop, offset, strict=True)),
        )

    def grow(self, lower: tuple[int, ...], upper: tuple[int, ...]) -> "Box":
        """The box with `lower` more points before and `upper` more after, by axis."""
        return Box(
            tuple(a - o for a, o in zip(self.start, lower, strict=True)),
            tuple(b + o for b, o in zip(self.stop, upper, strict=True)),
        )

    def with_range(self, axis: int, start: int, stop: int) -> "Box":
        """The box with another range on one axis."""
        return Box(
            (*self.start[:axis], start, *self.start[axis + 1 :]),
            (*self.stop[:axis], stop, *self.stop[axis + 1 :]),
        )

    def contains(self, other: "Box") -> bool:
        """Whether every point of `other` lies in this box."""
        sides = zip(self.start, self.stop, other.start, other.stop, strict=True)
        return other.empty or all(a <= c and d <= b for a, b, c, d in sides)

    def slices(self, origin: tuple[int, ...]) -> tuple[slice, ...]:
        """NumPy slices of the box in an array whose first point is `origin`."""
        return tuple(slice(a - o, b - o) for a, b, o in zip(self.start, self.stop, origin, strict=True))

    def __str__(self) -> str:
        parts = [str(a) if b == a + 1 else f"{a}:{b}" for a, b in zip(self.start, self.stop, strict=True)]
        return "[" + ", ".join(parts) + "]"


def merge_boxes(boxes: list[Box]) -> list[Box]:
    """Joins boxes that share a whole side, until none do. The boxes are disjoint before and after."""
    boxes = [box for box in boxes if not box.empty]
    merged = True
    while merged:
        merged = False
        for axis in range(boxes[0].ndim if boxes else 0):
            others = [a for a in range(boxes[0].ndim) if a != axis]
            by_side: dict[tuple[tuple[int, int], ...], list[Box]] = {}
            for box in boxes:
                by_side.setdefault(tuple((box.start[a], box.stop[a]) for a in others), []).append(box)
            joined = []
            for group in by_side.values():
                group.sort(key=lambda box: box.start[axis])
                last = group[0]
                for box in group[1:]:
                    if box.start[axis] == last.stop[axis]:
                        last, merged = last.with_range(axis, last.start[axis], box.stop[axis]), True
                    else:
                        joined.append(last)
                        last = box
                joined.append(last)
            boxes = joined
    return sorted(boxes)

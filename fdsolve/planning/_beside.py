"""What is stored of views beside holes: at points outside, and on their faces, as it is seen from there."""

from functools import partial
from typing import Any

import numpy as np

from ..region import Box, Layout, Points
from ._hole_points import points_around
from ._masks import add_mask, identity
from ._phases import Hole, Phase

NearHoles = tuple[tuple[str, Hole, str | None], ...]
"""Holes next to which a rule is traced: the field, the hole, and the profile of its mask unless it is a predicate."""


def near_holes(book: Any, phase: Phase) -> NearHoles:
    """The holes of a phase, with their masks as profiles."""
    found = []
    for name, one in phase.fields.items():
        for hole in one.holes:
            key = None
            if hole.predicate is None:
                key = f"mask {name} hole {hole.index} all {identity(*hole.points.parts)}"
                box = hole.points.bounds()
                around = partial(points_around, hole, book.problem.scope.layouts[name].space_shape)
                add_mask(book, key, hole.points.to_mask(box), box.start, around)
            found.append((name, hole, key))
    return tuple(found)


def holes_key(holes: NearHoles) -> Any:
    """What tells holes next to which a rule is traced from others."""
    return tuple(mask or id(hole) for _, hole, mask in holes)


def sees_stored(book: Any, name: str, holes: NearHoles, owner: str) -> bool:
    """Whether a rule of `owner` beside holes sees what a hidden field holds, at its own point and on its faces."""
    key = name, owner, holes_key(holes)
    if key not in book.stored_beside:
        book.stored_beside[key] = _is_stored_beside(book, name, holes, owner)
    return book.stored_beside[key]


def _is_stored_beside(book: Any, name: str, holes: NearHoles, owner: str) -> bool:
    """Whether a hidden field has one value at every point outside holes, and on every face of one, wherever a rule of
    `owner` sees it from.

    On a face between two points both must see the same: each along the line through them.
    """
    hidden, layouts = book.hidden[name], book.problem.scope.layouts
    reads = book.reach(hidden.rule())
    fields = {read.field for read in reads} & {field for field, _, _ in holes}
    if not fields:
        return True
    fields |= {owner, hidden.owner}
    own = layouts[hidden.owner]
    if any(layouts[field] != own for field in fields) or any(hole.predicate is not None for _, hole, _ in holes):
        return False
    outlines = [_outline(field, holes, own) for field in fields]
    if not all(np.array_equal(one, outlines[0]) for one in outlines):
        return False
    across = [axis for axis, half in enumerate(halves_between(hidden.layout, own)) if half]
    return not across or (len(across) == 1 and not any(_leaves(read.offset, across[0]) for read in reads))


def halves_between(layout: Layout, target: Layout) -> list[int]:
    """How many half steps the points of a layout lie from those of another with the same index, axis by axis."""
    return [layout.shift(axis) - target.shift(axis) for axis in layout.space]


def seen_from_outside(holes: NearHoles, layout: Layout, halves: list[int], box: Box) -> np.ndarray:
    """Which of the points or faces of a box are seen from a point outside all holes, which are alike."""
    found = np.zeros(box.shape, bool)
    for side in (0, 1):
        stand = tuple((half + side) // 2 for half in halves)
        inside = np.zeros(box.shape, bool)
        for _, hole, _ in holes:
            inside |= points_around(hole, layout.space_shape, box.shift(stand))
        found |= ~inside
    return found


def _outline(field: str, holes: NearHoles, layout: Layout) -> np.ndarray:
    """The points of all holes of a field."""
    points = Points()
    for owner, hole, _ in holes:
        points = points.union(hole.points) if owner == field else points
    return points.to_mask(Box.of_shape(layout.space_shape))


def _leaves(offset: tuple[int, ...], axis: int) -> bool:
    """Whether an offset leaves the line along an axis."""
    return any(moved for other, moved in enumerate(offset) if other != axis)

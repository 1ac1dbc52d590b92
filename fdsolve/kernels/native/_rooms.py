"""Arrays in which the cotangent of an operand is added up, no larger than what is added needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...planning import Array
from ...region import Box
from ._cells import Cell
from ._program import LANES

NARROW, FEW = 4 * LANES, 4
"""Entries of rows that a narrow array has at most, and how many such arrays are better than one of the full size."""


@dataclass(frozen=True)
class Room:
    """An array, the cells that add to it, and whether all points of a row add to a few lanes of it."""

    array: Array
    cells: tuple[Cell, ...]
    in_lanes: bool = False


def rooms_of(like: Array, cells: Sequence[Cell], alone: bool) -> Iterator[Room]:
    """The arrays for some cells of an array; `alone`: the operand is one number for all points."""
    if not alone:
        if cells:
            yield Room(like, tuple(cells))
        return
    for group in _layers([cell for cell in cells if cell.box.shape[-1] >= LANES]):
        yield Room(_last_axis(like, LANES, 0, 0), tuple(group), True)
    columns = list(_columns([cell for cell in cells if cell.box.shape[-1] < LANES]))
    if len(columns) > FEW or any(stop - start > NARROW for start, stop, _ in columns):
        yield Room(like, tuple(cell for _, _, group in columns for cell in group))
        return
    size = like.shape[-1]
    for start, stop, group in columns:
        yield Room(_last_axis(like, size, -start, stop - size), tuple(group))


def _last_axis(like: Array, size: int, lower: int, upper: int) -> Array:
    """An array with another last axis."""
    return replace(
        like, shape=(*like.shape[:-1], size), lower=(*like.lower[:-1], lower), upper=(*like.upper[:-1], upper)
    )


def _layers(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells in groups of which no two have a row in common, the largest first."""
    groups: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: -cell.box.size):
        free = (group for group in groups if all(_rows(cell.box).intersect(_rows(one.box)).empty for one in group))
        group = next(free, None)
        if group is None:
            groups.append(group := [])
        group.append(cell)
    return groups


def _rows(box: Box) -> Box:
    return Box(box.start[:-1], box.stop[:-1])


def _columns(cells: Sequence[Cell]) -> Iterator[tuple[int, int, list[Cell]]]:
    """Cells in groups of columns that lie near each other: where these start and stop."""
    group: list[Cell] = []
    start = stop = 0
    for cell in sorted(cells, key=lambda cell: cell.box.start[-1]):
        if group and cell.box.start[-1] > stop + LANES:
            yield start, stop, group
            group = []
        start = start if group else cell.box.start[-1]
        stop = max(stop, cell.box.stop[-1]) if group else cell.box.stop[-1]
        group.append(cell)
    if group:
        yield start, stop, group

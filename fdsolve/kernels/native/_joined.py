"""Narrow cells beside each other along the last axis as one, in whose columns different terms act.

Beside a wall each column of a transpose may have terms of its own. One by one, they cost as many instructions as whole
rows; as one loop over vectors, in which a term is zero but in its columns, a few.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...region import Box
from ._cells import Cell, Term
from ._operands import Columns
from ._program import LANES

NARROW = 2 * LANES
"""Columns; what is wider has a loop of its own."""


def joined(
    cells: Sequence[Cell],
    same: Callable[[Term], Hashable],
    able: Callable[[Term], bool],
    kind: Callable[[Cell], Hashable],
) -> list[Cell]:
    """The cells, of which narrow ones of a kind on the same rows are one where this takes fewer vectors.

    Terms that are the `same` are one; where any is not `able` to be zero where it does not act, cells stay.
    """
    rows: dict[Any, list[Cell]] = {}
    for number, cell in enumerate(cells):
        narrow = cell.box.shape[-1] < NARROW and all(map(able, cell.terms))
        key = (cell.box.start[:-1], cell.box.stop[:-1], kind(cell)) if narrow else number
        rows.setdefault((cell.layer, key), []).append(cell)
    made = {layer: [] for layer, _ in rows}  # what is added comes after what it is added to
    for (layer, _), beside in rows.items():
        made[layer] += map(_as_one, _groups(beside, same))
    return [cell for beside in made.values() for cell in beside]


def _groups(cells: Sequence[Cell], same: Callable[[Term], Hashable]) -> Iterator[list[tuple[Cell, list[Any]]]]:
    """Cells that are better joined, each with what tells its terms from each other."""
    group: list[tuple[Cell, list[Any]]] = []
    for cell in sorted(cells, key=lambda cell: cell.box.start[-1]):
        one = [(cell, _numbered(cell.terms, same))]
        if group and _is_near(group[-1][0], cell) and _cost(group + one) <= _cost(group) + _cost(one):
            group += one
            continue
        if group:
            yield group
        group = one
    if group:
        yield group


def _is_near(one: Cell, other: Cell) -> bool:
    """Whether a cell follows on another; where terms are added, nothing may be added to some columns between."""
    gap = other.box.start[-1] - one.box.stop[-1]
    return gap == 0 or (one.added and gap < LANES)


def _numbered(terms: Sequence[Term], same: Callable[[Term], Hashable]) -> list[Any]:
    """What tells terms of a cell from each other: equal ones are counted."""
    found: list[Any] = []
    for key in map(same, terms):
        found.append((key, sum(other == key for other, _ in found)))
    return found


def _cost(group: Sequence[tuple[Cell, list[Any]]]) -> int:
    """The vectors that a group takes, which reads each of its terms and what stands there."""
    columns = group[-1][0].box.stop[-1] - group[0][0].box.start[-1]
    return -(-columns // LANES) * (1 + len({key for _, keys in group for key in keys}))


def _as_one(group: Sequence[tuple[Cell, list[Any]]]) -> Cell:
    first, last = group[0][0], group[-1][0]
    if first is last:
        return first
    terms: dict[Any, Term] = {}
    columns: dict[Any, list[tuple[int, int]]] = {}
    for cell, keys in group:
        for term, key in zip(cell.terms, keys, strict=True):
            terms.setdefault(key, term)
            columns.setdefault(key, []).append((cell.box.start[-1], cell.box.stop[-1]))
    start, stop = first.box.start[-1], last.box.stop[-1]
    made = []
    for key, term in terms.items():
        parts = _touching(columns[key])
        made.append(term if parts == ((start, stop),) else replace(term, columns=parts))
    box = Box(first.box.start, (*first.box.stop[:-1], stop))
    return replace(first, box=box, terms=tuple(made), parts=tuple(cell for cell, _ in group))


def _touching(spans: Sequence[tuple[int, int]]) -> Columns:
    """Parts of an axis, in order; those that touch as one."""
    found = [spans[0]]
    for start, stop in spans[1:]:
        if found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return tuple(found)

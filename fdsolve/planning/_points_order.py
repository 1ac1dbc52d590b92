"""The order of single points, for groups that no hyperplane orders."""

from collections.abc import Sequence

import numpy as np

from ..errors import PlanningError
from ..stencil import Traced
from ._order import dependences
from ._pieces import Piece


def order_points(
    pieces: Sequence[Piece],
    masks: Sequence[np.ndarray | None],
    rules: Sequence[Traced],
    axes: tuple[str, ...],
) -> np.ndarray:
    """Rows (piece, index on each axis …), every point after the points it reads; a cycle is an error that names it."""
    points: list[tuple[int, tuple[int, ...]]] = []
    for number, piece in enumerate(pieces):
        mask = masks[number]
        for local in np.ndindex(*piece.box.shape):
            if mask is None or mask[local]:
                points.append((number, tuple(a + i for a, i in zip(piece.box.start, local, strict=True))))
    number_of = {point: k for k, point in enumerate(points)}
    needed: list[list[int]] = [[] for _ in points]
    for i, j, vector in dependences(pieces, rules):
        for k, (piece_number, index) in enumerate(points):
            if piece_number == i:
                other = number_of.get((j, tuple(a + o for a, o in zip(index, vector, strict=True))))
                if other is not None and other != k:
                    needed[k].append(other)
    order = _topological(needed)
    if len(order) < len(points):
        raise PlanningError(_describe_cycle(points, needed, set(order), pieces, axes))
    return np.array([(points[k][0], *points[k][1]) for k in order], np.int32)


def _topological(needed: list[list[int]]) -> list[int]:
    waiting = [len(set(others)) for others in needed]
    readers: list[list[int]] = [[] for _ in needed]
    for k, others in enumerate(needed):
        for other in set(others):
            readers[other].append(k)
    ready, order = [k for k, count in enumerate(waiting) if count == 0], []
    while ready:
        k = ready.pop()
        order.append(k)
        for reader in readers[k]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return order


def _describe_cycle(
    points: list[tuple[int, tuple[int, ...]]],
    needed: list[list[int]],
    done: set[int],
    pieces: Sequence[Piece],
    axes: tuple[str, ...],
) -> str:
    node = next(k for k in range(len(points)) if k not in done)
    path: list[int] = []
    while node not in path:
        path.append(node)
        node = next(k for k in needed[node] if k not in done)
    cycle = [*path[path.index(node) :], node]

    def show(k: int) -> str:
        number, index = points[k]
        at = ", ".join(f"{a}={i}" for a, i in zip(axes, index, strict=True))
        return f"{pieces[number].field} at {at}"

    shown = [show(k) for k in cycle] if len(cycle) <= 6 else [*map(show, cycle[:3]), "…", show(cycle[-1])]
    rules = sorted({pieces[points[k][0]].label for k in cycle})
    return (
        f"Points read each other at the same level, in a cycle: {' → '.join(shown)} (rules {', '.join(rules)}). "
        f"Read one of them at an older level."
    )

"""The ghost points beyond a pole: copies of points behind it."""

from collections.abc import Callable
from itertools import product
from typing import Any

from ..region import Box
from ..stencil import Reader, StateRead, Traced, trace
from ._phases import WallSpan
from ._pieces import Piece, RuleBook
from ._poles import BeyondPole


def pole_pieces(book: RuleBook, name: str, span: WallSpan, width: int, place: Callable[[int], Box]) -> list[Piece]:
    """The ghost pieces beyond a pole, `width` layers; `place(layer)` is the box of a layer.

    Half a turn on is two boxes, each a copy from a constant offset; across the equator it is a row at a time.
    """
    layout, rule = book.problem.scope.layouts[name], span.assignment.rule
    assert isinstance(rule, BeyondPole)
    axis, pieces = span.side.axis, []
    on_point = layout.shift(layout.space[axis]) == 0
    turned = [layout.space.index(other) for other in rule.pole.turned]
    mirrored = [layout.space.index(other) for other in rule.pole.mirrored]
    for layer in range(1, width + 1):
        depth = 2 * layer if on_point else 2 * layer - 1
        box = place(layer)
        cuts = [_halves(box, other, layout.space_shape[other]) for other in turned]
        cuts += [_rows(box, other, layout.space_shape[other]) for other in mirrored]
        for choice in product(*cuts):
            offset, part = [0] * len(layout.space), box
            offset[axis] = -span.side.outward * depth
            for other, (start, stop, move) in zip([*turned, *mirrored], choice, strict=True):
                offset[other] = move
                part = part.with_range(other, start, stop)
            pieces.append(_copy(book, name, part, tuple(offset), span.assignment.describe(name)))
    return pieces


def _halves(box: Box, axis: int, size: int) -> list[tuple[int, int, int]]:
    half = size // 2
    return [(box.start[axis], half, half), (half, box.stop[axis], -half)]


def _rows(box: Box, axis: int, size: int) -> list[tuple[int, int, int]]:
    return [(row, row + 1, size - 1 - 2 * row) for row in range(box.start[axis], box.stop[axis])]


def _copy(book: RuleBook, name: str, box: Box, offset: tuple[int, ...], label: str) -> Piece:
    dtype = book.problem.scope.dtypes[name]

    def call(reader: Reader) -> tuple[Any, list[Any]]:
        return reader(StateRead(name, 0, offset), (), dtype), []

    def make() -> Traced:
        return trace(call, "a copy beyond a pole", dtype)

    return Piece(name, box, book.number(("pole", name, offset), make), None, None, "ghost", False, label)

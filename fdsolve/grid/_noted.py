"""The grids on which problems are planned meanwhile, for who asks what a function solves."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ._grid import Grid

_noted: ContextVar[list[Grid] | None] = ContextVar("noted", default=None)


@contextmanager
def noting_grids() -> Iterator[list[Grid]]:
    """A list that is filled with them, in their order."""
    grids: list[Grid] = []
    token = _noted.set(grids)
    try:
        yield grids
    finally:
        _noted.reset(token)


def note_grid(grid: Grid) -> None:
    """Says that a problem is planned on a grid."""
    grids = _noted.get()
    if grids is not None and not any(one is grid for one in grids):
        grids.append(grid)

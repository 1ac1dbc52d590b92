"""Views seen from an offset."""

from dataclasses import dataclass
from typing import Any

import jax

from ._offsets import Shift, add_shifts, parse_offsets, show_shift
from ._view import AbstractContext, AbstractView
from ._world import AbstractWorld, Exact


@dataclass(frozen=True, eq=False, repr=False)
class Moved(AbstractView):
    """A view seen from an offset: an older level, a neighbour."""

    view: AbstractView
    by: Shift

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        return self.view.value(add_shifts(shift, self.by))

    def exact(self, world: AbstractWorld) -> Exact:
        names = self.context.grid.names
        if any(by and name == self.context.grid.time_name for by, name in zip(self.by, names, strict=True)):
            return super().exact(world)
        return self.view.exact(world)

    def parity(self, axis: str) -> int | None:
        own = self.view.parity(axis)
        moved = self.by[self.context.grid.names.index(axis)]
        return None if own is None else int(own - 2 * moved) % 2

    def __repr__(self) -> str:
        return f"{self.view}[{show_shift(self.by, self.context.grid.names)}]"


def move(view: AbstractView, at: Any) -> AbstractView:
    """The view seen from an offset given as a key, for example `"t-1"`; `None` leaves it where it is."""
    if at is None:
        return view
    return Moved(view, parse_offsets(at, view.context.grid.names, view.context.what))

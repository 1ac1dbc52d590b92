"""What a caller asked to see, checked; and what a drawing gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._data import Shown
from ._style import Scale, pick_evenly

Update = Callable[[int], None]
"""Shows the level of an index in place of what is shown."""


@dataclass(frozen=True)
class Request:
    """Fields to draw, at times by index (None: the picture's choice), on the caller's axes if any.

    `moving`: one picture of which `Drawn.update` then shows other levels; limits hold for all of them.
    """

    fields: tuple[Shown, ...]
    times: list[int] | None
    ax: Any
    colours: Any
    limits: Any
    moving: bool = False

    def scale(self, shown: Shown, indices: list[int]) -> Scale:
        """The colours for the levels of a field that are drawn."""
        chosen = range(shown.levels) if self.moving else indices
        return Scale.of(np.stack([shown.level(i).values for i in chosen]), self.colours, self.limits)

    def last_or(self, most: int, shown: Shown) -> list[int]:
        """The wanted times; where they are open, the last, or so many evenly chosen ones."""
        if self.moving:
            return [0]
        if self.times is not None:
            return self.times
        alone = self.ax is not None or len(self.fields) > 1
        return [shown.levels - 1] if alone else pick_evenly(shown.levels, most)


@dataclass(frozen=True)
class Drawn:
    """A finished picture, and how it shows another level; None for pictures of a whole history."""

    figure: Any
    update: Update | None = None


def together(updates: list[Update]) -> Update:
    """One update of several panels."""

    def update(index: int) -> None:
        for one in updates:
            one(index)

    return update

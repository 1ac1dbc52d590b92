"""Many boxes at once."""

from collections.abc import Iterable

import numpy as np

from ._box import Box


class Boxes(tuple[Box, ...]):
    """Boxes, asked together which of them have points in common with another."""

    starts: np.ndarray
    stops: np.ndarray

    def __new__(cls, boxes: Iterable[Box] = ()) -> "Boxes":
        made = super().__new__(cls, boxes)
        made.starts, made.stops = np.array([box.start for box in made]), np.array([box.stop for box in made])
        return made

    def meeting(self, other: Box, first: int = 0) -> list[int]:
        """The places of those that have points in common with another box, as the axes from the `first` on tell."""
        if not self:
            return []
        low = np.maximum(self.starts[:, first:], other.start[first:])
        return np.flatnonzero(np.all(low < np.minimum(self.stops[:, first:], other.stop[first:]), axis=1)).tolist()

    def meet(self, other: Box) -> bool:
        """Whether any has."""
        return bool(self.meeting(other))

"""Where the values that a function reads at the points of a box lie in arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax

Flags = tuple[bool, ...]


@dataclass(frozen=True)
class Window:
    """A part of the array at a `place` among others, from the index `start` on; `flags` marks the axes of the box that
    the array has, in order."""

    place: int
    flags: Flags
    start: tuple[int, ...]

    def of(self, arrays: Sequence[Any], shape: tuple[int, ...]) -> jax.Array:
        """The values for a box of this shape."""
        array, extent = arrays[self.place], [n for n, here in zip(shape, self.flags, strict=True) if here]
        if array.shape == tuple(extent):
            return array
        return lax.slice(array, self.start, [a + n for a, n in zip(self.start, extent, strict=True)])


def whole(place: int, flags: Flags) -> Window:
    """All of an array that has these axes of a box."""
    return Window(place, flags, (0,) * sum(flags))

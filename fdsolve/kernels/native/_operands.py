"""Operands that only generated code has: levels kept beside a march, and entries counted round a periodic axis."""

from dataclasses import dataclass

from ...stencil import ProfileRead, WholeRead

LEVELS = "kept levels"
"""The axis along which the levels of a march lie; no axis of a grid has a space in its name."""
TIME_BEFORE = WholeRead("t before")
"""The time of the level before."""


@dataclass(frozen=True, order=True)
class TurnedRead(ProfileRead):
    """An entry that lies so many rows on, counted round a periodic first axis, before its offset is added."""

    turn: int = 0


def stack_name(name: str) -> str:
    """What the levels of an array are called as a profile, the oldest first."""
    return f"{name} levels"


@dataclass(frozen=True)
class Levels:
    """A march that also writes down the levels of some arrays: those that were kept before it, and its own.

    `last`: its last level too.
    """

    names: tuple[str, ...]
    last: bool

    def stored(self, steps: int) -> int:
        """How many of its own levels it writes down."""
        return steps if self.last else steps - 1


@dataclass(frozen=True)
class Alone(Levels):
    """All levels of a march whose state is not wanted; it starts at a place among what `Spread` wrote down."""

    def stored(self, steps: int) -> int:
        """How many of its own levels it writes down: all."""
        return steps


@dataclass(frozen=True)
class Spread:
    """A march that also writes down its state before each block of so many levels."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Pull:
    """The transpose of a march's derivative by its state and by operands: parameters, profiles, constants of rules.

    `beside`: the march goes on beside it, and leaves more than levels.
    """

    moving: tuple[str, ...]
    beside: bool = False

"""Operands that only generated code has: levels kept beside a march, entries counted round a periodic axis, reads at
some columns alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...region import Box
from ...stencil import Operand, ProfileRead, StateRead, WholeRead

LEVELS = "kept levels"
"""The axis along which the levels of a march lie; no axis of a grid has a space in its name."""
TIME_BEFORE = WholeRead("t before")
"""The time of the level before."""


@dataclass(frozen=True, order=True)
class TurnedRead(ProfileRead):
    """An entry that lies so many rows on, counted round a periodic first axis, before its offset is added."""

    turn: int = 0


Columns = tuple[tuple[int, int], ...]
"""Where parts of the last axis start and stop."""


@dataclass(frozen=True, order=True)
class PartRead(StateRead):
    """A read that is made at points in some columns alone; at others it is zero."""

    columns: Columns = ()


@dataclass(frozen=True, order=True)
class PartProfile(TurnedRead):
    """The same of a profile."""

    columns: Columns = ()


def in_columns(operand: Operand, columns: Columns, last: str) -> Operand:
    """An operand as it is read in some columns alone, if it changes along the `last` axis."""
    if isinstance(operand, StateRead):
        return PartRead(operand.field, operand.level, operand.offset, columns)
    if isinstance(operand, ProfileRead) and operand.axes and operand.axes[-1] == last:
        turn = operand.turn if isinstance(operand, TurnedRead) else 0
        return PartProfile(operand.name, operand.axes, operand.offset, turn, columns)
    return operand


def are_ragged(operands: Iterable[Operand]) -> bool:
    """Whether not all points make all reads."""
    return any(isinstance(one, PartRead | PartProfile) for one in operands)


def reading_box(box: Box, read: StateRead) -> Box:
    """The points of a box from the first to the last of which make a read."""
    if not isinstance(read, PartRead):
        return box
    start, stop = min(a for a, _ in read.columns), max(b for _, b in read.columns)
    return Box((*box.start[:-1], max(start, box.start[-1])), (*box.stop[:-1], min(stop, box.stop[-1])))


def stack_name(name: str) -> str:
    """What the levels of an array are called as a profile, the oldest first."""
    return f"{name} levels"


@dataclass(frozen=True)
class Levels:
    """A march that also writes down the levels of some arrays: those that were kept before it, and its own. Of arrays
    that live within a level there are its own alone.

    `last`: its last level too.
    """

    names: tuple[str, ...]
    last: bool

    def stored(self, steps: int) -> int:
        """How many of its own levels it writes down."""
        return steps if self.last else steps - 1


@dataclass(frozen=True)
class Alone(Levels):
    """All levels of a march whose state is not wanted; it starts at a place among what `Spread` wrote down. It leaves
    what a pull `by` it is left, if that is said."""

    by: "Pull | None" = None

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

    `beside`: the march goes on beside it, and leaves more than levels: what lives within them, and derivatives by
    operands. `again`: before it, for its sake, and it leaves such derivatives. `written`: before it, and it writes
    down, with its levels, what of them is dear to compute again.
    """

    moving: tuple[str, ...]
    beside: bool = False
    again: bool = False
    written: bool = False

"""What the pointers of a row function point to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RowRead:
    """A row of an array: which, how many levels back, and how it is moved along all axes but the last.

    Even and odd offsets along the last axis have a pointer each. Through one, the compiler would see that an entry was
    read one turn before, and shuffle registers instead of reading it again, which is slower.
    """

    array: str
    lag: int
    moved: tuple[int, ...]
    odd: bool = False


@dataclass(frozen=True)
class ProfileRow:
    """A row of a profile, or its one entry there where it does not run along the last axis.

    `turn`: how many rows further on, counted round a periodic first axis, before it is moved. `odd`: as for rows of
    arrays.
    """

    name: str
    axes: tuple[str, ...]
    moved: tuple[int, ...]
    along: bool
    turn: int = 0
    odd: bool = False


@dataclass(frozen=True)
class Entry:
    """One number: a parameter, a constant ("rule 3 0"), the time of the level or of the one before, or Δt."""

    name: str
    behind: int = 0


Source = RowRead | ProfileRow | Entry

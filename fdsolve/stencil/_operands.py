"""What a traced rule reads, by name: values of fields, labelled arrays, and whole arrays."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class StateRead:
    """The value of a field at `level` (0: the one being computed, −1: the one before) and an index offset."""

    field: str
    level: int
    offset: tuple[int, ...]


@dataclass(frozen=True, order=True)
class ProfileRead:
    """An entry of an array labelled by axes (coordinates, weights, coefficients) at an index offset on each of them."""

    name: str
    axes: tuple[str, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True, order=True)
class WholeRead:
    """An array that every point receives whole: a scalar parameter, the time, the time step."""

    name: str


@dataclass(frozen=True, order=True)
class Misplaced(WholeRead):
    """Stands for a read between the places where a field lives; its name is what to say if a result depends on it."""


Operand = StateRead | ProfileRead | WholeRead

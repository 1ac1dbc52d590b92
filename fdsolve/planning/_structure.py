"""The structure of a plan: all that decides what is computed, and no array."""

from dataclasses import dataclass, replace

from ..region import Box
from ..schemes import AbstractStepper
from ..stencil import Traced
from ._order import Stage
from ._pieces import Piece
from ._store import Extent


@dataclass(frozen=True)
class Array:
    """How a field is held: its points, the ghost layers around them, and how many older levels are kept."""

    name: str
    shape: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    dtype: str
    kept: int

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """Shape with ghost layers."""
        return tuple(n + a + b for n, a, b in zip(self.shape, self.lower, self.upper, strict=True))

    @property
    def origin(self) -> tuple[int, ...]:
        """Index of the first stored point on each axis."""
        return tuple(-a for a in self.lower)

    @property
    def interior(self) -> Box:
        """The field's own points."""
        return Box.of_shape(self.shape)


@dataclass(frozen=True)
class PhaseStructure:
    """What happens at a level: stages that set values and ghosts, pieces that give rates, and which boxes they fill."""

    stages: tuple[Stage, ...]
    rates: tuple[Piece, ...]
    given: tuple[tuple[str, tuple[Box, ...]], ...]


@dataclass(frozen=True)
class Segment:
    """Consecutive levels start … stop − 1. `phases` has one entry for a constant structure, else one for each level."""

    start: int
    stop: int
    phases: tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """Everything static about a run; equal structures share one compiled program."""

    arrays: tuple[Array, ...]
    rules: tuple[Traced, ...]
    phases: tuple[PhaseStructure, ...]
    segments: tuple[Segment, ...]
    extents: tuple[Extent, ...]
    saved_levels: tuple[int, ...]
    stepper: AbstractStepper | None
    time_axis: str | None

    @property
    def first_level(self) -> "Structure":
        """The structure of the first level alone: the same whatever is saved, or done later."""
        first = self.phases[self.segments[0].phases[0]]
        return replace(self, phases=(first,), segments=(Segment(0, 1, (0,)),), saved_levels=(), stepper=None)

    def array(self, name: str) -> Array:
        """The storage of a field."""
        return next(one for one in self.arrays if one.name == name)

    def extent(self, name: str) -> Extent:
        """Where the array of a profile starts."""
        return next(one for one in self.extents if one.name == name)

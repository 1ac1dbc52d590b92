"""The structure of a plan: all that decides what is computed, and no array."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any

from ..region import Box
from ..schemes import AbstractStepper
from ..stencil import StateRead, Traced, count_equations
from ._derived import Showing
from ._order import Stage, pieces_of
from ._pieces import Piece
from ._receivers import Recording
from ._seams import Signs
from ._store import Extent
from ._systems import Facts


@dataclass(frozen=True)
class Array:
    """How a field is held: its points, the ghost layers around them, and how many older levels are kept.

    A hidden field is held where it is read: there may be fewer layers than none.
    """

    name: str
    shape: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    dtype: str
    kept: int
    hidden: bool = False

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
    """What happens at a level: stages that set values and ghosts, pieces that give rates, and which boxes they fill.

    `speeds` are pieces that give Courant numbers over Δt, for steppers that ask for them; `points` tells the points of
    the boxes that have rates, by field, from others. `views` set hidden fields that rates alone read, such as fluxes:
    they are computed where rates are asked for, of the level that these are of, and live no longer.
    """

    stages: tuple[Stage, ...]
    rates: tuple[Piece, ...]
    given: tuple[tuple[str, tuple[Box, ...]], ...]
    speeds: tuple[Piece, ...] = ()
    points: tuple[tuple[str, str], ...] = ()
    views: tuple[Stage, ...] = ()

    @property
    def every_stage(self) -> tuple[Stage, ...]:
        """The stages of the level, then those of views."""
        return (*self.stages, *self.views)

    @property
    def values(self) -> tuple[Piece, ...]:
        """The pieces that set values, ghosts and views, in the order of their stages."""
        return tuple(piece for stage in self.every_stage for piece in pieces_of(stage))


@dataclass(frozen=True)
class Segment:
    """Consecutive levels start … stop − 1. `phases` has one entry for a constant structure, else one for each level.

    `starting`: the stepper has not enough memory yet and takes its first steps.
    """

    start: int
    stop: int
    phases: tuple[int, ...]
    starting: bool = False


@dataclass(frozen=True)
class Structure:
    """Everything static about a run; equal structures share one compiled program.

    `kernels` names the kernel of an operation where it is not `slices`; `facts` are what systems of equations must
    know, `asked` the solver that was asked for them; `adjoint` says how derivatives of the march are taken (None: as
    JAX does); `showing` is what is kept of a saved level (None: the fields as they are); `signs` are those with which
    declared fields repeat along each axis.
    """

    arrays: tuple[Array, ...]
    rules: tuple[Traced, ...]
    phases: tuple[PhaseStructure, ...]
    segments: tuple[Segment, ...]
    extents: tuple[Extent, ...]
    saved_levels: tuple[int, ...]
    stepper: AbstractStepper | None
    time_axis: str | None
    recording: Recording | None = None
    linear_rules: frozenset[int] = frozenset()
    timed_rules: frozenset[int] = frozenset()
    shifts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    kernels: tuple[tuple[str, str], ...] = ()
    facts: Facts | None = None
    asked: Any = None
    adjoint: Any = None
    showing: Showing | None = None
    signs: tuple[tuple[str, Signs], ...] = ()

    def __hash__(self) -> int:
        # Asked for at every call of a compiled program: counted once.
        found = self.__dict__.get("_hash")
        if found is None:
            found = hash(tuple(getattr(self, one.name) for one in fields(self)))
            object.__setattr__(self, "_hash", found)
        return found

    def __getstate__(self) -> dict[str, Any]:
        # Hashes of texts differ from process to process.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def kernel(self, operation: str) -> str:
        """The kernel of an operation."""
        return dict(self.kernels).get(operation, "slices")

    def is_linear(self, rule: int) -> bool:
        """Whether a rate is affine with constant coefficients."""
        return rule in self.linear_rules

    def is_timed(self, piece: Piece) -> bool:
        """Whether a boundary value or ghost depends on time, apart from what it reads of the state."""
        return piece.rule in self.timed_rules and piece.predicate is None and piece.role in ("value", "ghost")

    def moved(self, field: str, read: StateRead) -> tuple[float, ...]:
        """How far a read is from the point of a field's rule, in steps of the axes; half steps if staggered."""
        places = dict(self.shifts)
        return tuple(o + (b - a) / 2 for o, a, b in zip(read.offset, places[field], places[read.field], strict=True))

    @property
    def declared(self) -> tuple[Array, ...]:
        """The arrays of the fields that were declared: those that are saved."""
        return tuple(one for one in self.arrays if not one.hidden)

    @property
    def carried(self) -> tuple[Array, ...]:
        """The arrays that live from level to level."""
        return tuple(one for one in self.arrays if not one.hidden or one.kept)

    @property
    def work(self) -> float:
        """Equations in the rules of a step, for each number of the state: how dear the step is to compute."""
        last, counts = self.phases[self.segments[-1].phases[-1]], [count_equations(one.jaxpr) for one in self.rules]

        def count(pieces: Iterable[Piece]) -> int:
            return sum(counts[piece.rule] * piece.box.size for piece in pieces)

        often = count(last.rates) + sum(count(pieces_of(stage)) for stage in last.views)
        once = sum(count(pieces_of(stage)) for stage in last.stages)
        times = self.stepper.evaluations if self.stepper is not None else 1
        return (often * times + once) / max(1, sum(prod(one.shape) for one in self.carried))

    @property
    def saves_last_only(self) -> bool:
        """Whether the history is the last level alone, whole."""
        return self.showing is None and self.saved_levels == (self.segments[-1].stop - 1,)

    @property
    def first_level(self) -> "Structure":
        """The structure of the first level alone: the same whatever is saved, or done later."""
        first = self.phases[self.segments[0].phases[0]]
        return replace(
            self,
            phases=(first,),
            segments=(Segment(0, 1, (0,)),),
            saved_levels=(),
            stepper=None,
            kernels=(),
            showing=None,
        )

    def array(self, name: str) -> Array:
        """The storage of a field."""
        return next(one for one in self.arrays if one.name == name)

    def extent(self, name: str) -> Extent:
        """Where the array of a profile starts."""
        return next(one for one in self.extents if one.name == name)

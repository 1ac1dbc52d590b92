"""What a stepper is: a method that takes the rates of a problem over one time step, given as data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..errors import PlanningError

Values = dict[str, tuple[Any, ...]]
"""What a stepper advances: for each field with rates the arrays on the boxes where they hold (or their slopes)."""


class Walls(NamedTuple):
    """How boundary values stand at an inner stage: Σ_k coefficients[k] Δtᵏ g⁽ᵏ⁾ at `base`, the step's own start.

    A value g(t) on a wall then passes through the same stages as the points beside it, which keeps the order in time
    when Δt and Δx are refined together. Source: Carpenter, Gottlieb, Abarbanel & Don, SIAM J. Sci. Comput. 16 (1995)
    1241, for linear problems.
    """

    base: Any
    coefficients: tuple[Any, ...]


@dataclass(frozen=True)
class Part:
    """A part of the rates: those of some fields, of one group of assignments, of the linear ones or of the others, of
    those marked `implicit=True` or of the others."""

    fields: tuple[str, ...] | None = None
    group: int | None = None
    linear: bool | None = None
    implicit: bool | None = None

    def has(self, field: str, group: int, linear: bool, implicit: bool = False) -> bool:
        """Whether a rate belongs to the part."""
        return (
            (self.fields is None or field in self.fields)
            and self.group in (None, group)
            and self.linear in (None, linear)
            and self.implicit in (None, implicit)
        )


ALL = Part()


class AbstractSystem(ABC):
    """The rates of one time level, as a stepper sees them. Times are fractions of the level's step: 0 to 1."""

    number: Any
    """The index of the level that the step leads to."""
    step: Any
    """Δt as an array."""
    start: Values
    """The values at the level before."""
    signs: tuple[int, ...]
    """With which sign the fields, all alike, repeat along each axis."""

    @abstractmethod
    def rates(self, values: Values, fraction: Any, walls: Walls | None = None, part: Part = ALL) -> Values:
        """du/dt of the given values at a time: the right-hand side that every stepper uses.

        Plain rules and boundary values beside the rates are set for that state and time first; `walls` says how
        boundary values known in time stand at an inner stage. Fields without rates in `part` are left out.
        """

    @abstractmethod
    def speeds(self, values: Values, fraction: Any) -> Any:
        """The Courant number of the whole step, Δt max Σ_i |a_i|/Δx_i: by the declared speed, else estimated."""

    @abstractmethod
    def symbol(self) -> Any:
        """The linear rates at each wavenumber of the FFT (half a wave on by signs of −1): (*waves, fields, fields)."""

    @abstractmethod
    def constant_rates(self, fraction: Any) -> Values:
        """What the linear rates are at the zero state: their sources."""

    def solve(
        self,
        base: Values,
        factor: Any,
        fraction: Any,
        guess: Values | None = None,
        part: Part = ALL,
        walls: Walls | None = None,
    ) -> tuple[Values, Any]:
        """v with v = base + factor·Δt·rates(v, fraction, walls, part), and whether it was found (a boolean array).

        `guess` is where an iteration begins (default `base`). Fields without rates in `part` keep the values of
        `base`. Marches whose methods only evaluate rates have no solve.
        """
        raise NotImplementedError("methods that solve systems of equations are refused")

    def axis_solve(self, axis: str, factor: Any, rhs: Values, fraction: Any) -> Values:
        """v with (I − factor·Δt·A_axis) v = rhs: the entries along one axis of the Jacobian A of the rates at `start`.

        An entry belongs to the axis along which it reaches. The diagonal is shared so that the parts add up to A: to
        each axis minus the sum of the entries along it, and an equal share of the rest; values on walls count in these
        sums. v is an increment: walls with values known in time do not move with it.
        """
        raise NotImplementedError("methods that solve systems of equations are refused")

    def axis_change(self, axis: str, fraction: Any) -> Values:
        """What boundary values known in time, on their way from the start to `fraction`, add to the rates along an
        axis, for the values at the start."""
        raise NotImplementedError("methods that solve systems of equations are refused")


@dataclass(frozen=True)
class RateOutline:
    """One rate as the checks of steppers see it.

    `reads` are the fields with rates that it depends on, through plain rules and boundary values too; `why_not` says
    why it is not affine with constant coefficients ("" where it is).
    """

    field: str
    label: str
    group: int
    implicit: bool
    reads: frozenset[str]
    why_not: str


@dataclass(frozen=True)
class Outline:
    """The rates of a problem as the checks of steppers see them.

    `older` lists plain rules beside rates that read older levels, `changes` says how the points with rates change
    from level to level ("" where they do not), `not_periodic` why Fourier modes are not eigenvectors ("" where they
    are), `absorbing` a rule in an absorbing layer ("" where there is none); `axes` are those of space.
    """

    rates: tuple[RateOutline, ...]
    older: tuple[str, ...]
    changes: str
    not_periodic: str
    absorbing: str = ""
    axes: tuple[str, ...] = ()

    @property
    def num_groups(self) -> int:
        """How many groups of rates were assigned: the first with `=`, each `+=` another."""
        return 1 + max(one.group for one in self.rates)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields with rates, in order."""
        return tuple(dict.fromkeys(one.field for one in self.rates))


@dataclass(frozen=True, eq=False)
class Modes:
    """The rates of the Fourier modes times Δt: one matrix (…, fields, fields) a group and kind (linear, implicit).

    `courant` is Δt Σ_i |a_i|/Δx_i of the linearised rate, shape (…); `names` are the fields. `along` holds all rates
    split by axis, as matrices of the same shape; it is empty where they do not split.
    """

    names: tuple[str, ...]
    parts: dict[tuple[Any, ...], np.ndarray]
    courant: np.ndarray
    along: tuple[np.ndarray, ...] = ()

    @property
    def total(self) -> np.ndarray:
        """All rates together."""
        return np.sum(list(self.parts.values()), axis=0)

    @cached_property
    def eigenvalues(self) -> Any:
        """λΔt of every mode, shape (…, fields)."""
        return np.linalg.eigvals(self.total)

    def of(self, part: Part) -> "Modes":
        """The modes of some of the rates alone."""
        kept = {key: value if part.has("", *key) else 0 * value for key, value in self.parts.items()}
        return Modes(self.names, kept, self.courant)

    def scaled(self, factor: Any) -> "Modes":
        """The modes of a shorter step; `factor` is a number or has the shape (…)."""
        wide = np.asarray(factor)[..., None, None]
        kept = {key: value * wide for key, value in self.parts.items()}
        return Modes(self.names, kept, self.courant * factor, tuple(one * wide for one in self.along))


@dataclass(frozen=True)
class NoGrowth:
    """Why the growth of a stepper's modes is not known."""

    reason: str


class AbstractStepper(ABC):
    """A method that takes the rates of a problem over one time step: static data, all arrays are handed to it.

    What it carries from step to step is its `memory`, None for one-step methods; `starting_steps` is how many of the
    first steps it takes by `first_step`. The hooks that are not abstract do nothing where a
    method has no use for them.
    """

    @property
    @abstractmethod
    def order(self) -> int:
        """The order of accuracy in time."""

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """How often a step evaluates the rates."""

    @property
    def at_levels(self) -> bool:
        """Whether it takes rates of what stands at whole levels, or part of the way there from the level before.

        Then memory variables of absorbing layers are recursions beside the rates, which damp without being stepped.
        """
        return False

    @property
    def solves(self) -> bool:
        """Whether a step solves systems of equations."""
        return False

    @property
    def starting_steps(self) -> int:
        """How many first steps need another method."""
        return 0

    def why_not_forward(self, what: str) -> str | None:
        """Why `what` cannot carry derivatives forward through its steps, and what can; None where it can."""
        return None

    def why_not_back(self) -> str | None:
        """Why derivatives cannot be taken back through its steps, and what can; None where they can."""
        return None

    @property
    def speed_rules(self) -> dict[str, Any]:
        """Rules for propagation speeds by axis ("" for every axis), to be traced with the problem."""
        return {}

    @property
    def estimates_speed(self) -> bool:
        """Whether it measures propagation speeds from what rates read."""
        return False

    def check_axes(self, axes: Sequence[str]) -> None:
        """Refuses speeds along axes that the grid does not have."""
        return None

    def bind(self, outline: Outline) -> "AbstractStepper":
        """Checks that the method fits the rates and returns it with what it needs to know of them."""
        return self

    def describe_plain(self, reads: Sequence[tuple[str, frozenset[int]]]) -> str:
        """What the plan notes where no rule is a rate; `reads` are the levels that each rule reads."""
        return "stepper= has no effect: no rule is a rate (fd.rate)"

    def prepare(self, system: AbstractSystem) -> Any:
        """Arrays that do not change from step to step, made once before the march."""
        return None

    def begin(self, start: Values) -> Any:
        """The memory before the first step, filled with zeros of the right shapes."""
        return None

    @abstractmethod
    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        """The values at the new level and the memory after it."""

    def first_step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        """One of the first `starting_steps` steps."""
        return self.step(system, memory, prepared)

    @property
    def steps_back(self) -> bool:
        """Whether a step can be taken back, with nothing lost."""
        return False

    def step_back(
        self, system: AbstractSystem, memory: Any, at: Callable[[Values], AbstractSystem]
    ) -> tuple[AbstractSystem, Any]:
        """Undoes a step: `system` stands at the new level, and `at(values)` gives the step that starts from values.

        Returns that step, and the memory before it.
        """
        raise PlanningError(f"{self!r} cannot take a step back.")

    def report(self, memory: Any) -> Any:
        """The first level that failed (an integer array, −1 for none) where that can happen, else None."""
        return None

    def explain(self, level: int, time: float) -> str:
        """The message for a run that failed at a level."""
        return f"{self!r} failed at level {level}, t = {time:g}."

    @abstractmethod
    def amplify(self, modes: Modes) -> np.ndarray | NoGrowth:
        """The factors by which modes grow in one step, all roots: shape (…, fields, roots), the physical root first;
        or (…, roots) in any order, marked by a missing axis, where modes of the method are not those of the rates."""


class AbstractOneStep(AbstractStepper):
    """A method without memory, which can also take a part of a step, or of the rates.

    Methods that solve systems of equations remember the first level at which that failed.
    """

    @abstractmethod
    def advance(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> Values:
        """The values after `length` steps from the time `start` (both in steps of the level)."""

    def attempt(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> tuple[Values, Any]:
        """The same, and whether all systems of equations were solved (None where there are none)."""
        return self.advance(system, values, start, length, part), None

    def begin(self, start: Values) -> Any:
        return no_failure() if self.solves else None

    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        values, good = self.attempt(system, system.start)
        return values, first_failure(memory, good, system)

    def report(self, memory: Any) -> Any:
        return memory

    def explain(self, level: int, time: float) -> str:
        return explain_failure(self, level, time)

    @abstractmethod
    def propagator(self, modes: Modes) -> np.ndarray | NoGrowth:
        """The matrix that takes the modes over one step, shape (…, fields, fields)."""


def no_failure() -> Any:
    """The memory of a method that has not failed yet."""
    return jnp.asarray(-1, jnp.int32)


def first_failure(memory: Any, good: Any, system: AbstractSystem) -> Any:
    """The first level that failed, after one more; `good` says whether this one was reached (None: always)."""
    if good is None:
        return memory
    return jnp.where((memory < 0) & ~good, jnp.asarray(system.number, jnp.int32), memory)


def explain_failure(stepper: AbstractStepper, level: int, time: float) -> str:
    """The message for a system of equations that was not solved."""
    return (
        f"{stepper!r} could not reach level {level}, t = {time:g}: a system of equations of this step was not solved, "
        f"because the iteration did not converge or the matrix is singular. Take more time levels, give the stepper "
        f"another solver= (a direct one, or one with more iterations), or look whether the solution grows without "
        f"bound."
    )


def combine(system: AbstractSystem, base: Values, weights: Sequence[Any], slopes: Sequence[Values]) -> Values:
    """base + Δt Σ weight·slope; a weight that is the number 0 costs nothing."""
    step, result = system.step, {}
    for name, boxes in base.items():
        values = []
        for number, value in enumerate(boxes):
            for weight, slope in zip(weights, slopes, strict=True):
                if name in slope and not (isinstance(weight, int | float) and weight == 0):
                    factor = (np.asarray(weight, step.dtype) if isinstance(weight, int | float) else weight) * step
                    value = value + factor.astype(value.dtype) * slope[name][number]
            values.append(value)
        result[name] = tuple(values)
    return result


def on_eigenvalues(modes: Modes, growth: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The growth factors of a method that treats all rates alike: those of its scalar test equation."""
    return np.asarray(growth(modes.eigenvalues))[..., None]


def check_no_changes(stepper: AbstractStepper, outline: Outline) -> None:
    """Refuses points with rates that change from level to level, for methods that keep values of older levels."""
    if outline.changes:
        raise PlanningError(
            f"{stepper!r} keeps values of older levels at the points with a rate, and {outline.changes}. Take a "
            f"one-step stepper such as fd.schemes.RK4()."
        )

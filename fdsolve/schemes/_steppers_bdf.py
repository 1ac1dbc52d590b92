"""Backward differences: one system of equations a step, whatever the order."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ._additive import add, check_marked, check_solver, moved, solve_matrix
from ._steppers import (
    ALL,
    AbstractOneStep,
    AbstractStepper,
    AbstractSystem,
    Modes,
    Outline,
    Part,
    Values,
    check_no_changes,
    explain_failure,
    first_failure,
    no_failure,
)
from ._steppers_adams import nearest_first
from ._steppers_imex import ARS222, ARS343
from ._steppers_implicit import SDIRK2


class Differences(NamedTuple):
    """uⁿ⁺¹ = Σ valuesₖ uⁿ⁻ᵏ + Δt Σ slopesₖ f(uⁿ⁻ᵏ) + Δt · factor · g(uⁿ⁺¹)."""

    values: tuple[float, ...]
    factor: float
    slopes: tuple[float, ...]


_SECOND = Differences((4 / 3, -1 / 3), 2 / 3, (4 / 3, -2 / 3))
_THIRD = Differences((18 / 11, -9 / 11, 2 / 11), 6 / 11, (18 / 11, -18 / 11, 6 / 11))


class Memory(NamedTuple):
    """Values and explicit increments of older levels, the newest first, and the first level that failed."""

    values: tuple[Values, ...]
    slopes: tuple[Values, ...]
    failed: Any


class AbstractBackwardDifferences(AbstractStepper):
    """A multistep method whose stiff rates are taken at the new level alone; the first steps are taken by another."""

    solver: Any

    @property
    @abstractmethod
    def differences(self) -> Differences:
        """The coefficients."""

    @property
    @abstractmethod
    def starter(self) -> AbstractOneStep:
        """The method of the first steps."""

    @property
    @abstractmethod
    def splits(self) -> bool:
        """Whether only the rates marked `implicit=True` are taken implicitly."""

    @property
    def order(self) -> int:
        return len(self.differences.values)

    @property
    def evaluations(self) -> int:
        return 1

    @property
    def solves(self) -> bool:
        return True

    @property
    def starting_steps(self) -> int:
        return self.order - 1

    def bind(self, outline: Outline) -> "AbstractBackwardDifferences":
        check_no_changes(self, outline)
        if self.splits:
            check_marked(self, outline)
        return self

    def begin(self, start: Values) -> Memory:
        zero = {name: tuple(0 * box for box in boxes) for name, boxes in start.items()}
        older = (zero,) * (self.order - 1)
        return Memory(older, older if self.splits else (), no_failure())

    def step(self, system: AbstractSystem, memory: Memory, prepared: Any) -> tuple[Values, Memory]:
        weights, here = self.differences, self._remembered(system, memory)
        terms = zip(weights.values[1:], here.values[1:], strict=True)
        first = {name: tuple(0 * box for box in boxes) for name, boxes in system.start.items()}
        base = add(first, [(weights.values[0], system.start), *terms])
        if self.splits:
            base = add(base, zip(weights.slopes, here.slopes, strict=True))
        part = Part(implicit=True) if self.splits else ALL
        values, good = system.solve(base, weights.factor, 1.0, system.start, part)
        return values, _after(here, first_failure(memory.failed, good, system))

    def first_step(self, system: AbstractSystem, memory: Memory, prepared: Any) -> tuple[Values, Memory]:
        values, good = self.starter.attempt(system, system.start)
        return values, _after(self._remembered(system, memory), first_failure(memory.failed, good, system))

    def _remembered(self, system: AbstractSystem, memory: Memory) -> Memory:
        """The memory with the level before the step in front."""
        slopes = memory.slopes
        if self.splits:
            increment = moved(system, system.start, 0.0, 1.0, Part(implicit=False))
            # Fields that have no explicit rate stand in memory all the same, so that its shape does not change.
            zero = {name: tuple(0 * box for box in boxes) for name, boxes in system.start.items()}
            slopes = ({**zero, **increment}, *slopes)
        return Memory((system.start, *memory.values), slopes, memory.failed)

    def report(self, memory: Memory) -> Any:
        return memory.failed

    def explain(self, level: int, time: float) -> str:
        return explain_failure(self, level, time)

    def amplify(self, modes: Modes) -> np.ndarray:
        if self.splits:
            stiff, rest = (modes.of(Part(implicit=kind)).total for kind in (True, False))
            return np.linalg.eigvals(companion(self.differences, stiff, rest))
        z = modes.eigenvalues
        roots = np.linalg.eigvals(companion(self.differences, z[..., None, None], 0 * z[..., None, None]))
        return nearest_first(roots, np.exp(np.clip(z.real, None, 50.0) + 1j * z.imag))


def _after(here: Memory, failed: Any) -> Memory:
    """The memory without its oldest level."""
    return Memory(here.values[:-1], here.slopes[:-1], failed)


def companion(weights: Differences, stiff: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The matrix that takes uⁿ, uⁿ⁻¹, … one level on, from the matrices (…, n, n) of the rates times Δt."""
    size, count = stiff.shape[-1], len(weights.values)
    one = np.eye(size)
    matrix = np.zeros((*stiff.shape[:-2], count * size, count * size), complex)
    for k, (value, slope) in enumerate(zip(weights.values, weights.slopes, strict=True)):
        block = solve_matrix(one - weights.factor * stiff, value * one + slope * rest)
        matrix[..., :size, k * size : (k + 1) * size] = block
    matrix[..., range(size, count * size), range((count - 1) * size)] = 1
    return matrix


@dataclass(frozen=True)
class BDF2(AbstractBackwardDifferences):
    """(3uⁿ⁺¹ − 4uⁿ + uⁿ⁻¹)/2 = Δt f(uⁿ⁺¹, tⁿ⁺¹), order 2, L-stable; the first step is taken by SDIRK2.

    `solver` solves the systems (default: chosen for them). Source: Hairer & Wanner, Solving Ordinary Differential
    Equations II, section V.1. Good values: the least work a step for order 2 with damping.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def differences(self) -> Differences:
        return _SECOND

    @property
    def starter(self) -> AbstractOneStep:
        return SDIRK2(self.solver)

    @property
    def splits(self) -> bool:
        return False


@dataclass(frozen=True)
class SBDF2(AbstractBackwardDifferences):
    """(3uⁿ⁺¹ − 4uⁿ + uⁿ⁻¹)/2 = Δt (2f(uⁿ) − f(uⁿ⁻¹) + g(uⁿ⁺¹)), order 2; the first step is taken by ARS222.

    g are the rates marked `fd.rate(g, implicit=True)`; L-stable in them. Unstable, slowly, for an f whose eigenvalues
    are imaginary, unless g damps them. Source: Ascher, Ruuth & Wetton, SIAM J. Numer. Anal. 32 (1995) 797, equation
    10. Good values: reaction with diffusion.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def differences(self) -> Differences:
        return _SECOND

    @property
    def starter(self) -> AbstractOneStep:
        return ARS222(self.solver)

    @property
    def splits(self) -> bool:
        return True


@dataclass(frozen=True)
class SBDF3(AbstractBackwardDifferences):
    """11/6 uⁿ⁺¹ − 3uⁿ + 3/2 uⁿ⁻¹ − 1/3 uⁿ⁻² = Δt (3f(uⁿ) − 3f(uⁿ⁻¹) + f(uⁿ⁻²) + g(uⁿ⁺¹)), order 3.

    g are the rates marked `fd.rate(g, implicit=True)`: stable for decay in them, within 86° of the negative real axis,
    and stiff decay is damped; not for waves, whose eigenvalues are imaginary (u_xxx): those of |λΔt| < 1.94 grow, by up
    to 1.046 a step. Take ARK3 for them. The first two steps are taken by ARS343. Source: Ascher, Ruuth & Wetton, SIAM
    J. Numer. Anal. 32 (1995) 797, equation 11. Good values: advection with diffusion, at one system a step.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def differences(self) -> Differences:
        return _THIRD

    @property
    def starter(self) -> AbstractOneStep:
        return ARS343(self.solver)

    @property
    def splits(self) -> bool:
        return True

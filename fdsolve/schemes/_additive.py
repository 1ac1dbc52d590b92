"""Runge–Kutta methods with implicit stages, alone or beside an explicit method for the rates that are not stiff."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DeclarationError, PlanningError
from ._steppers import (
    ALL,
    AbstractOneStep,
    AbstractSystem,
    Modes,
    Outline,
    Part,
    Values,
    Walls,
    on_eigenvalues,
)
from ._tableau import wall_polynomials


@dataclass(frozen=True)
class AdditiveTableau:
    """Butcher's coefficients of a diagonally implicit method, and of the explicit one beside it.

    `implicit` are the rows of A up to the diagonal, the last of which are the weights too (stiffly accurate);
    `explicit` the rows of Â below the diagonal and `weights` b̂, both empty where all rates are taken implicitly. Stages
    of both stand at the same times, the row sums.
    """

    implicit: tuple[tuple[float, ...], ...]
    order: int
    explicit: tuple[tuple[float, ...], ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """The time of each stage, in steps."""
        return tuple(1.0 if row is self.implicit[-1] else float(sum(row)) for row in self.implicit)

    @property
    def corrections(self) -> tuple[float, ...]:
        """b̂ − the last row of Â: what the explicit slopes add to the last stage."""
        if not self.explicit:
            return ()
        return tuple(b - a for b, a in zip(self.weights, (*self.explicit[-1], 0.0), strict=True))

    @cached_property
    def wall_coefficients(self) -> tuple[tuple[float, ...], ...]:
        """For each stage the weights of Δtᵏ g⁽ᵏ⁾ in a boundary value g(t): entry k is (Aᵏ1)_i, k ≤ order.

        Empty where one stage is implicit: that is the new level, whose value is known.
        """
        if sum(row[-1] != 0 for row in self.implicit) < 2:
            return ()
        count = len(self.implicit)
        matrix = np.array([[*row, *[0.0] * (count - len(row))] for row in self.implicit])
        return wall_polynomials(matrix, self.order + 1)

    def uses_stiff(self, stage: int) -> bool:
        """Whether a later stage takes the slope of the stiff rates at a stage."""
        return any(row[stage] for row in self.implicit[stage + 1 :])

    def uses_rest(self, stage: int) -> bool:
        """Whether a later stage, or the result, takes the slope of the other rates at a stage."""
        if not self.explicit:
            return False
        return bool(self.corrections[stage]) or any(row[stage] for row in self.explicit[stage + 1 :])

    def growth(self, stiff: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """The matrix that takes a mode over one step, from the matrices (…, n, n) of its rates times Δt."""
        one = np.eye(stiff.shape[-1]) + 0 * stiff
        fast: list[np.ndarray] = []
        slow: list[np.ndarray] = []
        stage = one
        for number, row in enumerate(self.implicit):
            below = self.explicit[number] if self.explicit else ()
            base = one + sum(a * k for a, k in zip(row, fast, strict=False))
            base = base + sum(a * k for a, k in zip(below, slow, strict=True))
            stage = solve_matrix(np.eye(stiff.shape[-1]) - row[number] * stiff, base)
            fast.append(stiff @ stage)
            if self.explicit:
                slow.append(rest @ stage)
        return stage + sum(c * k for c, k in zip(self.corrections, slow, strict=True))


def solve_matrix(matrix: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """M⁻¹R for matrices (…, n, n); inf where a matrix is singular."""
    try:
        return np.linalg.solve(matrix, rhs)
    except np.linalg.LinAlgError:
        singular = np.linalg.matrix_rank(matrix) < matrix.shape[-1]
        safe = np.where(singular[..., None, None], np.eye(matrix.shape[-1]), matrix)
        return np.where(singular[..., None, None], np.inf, np.linalg.solve(safe, rhs))


class AbstractAdditive(AbstractOneStep):
    """Stages uᵢ = uⁿ + Δt Σ_{j≤i} aᵢⱼ g(uⱼ) + Δt Σ_{j<i} âᵢⱼ f(uⱼ) for ∂u/∂t = f + g with g stiff.

    uⁿ⁺¹ is the last stage, plus Δt Σ (b̂ⱼ − âₛⱼ) f(uⱼ). Boundary values known in time stand at a stage where A would
    take them, not at their own value there: with those, stages of low order would cost the result its order. The
    slopes g(uᵢ) of implicit stages are not evaluated but follow from what the stage gained: evaluating them would
    multiply the error of the solution by the stiffness.
    """

    solver: Any

    @property
    @abstractmethod
    def tableau(self) -> AdditiveTableau:
        """The method's coefficients."""

    @property
    def order(self) -> int:
        return self.tableau.order

    @property
    def evaluations(self) -> int:
        return len(self.tableau.implicit)

    @property
    def solves(self) -> bool:
        return True

    def bind(self, outline: Outline) -> "AbstractAdditive":
        if self.tableau.explicit:
            check_marked(self, outline)
        return self

    def advance(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> Values:
        return self.attempt(system, values, start, length, part)[0]

    def attempt(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> tuple[Values, Any]:
        tableau = self.tableau
        stiff, rest = (replace(part, implicit=kind) for kind in (True, False)) if tableau.explicit else (part, part)
        fast: list[Values] = []
        slow: list[Values] = []
        stage, good = values, None
        for number, (row, share) in enumerate(zip(tableau.implicit, tableau.times, strict=True)):
            below = tableau.explicit[number] if tableau.explicit else ()
            base = add(values, [*zip(row, fast, strict=False), *zip(below, slow, strict=True)])
            time, diagonal = start + share * length, row[number]
            walls = self._walls(number, start, length)
            if diagonal:
                stage, solved = system.solve(base, diagonal * length, time, stage, stiff, walls)
                good = solved if good is None else good & solved
                fast.append(gained(base, stage, diagonal))
            else:
                stage = base
                fast.append(moved(system, stage, time, length, stiff, walls) if tableau.uses_stiff(number) else {})
            slow.append(moved(system, stage, time, length, rest, walls) if tableau.uses_rest(number) else {})
            slow = slow if tableau.explicit else []
        return add(stage, zip(tableau.corrections, slow, strict=True)), good

    def _walls(self, stage: int, start: Any, length: Any) -> Walls | None:
        """How boundary values stand at a stage; None for values at its own time."""
        found = self.tableau.wall_coefficients
        return Walls(start, tuple(w * length**k for k, w in enumerate(found[stage]))) if found else None

    def amplify(self, modes: Modes) -> np.ndarray:
        if self.tableau.explicit:
            return np.linalg.eigvals(self.propagator(modes))
        return on_eigenvalues(modes, lambda z: self.tableau.growth(z[..., None, None], 0 * z)[..., 0, 0])

    def propagator(self, modes: Modes) -> np.ndarray:
        if not self.tableau.explicit:
            return self.tableau.growth(modes.total, 0 * modes.total)
        stiff, rest = (modes.of(Part(implicit=kind)).total for kind in (True, False))
        return self.tableau.growth(stiff, rest)


def add(base: Values, terms: Iterable[tuple[float, Values]]) -> Values:
    """base + Σ weight · increment; `base` itself where there is nothing to add."""
    kept = [(weight, one) for weight, one in terms if weight and one]
    if not kept:
        return base
    result = {}
    for name, boxes in base.items():
        values = []
        for number, value in enumerate(boxes):
            for weight, increment in kept:
                if name in increment:
                    value = value + np.asarray(weight, value.dtype) * increment[name][number]
            values.append(value)
        result[name] = tuple(values)
    return result


def moved(
    system: AbstractSystem, values: Values, fraction: Any, length: Any, part: Part, walls: Walls | None = None
) -> Values:
    """length · Δt · rates of some values at a time."""
    step = system.step * np.asarray(length, system.step.dtype) if isinstance(length, float) else system.step * length
    slopes = system.rates(values, fraction, walls, part)
    return {name: tuple(step.astype(box.dtype) * box for box in boxes) for name, boxes in slopes.items()}


def gained(base: Values, stage: Values, diagonal: float) -> Values:
    """What a unit of the implicit slope adds, from what a stage gained by `diagonal` of it."""
    return {
        name: tuple((b - a) * np.asarray(1 / diagonal, a.dtype) for a, b in zip(base[name], boxes, strict=True))
        for name, boxes in stage.items()
    }


def check_marked(stepper: Any, outline: Outline) -> None:
    """Refuses rates of which none is marked as the stiff part."""
    if not any(one.implicit for one in outline.rates):
        first = outline.rates[0].label
        raise PlanningError(
            f"{stepper!r} takes the stiff rates implicitly and the others explicitly, and none is marked as stiff "
            f"({first}). Mark them, u[...] = fd.rate(stiff, implicit=True), and add the others with "
            f"u[...] += fd.rate(rest); or take fd.schemes.RK4()."
        )


def check_solver(stepper: Any) -> None:
    """Refuses what cannot be the static description of a solver."""
    solver = stepper.solver
    if solver is None:
        return
    name = type(stepper).__name__
    wanted = f"{name}: solver= takes a solver such as fd.solvers.Banded(), or None to have one chosen"
    if isinstance(solver, type):
        raise DeclarationError(f"{wanted}; got the class {solver.__name__}, write it with parentheses.")
    try:
        hash(solver)
    except TypeError:
        raise DeclarationError(f"{wanted}; got {solver!r}, which cannot be a part of a compiled program.") from None
    if isinstance(solver, str | int | float):
        raise DeclarationError(f"{wanted}; got {solver!r}.")

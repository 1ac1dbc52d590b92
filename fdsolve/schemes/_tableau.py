"""Explicit Runge–Kutta steppers for rates, as data."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ._steppers import (
    ALL,
    AbstractOneStep,
    AbstractSystem,
    Modes,
    Part,
    Values,
    Walls,
    combine,
    on_eigenvalues,
)


@dataclass(frozen=True)
class Tableau:
    """Butcher's coefficients of an explicit Runge–Kutta method: stage weights, step weights, stage times in steps."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    times: tuple[float, ...]
    order: int

    def growth(self, z: Any) -> Any:
        """The stability function R(z) of du/dt = λu with z = λΔt (array or number)."""
        slopes: list[Any] = []
        for row in self.stages:
            slopes.append(z * (1 + sum(a * k for a, k in zip(row, slopes, strict=True))))
        return 1 + sum(b * k for b, k in zip(self.weights, slopes, strict=True))

    @property
    def matrix(self) -> np.ndarray:
        """The stage weights as a square matrix A."""
        count = len(self.stages)
        return np.array([[*row, *[0.0] * (count - len(row))] for row in self.stages])

    @cached_property
    def wall_coefficients(self) -> tuple[tuple[float, ...], ...]:
        """For each stage the weights of Δtᵏ g⁽ᵏ⁾ in a boundary value g(t): entry k is (Aᵏ1)_i, k < order."""
        return wall_polynomials(self.matrix, max(self.order, 1))


def wall_polynomials(matrix: np.ndarray, count: int) -> tuple[tuple[float, ...], ...]:
    """For each stage of a method with weights A the numbers (Aᵏ1)_i, k < count, without zeros at the end."""
    column, columns = np.ones(len(matrix)), []
    for _ in range(count):
        columns.append(column)
        column = matrix @ column
    rows = [tuple(float(c) for c in row) for row in np.stack(columns, axis=1)]
    return tuple(row[: 1 + max([0, *(k for k, c in enumerate(row) if c)])] for row in rows)


def order_conditions(matrix: np.ndarray, weights: np.ndarray, times: np.ndarray) -> dict[int, list[tuple[str, float]]]:
    """By order, the conditions that a Runge–Kutta method has to meet, as text and how far it is from each.

    Source: Hairer, Nørsett & Wanner, Solving Ordinary Differential Equations I (1993), table II.2.2.
    """
    a, b, c = matrix, weights, times
    wanted = {
        1: [("Σb = 1", b.sum() - 1)],
        2: [("Σbc = 1/2", b @ c - 1 / 2)],
        3: [("Σbc² = 1/3", b @ c**2 - 1 / 3), ("ΣbAc = 1/6", b @ a @ c - 1 / 6)],
        4: [
            ("Σbc³ = 1/4", b @ c**3 - 1 / 4),
            ("ΣbcAc = 1/8", (b * c) @ a @ c - 1 / 8),
            ("ΣbAc² = 1/12", b @ a @ c**2 - 1 / 12),
            ("ΣbAAc = 1/24", b @ a @ a @ c - 1 / 24),
        ],
    }
    return {order: [(text, float(gap)) for text, gap in conditions] for order, conditions in wanted.items()}


class AbstractRungeKutta(AbstractOneStep):
    """An explicit Runge–Kutta method by its tableau: kᵢ = f(tⁿ + cᵢΔt, uⁿ + Δt Σ aᵢⱼkⱼ), uⁿ⁺¹ = uⁿ + Δt Σ bᵢkᵢ."""

    @property
    @abstractmethod
    def tableau(self) -> Tableau:
        """The method's coefficients."""

    @property
    def order(self) -> int:
        return self.tableau.order

    @property
    def evaluations(self) -> int:
        return len(self.tableau.stages)

    def advance(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> Values:
        tableau, slopes = self.tableau, []
        for row, time, wall in zip(tableau.stages, tableau.times, tableau.wall_coefficients, strict=True):
            stage = combine(system, values, [a * length for a in row], slopes) if slopes else values
            walls = Walls(start, tuple(w * length**k for k, w in enumerate(wall)))
            slopes.append(system.rates(stage, start + time * length, walls, part))
        return combine(system, values, [b * length for b in tableau.weights], slopes)

    def amplify(self, modes: Modes) -> np.ndarray:
        return on_eigenvalues(modes, self.tableau.growth)

    def propagator(self, modes: Modes) -> np.ndarray:
        return matrix_growth(self.tableau, modes.total)


def matrix_growth(tableau: Tableau, z: np.ndarray) -> np.ndarray:
    """R(Z) of matrices Z = LΔt."""
    one, slopes = np.eye(z.shape[-1]), []
    for row in tableau.stages:
        slopes.append(z @ sum((a * k for a, k in zip(row, slopes, strict=True)), one + 0 * z))
    return sum((b * k for b, k in zip(tableau.weights, slopes, strict=True)), one + 0 * z)


@dataclass(frozen=True)
class Euler(AbstractRungeKutta):
    """Forward Euler, order 1: uⁿ = uⁿ⁻¹ + Δt f(uⁿ⁻¹). Stable for |1 + λΔt| ≤ 1."""

    @property
    def tableau(self) -> Tableau:
        return Tableau(((),), (1.0,), (0.0,), 1)


@dataclass(frozen=True)
class Heun(AbstractRungeKutta):
    """Heun's method (explicit trapezoid), order 2; source: Hairer, Nørsett & Wanner, Solving ODEs I, II.1."""

    @property
    def tableau(self) -> Tableau:
        return Tableau(((), (1.0,)), (0.5, 0.5), (0.0, 1.0), 2)


@dataclass(frozen=True)
class Midpoint(AbstractRungeKutta):
    """The explicit midpoint rule, order 2; source: Runge 1895; Hairer, Nørsett & Wanner, Solving ODEs I, II.1."""

    @property
    def tableau(self) -> Tableau:
        return Tableau(((), (0.5,)), (0.0, 1.0), (0.0, 0.5), 2)


@dataclass(frozen=True)
class SSPRK3(AbstractRungeKutta):
    """The strong-stability-preserving method of three stages, order 3: each stage is a mean of Euler steps.

    Keeps total variation and positivity wherever forward Euler does, up to the same step; stable to λΔt = −2.513 and
    ±1.732i. Source: Shu & Osher, J. Comput. Phys. 77 (1988) 439. Good values: the CFL number of forward Euler.
    """

    @property
    def tableau(self) -> Tableau:
        return Tableau(((), (1.0,), (0.25, 0.25)), (1 / 6, 1 / 6, 2 / 3), (0.0, 1.0, 0.5), 3)


@dataclass(frozen=True)
class RK4(AbstractRungeKutta):
    """The classical Runge–Kutta method, order 4; source: Kutta 1901. Stable to λΔt = −2.785 and ±2.828i."""

    @property
    def tableau(self) -> Tableau:
        return Tableau(((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.0, 0.5, 0.5, 1.0), 4)


@dataclass(frozen=True)
class RungeKutta(AbstractRungeKutta):
    """Any explicit Runge–Kutta method from its Butcher table.

    Arguments: `stages`, the rows of A below the diagonal, the first one empty; `weights`, b; `times`, c (default: the
    row sums of A, which they must equal); `order`, verified up to 4 against the order conditions (above 4 it is taken
    at your word beyond those; it is at most the number of stages).

    Raises DeclarationError for a table that is not explicit, not consistent, or not of the order claimed.
    """

    stages: Any
    weights: Any
    times: Any = None
    order: int = 1  # type: ignore[assignment]

    def __post_init__(self) -> None:
        stages, weights = _rows(self.stages), _numbers("weights", self.weights)
        sums = tuple(float(sum(row)) for row in stages)
        times = sums if self.times is None else _numbers("times", self.times)
        if [len(row) for row in stages] != list(range(len(stages))):
            raise DeclarationError(
                f"RungeKutta: stages are the rows of A below the diagonal, of lengths 0, 1, 2, …; got rows of lengths "
                f"{', '.join(str(len(row)) for row in stages)}. An explicit stage uses the slopes before it only."
            )
        if not len(stages) == len(weights) == len(times):
            raise DeclarationError(
                f"RungeKutta: {len(stages)} stages want as many weights and times; got {len(weights)} weights and "
                f"{len(times)} times."
            )
        if not np.allclose(times, sums, rtol=0, atol=1e-12):
            raise DeclarationError(
                f"RungeKutta: each time is the sum of its row of A; rows sum to {sums}, got {times}. Leave times= out."
            )
        for name, value in (("stages", stages), ("weights", weights), ("times", times)):
            object.__setattr__(self, name, value)
        check_order(repr(self), self.tableau)

    @property
    def tableau(self) -> Tableau:
        return Tableau(self.stages, self.weights, self.times, self.order)


def check_order(what: str, tableau: Tableau) -> None:
    """Refuses a tableau that does not meet the conditions of its order (those up to 4)."""
    order, count = tableau.order, len(tableau.stages)
    if not isinstance(order, int) or isinstance(order, bool) or not 1 <= order <= count:
        raise DeclarationError(
            f"{what}: order= is a whole number from 1 to the number of stages, {count}; got {order!r}."
        )
    conditions = order_conditions(tableau.matrix, np.array(tableau.weights), np.array(tableau.times))
    for reached in range(1, min(order, 4) + 1):
        for text, gap in conditions[reached]:
            if not abs(gap) < 1e-10:
                raise DeclarationError(
                    f"{what}: order={order} wants {text}, which is missed by {gap:.3g}. "
                    + (f"Give order={reached - 1}, or" if reached > 1 else "Weights add up to 1;")
                    + " correct the coefficients."
                )


def _rows(stages: Any) -> tuple[tuple[float, ...], ...]:
    if not isinstance(stages, Sequence) or not len(stages):
        raise DeclarationError(f"RungeKutta: stages are the rows of A, as in ((), (0.5,)); got {stages!r}.")
    return tuple(_numbers("each row of stages", row) for row in stages)


def _numbers(what: str, values: Any) -> tuple[float, ...]:
    try:
        found = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        found = (np.nan,)
    if not all(np.isfinite(found)):
        raise DeclarationError(f"RungeKutta: {what} are finite numbers, got {values!r}.")
    return found

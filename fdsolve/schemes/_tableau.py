"""Explicit Runge–Kutta steppers for rates, as data."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


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


class AbstractStepper(ABC):
    """A method that takes the rates of a problem over one time step."""

    @property
    @abstractmethod
    def tableau(self) -> Tableau:
        """The method's coefficients."""


@dataclass(frozen=True)
class Euler(AbstractStepper):
    """Forward Euler, order 1: uⁿ = uⁿ⁻¹ + Δt f(uⁿ⁻¹). Stable for |1 + λΔt| ≤ 1."""

    @property
    def tableau(self) -> Tableau:
        return Tableau(((),), (1.0,), (0.0,), 1)


@dataclass(frozen=True)
class Heun(AbstractStepper):
    """Heun's method (explicit trapezoid), order 2; source: Hairer, Nørsett & Wanner, Solving ODEs I, II.1."""

    @property
    def tableau(self) -> Tableau:
        return Tableau(((), (1.0,)), (0.5, 0.5), (0.0, 1.0), 2)


@dataclass(frozen=True)
class RK4(AbstractStepper):
    """The classical Runge–Kutta method, order 4; source: Kutta 1901. Stable to λΔt = −2.785 and ±2.828i."""

    @property
    def tableau(self) -> Tableau:
        return Tableau(((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.0, 0.5, 0.5, 1.0), 4)

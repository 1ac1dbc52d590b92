"""Implicit one-step methods: every stage is a system of equations in its own values."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ._additive import AbstractAdditive, AdditiveTableau, check_solver

_ANGLE = np.arctan(np.sqrt(2) / 4) / 3
GAMMA_2 = float(1 - np.sqrt(1 / 2))
GAMMA_3 = float(1 + np.sqrt(3 / 2) * np.sin(_ANGLE) - np.cos(_ANGLE) / np.sqrt(2))
"""The root 0.43586652… of γ³ − 3γ² + 3γ/2 − 1/6 = 0."""


@dataclass(frozen=True)
class BackwardEuler(AbstractAdditive):
    """uⁿ⁺¹ = uⁿ + Δt f(uⁿ⁺¹, tⁿ⁺¹), order 1, L-stable: whatever decays is damped, however long the step.

    `solver` solves the systems (default: chosen for them). Positive and monotone wherever f is, at any step. Source:
    Hairer & Wanner, Solving Ordinary Differential Equations II, section IV.3. Good values: for steady states, and
    for the first steps after rough data.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        return AdditiveTableau(((1.0,),), 1)


@dataclass(frozen=True)
class Theta(AbstractAdditive):
    """uⁿ⁺¹ = uⁿ + Δt ((1 − θ) f(uⁿ, tⁿ) + θ f(uⁿ⁺¹, tⁿ⁺¹)): order 2 for θ = 1/2, else 1.

    A-stable for θ ≥ 1/2; stiff decay is multiplied by −(1 − θ)/θ a step. Source: Hundsdorfer & Verwer, Numerical
    Solution of Time-Dependent Advection-Diffusion-Reaction Equations (2003), section I.2.3. Good values: θ = 1/2 + Δt
    for order 2 with damping. Raises DeclarationError where θ is not above 0 and at most 1.
    """

    theta: float | int
    solver: Any = None

    def __post_init__(self) -> None:
        check_theta("Theta", self.theta)
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        if self.theta == 1:
            return AdditiveTableau(((1.0,),), 1)
        return AdditiveTableau(((0.0,), (1 - self.theta, self.theta)), 2 if self.theta == 0.5 else 1)


@dataclass(frozen=True)
class CrankNicolson(AbstractAdditive):
    """uⁿ⁺¹ = uⁿ + Δt/2 (f(uⁿ, tⁿ) + f(uⁿ⁺¹, tⁿ⁺¹)), order 2.

    A-stable and neutral on the imaginary axis, but stiff decay is multiplied by −1 a step: rough starts ring, which
    a few steps of BackwardEuler, or SDIRK2, do not. Boundary values in time cost no order. Source: Crank & Nicolson,
    Proc. Camb. Phil. Soc. 43 (1947) 50. Good values: smooth data.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        return AdditiveTableau(((0.0,), (0.5, 0.5)), 2)


@dataclass(frozen=True)
class SDIRK2(AbstractAdditive):
    """Two implicit stages with γ = 1 − 1/√2, order 2, L-stable, stiffly accurate.

    u₁ = uⁿ + γΔt f(u₁), uⁿ⁺¹ = uⁿ + Δt ((1 − γ) f(u₁) + γ f(uⁿ⁺¹)). Source: Alexander, SIAM J. Numer. Anal. 14 (1977)
    1006, theorem 5. Good values: the first choice for diffusion with rough data.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        g = GAMMA_2
        return AdditiveTableau(((g,), (1 - g, g)), 2)


@dataclass(frozen=True)
class SDIRK3(AbstractAdditive):
    """Three implicit stages with γ = 0.43586652…, order 3, L-stable, stiffly accurate.

    Source: Alexander, SIAM J. Numer. Anal. 14 (1977) 1006, theorem 5.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        g = GAMMA_3
        first, second = weights_of_gamma(g)
        return AdditiveTableau(((g,), ((1 - g) / 2, g), (first, second, g)), 3)


def weights_of_gamma(g: float) -> tuple[float, float]:
    """The first two weights of Alexander's method of three stages, whose third is γ."""
    return -1.5 * g * g + 4 * g - 0.25, 1.5 * g * g - 5 * g + 1.25


def check_theta(name: str, theta: Any) -> None:
    """Refuses a share of the new level that makes no implicit method."""
    if isinstance(theta, bool) or not isinstance(theta, int | float) or not 0 < theta <= 1:
        raise DeclarationError(
            f"{name}: theta= is the share of the new level, above 0 and at most 1; got {theta!r}. The share 0 is "
            f"Euler()."
        )

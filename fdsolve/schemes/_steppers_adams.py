"""Adams–Bashforth methods: one evaluation of the rates a step."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ._steppers import AbstractStepper, AbstractSystem, Modes, Outline, Values, check_no_changes, combine
from ._tableau import RK4

_WEIGHTS = {
    2: (3 / 2, -1 / 2),
    3: (23 / 12, -16 / 12, 5 / 12),
    4: (55 / 24, -59 / 24, 37 / 24, -9 / 24),
}


@dataclass(frozen=True)
class AdamsBashforth(AbstractStepper):
    """Adams–Bashforth of order 2, 3 or 4: uⁿ⁺¹ = uⁿ + Δt Σ βₖ f(uⁿ⁻ᵏ); the first steps are taken by RK4.

    Stable on the negative real axis to λΔt = −1, −0.545, −0.3; on the imaginary axis to ±0.724i (order 3) and ±0.43i
    (order 4); order 2 grows there, slowly. Source: Hairer, Nørsett & Wanner, Solving ODEs I, section III.1. Good
    values: order 3 for waves whose rates are dear.
    """

    order: int = 2  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.order not in _WEIGHTS or isinstance(self.order, bool):
            raise DeclarationError(
                f"AdamsBashforth takes an order of 2, 3 or 4, got {self.order!r}. Order 1 is Euler()."
            )

    @property
    def evaluations(self) -> int:
        return 1

    @property
    def starting_steps(self) -> int:
        return self.order - 1

    def bind(self, outline: Outline) -> "AdamsBashforth":
        check_no_changes(self, outline)
        return self

    def begin(self, start: Values) -> Any:
        zero = {name: tuple(0 * box for box in boxes) for name, boxes in start.items()}
        return (zero,) * (self.order - 1)

    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        slopes = (system.rates(system.start, 0.0), *memory)
        return combine(system, system.start, _WEIGHTS[self.order], slopes), slopes[:-1]

    def first_step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        slope = system.rates(system.start, 0.0)
        return RK4().advance(system, system.start), (slope, *memory[:-1])

    def amplify(self, modes: Modes) -> np.ndarray:
        z, weights = modes.eigenvalues, _WEIGHTS[self.order]
        companion = np.zeros((*z.shape, self.order, self.order), complex)
        companion[..., 0, :] = z[..., None] * np.array(weights)
        companion[..., 0, 0] += 1
        companion[..., range(1, self.order), range(self.order - 1)] = 1
        return nearest_first(np.linalg.eigvals(companion), np.exp(z))


def nearest_first(roots: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The roots with the one that stands for the exact growth first."""
    order = np.argsort(np.abs(roots - exact[..., None]), axis=-1)
    return np.take_along_axis(roots, order, axis=-1)

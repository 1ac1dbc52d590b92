"""Leapfrog: three levels, centred in time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DeclarationError, PlanningError
from ._steppers import AbstractStepper, AbstractSystem, Modes, Outline, Values, check_no_changes, combine
from ._steppers_adams import nearest_first
from ._tableau import RK4


@dataclass(frozen=True)
class Leapfrog(AbstractStepper):
    """uⁿ⁺¹ = ūⁿ⁻¹ + 2Δt f(uⁿ), with the Robert–Asselin filter ūⁿ = uⁿ + γ(ūⁿ⁻¹ − 2uⁿ + uⁿ⁺¹), γ = `filter`.

    Order 2 without the filter, 1 with it; the first step is taken by RK4. Neutral for λΔt on the imaginary axis up to
    ±i, unstable for any decay (diffusion) in the rates. Also accepts plain rules that read t-1 and t-2: those are
    two-level schemes already, which it leaves as they stand. Sources: Asselin, Mon. Wea. Rev. 100 (1972) 487;
    Durran, Numerical Methods for Fluid Dynamics (2010), section 2.4. Good values: γ = 0 for waves, 0.01 to 0.1 for
    long nonlinear runs.
    """

    filter: float = 0.0

    def __post_init__(self) -> None:
        value = self.filter
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise DeclarationError(f"Leapfrog: filter= is a number from 0 to below 1, got {value!r}.")

    @property
    def order(self) -> int:
        return 2 if self.filter == 0 else 1

    @property
    def evaluations(self) -> int:
        return 1

    @property
    def starting_steps(self) -> int:
        return 1

    def bind(self, outline: Outline) -> "Leapfrog":
        check_no_changes(self, outline)
        if outline.absorbing:
            raise PlanningError(
                f"Leapfrog amplifies whatever decays, and {outline.absorbing} stands in an absorbing layer. Take "
                f"StormerVerlet, RK4, or plain rules that read t-1 and t-2."
            )
        return self

    def describe_plain(self, reads: Sequence[tuple[str, frozenset[int]]]) -> str:
        return check_two_levels("Leapfrog", reads)

    def begin(self, start: Values) -> Any:
        return {name: tuple(0 * box for box in boxes) for name, boxes in start.items()}

    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        new = combine(system, memory, [2.0], [system.rates(system.start, 0.0)])
        return new, self._filtered(memory, system.start, new)

    def first_step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        return RK4().advance(system, system.start), system.start

    @property
    def steps_back(self) -> bool:
        return self.filter == 0

    def step_back(
        self, system: AbstractSystem, memory: Any, at: Callable[[Values], AbstractSystem]
    ) -> tuple[AbstractSystem, Any]:
        before = at(memory)
        return before, combine(before, system.start, [-2.0], [before.rates(before.start, 0.0)])

    def _filtered(self, old: Values, here: Values, new: Values) -> Values:
        if not self.filter:
            return here
        return {
            name: tuple(
                b + np.asarray(self.filter, b.real.dtype) * (a - 2 * b + c)
                for a, b, c in zip(old[name], boxes, new[name], strict=True)
            )
            for name, boxes in here.items()
        }

    def amplify(self, modes: Modes) -> np.ndarray:
        # The pair (uⁿ, ūⁿ⁻¹) goes to (ūⁿ⁻¹ + 2zuⁿ, uⁿ + γ(ūⁿ⁻¹ − 2uⁿ + uⁿ⁺¹)).
        z, gamma = modes.eigenvalues, self.filter
        pair = np.zeros((*z.shape, 2, 2), complex)
        pair[..., 0, 0], pair[..., 0, 1] = 2 * z, 1
        pair[..., 1, 0], pair[..., 1, 1] = 1 - 2 * gamma + 2 * gamma * z, 2 * gamma
        return nearest_first(np.linalg.eigvals(pair), np.exp(z))


def check_two_levels(name: str, reads: Sequence[tuple[str, frozenset[int]]]) -> str:
    """Refuses plain rules that are no two-level scheme, and says in words that they are one."""
    fits = [label for label, levels in reads if min(levels, default=0) == -2 and -1 in levels]
    if fits and all(min(levels, default=0) >= -2 for _, levels in reads):
        return f"{name}: {fits[0]} reads t-1 and t-2, a two-level scheme already; it runs as it stands"
    label, levels = min(reads, key=lambda one: min(one[1], default=0), default=("no rule", frozenset()))
    read = ", ".join(f"t{level}" for level in sorted(levels) if level < 0) or "no older level"
    raise PlanningError(
        f"{name} takes rates (fd.rate), or plain rules that read t-1 and t-2; {label} reads {read}. Give du/dt as "
        f"fd.rate(...), or leave stepper= out."
    )

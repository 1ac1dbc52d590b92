"""Sub-steps: each level is reached in as many steps as a CFL number asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import DeclarationError
from ._steppers import AbstractOneStep, AbstractStepper, AbstractSystem, Modes, NoGrowth, Outline, Values
from ._tableau import RK4


@dataclass(frozen=True)
class CFL(AbstractStepper):
    """Sub-steps of a level such that Σ_i |a_i| δt/Δx_i ≤ `number`, for the state at the start of the level.

    Arguments: `number`, the Courant number of a sub-step; `stepper`, the one-step method that takes them (default
    RK4); `speed`, the propagation speed as a rule (units of length over time), for all axes or by axis as in
    `speed=dict(x=lambda u: abs(u[...]), y=1.0)`; `max_substeps`, how many a level may take.

    Without `speed` it is estimated from the rates linearised about the state: the first moment Σ w·offset of their
    weights, which is a_i/Δx_i for every consistent scheme (several fields: a bound of the spectral radius of the
    moments; diffusion has none, and sources of a field do not count); rates that read what an operation computed
    beforehand (the fluxes of `conservation`, compact derivatives) are refused then. The number of sub-steps is one for
    the whole grid and carries no gradient; all `max_substeps` are laid out, those not needed are skipped, so that
    reverse mode works. A run that would need more raises RunError, naming the level. Good values: number 0.5 to 1 with
    RK4.
    """

    number: float
    stepper: Any = None
    speed: Any = None
    max_substeps: int = 64
    declared: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.number, bool) or not isinstance(self.number, int | float) or not 0 < self.number < np.inf:
            raise DeclarationError(f"CFL takes a Courant number above 0, got {self.number!r}.")
        count = self.max_substeps
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DeclarationError(f"CFL: max_substeps= is a whole number of at least 1, got {count!r}.")
        if self.stepper is not None and not isinstance(self.stepper, AbstractOneStep):
            raise DeclarationError(
                f"CFL: stepper= takes a one-step method such as fd.schemes.RK4(), got {self.stepper!r}. Sub-steps vary "
                f"in length, which methods with a memory cannot follow."
            )
        if self.stepper is not None and self.stepper.solves:
            raise DeclarationError(
                f"CFL: {self.stepper!r} solves systems of equations, and sub-steps serve methods that are held down by "
                f"stability. Give it to stepper= by itself, with as many time levels as accuracy asks for."
            )
        rules = self.speed.values() if isinstance(self.speed, Mapping) else [self.speed]
        for rule in rules:
            if rule is not None and not callable(rule) and not isinstance(rule, int | float):
                raise DeclarationError(
                    f"CFL: speed= takes a rule or a number, or a dict of them by axis; got {rule!r}."
                )
        if isinstance(self.speed, Mapping):
            object.__setattr__(self, "speed", tuple(self.speed.items()))
        object.__setattr__(self, "stepper", self.stepper or RK4())

    @property
    def order(self) -> int:
        return self.stepper.order

    @property
    def evaluations(self) -> int:
        return self.stepper.evaluations * self.max_substeps

    @property
    def speed_rules(self) -> dict[str, Any]:
        if self.speed is None:
            return {}
        return dict(self.speed) if isinstance(self.speed, tuple) else {"": self.speed}

    @property
    def estimates_speed(self) -> bool:
        return self.speed is None and not self.declared

    def check_axes(self, axes: Sequence[str]) -> None:
        for axis in self.speed_rules:
            if axis and axis not in axes:
                raise DeclarationError(
                    f"CFL: speed= names the axis `{axis}`; the space axes are {', '.join(axes)}. Name one of these."
                )

    def bind(self, outline: Outline) -> "CFL":
        # Functions are traced by now: a new one of the same rule must not mean a new program.
        return replace(self, stepper=self.stepper.bind(outline), speed=None, declared=self.speed is not None)

    def begin(self, start: Values) -> Any:
        return jnp.asarray(-1, jnp.int32)

    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        real = system.step.dtype
        courant = lax.stop_gradient(system.speeds(system.start, 0.0)).astype(real)
        wanted = jnp.ceil(courant / np.asarray(self.number, real) * np.asarray(1 - 1e-9, real))
        # nan counts as too many; the run is reported, and what it gives is not finite anyway.
        fits = wanted <= self.max_substeps
        count = jnp.maximum(jnp.where(fits, wanted, jnp.asarray(self.max_substeps, real)), jnp.ones((), real))

        def body(values: Values, index: Any) -> tuple[Values, None]:
            def advance(held: Values) -> Values:
                return self.stepper.advance(system, held, index / count, 1 / count)

            return lax.cond(index < count, advance, lambda held: held, values), None

        if self.max_substeps == 1:
            values = self.stepper.advance(system, system.start)
        else:
            indices = jnp.arange(self.max_substeps, dtype=real)
            values, _ = lax.scan(body, system.start, indices)
        failed = jnp.where((memory < 0) & ~fits, jnp.asarray(system.number, jnp.int32), memory)
        return values, failed

    def report(self, memory: Any) -> Any:
        return memory

    def explain(self, level: int, time: float) -> str:
        return (
            f"fd.CFL({self.number}) needs more than max_substeps={self.max_substeps} sub-steps to reach level {level}, "
            f"t = {time:g}. Take more time levels, or a larger max_substeps; if the speed grows without bound, the run "
            f"is unstable."
        )

    def amplify(self, modes: Modes) -> np.ndarray | NoGrowth:
        if self.declared:
            return NoGrowth("fd.CFL sub-steps by a speed of the state")
        count = np.maximum(1, np.ceil(modes.courant / self.number * (1 - 1e-9)))
        found = self.stepper.amplify(modes.scaled(1 / count))
        if isinstance(found, NoGrowth):
            return found
        return found ** count.reshape(count.shape + (1,) * (found.ndim - count.ndim))

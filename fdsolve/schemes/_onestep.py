"""Fluxes that take the whole time step: Lax–Wendroff, and its flux-limited form of Sweby."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import PlanningError
from ..views import AbstractContext, AbstractView, Shift
from ._faces import at_place, face_velocity, pick_upwind
from ._reconstruction import HALF, along, times


@dataclass(frozen=True)
class LaxWendroff:
    """F = ½(f_L + f_R) − ½Δt c ∇·(c u): order 2 in time and space in one step, for plain rules.

    `u[...] = lambda u, c, dt: u["t-1"] - dt * convection(c, u, scheme=LaxWendroff(), at="t-1")[...]`

    Along several axes it has the cross terms. Dispersive: waves trail behind jumps. Stable for |c|Δt/Δx ≤ 1 along one
    axis, Σ|ν|^(2/3) ≤ 1 along several (Turkel, J. Comput. Phys. 15 (1974) 226); good values: ν of 0.5 to 1.
    `limiter` gives the flux-limited form, F = f_up + ½ s(1 − |ν|) limiter(Δf, Δf_up), s the sign of c: use
    `TVD(limiter)` for that. Sources: Lax & Wendroff, Comm. Pure Appl. Math. 13 (1960) 217; Sweby, SIAM J. Numer. Anal.
    21 (1984) 995. Velocities at points or constant; on faces the order in time is 1 where they vary.
    """

    limiter: Callable[[Any, Any], Any] | None = field(default=None)


@dataclass(frozen=True, eq=False, repr=False)
class OneStepFlux(AbstractView):
    """The flux of a time step through the faces of an axis."""

    velocities: Mapping[str, Any]
    view: AbstractView
    axis: str
    limiter: Callable[[Any, Any], Any] | None

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        velocity = face_velocity(self.velocities[self.axis], self.view, self.axis, shift)
        lower, upper = (self._flux(velocity, shift, side * HALF) for side in (-1, 1))
        number = times(velocity, times(self._step(), self._inverse_distance(shift)))
        jump = upper - lower
        if self.limiter is None:
            return 0.5 * (lower + upper) - 0.5 * times(number, jump) - self._cross(velocity, shift)
        below = lower - self._flux(velocity, shift, -3 * HALF)
        above = self._flux(velocity, shift, 3 * HALF) - upper
        limited = pick_upwind(velocity, self.limiter(jump, below), self.limiter(jump, above))
        sign = jnp.sign(velocity)
        return pick_upwind(velocity, lower, upper) + 0.5 * times(sign - number, limited)

    def _flux(self, velocity: Any, face: Shift, offset: Fraction) -> Any:
        """c u at a point beside a face; c from the point where it lives there, else from the face."""
        place = along(self.context, face, self.axis, offset)
        own = self.velocities[self.axis]
        if isinstance(own, AbstractView) and own.parity(self.axis) in (None, self.view.parity(self.axis)):
            velocity = at_place(own, place)
        return times(velocity, self.view.value(place))

    def _cross(self, velocity: Any, face: Shift) -> Any:
        """½Δt c times the divergence of the fluxes along the other axes, by central differences on both sides."""
        total: Any = 0.0
        for axis, other in self.velocities.items():
            if axis == self.axis:
                continue
            slopes = []
            for side in (-1, 1):
                point = along(self.context, face, self.axis, side * HALF)
                ends = []
                for way in (-1, 1):
                    place = along(self.context, point, axis, Fraction(way))
                    carrier = at_place(other, place) if isinstance(other, AbstractView) else other
                    self.context.note_shifted_constant(carrier if not isinstance(other, AbstractView) else None)
                    ends.append(times(carrier, self.view.value(place)))
                weight = self.context.read_weight(axis, 1, (-1.0, 1.0), 1, point)
                slopes.append(times(weight, ends[1] - ends[0]))
            total = total + times(times(0.25 * self._step(), velocity), slopes[0] + slopes[1])
        return total

    def _inverse_distance(self, face: Shift) -> Any:
        return self.context.read_weight(self.axis, 1, (-0.5, 0.5), 1, face)

    def _step(self) -> float:
        time = self.context.grid.time
        if time is None:
            raise PlanningError(
                f"{self.context.what}: the flux of a time step wants a grid with time: fd.Grid(t=fd.Time(…), …)."
            )
        return float(time.step)

    def parity(self, axis: str) -> int | None:
        own = self.view.parity(axis)
        return 1 - own if axis == self.axis and own is not None else own

    def __repr__(self) -> str:
        return f"flux of {self.view} along {self.axis} over a time step"

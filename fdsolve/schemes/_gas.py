"""The Euler equations of an ideal gas."""

from dataclasses import dataclass
from typing import Any

from jax.core import Tracer

from ..errors import DeclarationError
from ._laws import AbstractContactLaw, AbstractPrimitiveLaw, State, Wave
from ._values import least, most, safe_divide, safe_sqrt


@dataclass(frozen=True, eq=False)
class IdealGas(AbstractPrimitiveLaw, AbstractContactLaw):
    """The Euler equations on one to three axes: density ρ, momentum ρu (one a space axis), energy E.

    ∂ρ/∂t + ∇·(ρu) = 0, ∂(ρu)/∂t + ∇·(ρu⊗u + p) = 0, ∂E/∂t + ∇·((E + p)u) = 0, p = (γ − 1)(E − ½ρ|u|²).
    Primitive variables: ρ, u, p. `gamma` γ > 1, the ratio of specific heats, a number or a parameter of the rule; good
    values: 1.4 for air, 5/3 for a monatomic gas. Finite, with finite derivatives, for vacuum.
    Source: Toro, Riemann Solvers and Numerical Methods for Fluid Dynamics (2009), chapters 3, 10 and 11.

    >>> gas = IdealGas(1.4)
    >>> [float(v) for v in gas.to_conservative((1.0, 2.0, 0.4))]
    [1.0, 2.0, 3.0]
    """

    gamma: Any = 1.4

    def __post_init__(self) -> None:
        if isinstance(self.gamma, str | bool) or (not isinstance(self.gamma, Tracer) and not float(self.gamma) > 1):
            raise DeclarationError(f"IdealGas(gamma): the ratio of specific heats is above 1, got {self.gamma!r}.")

    def names(self, num_axes: int) -> tuple[str, ...]:
        return ("density", *(f"momentum {n + 1}" for n in range(num_axes)), "energy")

    def to_primitive(self, state: State) -> State:
        density, *momentum, energy = state
        velocity = [safe_divide(m, density) for m in momentum]
        kinetic = sum(0.5 * m * v for m, v in zip(momentum, velocity, strict=True))
        return (density, *velocity, (self.gamma - 1) * (energy - kinetic))

    def to_conservative(self, primitive: State) -> State:
        density, *velocity, pressure = primitive
        momentum = [density * v for v in velocity]
        kinetic = sum(0.5 * m * v for m, v in zip(momentum, velocity, strict=True))
        return (density, *momentum, pressure / (self.gamma - 1) + kinetic)

    def positive(self, primitive: State) -> State:
        return primitive[0], primitive[-1]

    def flux(self, state: State, axis: int) -> State:
        _, *velocity, pressure = self.to_primitive(state)
        flow = velocity[axis]
        carried = [q * flow for q in state]
        carried[1 + axis] = carried[1 + axis] + pressure
        carried[-1] = carried[-1] + pressure * flow
        return tuple(carried)

    def speeds(self, state: State, axis: int) -> tuple[Any, Any]:
        density, *velocity, pressure = self.to_primitive(state)
        sound = safe_sqrt(self.gamma * safe_divide(pressure, density))
        return velocity[axis] - sound, velocity[axis] + sound

    def bounds(self, left: State, right: State, axis: int) -> tuple[Any, Any]:
        """Einfeldt's, SIAM J. Numer. Anal. 25 (1988) 294: they keep density and pressure positive."""
        _, velocity, _, sound = self._mean(left, right)
        slowest, fastest = self.speeds(left, axis)[0], self.speeds(right, axis)[1]
        return least(slowest, velocity[axis] - sound), most(fastest, velocity[axis] + sound)

    def _mean(self, left: State, right: State) -> tuple[Any, list[Any], Any, Any]:
        """Roe's mean density, velocity, total enthalpy and sound speed (Toro, equation 11.60)."""
        roots = safe_sqrt(left[0]), safe_sqrt(right[0])
        total, sides = roots[0] + roots[1], (self.to_primitive(left), self.to_primitive(right))

        def mean(a: Any, b: Any) -> Any:
            return safe_divide(roots[0] * a + roots[1] * b, total)

        velocity = [mean(a, b) for a, b in zip(sides[0][1:-1], sides[1][1:-1], strict=True)]
        heat = mean(*(safe_divide(q[-1] + w[-1], q[0]) for q, w in zip((left, right), sides, strict=True)))
        sound = safe_sqrt((self.gamma - 1) * (heat - sum(0.5 * v * v for v in velocity)))
        return roots[0] * roots[1], velocity, heat, sound

    def waves(self, left: State, right: State, axis: int) -> tuple[Wave, ...]:
        """Toro, equations 11.59 and 11.68 to 11.70; the shear waves and the contact move together as one."""
        density, velocity, heat, sound = self._mean(left, right)
        low, high = self.to_primitive(left), self.to_primitive(right)
        jump = [b - a for a, b in zip(low, high, strict=True)]
        flow, square = velocity[axis], sound * sound
        weak, strong = jump[-1], density * sound * jump[1 + axis]
        acoustic = [safe_divide(weak - strong, 2 * square), safe_divide(weak + strong, 2 * square)]
        entropy = jump[0] - safe_divide(weak, square)

        def sound_wave(strength: Any, sign: int) -> State:
            moved = [v + sign * sound if n == axis else v for n, v in enumerate(velocity)]
            return (strength, *(strength * v for v in moved), strength * (heat + sign * flow * sound))

        shear = [0.0 if n == axis else density * jump[1 + n] for n in range(len(velocity))]
        contact = (
            entropy,
            *(entropy * v + s for v, s in zip(velocity, shear, strict=True)),
            sum(0.5 * entropy * v * v + v * s for v, s in zip(velocity, shear, strict=True)),
        )
        ends = self.speeds(left, axis), self.speeds(right, axis)
        return (
            Wave(flow - sound, sound_wave(acoustic[0], -1), ends[0][0], ends[1][0]),
            Wave(flow, contact),
            Wave(flow + sound, sound_wave(acoustic[1], 1), ends[0][1], ends[1][1]),
        )

    def contact(self, left: State, right: State, slowest: Any, fastest: Any, axis: int) -> tuple[Any, State, State]:
        """Toro, equations 10.37 and 10.39."""
        (low, high), gaps = (self.to_primitive(left), self.to_primitive(right)), []
        for primitive, outer in ((low, slowest), (high, fastest)):
            gaps.append(outer - primitive[1 + axis])
        inflow = low[0] * gaps[0], high[0] * gaps[1]
        push = high[-1] - low[-1] + inflow[0] * low[1 + axis] - inflow[1] * high[1 + axis]
        speed = safe_divide(push, inflow[0] - inflow[1])
        stars = []
        for state, primitive, outer, gap in ((left, low, slowest, gaps[0]), (right, high, fastest, gaps[1])):
            squeeze = safe_divide(gap, outer - speed)
            density, lag = squeeze * primitive[0], speed - primitive[1 + axis]
            momentum = [density * (speed if n == axis else v) for n, v in enumerate(primitive[1:-1])]
            energy = squeeze * (state[-1] + lag * (primitive[0] * speed + safe_divide(primitive[-1], gap)))
            stars.append((density, *momentum, energy))
        return speed, stars[0], stars[1]

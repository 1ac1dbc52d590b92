"""The shallow-water equations."""

from dataclasses import dataclass
from typing import Any

from jax.core import Tracer

from ..errors import DeclarationError
from ._laws import AbstractContactLaw, AbstractPrimitiveLaw, State, Wave
from ._values import choose, least, most, safe_divide, safe_sqrt


@dataclass(frozen=True, eq=False)
class ShallowWater(AbstractPrimitiveLaw, AbstractContactLaw):
    """Shallow water over a level bed on one or two axes: depth h and momentum hu (one a space axis).

    ∂h/∂t + ∇·(hu) = 0, ∂(hu)/∂t + ∇·(hu⊗u + ½gh²) = 0. Primitive variables: h, u. `g` > 0: gravity, a number or a
    parameter of the rule; good values: 9.81 m/s², or 1 without units. Dry beds, h = 0, have velocity 0, and all
    derivatives there are finite. Source: Toro, Shock-Capturing Methods for Free-Surface Shallow Flows (2001).

    >>> [float(v) for v in ShallowWater(1.0).flux((2.0, 4.0), 0)]
    [4.0, 10.0]
    """

    g: Any = 9.81

    def __post_init__(self) -> None:
        if isinstance(self.g, str | bool) or (not isinstance(self.g, Tracer) and not float(self.g) > 0):
            raise DeclarationError(f"ShallowWater(g): gravity is positive, got {self.g!r}.")

    def names(self, num_axes: int) -> tuple[str, ...]:
        return ("depth", *(f"momentum {n + 1}" for n in range(num_axes)))

    def to_primitive(self, state: State) -> State:
        depth, *momentum = state
        return (depth, *(safe_divide(choose(depth > 0, m, 0 * m), depth) for m in momentum))

    def to_conservative(self, primitive: State) -> State:
        depth, *velocity = primitive
        return (depth, *(depth * v for v in velocity))

    def positive(self, primitive: State) -> State:
        return primitive[:1]

    def flux(self, state: State, axis: int) -> State:
        depth, *velocity = self.to_primitive(state)
        carried = [q * velocity[axis] for q in state]
        carried[1 + axis] = carried[1 + axis] + 0.5 * self.g * depth * depth
        return tuple(carried)

    def speeds(self, state: State, axis: int) -> tuple[Any, Any]:
        depth, *velocity = self.to_primitive(state)
        wave = safe_sqrt(self.g * depth)
        return velocity[axis] - wave, velocity[axis] + wave

    def bounds(self, left: State, right: State, axis: int) -> tuple[Any, Any]:
        """Einfeldt's with Roe's mean; beside a dry bed the speed of the front, u ± 2√(gh) (Toro, section 10.3.3)."""
        velocity, wave = self._mean(left, right)
        slowest, fastest = velocity[axis] - wave, velocity[axis] + wave
        (low, low_wave), (high, high_wave) = (self._front(state, axis) for state in (left, right))
        slowest = choose(left[0] > 0, least(low - low_wave, slowest), high - 2 * high_wave)
        fastest = choose(right[0] > 0, most(high + high_wave, fastest), low + 2 * low_wave)
        return slowest, fastest

    def _front(self, state: State, axis: int) -> tuple[Any, Any]:
        return self.to_primitive(state)[1 + axis], safe_sqrt(self.g * state[0])

    def _mean(self, left: State, right: State) -> tuple[list[Any], Any]:
        """Roe's mean velocity and wave speed."""
        roots = safe_sqrt(left[0]), safe_sqrt(right[0])
        pairs = zip(self.to_primitive(left)[1:], self.to_primitive(right)[1:], strict=True)
        velocity = [safe_divide(roots[0] * a + roots[1] * b, roots[0] + roots[1]) for a, b in pairs]
        return velocity, safe_sqrt(0.5 * self.g * (left[0] + right[0]))

    def waves(self, left: State, right: State, axis: int) -> tuple[Wave, ...]:
        """Toro, section 11.2; not for dry beds."""
        velocity, wave = self._mean(left, right)
        flow, jump = velocity[axis], [b - a for a, b in zip(left, right, strict=True)]
        excess = safe_divide(jump[1 + axis] - flow * jump[0], wave)

        def gravity_wave(sign: int) -> State:
            strength = 0.5 * (jump[0] + sign * excess)
            return (strength, *(strength * (v + sign * wave if n == axis else v) for n, v in enumerate(velocity)))

        shear = [0 * flow if n == axis else jump[1 + n] - v * jump[0] for n, v in enumerate(velocity)]
        ends = self.speeds(left, axis), self.speeds(right, axis)
        return (
            Wave(flow - wave, gravity_wave(-1), ends[0][0], ends[1][0]),
            Wave(flow, (0 * flow, *shear)),
            Wave(flow + wave, gravity_wave(1), ends[0][1], ends[1][1]),
        )

    def contact(self, left: State, right: State, slowest: Any, fastest: Any, axis: int) -> tuple[Any, State, State]:
        """Toro, equations 10.22 and 10.27."""
        low, high = self.to_primitive(left), self.to_primitive(right)
        inflow = low[0] * (slowest - low[1 + axis]), high[0] * (fastest - high[1 + axis])
        speed = safe_divide(slowest * inflow[1] - fastest * inflow[0], inflow[1] - inflow[0])
        stars = []
        for primitive, outer, gain in ((low, slowest, inflow[0]), (high, fastest, inflow[1])):
            depth = safe_divide(gain, outer - speed)
            stars.append((depth, *(depth * (speed if n == axis else v) for n, v in enumerate(primitive[1:]))))
        return speed, stars[0], stars[1]

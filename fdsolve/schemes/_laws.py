"""Conservation laws ∂q/∂t + ∇·F(q) = 0: what a numerical flux asks of them.

States are tuples of values, one a conserved quantity, in the order of `names`; `axis` is the number of the axis among
those of space. A law of one's own subclasses `AbstractConservationLaw`; further classes add what sharper fluxes use.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ._values import choose, least, most, safe_divide

State = tuple[Any, ...]


class AbstractConservationLaw(ABC):
    """A law by its flux and the range of its wave speeds."""

    scalars: ClassVar[bool] = False
    """Whether all its quantities are scalars; the components of vectors turn along curvilinear axes."""

    @abstractmethod
    def names(self, num_axes: int) -> tuple[str, ...]:
        """What is conserved on so many axes, one name a field, in order."""

    @abstractmethod
    def flux(self, state: State, axis: int) -> State:
        """The flux of each quantity along an axis."""

    @abstractmethod
    def speeds(self, state: State, axis: int) -> tuple[Any, Any]:
        """The slowest and the fastest wave speed along an axis."""


class AbstractPrimitiveLaw(AbstractConservationLaw):
    """A law whose states are reconstructed in other (primitive) variables, such as density, velocity and pressure."""

    @abstractmethod
    def to_primitive(self, state: State) -> State:
        """The primitive variables of conserved quantities; finite for vacuum too."""

    @abstractmethod
    def to_conservative(self, primitive: State) -> State:
        """The conserved quantities of primitive variables."""

    @abstractmethod
    def positive(self, primitive: State) -> State:
        """What must stay positive: density and pressure, depth. Where it nearly vanishes faces take the first order."""


class AbstractRoeLaw(AbstractConservationLaw):
    """A law with Roe's linearisation between two states."""

    @abstractmethod
    def bounds(self, left: State, right: State, axis: int) -> tuple[Any, Any]:
        """Bounds of the wave speeds that leave the jump between two states."""

    @abstractmethod
    def waves(self, left: State, right: State, axis: int) -> "tuple[Wave, ...]":
        """The jump split into waves: Σ jump = right − left, Σ speed·jump = F(right) − F(left)."""


class AbstractContactLaw(AbstractRoeLaw):
    """A law with a contact wave between two states, as the HLLC flux resolves."""

    @abstractmethod
    def contact(self, left: State, right: State, slowest: Any, fastest: Any, axis: int) -> tuple[Any, State, State]:
        """The speed of the contact, and the states on its left and right, between the outer waves."""


@dataclass(frozen=True, eq=False)
class Wave:
    """One wave of a jump: its speed and its part of the jump; its speeds on both sides where it is no contact."""

    speed: Any
    jump: State
    left: Any = None
    right: Any = None


@dataclass(frozen=True, eq=False)
class ScalarLaw(AbstractRoeLaw):
    """One quantity with a flux function an axis; wave speeds are its derivative, taken by JAX."""

    scalars = True

    functions: tuple[Callable[[Any], Any], ...]

    def names(self, num_axes: int) -> tuple[str, ...]:
        return ("the quantity",)

    def flux(self, state: State, axis: int) -> State:
        return (self.functions[axis](state[0]),)

    def speeds(self, state: State, axis: int) -> tuple[Any, Any]:
        speed = self.slope(state[0], axis)
        return speed, speed

    def bounds(self, left: State, right: State, axis: int) -> tuple[Any, Any]:
        speeds = [self.slope(left[0], axis), self._secant(left, right, axis), self.slope(right[0], axis)]
        return (
            least(least(speeds[0], speeds[1]), speeds[2]),
            most(most(speeds[0], speeds[1]), speeds[2]),
        )

    def waves(self, left: State, right: State, axis: int) -> tuple[Wave, ...]:
        ends = self.slope(left[0], axis), self.slope(right[0], axis)
        return (Wave(self._secant(left, right, axis), (right[0] - left[0],), *ends),)

    def slope(self, value: Any, axis: int) -> Any:
        """f′ at a value."""
        return jax.jvp(self.functions[axis], (value,), (jnp.ones_like(value),))[1]

    def _secant(self, left: State, right: State, axis: int) -> Any:
        """(f(r) − f(l))/(r − l); of what differs so little that rounding would be more than the square of that, the
        slope between both."""
        (low,), (high,) = left, right
        jump, rise = high - low, self.flux(right, axis)[0] - self.flux(left, axis)[0]
        near = abs(jump) <= float(jnp.finfo(jump.dtype).eps) ** (1 / 3) * (abs(low) + abs(high))
        return choose(near, self.slope(0.5 * (low + high), axis), safe_divide(rise, jump))


def scalar_law(flux: Any, space: tuple[str, ...]) -> ScalarLaw | None:
    """The law of a flux function on one axis, or of one an axis; None for what is neither."""
    if callable(flux) and len(space) == 1:
        return ScalarLaw((flux,))
    parts: Any = [flux.get(axis) for axis in space] if isinstance(flux, Mapping) else flux
    if isinstance(flux, Mapping) and set(flux) != set(space):
        return None
    if isinstance(parts, tuple | list) and len(parts) == len(space) and all(map(callable, parts)):
        return ScalarLaw(tuple(parts))
    return None

"""Open ends: extrapolation, and radiation with a given or a measured phase speed."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..field import AbstractCondition, AbstractEvolving, AbstractWall, check_coefficient, own
from ._polynomial import combine, lagrange
from ._show import show

_RADIATION_ORDER = 4
"""Order of the one-sided ∂u/∂n that carries ghost points under steppers; its error sets the reflection."""
_TINY = 1e-30
"""A slope below which a phase speed has no meaning."""


@dataclass(frozen=True, eq=False)
class Extrapolate(AbstractCondition):
    """Ghost values from the polynomial of degree `order` − 1 through the `order` points next to the wall.

    `Extrapolate(1)` repeats the outermost value, `Extrapolate(2)` continues the line; the error is O(Δxᵒʳᵈᵉʳ). The rule
    below stays in force, also on the wall. By position on stretched axes.

    Good values: the order of the scheme, at an outflow, where nothing may be prescribed; lower orders damp more. At an
    inflow, or for u_t = u_xx, the problem would be left without a boundary value.
    """

    order: int

    def __post_init__(self) -> None:
        if isinstance(self.order, bool) or not isinstance(self.order, int | np.integer) or self.order < 1:
            raise DeclarationError(
                f"Extrapolate takes an order, a whole number of at least 1; got {self.order!r}. It is the number of "
                f"points the polynomial goes through."
            )

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return ()

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        if self.order == 1:
            return wall.interior(0)
        (ghost,) = wall.depths(-wall.layer, 1 - wall.layer)
        factors = lagrange(wall.depths(0, self.order), ghost)
        return combine(factors, [wall.interior(index) for index in range(self.order)])

    def __repr__(self) -> str:
        return f"Extrapolate({self.order})"


@dataclass(frozen=True, eq=False)
class Outflow(AbstractEvolving):
    """What leaves does not come back: zero gradient, or with `speed=c` radiation, ∂u/∂t + c ∂u/∂n = 0.

    `Outflow()` repeats the outermost value beyond the wall (LeVeque, Finite Volume Methods (2002), section 7.2.1).

    `Outflow(speed=c)` is the first-order Engquist–Majda condition, Sommerfeld's in one dimension: exact for waves of
    speed c at normal incidence, a reflection (1 − cos θ)/(1 + cos θ) at the angle θ. The rule below stays in force, and
    the ghost points it reads obey the equation. In plain rules by the box scheme, centred between the levels and
    between a ghost point and its neighbour inwards,

        uₖⁿ = uₖ₋₁ⁿ⁻¹ + (cΔt − h)/(cΔt + h) · (uₖ₋₁ⁿ − uₖⁿ⁻¹),

    k counted outwards (Mur, IEEE Trans. EMC 23 (1981) 377, eq. 15); under a stepper each ghost point has the
    rate −c ∂u/∂n, one-sided, at every stage. At the first level the ghosts are extrapolated.

    Good values: `speed` the phase speed at the wall (a number, an array along the wall, or a function of coordinates,
    time, parameters and state), positive outwards; c Δt/Δx up to 1 with RK4.
    Source: Engquist & Majda, Math. Comp. 31 (1977) 629.
    """

    speed: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.speed is not None:
            check_coefficient(self.speed, repr(self))
            object.__setattr__(self, "speed", own(self.speed))

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return () if self.speed is None else (self.speed,)

    @property
    def evolves(self) -> bool:
        return self.speed is not None

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        if not coefficients:
            return wall.interior(0)
        if not wall.remembers:
            return _first_guess(wall)
        (speed,) = coefficients
        inner, ghost = 1 - wall.layer, -wall.layer
        here, there = wall.depths(ghost, ghost + 2)
        moved = speed * wall.time_step()
        ratio = (moved - (there - here)) / (moved + (there - here))
        return wall.interior(inner, 1) + ratio * (wall.interior(inner) - wall.interior(ghost, 1))

    def ghost_rate(self, wall: AbstractWall, *coefficients: Any) -> Any:
        (speed,) = coefficients
        return -speed * _outward_slope(wall)

    def __repr__(self) -> str:
        return "Outflow()" if self.speed is None else f"Outflow(speed={show(self.speed)})"


@dataclass(frozen=True, eq=False)
class Orlanski(AbstractEvolving):
    """∂u/∂t + C ∂u/∂n = 0 beyond the wall, with the phase speed C measured inside it and clipped to [0, h/Δt].

    In plain rules r = CΔt/h is measured from the two points next inwards and the ghost moved by it,

        r = −(uₖ₋₁ⁿ − uₖ₋₁ⁿ⁻¹)/(uₖ₋₁ⁿ⁻¹ − uₖ₋₂ⁿ⁻¹),   uₖⁿ = uₖⁿ⁻¹ − r (uₖⁿ⁻¹ − uₖ₋₁ⁿ⁻¹),

    k counted outwards (Miller & Thorpe, Q. J. R. Meteorol. Soc. 107 (1981) 615, for Orlanski, J. Comput. Phys. 21
    (1976) 251). Under a stepper C = −u_t/u_n at the point next to the wall, with u_t from the field's own rate, at
    every stage.

    Good values: dispersive waves and flows whose phase speed is not known; where it is, `Outflow(speed=c)` reflects
    less.
    """

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return ()

    @property
    def evolves(self) -> bool:
        return True

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        if not wall.remembers:
            return _first_guess(wall)
        outer, inner = 1 - wall.layer, 2 - wall.layer
        own, near, far = wall.depths(-wall.layer, 3 - wall.layer)
        change = wall.interior(outer, 1) - wall.interior(outer)
        steepness = (wall.interior(outer, 1) - wall.interior(inner, 1)) * ((near - own) / (far - near))
        share = jnp.clip(_ratio(change, steepness), 0, 1)
        return wall.interior(-wall.layer, 1) - share * (wall.interior(-wall.layer, 1) - wall.interior(outer, 1))

    def ghost_rate(self, wall: AbstractWall, *coefficients: Any) -> Any:
        low, high = wall.depths(0, 2)
        points = range(0, _RADIATION_ORDER + 1)
        inside = wall.depths(points.start, points.stop)
        slope = -combine(lagrange(inside, low, 1), [wall.interior(index) for index in points])
        fastest = (high - low) / wall.time_step()
        speed = jnp.clip(_ratio(-wall.rate(0), slope), 0, fastest)
        return -speed * _outward_slope(wall)

    def __repr__(self) -> str:
        return "Orlanski()"


def _ratio(above: Any, below: Any) -> Any:
    """above / below, 0 where the latter vanishes; its gradient is finite there."""
    flat = jnp.abs(below) <= _TINY
    return jnp.where(flat, 0, above / jnp.where(flat, 1, below))


def _first_guess(wall: AbstractWall) -> Any:
    """The ghost value before there is a past: on the line through the last two points."""
    (ghost,) = wall.depths(-wall.layer, 1 - wall.layer)
    return combine(lagrange(wall.depths(0, 2), ghost), [wall.interior(0), wall.interior(1)])


def _outward_slope(wall: AbstractWall) -> Any:
    """∂u/∂n at the ghost point, from it and the points behind it."""
    points = range(-wall.layer, _RADIATION_ORDER + 1 - wall.layer)
    depths = wall.depths(points.start, points.stop)
    return -combine(lagrange(depths, depths[0], 1), [wall.interior(index) for index in points])

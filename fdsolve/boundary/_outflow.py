"""Open ends: extrapolation, and radiation with a given or a measured phase speed."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..field import AbstractCondition, AbstractEvolving, AbstractWall, Dimension, check_coefficient, own
from ._polynomial import combine, lagrange
from ._show import show

_RADIATION_ORDER = 4
"""Order of the one-sided ∂u/∂n that carries ghost points under steppers; its error sets the reflection."""
_MEASURED = 3
"""How many points the phase speed is fitted to under steppers."""
_TINY = 1e-30
"""Squares of slopes below which a phase speed has no meaning."""


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

    dimensions = MappingProxyType({"speed": Dimension(length=1, time=-1)})

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
        here, there = wall.depths(-wall.layer, 2 - wall.layer)
        return _boxed(wall, speed * wall.time_step() / (there - here))

    def ghost_rate(self, wall: AbstractWall, *coefficients: Any) -> Any:
        (speed,) = coefficients
        return -speed * _outward_slope(wall)

    def __repr__(self) -> str:
        return "Outflow()" if self.speed is None else f"Outflow(speed={show(self.speed)})"


@dataclass(frozen=True, eq=False)
class Orlanski(AbstractEvolving):
    """∂u/∂t + C ∂u/∂n = 0 beyond the wall, with the phase speed C measured inside it and clipped to [0, h/Δt].

    In plain rules C = −u_t/u_n of the box of two points next inwards and two levels, and the ghost point moves as in
    `Outflow(speed=C)`. Under a stepper C = −Σ u_t u_n / Σ u_n² over the three points next to the wall, with u_t from
    the field's own rate, at every stage. Source: Orlanski, J. Comput. Phys. 21 (1976) 251.

    Good values: flows and dispersive waves whose phase speed is not known, on real fields. Where it is known,
    `Outflow(speed=c)` reflects less: a pulse fourteen points wide leaves .2 % of itself behind, here .5 to 1 % in plain
    rules and 2 to 4 % under a stepper.
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
        return _boxed(wall, _measured_share(wall))

    def ghost_rate(self, wall: AbstractWall, *coefficients: Any) -> Any:
        points = range(_RADIATION_ORDER + 1)
        depths = wall.depths(points.start, points.stop)
        values = [wall.interior(index) for index in points]
        slopes = [-combine(lagrange(depths, depths[index], 1), values) for index in range(_MEASURED)]
        changes = [wall.rate(index) for index in range(_MEASURED)]
        fastest = (depths[1] - depths[0]) / wall.time_step()
        return -jnp.clip(_fitted(changes, slopes), 0, fastest) * _outward_slope(wall)

    def __repr__(self) -> str:
        return "Orlanski()"


def _boxed(wall: AbstractWall, share: Any) -> Any:
    """The ghost value by the box scheme, for waves that cross a share of the distance to it in a step."""
    inner, ghost = 1 - wall.layer, -wall.layer
    factor = (share - 1) / (share + 1)
    return wall.interior(inner, 1) + factor * (wall.interior(inner) - wall.interior(ghost, 1))


def _measured_share(wall: AbstractWall) -> Any:
    """CΔt/h from the box of the two points next to the ghost point and the last two levels, clipped to [0, 1]."""
    outer = 1 - wall.layer
    ghost, near, far = wall.depths(outer - 1, outer + 2)
    (a, b), (c, d) = ([wall.interior(outer, back), wall.interior(outer + 1, back)] for back in (0, 1))
    slope = (a + c - b - d) * ((near - ghost) / (far - near))
    return jnp.clip(_fitted([a + b - c - d], [slope]), 0, 1)


def _fitted(changes: list[Any], slopes: list[Any]) -> Any:
    """−Σ change·slope / Σ slope², 0 where all slopes vanish; its gradient is finite there."""
    above = combine([-1.0] * len(slopes), [c * s for c, s in zip(changes, slopes, strict=True)])
    below = combine([1.0] * len(slopes), [s * s for s in slopes])
    flat = below <= _TINY
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

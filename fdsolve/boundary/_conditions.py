"""Dirichlet, Neumann and Robin conditions on nodes and faces."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError
from ..field import AbstractCondition, AbstractWall, Along, Interpolate, Whole, check_coefficient, own


def _mirror(wall: AbstractWall) -> int:
    """The interior point that the ghost point mirrors: u₋ₖ ↔ uₖ about a point, uₖ₋₁ about a face."""
    return wall.layer if wall.on_point else wall.layer - 1


@dataclass(frozen=True, eq=False)
class Dirichlet(AbstractCondition):
    """u = g on the wall.

    Where the field has a point on the wall its value is g; where it has none (cell axes, tangential components of a
    staggered grid) the ghost value is u₋ₖ = 2g − uₖ₋₁, second order. `value` is a number, an array or DataArray
    along the wall, or a function of coordinates, time, parameters and state. Units: those of the field.
    """

    value: Any

    def __post_init__(self) -> None:
        check_coefficient(self.value, repr(self))
        object.__setattr__(self, "value", own(self.value))

    @property
    def sets_value_on_points(self) -> bool:
        return True

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.value,)

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        (value,) = coefficients
        return 2 * value - wall.interior(_mirror(wall))

    def __repr__(self) -> str:
        return f"Dirichlet({_show(self.value)})"


@dataclass(frozen=True, eq=False)
class Neumann(AbstractCondition):
    """∂u/∂n = g on the wall, n outward.

    The rule below stays in force; ghost values are u₋ₖ = uₖ + 2kΔx g on a node wall and u₋ₖ = uₖ₋₁ + (2k − 1)Δx g on
    a face wall, second order. Units of `flux`: those of the field over length.
    """

    flux: Any

    def __post_init__(self) -> None:
        check_coefficient(self.flux, repr(self))
        object.__setattr__(self, "flux", own(self.flux))

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.flux,)

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        (flux,) = coefficients
        mirror = _mirror(wall)
        return wall.interior(mirror) + wall.distance(mirror) * flux

    def __repr__(self) -> str:
        return f"Neumann({_show(self.flux)})"


@dataclass(frozen=True, eq=False)
class Robin(AbstractCondition):
    """a·u + b·∂u/∂n = g on the wall, n outward, b ≠ 0.

    On a node wall u₋ₖ = uₖ + 2kΔx (g − a u₀)/b; on a face wall u and ∂u/∂n are taken from the pair u₋ₖ, uₖ₋₁; both
    of second order. Source: LeVeque, Finite Difference Methods (2007), section 2.12.
    """

    a: Any
    b: Any
    g: Any

    def __post_init__(self) -> None:
        for name in ("a", "b", "g"):
            check_coefficient(getattr(self, name), repr(self))
            object.__setattr__(self, name, own(getattr(self, name)))
        known = not callable(self.b) and not isinstance(self.b, Tracer | Along | Whole | Interpolate)
        if known and np.any(np.asarray(self.b) == 0):
            raise DeclarationError(f"{self!r}: with b = 0 there is no derivative; write Dirichlet(g / a) for a·u = g.")

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.a, self.b, self.g)

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        a, b, g = coefficients
        mirror = _mirror(wall)
        distance = wall.distance(mirror)
        if wall.on_point:
            return wall.interior(mirror) + distance * (g - a * wall.interior(0)) / b
        slope = b / distance
        return (g + wall.interior(mirror) * (slope - a / 2)) / (slope + a / 2)

    def __repr__(self) -> str:
        return f"Robin({_show(self.a)}, {_show(self.b)}, {_show(self.g)})"


def _show(value: Any) -> str:
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return "lambda" if name == "<lambda>" else name
    return str(value) if isinstance(value, int | float | complex) else type(value).__name__

"""Dirichlet, Neumann and Robin conditions on nodes and faces."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError
from ..field import AbstractOrdered, AbstractWall, Along, Dimension, Interpolate, Use, Whole, check_coefficient, own
from ..units import is_quantity, magnitude
from ._polynomial import check_order, literal, stable_degree, through_wall
from ._show import mirror, show, show_options


@dataclass(frozen=True, eq=False)
class Dirichlet(AbstractOrdered):
    """u = g on the wall.

    Where the field has a point on the wall its value is g, and wider stencils find u₋ₖ = 2g − uₖ beyond it; where it
    has none (cell axes, tangential components of a staggered grid) u₋ₖ = 2g − uₖ₋₁. These mirrors are of second order.
    A higher `order` p takes the ghosts from the polynomial of degree p − 1 through g and interior points, by position
    on stretched axes; a scheme of that order keeps it at the wall.

    Arguments: `value` g, a number, an array or DataArray along the wall, or a function of coordinates, time, parameters
    and state, in the units of the field; `order`, even.

    Good values: the order of the scheme beside it. Beside waves order 8 is unstable, 6 is used; beside first
    derivatives between points 4 at most; the plan says so. Source: Gustafsson, High Order Difference Methods (2008),
    chapter 7, for what a boundary formula may lose.
    """

    dimensions = MappingProxyType({"value": Dimension(field=1)})

    value: Any
    order: int = field(default=2, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_coefficient(self.value, repr(self))
        object.__setattr__(self, "value", own(self.value))
        object.__setattr__(self, "order", check_order(self.order, repr(self)))

    @property
    def sets_value_on_points(self) -> bool:
        return True

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.value,)

    def stable_order(self, use: Use, on_point: bool) -> int:
        return stable_degree(self.order - 1, use, True, on_point) + 1

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        (value,) = coefficients
        if self.order == 2:
            return 2 * value - wall.interior(mirror(wall))
        degree, first = self.stable_order(wall.use, wall.on_point) - 1, int(wall.on_point)
        return through_wall(wall, range(first, first + degree), 1.0, 0.0, value)

    def __repr__(self) -> str:
        return f"Dirichlet({show(self.value)}{show_options(self)})"


@dataclass(frozen=True, eq=False)
class Neumann(AbstractOrdered):
    """∂u/∂n = g on the wall, n outward; across an angle (1/h) ∂u/∂q, with the scale factor h along the wall.

    The rule below stays in force; ghost values are u₋ₖ = uₖ + 2kΔx g on a node wall and u₋ₖ = uₖ₋₁ + (2k − 1)Δx g on
    a face wall, second order. A higher `order` p takes them from the polynomial of degree p with that slope through
    interior points, by position on stretched axes.

    Arguments: `flux` g, as the value of `Dirichlet`, in the units of the field over length; `order`, even.

    Good values: the order of the scheme beside it; at walls that mirror, `Symmetric()` is exact to every order.
    """

    dimensions = MappingProxyType({"flux": Dimension(field=1, length=-1)})

    flux: Any
    order: int = field(default=2, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_coefficient(self.flux, repr(self))
        object.__setattr__(self, "flux", own(self.flux))
        object.__setattr__(self, "order", check_order(self.order, repr(self)))

    @property
    def even(self) -> bool:  # type: ignore[override]
        return self.order == 2 and isinstance(self.flux, int | float) and self.flux == 0

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.flux,)

    def stable_order(self, use: Use, on_point: bool) -> int:
        return stable_degree(self.order, use, False, on_point)

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        (flux,) = coefficients
        if self.order == 2:
            across = mirror(wall)
            return wall.interior(across) + wall.distance(across) * flux
        return through_wall(wall, range(self.stable_order(wall.use, wall.on_point)), 0.0, 1.0, flux)

    def __repr__(self) -> str:
        return f"Neumann({show(self.flux)}{show_options(self)})"


@dataclass(frozen=True, eq=False)
class Robin(AbstractOrdered):
    """a·u + b·∂u/∂n = g on the wall, n outward, b ≠ 0; ∂u/∂n as for `Neumann`.

    On a node wall u₋ₖ = uₖ + 2kΔx (g − a u₀)/b; on a face wall u and ∂u/∂n are taken from the pair u₋ₖ, uₖ₋₁; both
    of second order. A higher `order` p takes the ghosts from the polynomial of degree p that meets the condition and
    interior points. Source: LeVeque, Finite Difference Methods (2007), section 2.12.

    Units: a·u, b·∂u/∂n and g have the same one, whichever it is.

    Good values: a and b of the same sign, as in Newton's law of cooling, h·u + k·∂u/∂n = h·u_outside; with opposite
    signs the solution itself grows.
    """

    dimensions = MappingProxyType({"a": Dimension(field=-1), "b": Dimension(field=-1, length=1), "g": Dimension()})
    shares_factor = True

    a: Any
    b: Any
    g: Any
    order: int = field(default=2, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name in ("a", "b", "g"):
            check_coefficient(getattr(self, name), repr(self))
            object.__setattr__(self, name, own(getattr(self, name)))
        object.__setattr__(self, "order", check_order(self.order, repr(self)))
        known = not callable(self.b) and not isinstance(self.b, Tracer | Along | Whole | Interpolate)
        if known and np.any(np.asarray(magnitude(self.b) if is_quantity(self.b) else self.b) == 0):
            raise DeclarationError(f"{self!r}: with b = 0 there is no derivative; write Dirichlet(g / a) for a·u = g.")

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.a, self.b, self.g)

    def stable_order(self, use: Use, on_point: bool) -> int:
        return stable_degree(self.order, use, False, on_point)

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        a, b, g = coefficients
        if self.order > 2:
            points = range(self.stable_order(wall.use, wall.on_point))
            slope = literal(self.b, b) if wall.straight else b
            return through_wall(wall, points, literal(self.a, a), slope, g)
        across = mirror(wall)
        distance = wall.distance(across)
        if wall.on_point:
            return wall.interior(across) + distance * (g - a * wall.interior(0)) / b
        slope = b / distance
        return (g + wall.interior(across) * (slope - a / 2)) / (slope + a / 2)

    def __repr__(self) -> str:
        return f"Robin({show(self.a)}, {show(self.b)}, {show(self.g)}{show_options(self)})"

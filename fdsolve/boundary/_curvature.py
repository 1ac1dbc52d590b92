"""A second derivative that is prescribed on the wall."""

from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from ..field import AbstractCondition, AbstractWall, Dimension, check_coefficient, own
from ._polynomial import combine, lagrange
from ._show import show


@dataclass(frozen=True, eq=False)
class Curvature(AbstractCondition):
    """∂²u/∂n² = g on the wall; across an angle (1/h²) ∂²u/∂q², with the scale factor h along the wall.

    The rule below stays in force, also on the wall. Ghost values are those of the cubic with that second derivative on
    the wall through the three outermost points, by position on stretched axes; evenly spaced, u₋₁ = 2u₀ − u₁ + Δx² g on
    nodes and u₋₁ = (7u₀ − 5u₁ + u₂ + 2Δx² g)/3 on cells. Second order.

    Arguments: `value` g, as that of `Dirichlet`, in the units of the field over length squared.

    Good values: beside a plain value on the same wall, the bending moment at the end of a beam or plate. Under
    u_t = κ u_xx the value on the wall moves at the rate κg.
    """

    dimensions = MappingProxyType({"value": Dimension(field=1, length=-2)})

    value: Any

    def __post_init__(self) -> None:
        check_coefficient(self.value, repr(self))
        object.__setattr__(self, "value", own(self.value))

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.value,)

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        (value,) = coefficients
        nearest = wall.on_point and wall.layer == 1  # where the mirrored point has no weight for the third one
        (ghost,), depths = wall.depths(-wall.layer, 1 - wall.layer), wall.depths(0, 2 if nearest else 3)
        beyond = prod(ghost - depth for depth in depths)
        bend = 2.0 if nearest else -2 * sum(depths)  # ω″(0) of ω(s) = Π (s − s_j)
        second = [0.0, 0.0] if nearest else lagrange(depths, 0.0, 2)
        factors = [w - beyond / bend * s for w, s in zip(lagrange(depths, ghost), second, strict=True)]
        return combine(factors, [wall.interior(index) for index in range(len(depths))]) + beyond / bend * value

    def __repr__(self) -> str:
        return f"Curvature({show(self.value)})"

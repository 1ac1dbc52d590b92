"""A second derivative that is prescribed on the wall."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..field import AbstractCondition, AbstractWall, Dimension, check_coefficient, own
from ._polynomial import combine, lagrange
from ._show import show


@dataclass(frozen=True, eq=False)
class Curvature(AbstractCondition):
    """∂²u/∂n² = g on the wall; across an angle (1/h²) ∂²u/∂q², with the scale factor h along the wall.

    The rule below stays in force, also on the wall. Ghost values are those of the parabola with that second derivative
    through the two outermost points, u₋₁ = 2u₀ − u₁ + Δx² g on nodes and cells alike, by position on stretched axes;
    the error is O(Δx³).

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
        (ghost,), depths = wall.depths(-wall.layer, 1 - wall.layer), wall.depths(0, 2)
        line = combine(lagrange(depths, ghost), [wall.interior(0), wall.interior(1)])
        return line + (ghost - depths[0]) * (ghost - depths[1]) / 2 * value

    def __repr__(self) -> str:
        return f"Curvature({show(self.value)})"

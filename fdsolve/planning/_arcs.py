"""Lengths across an angle: ∂u/∂n is (1/h) ∂u/∂q, and ghost points and steps are counted in q."""

from collections.abc import Sequence
from typing import Any

from ..field import AbstractCondition
from ..grid import scaling_axes
from ..stencil import RuleContext


def in_coordinate(context: RuleContext, axis: str, value: Any, power: int) -> Any:
    """A value with a power of length along an axis, counted in its coordinate: times h⁻ᵖ at the context's own point.

    1/h counts as 0 where h is: at a pole, whose ghost points count nothing, nothing becomes infinite.
    """
    for other in scaling_axes(context.grid.axes, axis) if power else ():
        by = context.read_measure(other, "inverse scale" if power > 0 else "scale", context.zero_shift())
        for _ in range(abs(power)):
            value = value * by
    return value


def coefficients_in_coordinate(
    context: RuleContext, axis: str, condition: AbstractCondition, coefficients: Sequence[Any]
) -> list[Any]:
    """Coefficients at a wall, those with a length in their dimension counted in the coordinate of the axis across."""
    powers = [dimension.length for dimension in condition.dimensions.values()] or [0] * len(coefficients)
    # Outflow() has no speed.
    return [in_coordinate(context, axis, value, power) for value, power in zip(coefficients, powers, strict=False)]

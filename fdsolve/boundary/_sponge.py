"""Sponge layers: waves die out before they reach the wall."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..field import AbstractLayer, Dimension, check_coefficient, own
from ..units import is_quantity, magnitude
from ._show import show, show_number


@dataclass(frozen=True, eq=False)
class Sponge(AbstractLayer):
    """Damping −σ (u − target) in a layer along a wall; σ = strength · (depth in the layer / width)^power.

    It is added to the field's rate; where rules give the new value v, that becomes target + (v − target) e^(−σΔt). What
    else is assigned to the wall stays as it is. Layers along several walls add up in the corners.

    Arguments:
        width: thickness of the layer along the axis, in its units or as a quantity.
        strength: σ on the wall, one over time; a number, an array along the wall, or a function of coordinates, time,
            parameters and state.
        target: what the field is drawn to, in its units; as `strength`.
        power: how σ grows towards the wall, at least 0.

    Good values: a width of one to two wavelengths λ; power 2 to 3, so that the layer begins smoothly; strength
    (power + 1) c ln(1/R) / (2 width) for a reflection R and wave speed c, with R near 1e-3 (less reflects from the
    layer itself). Source: Israeli & Orszag, J. Comput. Phys. 41 (1981) 115.

    Raises: DeclarationError for a width that is not positive or a negative power.
    """

    dimensions = MappingProxyType({"strength": Dimension(time=-1), "target_value": Dimension(field=1)})
    numbers = MappingProxyType({"width": Dimension(length=1)})

    width: float
    strength: Any
    target_value: Any = field(default=0.0)
    power: float = 2.0

    def __init__(self, width: Any, strength: Any, target: Any = 0.0, power: Any = 2.0) -> None:
        for name, value in (("width", width), ("power", power)):
            given = magnitude(value) if name in self.numbers and is_quantity(value) else value
            number = isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)
            if not number or not np.isfinite(given) or given < 0 or (name == "width" and given == 0):
                least = "a positive number" if name == "width" else "a number of at least 0"
                raise DeclarationError(f"Sponge: {name}= is {least}, got {value!r}.")
            object.__setattr__(self, name, value if is_quantity(value) else float(value))
        for name, value in (("strength", strength), ("target_value", target)):
            check_coefficient(value, f"Sponge({show_number(self.width)}, {show(strength)})")
            object.__setattr__(self, name, own(value))

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (self.strength, self.target_value)

    def damping(self, depth: Any, *coefficients: Any) -> Any:
        return coefficients[0] * depth**self.power

    def target(self, *coefficients: Any) -> Any:
        return coefficients[1]

    def __repr__(self) -> str:
        return f"Sponge({show_number(self.width)}, {show(self.strength)})"

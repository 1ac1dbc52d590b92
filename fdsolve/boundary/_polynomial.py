"""Ghost values from the polynomial through a wall condition and interior points, and the degrees that are stable."""

from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..field import AbstractWall, Use
from ..schemes import weights

_HIGHEST: dict[tuple[Use, bool, bool], int] = {
    (Use.WAVE, True, True): 5,
    (Use.WAVE, True, False): 6,
    (Use.WAVE, False, False): 6,
    (Use.ADVECTION, True, True): 3,
    (Use.ADVECTION, True, False): 3,
    (Use.ADVECTION, False, True): 4,
    (Use.ADVECTION, False, False): 4,
}
"""The highest degrees with a stable spectrum, by use, whether the value is given (or the slope), and whether the field
has a point on the wall. What is not listed is stable up to order 8. Computed; the tests compute the spectra again."""


def check_order(order: Any, what: str) -> int:
    """An even order of at least 2."""
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 2 or order % 2:
        raise DeclarationError(f"{what}: order= is an even number of at least 2, got {order!r}.")
    return int(order)


def stable_degree(degree: int, use: Use, gives_value: bool, on_point: bool) -> int:
    """The degree, or the highest stable one below it."""
    return min(degree, _HIGHEST.get((use, gives_value, on_point), degree))


def lagrange(depths: tuple[float, ...], at: float, derivative: int = 0) -> list[float]:
    """Weights of the values at `depths` in the derivative at depth `at` of the polynomial through them.

    >>> lagrange((1.0, 2.0), 0.0)
    [2.0, -1.0]
    """
    scale = max(abs(depth - at) for depth in depths) or 1.0
    found = weights(derivative, tuple((depth - at) / scale for depth in depths)) / scale**derivative
    return [float(weight) for weight in found]


def combine(factors: list[float], values: list[Any]) -> Any:
    """Σ factor·value, without the terms that vanish."""
    terms = [factor * value for factor, value in zip(factors, values, strict=True) if factor]
    total: Any = terms[0] if terms else 0.0
    for term in terms[1:]:
        total = total + term
    return total


def through_wall(wall: AbstractWall, points: range, a: Any, b: Any, g: Any) -> Any:
    """The ghost value of the polynomial p with p = u at interior `points` and a·p + b·∂p/∂n = g on the wall.

    With q the polynomial through the points alone and ω(s) = Π (s − s_j), s the depth: p = q + κω, where
    κ = (g − a q(0) + b q′(0)) / (a ω(0) − b ω′(0)).
    """
    depths = wall.depths(points.start, points.stop)
    (ghost,) = wall.depths(-wall.layer, 1 - wall.layer)
    values = [wall.interior(index) for index in points]
    unit = max(depths)  # keeps ω and ω′ of order one
    node = float(np.prod([-s / unit for s in depths]))
    slope = float(sum(np.prod([-s / unit for j, s in enumerate(depths) if j != i]) for i in range(len(depths)))) / unit
    beyond = float(np.prod([(ghost - s) / unit for s in depths]))
    here = lagrange(depths, 0.0)
    first = lagrange(depths, 0.0, 1) if len(values) > 1 else [0.0]
    scale = a * node - b * slope
    if isinstance(scale, float):  # a and b are literal numbers: so are the weights
        factors = [
            w - beyond / scale * (a * p - b * q) for w, p, q in zip(lagrange(depths, ghost), here, first, strict=True)
        ]
        return combine(factors, values) + (beyond / scale) * g
    defect = g - a * combine(here, values) + b * combine(first, values)
    return combine(lagrange(depths, ghost), values) + beyond * (defect / scale)


def literal(declared: Any, value: Any) -> Any:
    """A coefficient as the number it was declared as, so that weights that depend on it are numbers too."""
    return float(declared) if isinstance(declared, int | float) else value

"""Weighted essentially non-oscillatory reconstruction of orders 3, 5 and 7.

The value at a face is a mean of those that r sub-stencils give, weighted by how smooth the field is on each: of order
2r − 1 where it is smooth, and without the sub-stencils that a jump crosses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax.numpy as jnp

from ..errors import DeclarationError
from ._polynomials import stencils
from ._reconstruction import AbstractReconstruction, Upwind, weighted

_RELATIVE = 1e-6
"""How small an indicator counts beside the others: no weight exceeds another by more than the square of its inverse."""


@dataclass(frozen=True)
class WENO5JS(AbstractReconstruction):
    """The scheme of Jiang & Shu, J. Comput. Phys. 126 (1996) 202: ω ∝ d/(ε + β)², order 5, or 3 at critical points.

    `epsilon` has the units of the field squared. Good value: 1e-6 for fields of order one.
    """

    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, float) or not self.epsilon > 0:
            raise DeclarationError(f"WENO5JS(epsilon) takes a positive number such as 1e-6, got {self.epsilon!r}.")

    @property
    def reach(self) -> int:
        return 3

    @property
    def order(self) -> int:
        return 5

    @property
    def narrower(self) -> AbstractReconstruction | None:
        return WENO3Z()

    def face(self, values: Sequence[Any], averages: bool) -> Any:
        return _face(
            values, averages, lambda ideal, betas, _: [d / (self.epsilon + b) ** 2 for d, b in _pairs(ideal, betas)]
        )


@dataclass(frozen=True)
class WENO3Z(AbstractReconstruction):
    """Order 3 from two sub-stencils of two points, with the weights of `WENO5Z` and τ = |β₀ − β₁|."""

    @property
    def reach(self) -> int:
        return 2

    @property
    def order(self) -> int:
        return 3

    @property
    def narrower(self) -> AbstractReconstruction | None:
        return Upwind(1)

    def face(self, values: Sequence[Any], averages: bool) -> Any:
        return _face(values, averages, _weigh_z((1.0, -1.0)))


@dataclass(frozen=True)
class WENO5Z(AbstractReconstruction):
    """The scheme of Borges et al., J. Comput. Phys. 227 (2008) 3191: ω ∝ d(1 + (τ/β)²), τ = |β₀ − β₂|; order 5.

    Sharper than `WENO5JS` at jumps and of order 5 at critical points too. Its ε is relative to the β of the point, so
    it does the same whatever the units of the field. Good with `SSPRK3` and a Courant number of 0.5.
    """

    @property
    def reach(self) -> int:
        return 3

    @property
    def order(self) -> int:
        return 5

    @property
    def narrower(self) -> AbstractReconstruction | None:
        return WENO3Z()

    def face(self, values: Sequence[Any], averages: bool) -> Any:
        return _face(values, averages, _weigh_z((1.0, 0.0, -1.0)))


@dataclass(frozen=True)
class WENO7Z(AbstractReconstruction):
    """Order 7 with τ = |β₀ + 3β₁ − 3β₂ − β₃| (Castro, Costa & Don, J. Comput. Phys. 230 (2011) 1766).

    Good with `RK4` and a Courant number of 0.5; the time step bounds the accuracy before the space step does.
    """

    @property
    def reach(self) -> int:
        return 4

    @property
    def order(self) -> int:
        return 7

    @property
    def narrower(self) -> AbstractReconstruction | None:
        return WENO5Z()

    def face(self, values: Sequence[Any], averages: bool) -> Any:
        return _face(values, averages, _weigh_z((1.0, 3.0, -3.0, -1.0)))


WENO5 = WENO5Z
"""The scheme of order 5 to take when in doubt."""

WENO7 = WENO7Z
"""The scheme of order 7."""

Weigh = Callable[[Sequence[float], Sequence[Any], Any], list[Any]]
"""The weights of sub-stencils, of the ideal ones, the indicators and the value in the middle."""


def _pairs(ideal: Sequence[float], betas: Sequence[Any]) -> list[tuple[float, Any]]:
    return list(zip(ideal, betas, strict=True))


def _weigh_z(differences: tuple[float, ...]) -> Weigh:
    """ω ∝ d(1 + (τ/(β + ε))²), τ a difference of the indicators of higher order than they are."""

    def weigh(ideal: Sequence[float], betas: Sequence[Any], value: Any) -> list[Any]:
        # The second term keeps the quotient and its derivative finite on fields of zeros, in single precision too; the
        # third on other constant ones, which differ by roundings: weights by these would have derivatives of 1/ε.
        kind = jnp.finfo(betas[0].dtype)
        small = _RELATIVE * reduce(lambda a, b: a + b, betas) + float(kind.tiny) ** 0.4
        small = small + float(kind.eps) ** 1.5 * value**2
        tau = abs(reduce(lambda a, b: a + b, [c * b for c, b in _pairs(differences, betas) if c]))
        return [d * (1 + (tau / (b + small)) ** 2) for d, b in _pairs(ideal, betas)]

    return weigh


def _face(values: Sequence[Any], averages: bool, weigh: Weigh) -> Any:
    reach = (len(values) + 1) // 2
    table, middle = stencils(reach, averages), values[reach - 1]
    # Weights sum up to 1. What differs from the middle keeps derivatives of shares from cancelling each other.
    about = [value - middle for value in values]
    parts = [about[k : k + reach] for k in range(reach)]
    betas = [
        reduce(lambda a, b: a + b, [factor * _total(row, part) ** 2 for factor, row in squares])
        for squares, part in zip(table.squares, parts, strict=True)
    ]
    shares = weigh(table.ideal, betas, middle)
    faces = [weighted(row, part) for row, part in zip(table.faces, parts, strict=True)]
    return middle + weighted(shares, faces) / reduce(lambda a, b: a + b, shares)


def _total(row: Sequence[float], part: Sequence[Any]) -> Any:
    """A sum without the terms of weight zero."""
    return reduce(lambda a, b: a + b, [w * v for w, v in zip(row, part, strict=True) if w])

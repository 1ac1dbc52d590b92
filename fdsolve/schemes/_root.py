"""Half-step differences that taken twice stay just below a second derivative: what absorbing layers stretch."""

from functools import cache

import numpy as np
from numpy.polynomial import chebyshev, polynomial


@cache
def root_weights(second: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Offsets in steps, and weights, of a difference D½ with −D½² ≤ −D₂ at every wavenumber, and equal for long waves.

    `second` holds the weights of D₂ for a unit step, from −r to r and symmetric. With y = sin²(kΔx/2) its symbol is
    −4y P(y), and that of D½ is 2i√y Q(y): Q is the expansion of √P to the power r, the last coefficient lowered as far
    as Q² ≤ P on 0 ≤ y ≤ 1 wants. Where D½² exceeds D₂ a layer that divides D₂ + D½ χ by s has modes
    λ³ + 2σλ² + (σ² + p)λ + (p − q)σ = 0 that grow: p and q, the symbols of −D₂ and −D½², must have p ≥ q (Routh).

    >>> root_weights((1.0, -2.0, 1.0))
    ((-0.5, 0.5), (-1.0, 1.0))
    """
    reach = len(second) // 2
    shape = _over_sine(np.array(second))
    root = np.zeros(reach + 1)
    root[0] = np.sqrt(shape[0])
    for n in range(1, reach + 1):
        own = shape[n] if n < reach else 0.0
        root[n] = (own - sum(root[k] * root[n - k] for k in range(1, n))) / (2 * root[0])
    if reach > 1:
        y, last = np.linspace(0.05, 1.0, 20001), root[reach]
        room = np.sqrt(polynomial.polyval(y, shape)) - polynomial.polyval(y, root[:reach])
        root[reach] = min(last, float(np.min(room / y**reach))) * (1 + 1e-8)
    total, term = np.zeros(2 * reach + 2), np.array([-1.0, 1.0])
    for coefficient in root:  # y is −δ²/4 with the central difference δ
        edge = (len(total) - len(term)) // 2
        total[edge : len(total) - edge] += coefficient * term
        term = np.convolve(term, [-0.25, 0.5, -0.25])
    kept = np.abs(total) > 1e-14
    offsets = np.arange(-reach - 0.5, reach + 1)[kept]
    return tuple(map(float, offsets)), tuple(map(float, total[kept]))


def _over_sine(weights: np.ndarray) -> np.ndarray:
    """The coefficients of P where Σ wₖ cos kθ = −4y P(y), cos θ = 1 − 2y."""
    reach = len(weights) // 2
    in_cosine = chebyshev.cheb2poly(np.append(weights[reach], 2 * weights[reach + 1 :]))
    in_sine = np.zeros(1)
    for coefficient in in_cosine[::-1]:
        in_sine = polynomial.polyadd(polynomial.polymul(in_sine, [1.0, -2.0]), [coefficient])
    return -in_sine[1:] / 4

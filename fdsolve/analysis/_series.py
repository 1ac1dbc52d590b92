"""Power series of symbols: coefficients by Cauchy's integral on a small torus, and the matrix logarithm."""

from collections.abc import Callable
from itertools import product

import numpy as np

Powers = tuple[int, ...]

_POINTS = {1: 64, 2: 32, 3: 32}
_RADII = (0.5, 0.25, 0.125, 0.0625)
_ROUNDING = 1e-13


def choose_radius(function: Callable[[np.ndarray], np.ndarray], axes: int, reach: float = 0.6) -> float:
    """The largest radius on which a function of ξ stays within `reach` of its value at 0."""
    torus, origin = _torus(axes), np.zeros(axes, complex)
    for radius in _RADII[:-1]:
        if np.abs(function(radius * torus) - function(origin)).max() < reach:
            return radius
    return _RADII[-1]


def coefficients(
    function: Callable[[np.ndarray], np.ndarray], axes: int, degree: int, radius: float = _RADII[0], floor: float = 0.0
) -> dict[Powers, tuple[np.ndarray, float]]:
    """The power series of a function of ξ (…, axes) to a total degree: by powers, arrays as it returns, and rounding.

    Rounding is relative to the function's size, or to `floor` where that is larger. The function has to be free of
    branch points and poles well beyond the radius.
    """
    values = np.asarray(function(radius * _torus(axes)))
    count = values.shape[0]
    series = np.fft.fftn(values, axes=range(axes)) / count**axes
    size = max(float(np.abs(values).max()), floor)
    found = {}
    for powers in product(range(min(degree, count - 1) + 1), repeat=axes):
        if sum(powers) <= degree:
            scale = radius ** sum(powers)
            found[powers] = (series[powers] / scale, _ROUNDING * size / scale)
    return found


def _torus(axes: int) -> np.ndarray:
    """Points on the unit circle for each axis, (count, …, axes)."""
    count = _POINTS.get(axes, 8)
    circle = np.exp(2j * np.pi * np.arange(count) / count)
    return np.stack(np.meshgrid(*[circle] * axes, indexing="ij"), axis=-1)


def matrix_log(matrices: np.ndarray) -> np.ndarray:
    """The principal logarithm of matrices (…, n, n), by inverse scaling and squaring.

    Square roots by the iteration of Denman & Beavers, Appl. Math. Comput. 2 (1976) 63, until near 1; then
    log X = 2 artanh((X − 1)(X + 1)⁻¹) as its series.
    """
    one = np.eye(matrices.shape[-1])
    root, doublings = matrices, 0
    while np.abs(root - one).max() > 0.25 and doublings < 40:
        root, doublings = _square_root(root), doublings + 1
    ratio = np.linalg.solve(root + one, root - one)
    square, power, total = ratio @ ratio, ratio, ratio
    for k in range(1, 14):
        power = power @ square
        total = total + power / (2 * k + 1)
    return 2.0 ** (doublings + 1) * total


def _square_root(matrices: np.ndarray) -> np.ndarray:
    root, inverse = matrices, np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape)
    for _ in range(60):
        new = 0.5 * (root + np.linalg.inv(inverse))
        inverse = 0.5 * (inverse + np.linalg.inv(root))
        change, root = np.abs(new - root).max(), new
        if change < 1e-15 * max(1.0, np.abs(root).max()):
            break
    return root

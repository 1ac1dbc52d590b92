"""Finite-difference weights on any set of points."""

import numpy as np
from jaxtyping import Float

from ..errors import DeclarationError


def weights(derivative: int, offsets: Float[np.ndarray, " points"] | tuple[float, ...]) -> Float[np.ndarray, " points"]:
    """Weights w of Σ w_k f(offsets_k) ≈ f⁽ⁿ⁾(0), exact for polynomials of degree below the number of points.

    Arguments: `derivative` n ≥ 0; `offsets` in any unit of length, distinct. Returns one weight an offset, in that
    unit to the power −n. The recurrence is that of Fornberg, Math. Comp. 51 (1988) 699, table 1.

    >>> weights(2, (-1.0, 0.0, 1.0)).tolist()
    [1.0, -2.0, 1.0]
    """
    x = np.asarray(offsets, float)
    if x.size <= derivative:
        raise DeclarationError(
            f"A derivative of order {derivative} needs at least {derivative + 1} points, got {x.size}."
        )
    table = np.zeros((x.size, derivative + 1))
    table[0, 0] = 1.0
    scale, last = 1.0, x[0]
    for i in range(1, x.size):
        previous, product = table[i - 1].copy(), 1.0
        for j in range(i):
            gap = x[i] - x[j]
            product *= gap
            for m in range(derivative, -1, -1):
                table[j, m] = (x[i] * table[j, m] - (m * table[j, m - 1] if m else 0.0)) / gap
        for m in range(derivative, -1, -1):
            table[i, m] = scale / product * ((m * previous[m - 1] if m else 0.0) - last * previous[m])
        scale, last = product, x[i]
    return table[:, derivative]

"""Summation-by-parts closures of central first derivatives, found by solving their defining equations."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float64

from ..errors import DeclarationError
from ._weights import weights


@dataclass(frozen=True, eq=False)
class SummationByParts:
    """The rows of D = H⁻¹Q next to a wall, in steps: `norm` (rows,), `rows` (rows, points), outermost first.

    Further inside D is the central difference of `order`; the rows are exact for polynomials of degree `closed`.
    """

    order: int
    closed: int
    norm: Float64[np.ndarray, " rows"]
    rows: Float64[np.ndarray, "rows points"]


@cache
def summation_by_parts(order: int) -> SummationByParts:
    """The diagonal-norm operator of interior order 2, 4, 6 or 8, closed at order 1, 2, 3 or 4.

    H is diagonal and Q + Qᵀ = diag(−1, 0, …, 0, 1), so that d/dt uᵀHu = u₀² − u_N² for u_t = −Du: stable with a value
    at the inflow. The unknowns are the norm h and the upper triangle of Q in a block of `order` rows (one for order 2);
    they solve Σ_j Q_ij (j − i)ᵏ = h_i δ_k1 for k = 0 … closed. What this leaves free makes the leading error,
    Σ_i h_i |Σ_j D_ij (j − i)ᵏ|² with k = closed + 1, the least. Source: Kreiss & Scherer 1974; Strand, J. Comput. Phys.
    110 (1994) 47.

    >>> (summation_by_parts(4).norm * 48).round(9).tolist()
    [17.0, 59.0, 43.0, 49.0]
    """
    if order not in (2, 4, 6, 8):
        raise DeclarationError(f"Summation by parts is known for the orders 2, 4, 6 and 8, got {order}.")
    block, half = (1 if order == 2 else order), order // 2
    equations = [_moment(order, block, power) for power in range(half + 1)]
    matrix, constant = (np.concatenate(parts) for parts in zip(*equations, strict=True))
    unknowns = np.linalg.lstsq(matrix, -constant, rcond=1e-12)[0]
    norm = unknowns[:block]
    # The equations fix h; in the directions of Q that they leave free the leading error is brought down.
    free = np.linalg.svd(matrix)[2][np.linalg.matrix_rank(matrix, tol=1e-9) :].T
    error, rest = _moment(order, block, half + 1)
    scale = 1 / np.sqrt(norm)[:, None]
    if free.size:
        step = np.linalg.lstsq(scale * (error @ free), -scale[:, 0] * (error @ unknowns + rest), rcond=1e-12)[0]
        unknowns = unknowns + free @ step
    rows = _assemble(order, block, unknowns) / norm[:, None]
    return SummationByParts(order, half, norm, rows)


def _moment(
    order: int, block: int, power: int
) -> tuple[Float64[np.ndarray, "rows unknowns"], Float64[np.ndarray, " rows"]]:
    """Σ_j Q_ij (j − i)^power − h_i δ_power,1 in each row of the block: a matrix on the unknowns, and a constant."""
    pairs = _pairs(block)
    matrix = np.zeros((block, block + len(pairs)))
    for column, (i, j) in enumerate(pairs, start=block):
        matrix[i, column] = float(j - i) ** power
        matrix[j, column] = -(float(i - j) ** power)
    if power == 1:
        matrix[:, :block] = -np.eye(block)
    known = _assemble(order, block, np.zeros(block + len(pairs)))
    places = np.arange(known.shape[1]) - np.arange(block)[:, None]
    return matrix, np.sum(known * places.astype(float) ** power, axis=1)


def _assemble(order: int, block: int, unknowns: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, "rows points"]:
    """The rows of Q: antisymmetric inside the block but for Q₀₀ = −½, central outside."""
    half = order // 2
    centre = weights(1, tuple(float(k) for k in range(-half, half + 1)))
    rows = np.zeros((block, block + half))
    rows[0, 0] = -0.5
    for value, (i, j) in zip(unknowns[block:], _pairs(block), strict=True):
        rows[i, j], rows[j, i] = value, -value
    for i in range(block):
        first = max(block - i, 1)
        rows[i, i + first : i + half + 1] = centre[half + first :]
    return rows


def _pairs(block: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(block) for j in range(i + 1, block)]

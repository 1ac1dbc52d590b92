"""The grids of multigrid: matrices, transfers, smoothers' arrays, and a dense inverse at the bottom."""

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._galerkin import galerkin
from ._matrix import StencilMatrix, Vector
from ._smoothers import AbstractSmoother
from ._surrogate import reach_one
from ._transfer import Coarsening, Transfer, transfer_of

DENSE_POINTS = 300
"""Points at which a grid is solved densely: each grid less saves a second of compilation."""


@dataclass(frozen=True, eq=False)
class Level:
    """A grid: its matrix, what the smoother needs, and the transfer to the next."""

    matrix: StencilMatrix
    smoother: Any
    transfer: Transfer


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Grids from the finest, and the inverse of the coarsest one's matrix."""

    levels: tuple[Level, ...]
    bottom: StencilMatrix
    inverse: jax.Array

    def solve_bottom(self, right: Vector) -> Vector:
        """The solution on the coarsest grid; where it is singular, one of them."""
        return self.bottom.unravel(self.inverse @ self.bottom.ravel(right))


jax.tree_util.register_dataclass(Level, data_fields=["matrix", "smoother", "transfer"], meta_fields=[])
jax.tree_util.register_dataclass(Hierarchy, data_fields=["levels", "bottom", "inverse"], meta_fields=[])


def coarsenings(shape: tuple[int, ...], wraps: tuple[bool, ...], fields: int) -> tuple[Coarsening, ...]:
    """How a grid is coarsened step by step, until it is small."""
    found: list[Coarsening] = []
    while fields * prod(shape) > DENSE_POINTS:
        halved = tuple(n >= 6 if w else n > 1 for n, w in zip(shape, wraps, strict=True))
        if not any(halved):
            break
        found.append(Coarsening(shape, wraps, halved))
        shape = found[-1].coarse_shape
    return tuple(found)


def build(matrix: StencilMatrix, smoother: AbstractSmoother) -> Hierarchy:
    """The hierarchy of a matrix whose fields have one shape."""
    layout = matrix.layout
    levels = []
    for coarsening in coarsenings(layout.shapes[0], layout.wraps, len(layout.fields)):
        near = reach_one(matrix)
        transfer = transfer_of(near, coarsening)
        levels.append(Level(matrix, lax.optimization_barrier(smoother.prepare(matrix)), transfer))
        matrix = galerkin(near, transfer)
    return Hierarchy(tuple(levels), matrix, _dense_inverse(matrix))


def _dense_inverse(matrix: StencilMatrix) -> jax.Array:
    """The inverse of A + δD, D its diagonal, δ = √ε; rows and columns of known points are zero.

    The shift is far below what cycles reduce the error by, and makes singular matrices regular: where a right-hand
    side is consistent up to rounding the solution has a multiple ε/δ of a null vector, which does no harm. A smaller
    shift lets rounding of the inverse, ε/δ too, come in.
    """
    values, rows, columns = matrix.entries()
    size = matrix.layout.size
    dense = jnp.zeros((size, size), values.dtype).at[rows, columns].add(values)
    # Rows that hold nothing have no diagonal to be shifted.
    known = ~jnp.concatenate([matrix.free[name].ravel() for name in matrix.layout.fields])
    known = known | ~jnp.any(jnp.where(known, 0, dense) != 0, axis=1)
    diagonal = jnp.where(known, 1, jnp.diagonal(dense))
    shift = float(jnp.finfo(values.dtype).eps) ** 0.5
    scale = jnp.where(diagonal == 0, jnp.max(jnp.abs(dense), axis=1).astype(values.dtype), diagonal)
    aside = known[:, None] | known[None, :]
    inverse = jnp.linalg.inv(jnp.where(aside, 0, dense) + jnp.diag(jnp.where(known, 1, shift * scale)))
    return jnp.where(aside, 0, inverse)

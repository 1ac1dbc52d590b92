"""Cycles of multigrid over a hierarchy of grids."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax

from ._hierarchy import Hierarchy
from ._matrix import StencilMatrix, Vector
from ._smoothers import AbstractSmoother, residual


@dataclass(frozen=True, eq=False)
class Cycles:
    """V, W or full cycles with `pre` sweeps before and `post` sweeps after each coarse grid."""

    hierarchy: Hierarchy
    smoother: AbstractSmoother
    kind: str
    pre: int
    post: int

    def run(self, right: Vector) -> Vector:
        """One cycle from zero: an approximation of A⁻¹ `right`."""
        if self.kind == "full":
            return self._full(0, right)
        return self._descend(0, right, {name: jnp.zeros_like(b) for name, b in right.items()})

    def improve(self, right: Vector, x: Vector) -> Vector:
        """One cycle on A x = `right` from x."""
        if self.kind == "full" or not self.hierarchy.levels:
            change = self._full(0, residual(operator(self.hierarchy), right, x))
            return {name: x[name] + change[name] for name in x}
        return self._descend(0, right, x)

    def _descend(self, depth: int, right: Vector, x: Vector) -> Vector:
        """Smooth, correct by the grid below, smooth."""
        if depth == len(self.hierarchy.levels):
            return self.hierarchy.solve_bottom(right)
        level = self.hierarchy.levels[depth]
        matrix = level.matrix
        x = self.smoother.smooth(matrix, level.smoother, right, x, self.pre)
        left = lax.optimization_barrier(residual(matrix, right, x))
        below = lax.optimization_barrier(level.transfer.restrict(left))
        change = self._below(depth + 1, below)
        fine = level.transfer.prolong(change)
        x = lax.optimization_barrier({name: x[name] + fine[name] for name in x})
        return self.smoother.smooth(matrix, level.smoother, right, x, self.post)

    def _below(self, depth: int, right: Vector) -> Vector:
        zero = {name: jnp.zeros_like(b) for name, b in right.items()}
        visits = 2 if self.kind == "W" and depth < len(self.hierarchy.levels) else 1
        if visits == 1:
            return self._descend(depth, right, zero)
        return lax.fori_loop(0, visits, lambda _, x: self._descend(depth, right, x), zero)

    def _full(self, depth: int, right: Vector) -> Vector:
        """The grids below first, for a start."""
        if depth == len(self.hierarchy.levels):
            return self.hierarchy.solve_bottom(right)
        transfer = self.hierarchy.levels[depth].transfer
        return self._descend(depth, right, transfer.prolong(self._full(depth + 1, transfer.restrict(right))))


def operator(hierarchy: Hierarchy) -> StencilMatrix:
    """The matrix of the finest grid."""
    return hierarchy.levels[0].matrix if hierarchy.levels else hierarchy.bottom

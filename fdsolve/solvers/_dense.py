"""Dense elimination: small systems, and the judge of the other solvers."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ._base import AbstractLinearSolver, LinearSystem, Report, SystemOutline
from ._floating import rounding_report, row_sum
from ._matrix import Vector

MAX_ROWS = 4096


@dataclass(frozen=True)
class Dense(AbstractLinearSolver):
    """LU of the whole matrix, O(N³); for at most 4096 points. Floating systems by least squares, O(N³) with a larger
    constant. Good values: small systems, coarse grids, tests."""

    def refuse(self, outline: SystemOutline) -> str | None:
        if outline.layout is None:
            return "its rows can depend on points anywhere"
        if outline.layout.size > MAX_ROWS:
            return f"it has {outline.layout.size} points, more than {MAX_ROWS}"
        return None

    def prepare(self, system: LinearSystem) -> Any:
        assert system.matrix is not None
        values, rows, columns = system.matrix.entries()
        size = system.matrix.layout.size
        return jnp.zeros((size, size), values.dtype).at[rows, columns].add(values)

    def solve(self, system: LinearSystem, prepared: Any, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        assert system.matrix is not None
        right = system.matrix.ravel(rhs)
        found = jnp.linalg.lstsq(prepared, right)[0] if system.outline.may_float else jnp.linalg.solve(prepared, right)
        x = system.matrix.unravel(found)
        return x, rounding_report(system, rhs, x, row_sum(system.matrix))

"""Sparse elimination on the host: any matrix in stencil form."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from ._base import AbstractLinearSolver, LinearSystem, Report, SystemOutline
from ._floating import pins, rounding_report, row_sum
from ._matrix import MatrixLayout, StencilMatrix, Vector
from ._sparse import Factors, canonical, digest_of, factors_of


@dataclass(frozen=True)
class Direct(AbstractLinearSolver):
    """SuperLU in double precision, by scipy, through a callback to the host: any fields, stencils, holes and sides.

    Factors of the matrices used last are kept, so that a march with one matrix factors once; a transpose uses the same
    ones. Factoring N points costs O(N^1.5) in the plane and O(N²) in space, memory O(N log N) and O(N^4/3). Under vmap
    one system is solved after the other. Source: Demmel, Eisenstat, Gilbert, Li & Liu, SIAM J. Matrix Anal. Appl. 20
    (1999) 720.

    >>> Direct()
    Direct()
    """

    def refuse(self, outline: SystemOutline) -> str | None:
        if outline.layout is None:
            return "rows read points anywhere"
        if find_spec("scipy") is None:
            return "scipy is not installed; write pip install 'fdsolve[implicit]'"
        return None

    def prepare(self, system: LinearSystem) -> Any:
        matrix = system.matrix
        assert matrix is not None
        host, values = _host(matrix)
        if system.outline.may_float:
            values = values.at[-matrix.layout.size :].add(matrix.ravel(pins(matrix, range(matrix.layout.ndim))))
        key = jax.pure_callback(host.key, jax.ShapeDtypeStruct((16,), np.uint8), values, vmap_method="sequential")
        return key, values, row_sum(matrix)

    def solve(self, system: LinearSystem, prepared: Any, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        matrix, (key, values, size) = system.matrix, prepared
        assert matrix is not None
        right = matrix.ravel(rhs)
        told = jax.ShapeDtypeStruct(right.shape, right.dtype)
        host, _ = _host(matrix)
        found = jax.pure_callback(host.solve, told, key, values, right, vmap_method="sequential")
        x = matrix.unravel(found)
        return x, rounding_report(system, rhs, x, size)


@dataclass(frozen=True, eq=False)
class _Host:
    """What is done on the host, in NumPy alone, with matrices of one layout: their entries lie at `rows`, `columns`."""

    layout: MatrixLayout
    rows: np.ndarray
    columns: np.ndarray

    def key(self, values: Any) -> np.ndarray:
        """What the factors of a matrix are found by; they are made unless they are kept."""
        key = digest_of(repr(self.layout), np.asarray(values))
        self._factors(key, values)
        return np.frombuffer(key, np.uint8).copy()

    def solve(self, key: Any, values: Any, rhs: Any) -> np.ndarray:
        """x, of the dtype of the right-hand side."""
        factors, transposed = self._factors(np.asarray(key).tobytes(), values)
        return factors.solve(np.asarray(rhs), transposed).astype(rhs.dtype)

    def _factors(self, key: bytes, values: Any) -> tuple[Factors, bool]:
        def make() -> Any:
            from scipy.sparse import coo_matrix

            size = self.layout.size
            return canonical(coo_matrix((np.asarray(values), (self.rows, self.columns)), shape=(size, size)))

        return factors_of(key, make)


def _host(matrix: StencilMatrix) -> tuple[_Host, jax.Array]:
    """The host's part, and the entries that it is handed."""
    values, rows, columns = matrix.entries()
    return _Host(matrix.layout, rows.astype(np.int32), columns.astype(np.int32)), values

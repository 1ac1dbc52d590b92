"""Factors of sparse matrices on the host, kept from call to call."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

KEPT = 4
"""Factorisations that are kept: those used last."""

WORKS = 1e-14
"""The residual over |A| |x| from which on factors with few exchanges of rows are made again with the largest pivots."""

SMALL_PIVOT = 0.1
"""A pivot on the diagonal is small that is less than so much of the largest."""


@dataclass(frozen=True, eq=False)
class Factors:
    """L and U of a matrix, by SuperLU; None where it is singular or they do not fit in memory."""

    lu: Any

    def solve(self, rhs: np.ndarray, transposed: bool) -> np.ndarray:
        """x with A x = rhs, or Aᵀ x = rhs; zeros where the matrix has no factors."""
        if self.lu is None:
            return np.zeros_like(rhs)
        return self.lu.solve(rhs.astype(self.lu.U.dtype), "T" if transposed else "N")


class FactorStore:
    """The factors used last, by the digests of what they are of, the transpose included."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = Lock()
        self._last: list[Factors] = []
        self._names: dict[bytes, tuple[Factors, bool]] = {}
        self.made = 0
        """Factorisations so far."""

    def find(self, name: bytes) -> tuple[Factors, bool] | None:
        """Kept factors, and whether of the transpose."""
        with self._lock:
            found = self._names.get(name)
            if found is not None:
                self._last.remove(found[0])
                self._last.append(found[0])
            return found

    def name(self, name: bytes, factors: Factors, transposed: bool) -> None:
        """Lets factors be found by one more name."""
        with self._lock:
            if factors in self._last:
                self._names[name] = (factors, transposed)

    def keep(self, factors: Factors) -> None:
        """Keeps factors, and lets go of those used longest ago."""
        with self._lock:
            self.made += 1
            self._last.append(factors)
            for old in self._last[: -self._kept]:
                self._names = {name: found for name, found in self._names.items() if found[0] is not old}
            self._last = self._last[-self._kept :]


STORE = FactorStore()


def factors_of(key: bytes, make: Callable[[], Any], store: FactorStore = STORE) -> tuple[Factors, bool]:
    """Factors for what a key stands for, and whether they are of the transpose: kept ones, or those of the matrix
    (scipy, CSC) that `make` gives. Matrices with the same entries share them, whatever their keys."""
    found = store.find(key)
    if found is not None:
        return found
    matrix = make()
    own = _digest(matrix)
    found = store.find(own)
    if found is None:
        found = Factors(_factor(matrix)), False
        store.keep(found[0])
        store.name(own, *found)
        store.name(_digest(canonical(matrix.T)), found[0], True)
    store.name(key, *found)
    return found


def _factor(matrix: Any) -> Any:
    """SuperLU's factors; None if there are none.

    Patterns of stencils are symmetric: ordered by A + Aᵀ, with the diagonal as pivot where it is not small, they fill
    half as much as by columns with the largest pivots. The latter are taken where that is not enough, and where the
    diagonal is small from the start, as for the pressure of a flow: the former fill many times as much there.
    """
    from scipy.sparse.csgraph import structural_rank
    from scipy.sparse.linalg import splu

    if structural_rank(matrix) < matrix.shape[0]:  # SuperLU would print complaints of its own
        return None
    ways: tuple[dict[str, Any], ...] = (dict(permc_spec="COLAMD"),)
    if not _has_small_pivots(matrix):
        ways = dict(permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=SMALL_PIVOT, options=dict(SymmetricMode=True)), *ways
    known = np.cos(np.arange(matrix.shape[0]))
    trial, size = matrix @ known, np.linalg.norm(abs(matrix) @ np.abs(known))
    for way in ways:
        try:
            found = splu(matrix, **way)
        except (RuntimeError, MemoryError):
            continue
        left = np.linalg.norm(matrix @ found.solve(trial) - trial)
        if left <= WORKS * size or way is ways[-1]:
            return found
    return None


def _has_small_pivots(matrix: Any) -> bool:
    """Whether an entry of the diagonal is small beside others of its row and of its column."""
    sizes = abs(matrix)
    others = np.minimum(*(sizes.max(axis=axis).toarray().ravel() for axis in (0, 1)))
    return bool((sizes.diagonal() < SMALL_PIVOT * others).any())


def canonical(matrix: Any) -> Any:
    """A scipy matrix as CSC in double precision: equal places summed, zeros left out, in order."""
    found = matrix.astype(np.result_type(matrix.dtype, np.float64)).tocsc()
    found.sum_duplicates()
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _digest(matrix: Any) -> bytes:
    parts = matrix.indptr, matrix.indices, matrix.data
    return digest_of(str((matrix.shape, matrix.dtype.str)), *parts)


def digest_of(what: str, *arrays: np.ndarray) -> bytes:
    """16 bytes that stand for arrays and words about them."""
    found = hashlib.blake2b(what.encode(), digest_size=16)
    for array in arrays:
        found.update(np.ascontiguousarray(array).data.cast("B"))
    return found.digest()

"""Eigenvalues of sparse matrices on the host: dense where small, else Lanczos and Arnoldi with shifts."""

from typing import Any, NamedTuple

import numpy as np

from ..errors import RunError

SMALL = 500
"""Unknown values up to which all eigenvalues are computed."""
MORE = 8
"""Eigenvalues looked at besides those wanted, where the order of those found is not that wanted."""
BALANCED = 1e-9
"""Relative size of what a matrix may differ from a symmetric one by, scaled."""


class Pairs(NamedTuple):
    """Eigenvalues (k,) with right and left vectors in rows: A v = λ v, wᵀA = λ wᵀ; `left` None where not asked for."""

    values: np.ndarray
    right: np.ndarray
    left: np.ndarray | None


def eigenpairs(matrix: Any, count: int, sigma: Any, left: bool, symmetric: bool | None) -> Pairs:
    """The `count` eigenvalues of a square scipy matrix that `sigma` asks for, in its order.

    `sigma`: "smallest" or "largest" magnitude, "growing" (largest real part), or a number that they are near to. A
    matrix that is symmetric once its unknown values are scaled (as with mirrors at walls) has real ones; `symmetric`
    says that it is (raises RunError if not) or is not to be looked for.
    """
    scale = None if symmetric is False else find_scale(matrix)
    if scale is None:
        if symmetric:
            raise RunError(
                "symmetric=True: the matrix is not symmetric, nor similar to a symmetric one by scaling. Leave the "
                "option out; eigenvalues may then be complex."
            )
        return _general(matrix, count, sigma, left)
    balanced = _scaled(matrix, scale)
    values, vectors = _symmetric(balanced, count, sigma)
    right, other = vectors * scale, np.conj(vectors) / scale
    return Pairs(values, right, other if left else None)


def find_scale(matrix: Any) -> np.ndarray | None:
    """d with D⁻¹ A D symmetric (Hermitian), D = diag(d); None where there is none.

    dᵢ²/dⱼ² = aᵢⱼ/aⱼᵢ on every pair of entries: their logarithms are differences of those of d², up to the rounding.
    """
    from scipy.sparse import coo_array, csr_array, eye_array
    from scipy.sparse.linalg import splu

    own, size = matrix.tocoo(), matrix.shape[0]
    turned = csr_array(matrix.conj().T)
    rows, columns = own.coords
    ahead = np.asarray(own.data)
    behind = np.asarray(turned[rows, columns]).ravel() if own.nnz else ahead
    off = rows != columns
    if np.any(np.abs(np.imag(ahead[~off])) > BALANCED * np.abs(ahead).max(initial=0)):
        return None
    rows, columns, ahead, behind = rows[off], columns[off], ahead[off], behind[off]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = ahead / behind
    if not np.all(np.isfinite(ratio)) or np.any(np.abs(np.imag(ratio)) > BALANCED) or np.any(np.real(ratio) <= 0):
        return None
    wanted, edges = np.log(np.real(ratio)) / 2, np.arange(len(ratio))
    if not len(ratio) or np.abs(wanted).max() < BALANCED:
        return np.ones(size)
    ones, shape = np.ones(len(ratio)), (len(ratio), size)
    gradient = csr_array(coo_array((ones, (edges, rows)), shape) - coo_array((ones, (edges, columns)), shape))
    normal = splu((gradient.T @ gradient + 1e-9 * eye_array(size)).tocsc())
    found = normal.solve(gradient.T @ wanted)
    for _ in range(2):  # what fixes the constant is refined away
        found += normal.solve(gradient.T @ (wanted - gradient @ found))
    return None if np.abs(gradient @ found - wanted).max() > BALANCED else np.exp(found)


def _scaled(matrix: Any, scale: np.ndarray) -> Any:
    """D⁻¹ A D, made symmetric to the last digit."""
    from scipy.sparse import diags_array

    found = diags_array(1 / scale) @ matrix @ diags_array(scale)
    return ((found + found.conj().T) / 2).tocsc()


def _symmetric(matrix: Any, count: int, sigma: Any) -> tuple[np.ndarray, np.ndarray]:
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    size = matrix.shape[0]
    if size <= SMALL or count >= size - 1:
        values, vectors = eigh(matrix.toarray())
    elif sigma == "largest":
        values, vectors = _converged(eigsh, matrix, count, which="LM")
    else:  # no eigenvalue lies beyond the rightmost disc of Gershgorin's
        shift = _right_bound(matrix) if sigma == "growing" else _shift(matrix, sigma)
        values, vectors = _converged(eigsh, matrix, count, sigma=shift, which="LM")
    order = _order(values, sigma)[:count]
    return values[order], vectors[:, order].T


def _general(matrix: Any, count: int, sigma: Any, left: bool) -> Pairs:
    from scipy.linalg import eig
    from scipy.sparse.linalg import eigs

    size = matrix.shape[0]
    if size <= SMALL or count >= size - 2:
        found: Any = eig(matrix.toarray(), left=True, right=True)
        values, other, vectors = found
        order = _order(values, sigma)[:count]
        return Pairs(values[order], vectors[:, order].T, np.conj(other[:, order].T) if left else None)
    more = min(count + MORE, size - 2)
    if sigma == "largest":
        values, vectors = _converged(eigs, matrix, count, which="LM")
    elif sigma == "growing":
        near = _converged(eigs, matrix, more, sigma=_right_bound(matrix), which="LM")
        far = _converged(eigs, matrix, count, which="LR", tol=1e-6, partial=True)
        values, vectors = _joined(matrix, near, far)
    else:
        values, vectors = _converged(eigs, matrix, count, sigma=_shift(matrix, sigma), which="LM")
    order = _order(values, sigma)[:count]
    values, right = values[order].astype(complex), vectors[:, order].T
    return Pairs(values, right, _left(matrix, values) if left else None)


def _converged(solver: Any, matrix: Any, count: int, partial: bool = False, **options: Any) -> tuple[Any, Any]:
    from scipy.sparse.linalg import ArpackNoConvergence

    start = np.random.default_rng(0).standard_normal(matrix.shape[0]).astype(matrix.dtype)
    try:
        return solver(matrix.tocsc(), count, v0=start, **options)
    except ArpackNoConvergence as error:
        if partial:
            return error.eigenvalues, error.eigenvectors
        raise RunError(
            f"{len(error.eigenvalues)} of {count} eigenvalues converged. Ask for fewer, or for those near a number, "
            f"sigma=-10.0."
        ) from None


def _joined(matrix: Any, near: tuple[Any, Any], far: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs from two searches, each once."""
    values, vectors = list(near[0]), list(near[1].T)
    size = np.abs(matrix).sum(axis=1).max()
    for value, vector in zip(far[0], far[1].T, strict=True):
        good = np.linalg.norm(matrix @ vector - value * vector) < 1e-6 * size
        if good and np.min(np.abs(np.asarray(values) - value)) > 1e-5 * max(abs(value), 1e-5 * size):
            values.append(value)
            vectors.append(vector)
    return np.asarray(values), np.asarray(vectors).T


def _left(matrix: Any, values: np.ndarray) -> np.ndarray:
    """wᵀA = λ wᵀ by inverse iteration."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    size, found = np.abs(matrix).sum(axis=1).max(), []
    for value in values:
        moved = (matrix.astype(complex) - (value + 1e-10 * size) * eye_array(matrix.shape[0])).tocsc()
        factors, vector = splu(moved), np.random.default_rng(0).standard_normal(matrix.shape[0]).astype(complex)
        for _ in range(3):
            vector = factors.solve(vector, "T")
            vector /= np.linalg.norm(vector)
        found.append(vector)
    return np.asarray(found)


def _shift(matrix: Any, sigma: Any) -> Any:
    """A shift beside zero for the smallest ones: the matrix itself may be singular."""
    return 1e-10 * np.abs(matrix).sum(axis=1).max() if sigma == "smallest" else sigma


def _right_bound(matrix: Any) -> float:
    """No eigenvalue has a real part beyond this (Gershgorin)."""
    diagonal, sums = matrix.diagonal(), np.asarray(np.abs(matrix).sum(axis=1)).ravel()
    bound = float(np.max(np.real(diagonal) + sums - np.abs(diagonal)))
    return bound + 1e-8 * float(sums.max())


def _order(values: np.ndarray, sigma: Any) -> np.ndarray:
    """How those wanted stand: first by what is asked for, then by imaginary part, upper ones first."""
    if sigma == "growing":
        key = -np.real(values)
    elif sigma == "largest":
        key = -np.abs(values)
    else:
        key = np.abs(values - (0.0 if sigma == "smallest" else sigma))
    rounded = np.round(key / (np.abs(key).max(initial=0) or 1.0), 12)
    return np.lexsort((-np.imag(values), rounded))

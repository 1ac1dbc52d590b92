"""Gauss–Newton's quadratic form at the parameters found: covariance and resolution."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError, RunError
from ._frame import is_positive
from ._objective import Objective
from ._transforms import Logistic, Softplus

MOST = 8192  # parameters for which a matrix of their pairs is still made
SINGULAR = 1e-14
BESIDE = 12.0  # a free variable beside its bound, about 6e-6 of the parameter's size from it
MIXED = 1e-4  # of the slopes; what entries of a transform give each other beyond it
CHUNK = 256  # columns of a Jacobian made at once


@dataclass(frozen=True, eq=False)
class Quadratic:
    """JᵀJ of the data and LᵀL of regularisation by the free variables, and the data's residuals r.

    `slopes` are dp/dz: (size,) where each variable moves a parameter of its own, else the matrix, (size, size).
    """

    data: np.ndarray
    prior: np.ndarray
    slopes: np.ndarray
    residuals: np.ndarray

    @cached_property
    def _free_inverse(self) -> np.ndarray:
        """(JᵀJ + LᵀL)⁻¹ by the free variables."""
        matrix = self.data + self.prior
        size = np.sqrt(np.diagonal(matrix))
        if (size == 0).any():
            self._refuse(int(np.sum(size == 0)))
        values = matrix / np.outer(size, size)
        spectrum = np.linalg.eigvalsh(values) if len(values) <= 512 else None
        if spectrum is not None and spectrum[0] <= SINGULAR * spectrum[-1]:
            self._refuse(int(np.sum(spectrum <= SINGULAR * spectrum[-1])))
        try:
            root = np.linalg.cholesky(values)
        except np.linalg.LinAlgError:
            self._refuse(None)
        half = np.linalg.inv(root)
        return half.T @ half / np.outer(size, size)

    def _refuse(self, count: int | None) -> None:
        some = "some" if count is None else str(count)
        raise RunError(
            f"The data leave {some} of {len(self.data)} combinations of parameters undetermined, and their variance "
            f"is infinite. Add regularise=fd.tikhonov(..., order=0), or take fewer parameters."
        )

    def inverse(self) -> np.ndarray:
        """(JᵀJ + LᵀL)⁻¹ by the parameters."""
        if self.slopes.ndim == 2:
            return self.slopes @ self._free_inverse @ self.slopes.T
        return self._free_inverse * np.outer(self.slopes, self.slopes)

    def resolution(self) -> np.ndarray:
        """(JᵀJ + LᵀL)⁻¹ JᵀJ by the parameters."""
        found = self._free_inverse @ self.data
        if self.slopes.ndim == 2:
            return np.linalg.solve(self.slopes.T, (self.slopes @ found).T).T
        return self.slopes[:, None] * found / self.slopes

    def variance(self, noise: Any) -> float:
        """σ² of the residuals: given by its root, or estimated."""
        if noise is not None:
            if not is_positive(noise):
                raise DeclarationError(f"noise= is a standard deviation, a positive number, got {noise!r}.")
            return float(noise) ** 2
        used = float(np.sum(self._free_inverse * self.data.T))
        free = len(self.residuals) - used
        if free < 0.5:
            raise RunError(
                f"{len(self.residuals)} residuals and {used:.1f} parameters determined by them leave nothing to "
                f"estimate their noise from. Give it: noise=1.0 where residuals are weighted by 1/σ."
            )
        return float(np.sum(self.residuals**2)) / free


def to_quadratic(objective: Objective, vector: jax.Array) -> Quadratic:
    """The form at a vector, in double precision."""
    if vector.size > MOST:
        raise RunError(
            f"The matrix of {vector.size} parameters would take {vector.size**2 / 2**27:.1f} GiB; {MOST} parameters at "
            f"most are served. Describe the field by fewer numbers."
        )
    vector = _off_bounds(objective, vector)
    residuals, data, prior = _linear(objective, vector)
    prior = prior * objective.subsets
    return Quadratic(data.T @ data, prior, _slopes(objective, vector), residuals)


def _slopes(objective: Objective, vector: jax.Array) -> np.ndarray:
    """dp/dz, (size,), or (size, size) where a transform of one's own mixes entries."""
    leaves, parts = objective.space.leaves, objective.space.split(vector)
    turns = [_slope(leaf.to_parameter, part) for leaf, part in zip(leaves, parts, strict=True)]
    if all(turn.ndim == 1 for turn in turns):
        return np.concatenate(turns)
    found, first = np.zeros((vector.size, vector.size)), 0
    for turn in turns:
        own = slice(first, first + len(turn))
        found[own, own], first = np.diag(turn) if turn.ndim == 1 else turn, own.stop
    return found


def _slope(forward: Callable[[jax.Array], jax.Array], free: jax.Array) -> np.ndarray:
    """That of one parameter: the sums of its Jacobian's rows, where these tell its product with another vector."""

    def push(tangent: Any) -> np.ndarray:
        return np.ravel(jax.jvp(forward, (free,), (jnp.asarray(tangent, free.dtype),))[1]).astype(float)

    rows, odd = push(np.ones(free.shape)), np.sin(1.0 + np.arange(free.size))
    if np.allclose(push(odd), rows * odd, rtol=MIXED, atol=MIXED * np.abs(rows).max()):
        return rows
    return np.asarray(jax.jacfwd(forward)(free), float).reshape(free.size, free.size)


def _off_bounds(objective: Objective, vector: jax.Array) -> jax.Array:
    """The vector with variables at their bounds moved to where their derivatives are still told from nothing."""
    parts = []
    for leaf, part in zip(objective.space.leaves, objective.space.split(vector), strict=True):
        if isinstance(leaf.transform, Logistic | Softplus):
            part = jnp.clip(part, -BESIDE, BESIDE if isinstance(leaf.transform, Logistic) else None)
        parts.append(part)
    return jnp.concatenate(parts)


def _linear(objective: Objective, vector: jax.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """r and J of the data, and LᵀL; for few variables by what is compiled already."""
    if objective.compiled is not None and vector.size <= CHUNK:
        residuals, data, _, by_prior = (np.asarray(part, float) for part in objective.compiled(vector))
        return residuals, data, by_prior.T @ by_prior
    return *_jacobian(objective.data_residuals, vector), _normal(objective.prior_residuals, vector)


def _jacobian(function: Any, vector: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """r, (num,), and J, (num, size): column by column, or row by row where there are fewer rows."""
    shape = jax.eval_shape(function, vector)
    if shape.size == 0:
        return np.zeros(0), np.zeros((0, vector.size))
    rows = shape.size < vector.size
    count = shape.size if rows else vector.size

    @jax.jit
    def some(basis: jax.Array) -> tuple[jax.Array, jax.Array]:
        if rows:
            value, back = jax.vjp(function, vector)
            return value, jax.vmap(lambda one: back(one)[0])(basis)
        value, forward = jax.linearize(function, vector)
        return value, jax.vmap(forward)(basis)

    step = min(CHUNK, count)
    parts, value = [], np.zeros(0)
    for first in range(0, count, step):
        value, part = some(jnp.eye(step, count, first, shape.dtype if rows else vector.dtype))
        parts.append(np.asarray(part, float))
    found = np.concatenate(parts)[:count]
    return np.asarray(value, float), found if rows else found.T


def _normal(function: Any, vector: jax.Array) -> np.ndarray:
    """LᵀL, (size, size), by products of Lᵀ and L with a few columns at a time."""
    count = vector.size
    if jax.eval_shape(function, vector).size == 0:
        return np.zeros((count, count))

    @jax.jit
    def some(basis: jax.Array) -> jax.Array:
        forward, back = jax.linearize(function, vector)[1], jax.vjp(function, vector)[1]
        return jax.vmap(lambda one: back(forward(one))[0])(basis)

    step = min(CHUNK, count)
    parts = [np.asarray(some(jnp.eye(step, count, first, vector.dtype)), float) for first in range(0, count, step)]
    return np.concatenate(parts)[:count]

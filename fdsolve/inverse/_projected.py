"""Least squares between bounds: steps to where the linear model of the residuals, within the bounds, is least.

Kanzow, Yamashita and Fukushima, J. Comput. Appl. Math. 172, 375 (2004); the damping is Nielsen's (IMM-REP-1999-05,
Technical University of Denmark, 1999).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._methods import BY_NAME, DAMPING, DENSE, AbstractMethod, Report
from ._objective import Linear, Objective

TURNS = 200
"""Changes of the variables that are at bounds, after which a step is taken as it is."""
SETTLED = 1e-12
"""A slope of the model, of that where the step began, that is none."""
HALVINGS = 40
LEAST = 1e-4
"""Of the fall that the model promises, what the loss falls by at least."""


@dataclass(frozen=True, eq=False)
class Projected(AbstractMethod):
    """Levenberg–Marquardt, or Gauss–Newton where it is not `damped`, between the limits of the objective's space;
    `scaled`: damped by the lengths of the Jacobian's columns instead of alike."""

    damped: bool
    scaled: bool = False

    @property
    def wants_residuals(self) -> bool:
        return True

    def is_dense(self, size: int) -> bool:
        return True

    def rescaled(self) -> AbstractMethod | None:
        return replace(self, scaled=True) if self.damped and not self.scaled else None

    def begin(self, objective: Objective, vector: jax.Array, steepness: float) -> Callable[[Any], Report]:
        search = _Steps(self, objective, vector)
        return lambda subset: search.advance()


def between(method: AbstractMethod, size: int) -> AbstractMethod | None:
    """The same method for variables with limits, where it holds Jacobians as matrices; None where there is none."""
    if size > DENSE or method not in (BY_NAME["levenberg-marquardt"], BY_NAME["gauss-newton"]):
        return None
    damped = method is BY_NAME["levenberg-marquardt"]
    return Projected(method.name, method.max_iterations, method.patience, damped)


class _Steps:
    """What goes on from step to step: the point, what the residuals are there, the damping, and the next point."""

    def __init__(self, method: Projected, objective: Objective, vector: jax.Array) -> None:
        assert objective.compiled is not None
        self._method, self._linearise, self._unit = method, objective.compiled, objective.unit
        self._dtype = vector.dtype
        self._low, self._high = (np.asarray(one, vector.dtype).astype(float) for one in objective.space.limits)
        self._point = self._next = np.clip(np.asarray(vector, float), self._low, self._high)
        self._value, self._matrix = np.zeros(0), np.zeros((0, vector.size))
        self._loss, self._promised = np.inf, np.inf
        self._damping, self._growth = 0.0, 2.0

    def advance(self) -> Report:
        """Looks at the next point, and goes there if the loss is less, or the method is not damped."""
        value, matrix = _both(self._linearise(jnp.asarray(self._next, self._dtype)), self._unit)
        loss = float(value @ value) / 2
        first = self._matrix.size == 0
        sound = np.isfinite(loss) and bool(np.isfinite(matrix).all())
        accepted = first or not self._method.damped or (sound and loss <= self._loss)
        if self._method.damped:
            self._adapt(first, accepted, (self._loss - loss) / self._promised if sound and not first else 0.0, matrix)
        if accepted:
            self._point, self._value, self._matrix, self._loss = self._next, value, matrix, loss
        slope = self._value @ self._matrix
        out = ((self._point <= self._low) & (slope > 0)) | ((self._point >= self._high) & (slope < 0))
        if np.isfinite(self._loss) and np.isfinite(self._matrix).all():
            self._propose()
        vector = jnp.asarray(self._point, self._dtype)
        return Report(vector, self._loss, float(np.linalg.norm(np.where(out, 0.0, slope))), accepted)

    def _adapt(self, first: bool, accepted: bool, ratio: float, matrix: np.ndarray) -> None:
        """The damping by how much of the promised fall there was."""
        if first:
            most = np.max(np.sum(matrix**2, axis=0), initial=0.0)
            self._damping = DAMPING * (1.0 if self._method.scaled else float(most))
        elif accepted and ratio > LEAST:
            self._damping *= max(1 / 3, 1 - (2 * min(ratio, 1.0) - 1) ** 3)
            self._growth = 2.0
        else:
            self._damping, self._growth = self._damping * self._growth, 2 * self._growth

    def _propose(self) -> None:
        """The next point, and the fall of the loss that the model promises there."""
        sizes = np.linalg.norm(self._matrix, axis=0) if self._method.scaled else np.ones_like(self._point)
        rows = np.concatenate([self._matrix, np.diag(self._damping**0.5 * sizes)])
        wanted = np.concatenate([-self._value, np.zeros_like(self._point)])
        step = nearest(rows, wanted, self._low - self._point, self._high - self._point)
        there = np.clip(self._point + step, self._low, self._high)
        self._next = np.clip(np.asarray(there, self._dtype).astype(float), self._low, self._high)
        left = self._value + self._matrix @ (self._next - self._point)
        self._promised = max(self._loss - float(left @ left) / 2, float(np.finfo(float).tiny))


def _both(seen: Linear, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """All residuals and their Jacobian, over √unit."""
    value, matrix = (np.asarray(one, float) for one in seen.both())
    return value / unit**0.5, matrix / unit**0.5


def nearest(rows: np.ndarray, wanted: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The step s between `low` ≤ 0 and `high` ≥ 0 with the least ‖rows s − wanted‖; the shortest where many are.

    Newton's steps of the variables that are not at a bound, or would leave it, projected to the bounds and halved until
    they help (Bertsekas, SIAM J. Control Optim. 20, 221, 1982).
    """
    root, right = _triangle(rows, wanted)
    step, first = np.zeros(rows.shape[1]), 0.0
    for turn in range(TURNS):
        left = root @ step - right
        slope = left @ root
        free = ~(((step <= low) & (slope > 0)) | ((step >= high) & (slope < 0)))
        steep = float(np.linalg.norm(slope[free]))
        first = first if turn else steep
        if steep <= SETTLED * first:
            break
        change = np.zeros_like(step)
        change[free] = _shortest(root[:, free], -left)
        for halving in range(HALVINGS):
            tried = np.clip(step + 0.5**halving * change, low, high)
            fall = left @ left - np.sum((root @ tried - right) ** 2)
            if fall >= -LEAST * 2 * float(slope @ (tried - step)) and fall > 0:
                break
        else:
            break
        step = tried
    return step


def _triangle(rows: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fewer rows with the same least squares."""
    orthogonal, root = np.linalg.qr(rows)
    return root, orthogonal.T @ wanted


def _shortest(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The shortest least-squares solution, columns scaled to one size."""
    sizes = np.linalg.norm(matrix, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    return np.linalg.lstsq(matrix / sizes, wanted, rcond=None)[0] / sizes

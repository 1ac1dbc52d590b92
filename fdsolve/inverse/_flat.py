"""Is a point one where the loss falls no further? Short steps do not tell, so longer ones are tried."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from ._methods import Report
from ._objective import Objective

ALLOWED = 10.0
"""Of the tolerance: what the loss may still fall by."""
TRIALS = 12
"""Steps that are tried; on a parabola the second one is at its bottom."""
FEW = 32
"""Variables up to which the curvature is looked at too."""
ROUNDINGS = 10
"""Of residuals, whose squares are no loss."""
CURVED, BENT = 1e-6, 1e-4
"""Curvature, of that along the variables, below which it is rounding, and beyond which a negative one is none."""


class Flatness:
    """Tells whether the loss of an objective, the mean of all `subsets`, falls no further; `tolerance` is ε.

    Where it was found to fall, it is taken to do so until the gradient is half as large, unless asked `anew`: so many
    short steps cost few trials.
    """

    def __init__(self, objective: Objective, tolerance: float, subsets: Sequence[Any] = (None,)) -> None:
        inside = objective.space.inside
        loss = jax.jit(lambda vector, subset: objective.loss(inside(vector), subset))
        slope = jax.jit(jax.grad(objective.loss))
        # One by one: their derivatives together would take the memory of all.
        self._loss = lambda vector: sum(float(loss(vector, one)) for one in subsets) / len(subsets)
        self._gradient = lambda vector: sum(np.asarray(slope(vector, one), float) for one in subsets) / len(subsets)
        self._objective = objective
        self._tolerance, self._rounding = tolerance, objective.space.rounding
        self._steep = math.inf

    def report(self, vector: jax.Array) -> Report:
        """Loss and gradient at a point."""
        return Report(vector, self._loss(vector), float(np.linalg.norm(self._gradient(vector))), True)

    def holds(self, report: Report, anew: bool = False) -> bool:
        """Whether no step down the gradient g lowers the loss L by more than 10 ε|L|, be variables measured by the
        largest of them or each by its own size.

        Steps are at most √ε of the variables. From a step of length t that does not help, the next one goes to the
        bottom of the parabola through what is known, until t|g| ≤ 10 ε|L| promises too little, or t is lost in
        rounding.
        """
        enough = ALLOWED * self._tolerance * abs(report.loss)
        size = 1 + float(np.max(np.abs(report.vector), initial=0.0))
        if self._tolerance**0.5 * size * report.gradient_norm <= enough:
            return True
        if report.gradient_norm > 0.5 * self._steep and not anew:
            return False
        if self._falls(report, size, enough):
            self._steep = report.gradient_norm
            return False
        return True

    def holds_all_around(self, report: Report) -> bool:
        """Whether the loss falls by no more than 10 ε|L| along what its curvature promises either: at the bottom of the
        paraboloid through the point, and away from a maximum or a saddle; or only by steps that are no larger than
        10 ε of the variables. True where there are many of these.

        Down the gradient the steepest variables hide the others, which may be many orders flatter.
        """
        point = np.asarray(report.vector, float)
        if not 0 < point.size <= FEW:
            return True
        slope, curvature = self._curvature(report.vector)
        free = ~self._blocked(point, slope)
        if not free.any():
            return True
        if not (np.isfinite(slope).all() and np.isfinite(curvature).all()):
            return True
        # Of a loss that was 1 at the start, or that roundings of the variables raise, squares of roundings are left.
        noise = 1 + 0.5 * float(np.abs(point) @ np.abs(curvature) @ np.abs(point))
        enough = ALLOWED * max(self._tolerance, self._rounding) * abs(report.loss)
        enough += noise * (ROUNDINGS * self._rounding) ** 2
        for part in self._promising(point[free], slope[free], curvature[np.ix_(free, free)]):
            step = np.zeros_like(point)
            step[free] = part
            fall = report.loss - float(self._loss((point + step).astype(report.vector.dtype)))
            if fall > enough and np.max(np.abs(step) / _sizes_of(point)) > ALLOWED * self._tolerance:
                return False
        return True

    def _curvature(self, vector: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian: of residuals r by JᵀJ, of other losses by differences of gradients."""
        if self._objective.compiled is not None:
            value, matrix = (np.asarray(one, float) for one in self._objective.compiled(vector).both())
            return matrix.T @ value / self._objective.unit, matrix.T @ matrix / self._objective.unit
        point = np.asarray(vector, float)
        steps, columns = self._rounding ** (1 / 3) * _sizes_of(point), []
        for k, step in enumerate(steps):
            ends = [point + sign * step * (np.arange(point.size) == k) for sign in (1, -1)]
            up, down = (np.asarray(self._gradient(one.astype(vector.dtype)), float) for one in ends)
            columns.append((up - down) / (2 * step))
        return np.asarray(self._gradient(vector), float), (np.array(columns) + np.array(columns).T) / 2

    def _blocked(self, point: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Which variables are at a limit beyond which the loss would fall."""
        low, high = self._objective.space.limits
        return ((point <= low) & (slope > 0)) | ((point >= high) & (slope < 0))

    def _promising(self, point: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> Iterator[np.ndarray]:
        """Steps along which the loss should fall, if it is a paraboloid, or bent down."""
        along = np.abs(np.diag(curvature))
        units = 1 / np.sqrt(np.where(along > 0, along, 1.0))
        values, vectors = np.linalg.eigh(units[:, None] * curvature * units)
        seen = np.abs(values) > CURVED * np.abs(values).max()
        down = -units * (vectors[:, seen] @ ((units * slope) @ vectors[:, seen] / np.abs(values[seen])))
        yield from (share * down for share in (1.0, 0.3, 0.1, 0.01))
        if values[0] < -BENT:
            away = units * vectors[:, 0]
            longest = 1 / np.max(np.abs(away) / _sizes_of(point))
            yield from (sign * share * longest * away for share in (1e-2, 1e-1, 1e-3, 1.0) for sign in (1, -1))

    def _falls(self, report: Report, size: float, enough: float) -> bool:
        slope, own = np.asarray(self._gradient(report.vector), float), np.abs(np.asarray(report.vector, float))
        slope = np.where(self._blocked(np.asarray(report.vector, float), slope), 0.0, slope)
        return self._falls_along(report, slope, np.full_like(own, size), enough) or (
            bool((own < 0.1 * size).any()) and self._falls_along(report, slope, own, enough)
        )

    def _falls_along(self, report: Report, slope: np.ndarray, sizes: np.ndarray, enough: float) -> bool:
        """Down the gradient by the variables over their sizes."""
        steep, length = float(np.linalg.norm(sizes * slope)), self._tolerance**0.5
        for _ in range(TRIALS):
            if length * steep <= enough or length <= 10 * self._rounding:
                return False
            step = (length / steep * sizes**2 * slope).astype(report.vector.dtype)
            fall = report.loss - float(self._loss(report.vector - step))
            if fall > enough:
                return True
            bottom = steep * length**2 / (2 * (length * steep - fall)) if math.isfinite(fall) else 0.1 * length
            length = min(0.5 * length, bottom)
        return False


def _sizes_of(point: np.ndarray) -> np.ndarray:
    """The size of each variable; of those that are 0, one more than the largest."""
    return np.where(point == 0, 1 + np.max(np.abs(point)), np.abs(point))

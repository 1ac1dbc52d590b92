"""Is a point one where the loss falls no further? Short steps do not tell, so longer ones are tried."""

import math

import jax
import numpy as np

from ._methods import Report
from ._objective import Objective

ALLOWED = 10.0
"""Of the tolerance: what the loss may still fall by."""
TRIALS = 12
"""Steps that are tried; on a parabola the second one is at its bottom."""


class Flatness:
    """Tells whether the loss of an objective falls no further, compiled once; `tolerance` is ε.

    Where it was found to fall, it is taken to do so until the gradient is half as large, unless asked `anew`: so many
    short steps cost few trials.
    """

    def __init__(self, objective: Objective, tolerance: float) -> None:
        self._loss, self._slope = jax.jit(objective.loss), jax.jit(jax.grad(objective.loss))
        self._tolerance, self._rounding = tolerance, objective.space.rounding
        self._steep = math.inf

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

    def _falls(self, report: Report, size: float, enough: float) -> bool:
        slope, own = np.asarray(self._slope(report.vector), float), np.abs(np.asarray(report.vector, float))
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

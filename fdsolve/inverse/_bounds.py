"""Bounds that hold: parameters whose best value is a bound, which methods for residuals only creep up to.

Through the transforms a bound lies at infinity, where residuals hardly change and their linear models mislead. So such
variables are put there, the others go on, and in the end each is asked whether the loss falls where it would leave.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from ._methods import Report
from ._objective import Objective
from ._transforms import Logistic, Softplus

CLOSE = 0.1
"""The distance of a parameter to its bound, over the size of its transform, from which on it may be put there."""
AT = 40.0
"""A free variable at its bound: e⁻⁴⁰ is lost in rounding."""
FADED, LOST = 1e-2, 1e-4
"""The same distance, from which on residuals hardly change with a parameter, and no more: a method may have lost it."""
ASKED = 12.0
"""A free variable beside its bound, about 6e-6 from it, where it is asked whether it would leave."""
STARTS = (4.0, 2.0, 1.0, 0.0)
"""Where it goes on from if so, about 0.02 from it, and further away each time that it went back."""
SLOW, TURNS = 5e-3, 3
"""A loss that falls by less of itself, so many times one after the other, creeps."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Which variables are held at their bounds, and how often each has been let go again."""

    objective: Objective
    held: np.ndarray
    loose: np.ndarray

    @classmethod
    def of(cls, objective: Objective, size: int) -> "Bounds":
        return cls(objective, np.zeros(size, bool), np.zeros(size, int))

    def press(self, reports: list[Report], stopped: bool) -> tuple["Bounds", jax.Array] | None:
        """Bounds that hold more variables, and the vector there; None where nothing creeps up to a bound.

        `stopped`: the search ends here without success.
        """
        known = [one for one in reports if np.isfinite(one.loss) and one.accepted]
        at = int(np.argmin([one.loss for one in known])) if stopped and known else len(known) - 1
        if at < 1 or not (stopped or _creeps(known)):
            return None
        last, before = known[at], known[at - 1]
        gaps, sides = self._gaps(last.vector)
        new = (gaps < CLOSE) & (gaps < self._gaps(before.vector)[0]) & ~self.held & (self.loose == 0)
        if not new.any():
            return None
        vector = jnp.where(new, AT * sides, last.vector)
        if not float(self.objective.loss(vector)) <= (1 + CLOSE) * last.loss:  # the others have not followed yet
            return None
        return replace(self, held=self.held | new), vector

    def num_near(self, vector: jax.Array) -> int:
        """How many parameters are near their bounds, and not held there."""
        return int(np.sum((self._gaps(vector)[0] < CLOSE) & ~self.held))

    def leaving(self, vector: jax.Array) -> np.ndarray:
        """Which variables at their bounds, held there or not, would leave: the loss falls away from there."""
        gaps, sides = self._gaps(vector)
        near = self.held | (gaps < FADED)
        if not near.any():
            return near
        slope = jax.grad(self.objective.loss)
        asked, here = np.asarray(slope(jnp.where(near, ASKED * sides, vector))), np.asarray(slope(vector))
        # By the parameter itself, slopes are these over the distance. Where that here is much less, it has settled.
        apart = np.where(near, gaps, 0.0)
        settled = ~self.held & (apart > LOST) & (np.abs(here) < 0.1 * np.abs(asked) * apart * np.exp(ASKED))
        return near & ~settled & (asked * sides > 0)

    def release(self, vector: jax.Array, leaving: np.ndarray) -> tuple["Bounds", jax.Array] | None:
        """Bounds without the variables that are `leaving`, and the vector with these inside; None where each has been
        let go as often as it may."""
        leaving = leaving & (self.loose < len(STARTS))
        if not leaving.any():
            return None
        start = np.asarray((*STARTS, 0.0))[self.loose] * self._gaps(vector)[1]
        return replace(self, held=self.held & ~leaving, loose=self.loose + leaving), jnp.where(leaving, start, vector)

    def restrict(self, vector: jax.Array) -> tuple[Objective, jax.Array, Callable[[Report], Report]]:
        """The objective of the variables that are not held, their values, and a report of theirs as one of all."""
        where = np.flatnonzero(~self.held)
        space = replace(self.objective.space, base=vector, where=where)
        return (
            self.objective.over(space),
            vector[where],
            lambda report: replace(report, vector=space.whole(report.vector)),
        )

    def _gaps(self, vector: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """The distance of each parameter to its nearest bound over the size of its transform (infinite where there is
        none), and the sign of the free variable there."""
        gaps, sides = np.full(self.held.size, np.inf), np.ones(self.held.size)
        free, end = np.asarray(vector, float), 0
        for leaf in self.objective.space.leaves:
            part, end = slice(end, end + leaf.value.size), end + leaf.value.size
            if isinstance(leaf.transform, Logistic):
                sides[part] = np.where(free[part] < 0, -1.0, 1.0)
                gaps[part] = 1 / (1 + np.exp(np.minimum(np.abs(free[part]), 700.0)))
            elif isinstance(leaf.transform, Softplus):
                sides[part] = -1.0
                gaps[part] = np.logaddexp(0.0, free[part])
        return gaps, sides


def _creeps(known: list[Report]) -> bool:
    """Whether the loss falls, and ever so slowly."""
    losses = [one.loss for one in known[-TURNS - 1 :]]
    falls = [(a - b) / max(abs(a), 1e-300) for a, b in pairwise(losses)]
    return len(falls) == TURNS and all(0 <= fall < SLOW for fall in falls)

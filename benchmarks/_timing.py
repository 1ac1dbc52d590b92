"""Timing by interleaved runs: what else the machine does falls on all contestants alike."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

MIN_SAMPLE = 2e-3
"""Seconds; faster calls are repeated within a sample, so that the clock and the call itself do not count."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Seconds a call, one row a round and one column a contestant."""

    seconds: np.ndarray

    def median(self, which: int) -> float:
        """The median time of a contestant."""
        return float(np.median(self.seconds[:, which]))

    def ratio(self, which: int, to: int) -> tuple[float, float, float]:
        """The median of the ratios of each round, and their quartiles."""
        low, middle, high = np.percentile(self.seconds[:, which] / self.seconds[:, to], (25, 50, 75))
        return float(middle), float(low), float(high)


def interleave(calls: list[Callable[[], Any]], *, budget: float, least: int = 5, most: int = 101) -> Samples:
    """Times calls in rounds, each round once through all of them, back and forth, for about `budget` seconds.

    The first call of each (compilation) is not counted.
    """
    for call in calls:
        jax.block_until_ready(call())
    once = [_seconds(call, 1) for call in calls]
    counts = [max(1, min(1000, round(MIN_SAMPLE / max(seconds, 1e-7)))) for seconds in once]
    round_time = sum(n * seconds for n, seconds in zip(counts, once, strict=True))
    rounds = int(np.clip(budget / round_time, least, most))
    rows = []
    for number in range(rounds):
        order = range(len(calls)) if number % 2 == 0 else reversed(range(len(calls)))
        row = [0.0] * len(calls)
        for i in order:
            row[i] = _seconds(calls[i], counts[i])
        rows.append(row)
    return Samples(np.asarray(rows))


def rounds_of(calls: list[Callable[[], float]], *, budget: float, least: int, most: int) -> Samples:
    """Calls that tell their own seconds, in rounds there and back for about `budget` seconds, the first not counted."""
    once = sum(call() for call in calls)
    rows = []
    for number in range(int(np.clip(budget / once, least, most))):
        order = range(len(calls)) if number % 2 == 0 else range(len(calls) - 1, -1, -1)
        row = [0.0] * len(calls)
        for i in order:
            row[i] = calls[i]()
        rows.append(row)
    return Samples(np.asarray(rows))


def _seconds(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        jax.block_until_ready(call())
    return (time.perf_counter() - start) / count

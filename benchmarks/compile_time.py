"""(e) From a declaration to a compiled program: planning, tracing and XLA, which must not grow with the grid."""

import time

import jax
import numpy as np

import fdsolve as fd

from ._compare import Settings
from ._marches import ten_regions
from ._table import Row, show_seconds

TITLE = "Trace and compile time of a `solve` in two dimensions with ten regions"
SIZES = (64, 512, 4096)


def rows(settings: Settings) -> list[Row]:
    """64², 512² and 4096² interleaved, from empty caches; the total against 1 s, and the largest against the least."""
    rounds = 3 if settings.quick else 7
    _prepare(16)
    measured = np.asarray([[_prepare(num) for num in SIZES] for _ in range(rounds)])
    medians = np.median(measured, axis=0)
    found = []
    for num, (planned, compiled) in zip(SIZES, medians, strict=True):
        parts = f"{show_seconds(planned)} to plan and trace + {show_seconds(compiled)} for XLA"
        found.append(Row(f"{num}²", parts, "1 s", float(planned + compiled), None, 1.0))
    totals = measured.sum(axis=2)
    ratios = totals[:, -1] / totals[:, 0]
    low, middle, high = np.percentile(ratios, (25, 50, 75))
    last, first = (show_seconds(float(np.median(totals[:, i]))) for i in (-1, 0))
    found.append(Row(f"{SIZES[-1]}² against {SIZES[0]}²", last, first, float(middle), (float(low), float(high)), 1.3))
    return found


def _prepare(num: int) -> tuple[float, float]:
    """Seconds to declare, plan, trace and lower; and for XLA to compile."""
    jax.clear_caches()
    start = time.perf_counter()
    u = ten_regions(num)
    lowered = jax.jit(lambda k: fd.solve(u, k=k, save=fd.final()).final["u"]).lower(0.2)
    traced = time.perf_counter()
    lowered.compile()
    return traced - start, time.perf_counter() - traced

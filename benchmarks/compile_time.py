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
WAITED = "The cores worked for less than 1 s: the process waited for other work on the machine (see the load average)."


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    return [(TITLE, _rows(settings))]


def _rows(settings: Settings) -> list[Row]:
    """64², 512² and 4096² interleaved, from empty caches; the total against 1 s, and the largest against the least."""
    rounds = 2 if settings.quick else 7
    _prepare(16)
    measured = np.asarray([[_prepare(num) for num in SIZES] for _ in range(rounds)])
    found = []
    for num, (planned, compiled, busy) in zip(SIZES, np.median(measured, axis=0), strict=True):
        parts = f"{show_seconds(planned)} to plan and trace + {show_seconds(compiled)} for XLA"
        total = float(planned + compiled)
        note = WAITED if total > 1.0 > busy else ""
        found.append(Row(f"{num}²", f"{parts} ({show_seconds(busy)} of all cores)", "1 s", total, None, 1.0, note=note))
    busy = measured[..., 2]
    low, middle, high = (float(x) for x in np.percentile(busy[:, -1] / busy[:, 0], (25, 50, 75)))
    last, first = (show_seconds(float(np.median(busy[:, i]))) for i in (-1, 0))
    what = f"{SIZES[-1]}² against {SIZES[0]}², seconds of all cores"
    return [*found, Row(what, last, first, middle, (low, high), 1.3)]


def _prepare(num: int) -> tuple[float, float, float]:
    """Seconds to declare, plan, trace and lower; for XLA to compile; and of all cores in both."""
    jax.clear_caches()
    start, busy = time.perf_counter(), time.process_time()
    u = ten_regions(num)
    lowered = jax.jit(lambda k: fd.solve(u, k=k, save=fd.final()).final["u"]).lower(0.2)
    traced = time.perf_counter()
    lowered.compile()
    return traced - start, time.perf_counter() - traced, time.process_time() - busy

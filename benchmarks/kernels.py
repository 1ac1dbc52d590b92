"""(i) `fd.solve` by its kernels against numba, Devito, OpenMP C and others, and against the memory bound.

Each contestant marches the same problem by as many steps; all answers are compared before any is timed. The peers go on
in place from where they are; fdsolve solves the whole problem anew each time.
"""

import math
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ._compare import Settings, check_agreement
from ._notes import NOTES
from ._stream import BYTES_MOVED
from ._table import Row
from ._timing import Samples
from .peers import Case, Missing, Worker, find_cases

TITLE = "Kernels: billions of points a second of whole solves, last level, against the best of the peers"
PEERS = ("numba", "openmp", "devito")
PYTHON_TITLE = "Kernels: the same against packages of Python, on what they can express"
PYTHON_PEERS = ("kernex", "py-pde", "findiff")
PYTHON_PROBLEM, PYTHON_NUM, PYTHON_UPDATES = "heat2d", 256, 2**22
STREAM = "stream"
OURS = "fdsolve"
PAUSE = 0.02
"""Seconds between runs, in which the threads of the last one go to sleep."""


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    choice = settings.choice
    updates, least_steps = (2**28, 16) if settings.quick else (2**30, 32)
    rows: list[Row] = []
    for case in find_cases(choice.problems, choice.dtypes, choice.sizes, updates, least_steps):
        rows += measure(settings, case).rows()
    found = [(TITLE, rows)]
    if not choice.problems:
        cases = find_cases((PYTHON_PROBLEM,), choice.dtypes, (PYTHON_NUM,), PYTHON_UPDATES)
        names = (OURS, *PYTHON_PEERS)
        found.append((PYTHON_TITLE, [row for case in cases for row in measure(settings, case, names).rows()]))
    return found


@dataclass(frozen=True)
class Measured:
    """Rounds of one case: seconds of each contestant, and who could not run."""

    case: Case
    labels: tuple[str, ...]
    samples: Samples
    missing: tuple[str, ...] = field(default=())

    def speed(self, label: str) -> float:
        """Point updates a second, in billions."""
        return self.case.points * self.case.steps / self.samples.median(self.labels.index(label)) / 1e9

    @property
    def best_peer(self) -> str | None:
        """The fastest that is neither fdsolve nor the copy."""
        peers = [label for label in self.labels if not label.startswith(OURS) and label != "copy"]
        return max(peers, key=self.speed, default=None)

    def rows(self) -> list[Row]:
        """A row for each kernel against the best peer, one for each against the memory bound."""
        found = []
        for label in self.labels:
            if label.startswith(OURS):
                found.append(self._against_peers(label))
                found += self._against_memory(label)
        return found

    def _against_peers(self, label: str) -> Row:
        peers = [one for one in self.labels if not one.startswith(OURS) and one != "copy"]
        shown = ", ".join(f"{one} {self.speed(one):.3g}" for one in peers)
        what, ours = f"{self.case.title}: {label}", f"{self.speed(label):.3g}"
        if self.best_peer is None:
            return Row(what, ours, "; ".join(self.missing))
        ratio, low, high = self.samples.ratio(self.labels.index(self.best_peer), self.labels.index(label))
        bar = None if label.endswith("eager") else self.case.bar
        note = NOTES.get((self.case.problem, self.case.num, self.case.dtype), "") if bar and ratio < bar else ""
        missing = f" ({'; '.join(self.missing)})" if self.missing else ""
        return Row(what, ours, shown + missing, ratio, (low, high), bar, True, note)

    def _against_memory(self, label: str) -> list[Row]:
        if "copy" not in self.labels or label.endswith("eager"):
            return []
        bandwidth = BYTES_MOVED / self.samples.median(self.labels.index("copy"))
        bound = bandwidth / self.case.bytes_a_point / 1e9
        what = f"{self.case.title}: {label}, against one sweep a step at the memory bound"
        shown = f"{bound:.3g} ({bandwidth / 1e9:.3g} GB/s, {self.case.bytes_a_point} bytes a point)"
        bar = 1.0 if self.case.problem == "heat2d" and self.case.num == 4096 else None
        return [Row(what, f"{self.speed(label):.3g}", shown, self.speed(label) / bound, None, bar, True)]


def measure(
    settings: Settings,
    case: Case,
    names: tuple[str, ...] = (OURS, *PEERS, STREAM),
    kernels: tuple[str, ...] = (),
    far: float = math.inf,
    keep: str = "",
) -> Measured:
    """Checks that all contestants agree on a case, and times them in rounds.

    `kernels` are those of fdsolve (default: the settings' choice). Who takes more than `far` times as long as the
    fastest is not timed again, but for `keep`. Raises AssertionError where an answer is wrong.
    """
    workers = [Worker(name, case, settings.choice.threads, kernels or settings.choice.kernels) for name in names]
    try:
        missing = _wait_for(workers)
        ready = [(worker, label) for worker in workers for label in worker.labels]
        _check(case, [(worker, label) for worker, label in ready if label != "copy"])
        once = [worker.run(label) for worker, label in ready]
        near = [one for one, took in zip(ready, once, strict=True) if took <= far * min(once) or one[1] == keep]
        return Measured(case, tuple(label for _, label in near), _time(settings, near), tuple(missing))
    finally:
        for worker in workers:
            worker.close()


def _wait_for(workers: list[Worker]) -> list[str]:
    """Why some contestants are not there."""
    missing = []
    for worker in workers:
        try:
            worker.wait()
        except Missing as reason:
            missing.append(str(reason))
        missing += [f"{OURS} {kernel}: {why}" for kernel, why in worker.refused.items()]
    return missing


def _check(case: Case, ready: list[tuple[Worker, str]]) -> None:
    """Every answer against that of the last contestant."""
    with tempfile.TemporaryDirectory() as folder:
        expected: np.ndarray | None = None
        for worker, label in reversed(ready):
            found = worker.answer(label, Path(folder))
            if expected is None:
                expected = found
            check_agreement(f"{case.title}: {label}", list(found), list(expected), case.tolerance)


def _time(settings: Settings, ready: list[tuple[Worker, str]]) -> Samples:
    """Rounds through all contestants, there and back, for about as long as the settings say."""
    seconds: list[list[float]] = []
    budget, least, most = 4 * settings.budget, 3 if settings.quick else 5, 25
    start = time.perf_counter()
    while len(seconds) < least or (len(seconds) < most and time.perf_counter() - start < budget):
        row = [0.0] * len(ready)
        order = range(len(ready)) if len(seconds) % 2 == 0 else reversed(range(len(ready)))
        for i in order:
            time.sleep(PAUSE)
            worker, label = ready[i]
            row[i] = worker.run(label)
        seconds.append(row)
    return Samples(np.asarray(seconds))

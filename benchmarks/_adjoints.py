"""(d) What a gradient costs by each adjoint: time and memory over the forward solve, for more and more steps.

Every contestant has a process of its own: fdsolve's forward solve, each adjoint, JAX by hand, Devito. One runs at a
time, in rounds through all of them.
"""

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from . import _fluxes, _parameters, _shots, _walls
from ._compare import Settings, check_agreement
from ._table import Row, show_seconds
from ._timing import Samples, rounds_of
from .peers import Case, Missing, Worker

PROBLEM, NUM = "acoustic2d_4", 128
STEPS = (100, 1000, 10000)
QUICK_STEPS = (100, 1000)
FORWARD_BAR, HAND_BAR = 8.0, 1.2
WAVE_TOLERANCE = 1e-6
"""For every step: all gradients are those of the discrete problem, exactly, but float32 rounds at each."""
MOST_KEPT = 2**31
"""Bytes that keeping all levels may take."""
HAND, DEVITO, FORWARD = "by hand", "Devito", "forward"
CONTESTANTS: tuple[tuple[str, str], ...] = (
    ("gradient", FORWARD),
    ("gradient", "default"),
    ("gradient", "Full"),
    ("gradient", "Checkpointed"),
    ("gradient", "Reversible"),
    ("gradient by hand", HAND),
    ("gradient devito", DEVITO),
    ("devito", DEVITO),
)
"""The processes, and what each has to offer; the last is Devito's forward solve, which keeps three levels."""
KEEPING_ALL = ("Full", DEVITO)
NOTE = (
    "By hand: nested jax.checkpoint over √T scans of √T steps. Memory: how far a run lets its process grow, less what "
    "the forward solve's does, in arrays of the problem's size; in brackets what XLA says its program holds."
)
DEVITO_NOTE = (
    "Devito keeps every level and marches the adjoint wave back, with OpenMP on all cores: the same discrete gradient."
)


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """For each number of steps, each adjoint against the forward solve, JAX by hand and Devito."""
    found = []
    for steps in QUICK_STEPS if settings.quick else STEPS:
        case = Case(PROBLEM, NUM, "float32", steps * NUM**2, most_steps=steps)
        title = f"Gradient by c² of a 2-D wave of order 4, {NUM}², {steps} steps"
        found.append((title, _measure(settings, case).rows()))
    found += [(_shots.TITLE, _shots.rows(settings)), (_walls.TITLE, _walls.rows(settings))]
    num = 256 if settings.quick else 1024
    found.append(
        (f"Gradient by parameters, {num}², {_parameters.STEPS} steps, default adjoint", _parameters.rows(settings, num))
    )
    title = f"Gradient by the initial state, long rules, {_parameters.STEPS} steps, default adjoint"
    return [*found, (title, _fluxes.rows(settings))]


@dataclass(frozen=True)
class _Measured:
    """Rounds of one case: seconds and bytes of each contestant, and who could not run."""

    case: Case
    names: tuple[tuple[str, str], ...]
    samples: Samples
    taken: tuple[tuple[int, int], ...]
    missing: str

    def rows(self) -> list[Row]:
        """Each adjoint against JAX by hand; the default, and what else keeps all levels, against Devito."""
        found, hand = [], self.names.index(("gradient by hand", HAND))
        for place, (process, name) in enumerate(self.names):
            if process != "gradient" or name == FORWARD:
                continue
            bar = HAND_BAR if name in ("default", "Checkpointed") else None
            found.append(self._row(self._cost(place, name), place, hand, HAND, bar, NOTE))
        times = self.samples.ratio(hand, 0)[0]
        what = f"{HAND}: {times:.2f} × fdsolve's forward, {self._memory(hand)}"
        found.append(Row(what, "–", show_seconds(self.samples.median(hand)), note=NOTE))
        return found + self._devito()

    def _devito(self) -> list[Row]:
        if ("gradient devito", DEVITO) not in self.names:
            return [Row("default against Devito", "–", self.missing)]
        place, forward = self.names.index(("gradient devito", DEVITO)), self.names.index(("devito", DEVITO))
        against = f"{DEVITO}: {self.samples.ratio(place, forward)[0]:.2f} × its forward, {self._memory(place)}"
        adjoints = [k for k, (process, name) in enumerate(self.names) if process == "gradient" and name != FORWARD]
        rows = [self._row(f"{self.names[k][1]} against Devito", k, place, against, None, DEVITO_NOTE) for k in adjoints]
        return [*rows, self._row("forward against Devito's", 0, forward, DEVITO, None, DEVITO_NOTE)]

    def _row(self, what: str, place: int, other: int, label: str, bar: float | None, note: str) -> Row:
        ratio, low, high = self.samples.ratio(place, other)
        shown = f"{show_seconds(self.samples.median(other))} ({label})"
        return Row(what, show_seconds(self.samples.median(place)), shown, ratio, (low, high), bar, note=note)

    def _cost(self, place: int, name: str) -> str:
        return f"{name}: {self.samples.ratio(place, 0)[0]:.2f} × forward, {self._memory(place)}"

    def _memory(self, place: int) -> str:
        size = self.case.points * np.dtype(self.case.dtype).itemsize
        grown, held = self.taken[place][0] - self.taken[0][0], self.taken[place][1]
        return f"{grown / size:.4g} arrays" + (f" ({held / size:.4g})" if held else "")


def _measure(settings: Settings, case: Case) -> _Measured:
    """Checks that all gradients of a case agree, and takes their memory and their time."""
    everything = case.steps * case.points * np.dtype(case.dtype).itemsize
    wanted = [one for one in CONTESTANTS if everything <= MOST_KEPT or one[1] not in KEEPING_ALL]
    ready: list[tuple[Worker, str]] = []
    names, missing = [], ["" if everything <= MOST_KEPT else f"keeping all levels takes {everything / 2**30:.1f} GiB"]
    try:
        for process, name in wanted:
            worker = Worker(process, case, settings.choice.threads, (name,) if process == "gradient" else ())
            try:
                worker.wait()  # one after the other: what compiles takes all cores
            except Missing as reason:
                missing.append(str(reason))
                continue
            ready.append((worker, worker.labels[0]))
            names.append((process, name))
        measured = [process != "devito" for process, _ in names]
        taken = [one.memory(label) if here else (0, 0) for (one, label), here in zip(ready, measured, strict=True)]
        _check(case, names, ready)
        calls = [partial(worker.run, label) for worker, label in ready]
        samples = rounds_of(calls, budget=8 * settings.budget, least=3, most=15)
        return _Measured(case, tuple(names), samples, tuple(taken), "; ".join(filter(None, missing)))
    finally:
        for worker, _ in ready:
            worker.close()


def _check(case: Case, names: list[tuple[str, str]], ready: list[tuple[Worker, str]]) -> None:
    """Every gradient against that by hand."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: worker.answer(label, Path(folder))
            for (process, name), (worker, label) in zip(names, ready, strict=True)
            if process != "devito" and name != FORWARD
        }
    for name, one in found.items():
        check_agreement(f"{case.title}: {name}", one, found[HAND], WAVE_TOLERANCE * case.steps)

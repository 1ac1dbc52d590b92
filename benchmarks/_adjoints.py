"""(d) What a gradient costs by each adjoint: time and memory over the forward solve, for more and more steps.

Every contestant has a process of its own: fdsolve's forward solve, each adjoint, JAX by hand, Devito. One runs at a
time, in rounds through all of them.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.kernels.native import _march
from fdsolve.kernels.native._march import choose_tiling

from ._compare import Settings, check_agreement, gradient
from ._table import Row, show_seconds
from ._timing import Samples, interleave, rounds_of
from .peers import Case, Missing, Worker

PROBLEM, NUM = "acoustic2d_4", 128
STEPS = (100, 1000, 10000)
QUICK_STEPS = (100, 1000)
PARAMETER_STEPS = 64
FORWARD_BAR, HAND_BAR, NATIVE_BAR = 8.0, 1.2, 5.0
TOLERANCE = 2e-2
"""float32 over 64 steps that are not linear: a sum of terms of both signs."""
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
    num = 256 if settings.quick else 1024
    found.append(
        (f"Gradient by parameters, {num}², {PARAMETER_STEPS} steps, default adjoint", _parameters(settings, num))
    )
    return found


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


def _burgers(num: int, kernel: str) -> Callable[..., Any]:
    """ν ↦ the mean square of the last level of two velocities carried by themselves."""
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name in "xy"}
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=PARAMETER_STEPS + 1), **axes)
    u, v = fd.Field("u", grid), fd.Field("v", grid)

    def carried(w: Any, u: Any, v: Any, nu: Any) -> Any:
        along = u["t-1"] * (w["t-1"] - w["t-1", "x-1"]) + v["t-1"] * (w["t-1"] - w["t-1", "y-1"])
        around = w["t-1", "x-1"] + w["t-1", "x+1"] + w["t-1", "y-1"] + w["t-1", "y+1"]
        return w["t-1"] - 0.1 * along + nu * (around - 4 * w["t-1"])

    u[...] = lambda u, v, nu: carried(u, u, v, nu)
    v[...] = lambda u, v, nu: carried(v, u, v, nu)
    u[0] = lambda x, y: jnp.sin(3 * x) * jnp.cos(5 * y)
    v[0] = lambda x, y: jnp.cos(4 * x * y)
    for one in (u, v):
        one[dict(x=[0, -1])] = one[dict(y=[0, -1])] = 0.0
    return lambda nu: fd.solve((u, v), nu=nu, save=fd.final(), kernel=kernel).final["u"]


def _medium(num: int, kernel: str) -> Callable[..., Any]:
    """The conductivity at every point ↦ the last level of heat between insulated walls and cold ones."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(PARAMETER_STEPS), num=PARAMETER_STEPS + 1), **axes))
    u[...] = lambda u, m: (
        u["t-1"] + m[...] * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
    )
    u[0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = 0.0
    return lambda m: fd.solve(u, m=m, save=fd.final(), kernel=kernel).final["u"]


def _between_walls(num: int, kernel: str) -> Callable[..., Any]:
    """c² ↦ the last level of a wave of order 8, closed at walls."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4 * PARAMETER_STEPS, num=PARAMETER_STEPS + 1), **axes))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * c * fd.schemes.laplacian(u, order=8, at="t-1")
    u[[0, 1]] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return lambda c: fd.solve(u, c=c, save=fd.final(), kernel=kernel).final["u"]


def _wavelet(num: int, kernel: str) -> Callable[..., Any]:
    """The record of a source between points ↦ the last level of a wave of order 2."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4 * PARAMETER_STEPS, num=PARAMETER_STEPS + 1), **axes))
    u[...] = 0.0
    u[2:, 1:-1, 1:-1] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * fd.schemes.laplacian(u, at="t-1")
    u[fd.point(x=0.31 * num, y=0.47 * num)] += lambda q: q
    return lambda q: fd.solve(u, q=fd.along(q, "t"), save=fd.final(), kernel=kernel).final["u"]


def _runge_kutta(num: int, kernel: str) -> Callable[..., Any]:
    """κ ↦ the last level of heat by the classical method of order 4, cold and insulated walls."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5 * PARAMETER_STEPS, num=PARAMETER_STEPS + 1), **axes))
    u[...] = fd.rate(lambda u, kappa: kappa * fd.schemes.laplacian(u))
    u[0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = 0.0
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    return lambda k: fd.solve(u, kappa=k, stepper=fd.schemes.RK4(), save=fd.final(), kernel=kernel).final["u"]


@contextmanager
def _one_level_a_pass() -> Iterator[None]:
    """Marches of generated code go through the field once a level."""

    def fewest(*given: Any) -> Any:
        return replace(choose_tiling(*given), levels=1, width=0)

    jax.clear_caches()
    with patch.object(_march, "choose_tiling", fewest):
        yield
    jax.clear_caches()


def _parameters(settings: Settings, num: int) -> list[Row]:
    """What a gradient by a parameter costs where generated code runs both ways, and where the portable kernel does."""
    rows = []
    uniform = np.random.default_rng(0).uniform
    conductivity = jnp.asarray(0.1 + 0.1 * uniform(size=(num, num)), jnp.float32)
    wavelet = jnp.asarray(uniform(size=PARAMETER_STEPS + 1), jnp.float32)
    problems = (
        ("Burgers, by ν", _burgers, jnp.float32(0.05), "slices"),
        ("heat, by κ(x, y)", _medium, conductivity, "slices"),
        ("heat by RK4, by κ", _runge_kutta, jnp.float32(0.4), "slices"),
        ("wave, by its source's record", _wavelet, wavelet, "slices"),
        ("wave of order 8 between walls, by c²", _between_walls, jnp.float32(0.4), None),
    )
    for name, make, at, portable in problems:
        forward = jax.jit(make(num, "native")).lower(at).compile()
        with _one_level_a_pass():
            level = jax.jit(make(num, "native")).lower(at).compile()
        runs = {"gradient": gradient(make(num, "native")).lower(at).compile(), "forward": forward}
        runs["forward, one level a pass"] = level
        if portable is not None:
            runs["gradient by `slices`"] = other = gradient(make(num, portable)).lower(at).compile()
            check_agreement(name, runs["gradient"](at), other(at), TOLERANCE)
        samples = interleave([partial(f, at) for f in runs.values()], budget=settings.budget, least=3, most=15)
        seconds = [show_seconds(samples.median(k)) for k in range(len(runs))]
        for place, against in list(enumerate(runs))[1:]:
            ratio, low, high = samples.ratio(0, place)
            bar = NATIVE_BAR if against.startswith("forward") else None
            what = f"{name}, against the {against}"
            rows.append(Row(what, seconds[0], f"{seconds[place]} ({against})", ratio, (low, high), bar))
    return rows

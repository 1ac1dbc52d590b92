"""All monitors of a run: who looks when, and what they kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import DeclarationError, RunError
from ..planning import Plan, Structure
from ..stepping import State, are_finite, take_declared
from ._base import AbstractMonitor, Look, Measured, Volumes, Watched
from ._records import Datasets, Kept

Newest = Mapping[str, Any]
"""The newest level of each declared field, padded."""


@partial(jax.jit, static_argnums=(0, 1, 2))
def _measure(
    structure: Structure,
    monitors: tuple[AbstractMonitor, ...],
    watched: Watched,
    newest: Newest,
    befores: tuple[tuple[Newest, Any] | None, ...],
    now: tuple[Any, Any, Any],
    volumes: Mapping[str, Volumes],
    parameters: Mapping[str, Any],
) -> tuple[list[Measured], jax.Array]:
    """What all monitors whose turn it is measure, and for each field whether it is finite: one program, that reads
    the padded levels where they lie."""
    fields, around = take_declared(structure, newest), {name: one.array() for name, one in volumes.items()}
    found = []
    for monitor, before in zip(monitors, befores, strict=True):
        last = None if before is None else take_declared(structure, before[0])
        elapsed = 0.0 if before is None else before[1]
        found.append(monitor.measure(watched, Look(fields, last, elapsed, *now, around, parameters)))
    return found, are_finite(fields)


@dataclass(frozen=True, eq=False)
class Looking:
    """A look that is under way: whose turn it is, what they see, what they saw last, what is being measured."""

    level: int
    due: tuple[int, ...]
    newest: Newest
    befores: tuple[tuple[Newest, float] | None, ...]
    measured: list[Measured]
    finite: jax.Array


class Watch:
    """The monitors of a run with their records."""

    def __init__(self, monitors: Sequence[AbstractMonitor], plan: Plan, holes: Mapping[str, Any]):
        """`holes`: by field where its holes are, None where it has none."""
        self.monitors, self.watched = tuple(monitors), Watched.of(plan)
        self._plan, self._volumes = plan, Volumes.of(plan, holes)
        self.records: list[Kept] = [[] for _ in self.monitors]
        self._before: list[tuple[int, Newest] | None] = [None] * len(self.monitors)
        self._waiting: list[tuple[int, int, Measured]] = []
        self._parameters = {
            name: value
            for name, value in plan.parameters.items()
            if isinstance(value, int | float | complex | np.ndarray | np.generic | jax.Array)
        }
        for monitor in self.monitors:
            monitor.check(self.watched)

    def next_level(self, level: int, last: int) -> int:
        """The first level after this one at which a monitor looks."""
        return min([last, *((level // one.every + 1) * one.every for one in self.monitors)])

    def is_due(self, level: int, last: int) -> bool:
        """Whether it is someone's turn."""
        return any(level % one.every == 0 or level == last for one in self.monitors)

    def look(self, level: int, last: int, state: State) -> Looking:
        """Lets those look whose turn it is; nobody waits for them here, nor for a state that is still computed."""
        due = tuple(place for place, one in enumerate(self.monitors) if level % one.every == 0 or level == last)
        newest = {one.name: state[one.name][0] for one in self._plan.structure.declared}
        known = [self._before[place] for place in due]
        befores = tuple(one and (one[1], self._time(level) - self._time(one[0])) for one in known)
        measured, finite = _measure(
            self._plan.structure,
            tuple(self.monitors[place] for place in due),
            self.watched,
            newest,
            befores,
            self._now(level),
            self._volumes,
            self._parameters,
        )
        self._fetch()
        for place in due:
            if self.monitors[place].looks_back:
                self._before[place] = (level, newest)
        return Looking(level, due, newest, befores, measured, finite)

    def may_stop(self, look: Looking) -> bool:
        """Whether someone who looks can stop the run there."""
        return any(self.monitors[place].may_stop for place in look.due)

    def take(self, look: Looking) -> str | None:
        """Keeps what was seen; the reason to stop, or None. Waits only for those who may have one."""
        self._waiting += [(place, look.level, found) for place, found in zip(look.due, look.measured, strict=True)]
        if not self.may_stop(look):
            return None
        self._fetch()
        reasons = [
            self._judge(place, look.level, look.newest, before)
            for place, before in zip(look.due, look.befores, strict=True)
        ]
        return next((reason for reason in reasons if reason), None)

    def _fetch(self) -> None:
        """Keeps what the last look measured; until then nobody waited for it."""
        for place, level, measured in self._waiting:
            if measured:
                self.records[place].append((level, {name: np.asarray(value) for name, value in measured.items()}))
        self._waiting = []

    def _time(self, level: int) -> float:
        time = self._plan.problem.scope.grid.time
        assert time is not None
        return float(time.points[level])

    def _now(self, level: int) -> tuple[int, float, float]:
        time = self._plan.problem.scope.grid.time
        assert time is not None
        return level, self._time(level), float(time.step)

    def _judge(self, place: int, level: int, newest: Newest, before: tuple[Newest, float] | None) -> str | None:
        """Why a monitor wants to stop, or None; keeps what it tells."""
        monitor, kept, answer = self.monitors[place], self.records[place], None
        if type(monitor).listen is not AbstractMonitor.listen:
            around = {name: one.array() for name, one in self._volumes.items()}
            fields = take_declared(self._plan.structure, newest)
            last, elapsed = (take_declared(self._plan.structure, before[0]), before[1]) if before else (None, 0.0)
            answer = monitor.listen(Look(fields, last, elapsed, *self._now(level), around, self._parameters))
        if isinstance(answer, Mapping):
            told = {name: _number(value, name, monitor, level) for name, value in answer.items()}
            measured = kept.pop()[1] if kept and kept[-1][0] == level else {}
            kept.append((level, {**measured, **told}))
        elif isinstance(answer, str):
            return answer
        elif _is_true(answer, monitor, level):
            return f"{monitor.title} said so"
        return monitor.judge(kept[0][1], kept[-1][1]) if kept and kept[-1][0] == level else None

    def keep(self) -> tuple[list[Kept], list[Any]]:
        """What a checkpoint keeps: the records, and the fields at the last looks."""
        self._fetch()
        before = [one and (one[0], {name: np.asarray(array) for name, array in one[1].items()}) for one in self._before]
        return self.records, before

    def restore(self, kept: tuple[list[Kept], list[Any]]) -> None:
        """Goes on with what a checkpoint kept."""
        self.records, self._before = kept

    def to_datasets(self) -> Mapping[str, xr.Dataset]:
        """The records by the monitors' titles, over time."""
        self._fetch()
        assert self._plan.problem.scope.grid.time is not None
        return Datasets(self._plan.problem.scope.grid, self.monitors, tuple(self.records))


def _is_true(answer: Any, monitor: AbstractMonitor, level: int) -> bool:
    """Whether what a monitor answered is True, also as one of NumPy or JAX. Raises RunError for what is no answer."""
    if answer is None or isinstance(answer, bool):
        return answer is True
    if isinstance(answer, np.bool_ | np.ndarray | jax.Array) and answer.dtype == bool and answer.ndim == 0:
        return bool(answer)
    raise RunError(
        f"{monitor.title} gave {answer!r} at level {level}; give None or False to go on, True or a text to stop, or a "
        f"dict of numbers to keep."
    )


def _number(value: Any, name: Any, monitor: AbstractMonitor, level: int) -> np.ndarray:
    """A number, or an array of them, to keep. Raises RunError for others."""
    found = np.asarray(value)
    if not isinstance(name, str) or not (
        np.issubdtype(found.dtype, np.bool_) or jnp.issubdtype(found.dtype, jnp.number)
    ):
        raise RunError(
            f"{monitor.title} gave {{{name!r}: {value!r}}} at level {level}; a dict holds numbers or arrays of numbers "
            f"by names that are strings."
        )
    return found


def check_monitors(monitors: Any) -> tuple[AbstractMonitor, ...]:
    """What monitors= takes: a monitor or a sequence of them."""
    given = (monitors,) if isinstance(monitors, AbstractMonitor) else monitors
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        given = (monitors,)
    for one in given:
        if not isinstance(one, AbstractMonitor):
            got = f"the class {one.__name__}; write it with parentheses" if isinstance(one, type) else repr(one)
            raise DeclarationError(
                f"monitors= takes monitors such as fd.monitors.Nan() or fd.Checkpoints(path), in a list; got {got}. A "
                f"parameter called `monitors` goes into parameters=dict(monitors=...)."
            )
    return tuple(given)

"""All monitors of a run: who looks when, and what they kept."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..planning import Plan, Structure
from ..stepping import State, take_declared
from ._base import AbstractMonitor, Look, Measured, Volumes, Watched

Kept = list[tuple[int, Measured]]
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
) -> list[Measured]:
    """What all monitors whose turn it is measure: one program, that reads the padded levels where they lie."""
    fields, around = take_declared(structure, newest), {name: one.array() for name, one in volumes.items()}
    found = []
    for monitor, before in zip(monitors, befores, strict=True):
        last = None if before is None else take_declared(structure, before[0])
        elapsed = 0.0 if before is None else before[1]
        found.append(monitor.measure(watched, Look(fields, last, elapsed, *now, around, parameters)))
    return found


class Watch:
    """The monitors of a run with their records."""

    def __init__(self, monitors: Sequence[AbstractMonitor], plan: Plan, holes: Mapping[str, Any]):
        """`holes`: by field where its holes are, None where it has none."""
        self.monitors, self.watched = tuple(monitors), Watched.of(plan)
        self._plan, self._volumes = plan, Volumes.of(plan, holes)
        self.records: list[Kept] = [[] for _ in self.monitors]
        self._before: list[tuple[int, Newest] | None] = [None] * len(self.monitors)
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

    def look(self, level: int, last: int, state: State) -> str | None:
        """Lets those look whose turn it is; the reason to stop, or None."""
        due = [place for place, one in enumerate(self.monitors) if level % one.every == 0 or level == last]
        if not due:
            return None
        newest = {one.name: state[one.name][0] for one in self._plan.structure.declared}
        known = [self._before[place] for place in due]
        befores = tuple(one and (one[1], self._time(level) - self._time(one[0])) for one in known)
        measured = jax.device_get(
            _measure(
                self._plan.structure,
                tuple(self.monitors[place] for place in due),
                self.watched,
                newest,
                befores,
                self._now(level),
                self._volumes,
                self._parameters,
            )
        )
        reasons = []
        for place, before, found in zip(due, befores, measured, strict=True):
            if self.monitors[place].looks_back:
                self._before[place] = (level, newest)
            reasons.append(self._judge(place, level, newest, before, found))
        return next((reason for reason in reasons if reason), None)

    def _time(self, level: int) -> float:
        time = self._plan.problem.scope.grid.time
        assert time is not None
        return float(time.points[level])

    def _now(self, level: int) -> tuple[int, float, float]:
        time = self._plan.problem.scope.grid.time
        assert time is not None
        return level, self._time(level), float(time.step)

    def _judge(
        self, place: int, level: int, newest: Newest, before: tuple[Newest, float] | None, measured: Measured
    ) -> str | None:
        """Keeps what a monitor measured and heard; why it wants to stop, or None."""
        monitor, answer = self.monitors[place], None
        if type(monitor).listen is not AbstractMonitor.listen:
            around = {name: one.array() for name, one in self._volumes.items()}
            fields = take_declared(self._plan.structure, newest)
            last, elapsed = (take_declared(self._plan.structure, before[0]), before[1]) if before else (None, 0.0)
            answer = monitor.listen(Look(fields, last, elapsed, *self._now(level), around, self._parameters))
        if isinstance(answer, Mapping):
            measured, answer = {**measured, **answer}, None
        if measured:
            self.records[place].append((level, {name: np.asarray(value) for name, value in measured.items()}))
        if answer is not None and answer is not False:
            return answer if isinstance(answer, str) else f"{monitor.title} said so"
        kept = self.records[place]
        return monitor.judge(kept[0][1], kept[-1][1]) if measured else None

    def keep(self) -> tuple[list[Kept], list[Any]]:
        """What a checkpoint keeps: the records, and the fields at the last looks."""
        before = [one and (one[0], {name: np.asarray(array) for name, array in one[1].items()}) for one in self._before]
        return self.records, before

    def restore(self, kept: tuple[list[Kept], list[Any]]) -> None:
        """Goes on with what a checkpoint kept."""
        self.records, self._before = kept

    def to_datasets(self) -> dict[str, xr.Dataset]:
        """The records by the monitors' titles, over time."""
        grid, found = self._plan.problem.scope.grid, {}
        assert grid.time is not None and grid.time_name is not None
        for monitor, kept in zip(self.monitors, self.records, strict=True):
            if not kept:
                continue
            title, count = monitor.title, 2
            while title in found:
                title, count = f"{monitor.title} {count}", count + 1
            levels = [level for level, _ in kept]
            data = {}
            for name in kept[-1][1]:
                values = [measured.get(name, np.nan) for _, measured in kept]
                data[name] = ((grid.time_name, *(f"{name}_{k}" for k in range(np.ndim(values[-1])))), np.stack(values))
            coords = {grid.time_name: np.asarray(grid.time.points)[levels], "level": (grid.time_name, levels)}
            found[title] = xr.Dataset(data, coords)
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

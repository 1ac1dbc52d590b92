"""All monitors of a run: who looks when, and what they kept."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..planning import Plan
from ._base import AbstractMonitor, Look, Measured, Watched

Kept = list[tuple[int, Measured]]


@partial(jax.jit, static_argnums=(0, 1))
def _measure(monitor: AbstractMonitor, watched: Watched, look: Look) -> Measured:
    return monitor.measure(watched, look)


class Watch:
    """The monitors of a run with their records."""

    def __init__(self, monitors: Sequence[AbstractMonitor], plan: Plan, volumes: Mapping[str, Any]):
        self.monitors, self.watched = tuple(monitors), Watched.of(plan)
        self._plan, self._volumes = plan, volumes
        self.records: list[Kept] = [[] for _ in self.monitors]
        self._before: list[Any] = [None] * len(self.monitors)
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

    def look(self, level: int, last: int, fields: Mapping[str, Any]) -> str | None:
        """Lets those look whose turn it is; the reason to stop, or None."""
        reason = None
        for place, monitor in enumerate(self.monitors):
            if level % monitor.every == 0 or level == last:
                reason = reason or self._look(place, monitor, level, fields)
        return reason

    def _look(self, place: int, monitor: AbstractMonitor, level: int, fields: Mapping[str, Any]) -> str | None:
        time = self._plan.problem.scope.grid.time
        assert time is not None
        before = self._before[place]
        seen = Look(
            dict(fields),
            before[1] if before else None,
            float(time.points[level] - time.points[before[0]]) if before else 0.0,
            level,
            float(time.points[level]),
            float(time.step),
            dict(self._volumes),
            self._parameters,
        )
        if monitor.looks_back:
            self._before[place] = (level, dict(fields))
        measured = _measure(monitor, self.watched, seen)
        answer = monitor.listen(replace(seen))
        if isinstance(answer, Mapping):
            measured, answer = {**measured, **answer}, None
        if measured:
            measured = {name: np.asarray(value) for name, value in measured.items()}
            self.records[place].append((level, measured))
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

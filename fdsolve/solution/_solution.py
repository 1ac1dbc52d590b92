"""What a solve returns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import RunError
from ..files import open_dataset
from ..pictures import animate, plot
from ..planning import Plan
from ._dataset import make_dataset
from ._logs import Solved
from ._names import in_units
from ._pictured import solution_html, with_geometry
from ._records import Records


@dataclass(frozen=True, eq=False)
class Final:
    """The last level of each field, by name."""

    plan: Plan
    arrays: Mapping[str, jax.Array]

    def __getitem__(self, name: Any) -> Any:
        return in_units(self.plan, self.arrays, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def keys(self) -> Iterable[str]:
        """The names of the fields: `dict(solution.final)` has them all."""
        return self.arrays.keys()


@dataclass(frozen=True, eq=False)
class LastLevel(Mapping[str, jax.Array]):
    """The histories where the last level alone is saved: no array of their own until they are asked for."""

    last: Mapping[str, jax.Array]
    timed: bool

    def __getitem__(self, name: str) -> jax.Array:
        return self.last[name][None] if self.timed else self.last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.last)

    def __len__(self) -> int:
        return len(self.last)


@dataclass(frozen=True, eq=False)
class StoredHistory(Mapping[str, jax.Array]):
    """The histories of a run that was streamed to a store: read when they are asked for."""

    path: str
    names: tuple[str, ...]

    def open(self) -> xr.Dataset:
        """The store, lazily."""
        return open_dataset(self.path)

    def __getitem__(self, name: str) -> jax.Array:
        return jnp.asarray(self.open()[name].values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Solution:
    """The saved states of a solve.

    `solution["u"]` is the history of a field, shape (times, *space) (or its space shape on a grid without time);
    `solution.final["u"]` the last level; `solution.times` the saved times; `solution.plan` what ran. Points inside
    holes are nan in real and complex fields. Where the declaration had quantities of saiunit, the arrays are quantities
    too. `solution.receivers` holds what `save=fd.receivers(...)` recorded; where nothing else was saved,
    `solution["u"]`, `times` and `to_xarray()` are the records. `solution.monitors` has what monitors kept, Datasets by
    title; `solution.stopped` is why a run ended before its last level, or None.
    """

    plan: Plan
    history: Mapping[str, jax.Array] = field(repr=False)
    last: Mapping[str, jax.Array] = field(repr=False)
    records: Mapping[str, jax.Array] = field(default_factory=dict, repr=False)
    logs: Mapping[Any, Any] = field(default_factory=dict, repr=False)
    monitors: Mapping[str, xr.Dataset] = field(default_factory=dict, repr=False)
    stopped: str | None = None

    def __getitem__(self, name: Any) -> Any:
        return in_units(self.plan, self.records if self._records_only else self.history, name, bool(self.history))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> Iterable[str]:
        """The names of the fields."""
        return (self.records if self._records_only else self.history).keys()

    @property
    def _records_only(self) -> bool:
        return bool(self.records) and not self.history

    @property
    def receivers(self) -> Records:
        """What the receivers recorded."""
        if self.plan.receivers is None:
            raise RunError("The solution has no receivers; solve with save=fd.receivers([fd.point(x=0.5)]).")
        return Records(self.plan, self.plan.receivers, self.records)

    @property
    def equations(self) -> tuple[Solved, ...]:
        """How systems of equations were solved: for each the fields, the iterations, the residual and its history."""
        return tuple(Solved.of(stage, log) for stage, log in self.logs.items())

    @property
    def final(self) -> Final:
        """The last level of each field."""
        return Final(self.plan, self.last)

    @property
    def times(self) -> np.ndarray:
        """The saved times, in the units of the time axis; empty on a grid without time."""
        if self._records_only:
            return self.receivers.times
        return np.asarray(self.plan.save.times) if self.plan.problem.scope.grid.time is not None else np.empty(0)

    def to_xarray(self) -> xr.Dataset:
        """The saved states as a Dataset by the CF conventions: coordinates with bounds, units, what was solved.

        A staggered field has its own dimension, `x_face`, with the coordinates of the faces, described by SGRID and
        COMODO attributes. Needs concrete values.
        """
        if self._records_only:
            return self.receivers.to_xarray()
        if isinstance(self.history, StoredHistory):
            return self.history.open()
        if any(isinstance(array, Tracer) for array in self.history.values()):
            raise RunError("to_xarray needs concrete values: call it outside jit and grad, on what they return.")
        return make_dataset(self.plan, self.times, self.history)

    def plot(self, field: Any = None, **options: Any) -> Any:
        """A picture of fields, chosen by their dimensions; returns the matplotlib Figure. See `fd.pictures.plot`."""
        return plot(with_geometry(self.to_xarray(), self.plan), field, **options)

    def animate(self, path: Any, field: Any = None, **options: Any) -> Path:
        """A film of the saved times as GIF or MP4, by the path's ending. See `fd.pictures.animate`."""
        return animate(with_geometry(self.to_xarray(), self.plan), path, field, **options)

    def _repr_html_(self) -> str:
        return solution_html(self.plan, self.last, self.times, self.stopped)

    def __repr__(self) -> str:
        if isinstance(self.history, StoredHistory):
            shapes = f"{', '.join(self.history)} in {self.history.path}"
        else:
            held = self.history or self.records
            shapes = ", ".join(f"{name} {tuple(array.shape)}" for name, array in held.items())
        times = self.times
        span = f", t = {times[0]:g} … {times[-1]:g}" if times.size else ""
        ended = f"; ended early, {self.stopped}" if self.stopped else ""
        return f"Solution({shapes}{span}{ended})"

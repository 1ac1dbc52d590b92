"""What monitors kept, as Datasets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import RunError
from ..grid import Grid
from ._base import AbstractMonitor, Measured

Kept = list[tuple[int, Measured]]
"""What a monitor measured, with the level."""
_WHY = (
    "a run under jit, grad, jvp or vmap is one program, without chunks between which they could look. Record by "
    "save=fd.receivers(...), which is differentiable, or solve outside."
)


@dataclass(frozen=True, eq=False)
class Datasets(Mapping[str, xr.Dataset]):
    """The records of a run by the monitors' titles, over time; made when they are first looked at."""

    grid: Grid
    monitors: tuple[AbstractMonitor, ...]
    kept: tuple[Kept, ...]

    @cached_property
    def _datasets(self) -> dict[str, xr.Dataset]:
        found: dict[str, xr.Dataset] = {}
        for monitor, kept in zip(self.monitors, self.kept, strict=True):
            if not kept:
                continue
            title, count = monitor.title, 2
            while title in found:
                title, count = f"{monitor.title} {count}", count + 1
            found[title] = self._dataset(title, kept)
        return found

    def _dataset(self, title: str, kept: Kept) -> xr.Dataset:
        assert self.grid.time is not None and self.grid.time_name is not None
        levels, along, data = [level for level, _ in kept], self.grid.time_name, {}
        for name in dict.fromkeys(name for _, measured in kept for name in measured):
            called = f"measured_{name}" if name in (along, "level") else name  # coordinates have these names
            values = _stacked(f"{title}: `{name}`", [measured.get(name) for _, measured in kept])
            data[called] = ((along, *(f"{called}_{k}" for k in range(values.ndim - 1))), values)
        return xr.Dataset(data, {along: np.asarray(self.grid.time.points)[levels], "level": (along, levels)})

    def __getitem__(self, title: str) -> xr.Dataset:
        return self._datasets[title]

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def __len__(self) -> int:
        return len(self._datasets)

    def __repr__(self) -> str:
        return repr(self._datasets)


def _stacked(what: str, values: list[np.ndarray | None]) -> np.ndarray:
    """The values of all looks; nan at those where there is none. Raises RunError where shapes differ."""
    found = [one for one in values if one is not None]
    shapes = list(dict.fromkeys(one.shape for one in found))
    if len(shapes) > 1:
        raise RunError(f"{what} has the shapes {shapes[0]} and {shapes[1]}; keep arrays of one shape at every look.")
    if len(found) == len(values):
        return np.stack(found)
    dtype = np.result_type(*found)
    missing = np.full(shapes[0], np.nan, dtype if jnp.issubdtype(dtype, jnp.inexact) else float)
    return np.stack([missing if one is None else one for one in values])


@dataclass(frozen=True, eq=False)
class Unwatched(Mapping[str, xr.Dataset]):
    """The records of a traced run, which nobody watched: none. Asking for some raises RunError, which says why."""

    monitors: tuple[AbstractMonitor, ...]

    def __getitem__(self, title: str) -> xr.Dataset:
        raise RunError(f"There are no records of {title!r}: {_WHY}")

    def __contains__(self, title: object) -> bool:
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"Unwatched({', '.join(one.title for one in self.monitors)})"


def note_unwatched(monitors: Sequence[AbstractMonitor], progress: bool) -> str:
    """What the plan of a traced run notes of its monitors and its bar."""
    titles = [one.title for one in monitors] + ["the bar of progress=True"] * progress
    return f"Not watched by {', '.join(titles)}: {_WHY}"

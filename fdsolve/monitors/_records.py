"""What monitors kept, as Datasets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from ..grid import Grid
from ._base import AbstractMonitor, Measured

Kept = list[tuple[int, Measured]]
"""What a monitor measured, with the level."""


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
            found[title] = self._dataset(kept)
        return found

    def _dataset(self, kept: Kept) -> xr.Dataset:
        assert self.grid.time is not None and self.grid.time_name is not None
        levels, along, data = [level for level, _ in kept], self.grid.time_name, {}
        for name in kept[-1][1]:
            if name in (along, "level"):
                continue  # the coordinates tell it
            values = [measured.get(name, np.nan) for _, measured in kept]
            data[name] = ((along, *(f"{name}_{k}" for k in range(np.ndim(values[-1])))), np.stack(values))
        return xr.Dataset(data, {along: np.asarray(self.grid.time.points)[levels], "level": (along, levels)})

    def __getitem__(self, title: str) -> xr.Dataset:
        return self._datasets[title]

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def __len__(self) -> int:
        return len(self._datasets)

    def __repr__(self) -> str:
        return repr(self._datasets)

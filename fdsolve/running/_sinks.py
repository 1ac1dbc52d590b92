"""Where saved levels go while a run is under way."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..files import ZarrStream
from ..planning import Plan

Mark = Callable[[str, Any], Any]
"""(field, levels) ↦ the levels with nan inside holes."""


class AbstractSink(ABC):
    """Takes saved levels in order."""

    num_saved: int

    @abstractmethod
    def append(self, levels: Sequence[int], arrays: Mapping[str, Any]) -> None:
        """Takes the fields at these levels, stacked along the first axis."""

    def flush(self) -> None:
        """Everything taken so far is where it stays, also if the process is killed now."""
        return None

    def close(self) -> None:
        """Nothing more will come."""
        return None

    @abstractmethod
    def read(self) -> Mapping[str, Any]:
        """What was taken, by field."""


def levels_kept(plan: Plan) -> tuple[int, ...]:
    """The levels that go to a sink: none where the last alone is wanted."""
    return () if plan.stream is None and plan.structure.saves_last_only else plan.structure.saved_levels


class Nowhere(AbstractSink):
    """Where only the last level is wanted: it is in the state."""

    def __init__(self) -> None:
        self.num_saved = 0

    def append(self, levels: Sequence[int], arrays: Mapping[str, Any]) -> None:
        self.num_saved += len(levels)

    def read(self) -> Mapping[str, Any]:
        return {}


class Memory(AbstractSink):
    """Keeps levels in memory, in arrays of their final size."""

    def __init__(self, count: int, like: Mapping[str, Any]):
        self._arrays = {name: np.empty((count, *one.shape), np.dtype(one.dtype)) for name, one in like.items()}
        self.num_saved = 0

    def append(self, levels: Sequence[int], arrays: Mapping[str, Any]) -> None:
        stop = self.num_saved + len(levels)
        for name, array in arrays.items():
            self._arrays[name][self.num_saved : stop] = array
        self.num_saved = stop

    def read(self) -> Mapping[str, Any]:
        return {name: array[: self.num_saved] for name, array in self._arrays.items()}


class Store(AbstractSink):
    """Writes levels to a Zarr store, behind the compute."""

    def __init__(self, stream: ZarrStream, times: Any, mark: Mark):
        """`times`: those of all that will be saved."""
        self.stream, self._times, self._mark = stream, times, mark

    @property
    def num_saved(self) -> int:  # type: ignore[override]
        return self.stream.num_saved

    def append(self, levels: Sequence[int], arrays: Mapping[str, Any]) -> None:
        marked = {name: np.asarray(self._mark(name, array)) for name, array in arrays.items()}
        self.stream.append(self._times[self.num_saved : self.num_saved + len(levels)], marked)

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        self.stream.close()

    def read(self) -> Mapping[str, Any]:
        return self.stream.read()

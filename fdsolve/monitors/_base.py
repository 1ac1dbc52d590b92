"""What a monitor is, and what it sees."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..grid import Grid
from ..planning import Plan

EVERY = 1000
"""Levels between two looks, unasked. A look and the end of a chunk take as long as 10 to 20 levels of the fastest
march: a hundredth or two of it; less where levels cost more."""


@dataclass(frozen=True)
class Watched:
    """What is static about a watched problem: hashable, so that what monitors measure is compiled once.

    `names`: the declared fields; `faces`: for each, the axes on which it lies on faces; `signs`: for each, those with
    which it repeats along the axes.
    """

    grid: Grid
    names: tuple[str, ...]
    faces: tuple[frozenset[str], ...]
    signs: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, plan: Plan) -> "Watched":
        """Of a plan."""
        scope, names = plan.problem.scope, plan.problem.names
        signs = dict(plan.structure.signs)
        faces = tuple(scope.layouts[name].faces for name in names)
        return cls(scope.grid, names, faces, tuple(signs[name] for name in names))

    @property
    def space(self) -> tuple[str, ...]:
        """The names of the space axes."""
        return self.grid.space

    def spacing(self, axis: str) -> float:
        """The least distance between two points of an axis, in its units."""
        points = self.grid.space_axis(axis).points
        return float(np.min(np.diff(points))) if len(points) > 1 else float("inf")


@dataclass(frozen=True, eq=False)
class Look:
    """A level as monitors see it.

    `fields`: by name, the values over space (0 inside holes); `before`: those at the monitor's last look, `elapsed` the
    time since (none at the first look); `level`, `time`, and `step`, the time step; `volumes`: by field, those of the
    cells around the points, 0 inside holes; `parameters`: numbers and arrays by name.
    """

    fields: Mapping[str, Any]
    before: Mapping[str, Any] | None
    elapsed: Any
    level: Any
    time: Any
    step: Any
    volumes: Mapping[str, Any]
    parameters: Mapping[str, Any]


jax.tree_util.register_dataclass(
    Look,
    data_fields=["fields", "before", "elapsed", "level", "time", "step", "volumes", "parameters"],
    meta_fields=[],
)


@lru_cache(maxsize=64)
def _lengths(grid: Grid, axis: str, face: bool, dtype: np.dtype) -> np.ndarray:
    return grid.lengths(axis, face).astype(dtype)


@dataclass(frozen=True, eq=False)
class Volumes:
    """The volumes of the cells around a field's points: the product of what each axis contributes; 0 where not
    `inside` (None: there are no holes)."""

    lengths: tuple[Any, ...]
    inside: Any

    @classmethod
    def of(cls, plan: Plan, holes: Mapping[str, Any]) -> "dict[str, Volumes]":
        """By field, in its precision."""
        scope, found = plan.problem.scope, {}
        for one in plan.structure.declared:
            faces, space = scope.layouts[one.name].faces, scope.grid.space
            real = np.real(np.zeros((), one.dtype)).dtype
            dtype = real if np.issubdtype(real, np.floating) else float
            lengths = tuple(_lengths(scope.grid, axis, axis in faces, np.dtype(dtype)) for axis in space)
            hidden = holes[one.name]
            found[one.name] = cls(lengths, None if hidden is None else ~jnp.asarray(hidden))
        return found

    def array(self) -> Any:
        """Over space; inside a program it takes no memory of its own."""
        ndim = len(self.lengths)
        found = jnp.ones((1,) * ndim, self.lengths[0].dtype)
        for place, one in enumerate(self.lengths):
            found = found * jnp.reshape(one, tuple(-1 if k == place else 1 for k in range(ndim)))
        return found if self.inside is None else jnp.where(self.inside, found, 0)


jax.tree_util.register_dataclass(Volumes, data_fields=["lengths", "inside"], meta_fields=[])

Measured = dict[str, Any]
"""Numbers and small arrays by name."""


class AbstractMonitor(ABC):
    """Watches every `every`-th level, the first and the last: measures on the device, judges on the host.

    A frozen dataclass. `title` heads its records in `solution.monitors`.
    """

    every: Any

    @property
    def title(self) -> str:
        """The name of the records."""
        return type(self).__name__

    @property
    def looks_back(self) -> bool:
        """Whether it needs the fields at its last look."""
        return False

    @property
    def may_stop(self) -> bool:
        """Whether it can stop the run: then the run waits for what it measures."""
        return type(self).judge is not AbstractMonitor.judge or type(self).listen is not AbstractMonitor.listen

    def check(self, watched: Watched) -> None:
        """Refuses a problem that it cannot watch, before anything runs."""
        return None

    @abstractmethod
    def measure(self, watched: Watched, look: Look) -> Measured:
        """What is kept of a level: pure, compiled."""

    def judge(self, first: Measured, now: Measured) -> str | None:
        """Why the run should stop here; None to go on. `first` is what the first look measured."""
        return None

    def listen(self, look: Look) -> str | None:
        """What is done on the host with the level itself; the reason to stop, or None."""
        return None


def to_every(every: Any, owner: str) -> int:
    """A number of levels between two looks, checked."""
    if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
        raise DeclarationError(f"{owner}: every= is a whole number of levels of at least 1, got {every!r}.")
    return int(every)


def to_fields(field: Any, watched: Watched, owner: str) -> tuple[str, ...]:
    """The fields that a monitor watches: the one named, or all."""
    if field is None:
        return watched.names
    if field not in watched.names:
        known = ", ".join(f"`{name}`" for name in watched.names)
        raise DeclarationError(f"{owner} watches a field that is not solved for, {field!r}; there are {known}.")
    return (field,)


def to_positive(value: Any, name: str, owner: str) -> float | None:
    """A bound: a positive number, or None for none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
        raise DeclarationError(f"{owner}: {name}= is a number above 0, got {value!r}.")
    return float(value)

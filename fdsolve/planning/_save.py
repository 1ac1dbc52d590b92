"""Which levels are saved."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..grid import Time


class AbstractSave(ABC):
    """Chooses the levels a solution keeps, and what of them: `fd.every(10).sel(y=0.5)`, `fd.every(10).mean("x")`.

    What is asked for is done in turn, while the run goes on: only what is left is kept.
    """

    @abstractmethod
    def times(self, time: Time) -> np.ndarray:
        """The times of the saved states, in the units of the time axis."""

    def isel(self, **cuts: Any) -> "Derived":
        """Keeps parts of fields by position: `isel(x=slice(None, None, 4), y=0)`; an index drops the axis."""
        return _derived(self, "isel", tuple(cuts.items()))

    def sel(self, **cuts: Any) -> "Derived":
        """Keeps parts of fields by coordinate: `sel(x=slice(0.2, 0.4), y=0.5)`, as in `u.loc[...]`."""
        return _derived(self, "sel", tuple(cuts.items()))

    def mean(self, *axes: Any) -> "Derived":
        """Keeps means along axes (all without), weighted by the volumes of cells, holes left out."""
        return _derived(self, "mean", axes)

    def integral(self, *axes: Any) -> "Derived":
        """Keeps integrals ∑ u ΔV along axes (all without), holes left out."""
        return _derived(self, "integral", axes)

    def max(self, *axes: Any) -> "Derived":
        """Keeps the largest values along axes (all without), holes left out."""
        return _derived(self, "max", axes)

    def min(self, *axes: Any) -> "Derived":
        """Keeps the smallest values along axes (all without), holes left out."""
        return _derived(self, "min", axes)

    def only(self, *fields: Any) -> "Derived":
        """Keeps these fields alone."""
        return _derived(self, "only", fields)

    def averaged(self) -> "Derived":
        """Keeps the mean over the levels since the last save, that level left out; at level 0 the level itself."""
        return _derived(self, "averaged", ())


@dataclass(frozen=True)
class Derived(AbstractSave):
    """Levels of another save, of which a part is kept: `asked`, in turn, as methods of `AbstractSave` and arguments."""

    save: AbstractSave
    asked: tuple[tuple[str, tuple[Any, ...]], ...]

    def times(self, time: Time) -> np.ndarray:
        return self.save.times(time)


def _derived(save: AbstractSave, kind: str, given: tuple[Any, ...]) -> Derived:
    if kind not in ("isel", "sel") and not all(isinstance(one, str) for one in given):
        noun = "fields" if kind == "only" else "axes"
        raise DeclarationError(f"save=….{kind}(...) takes {noun} by name, got {given!r}.")
    if not isinstance(save, Every | At | Final | Derived):
        raise DeclarationError(
            f"{type(save).__name__} keeps what it is; cuts and means are asked of fd.every, fd.at, "
            f"fd.final: fd.stream(path, fd.every(10).{kind}(...))."
        )
    before = save.asked if isinstance(save, Derived) else ()
    return Derived(save.save if isinstance(save, Derived) else save, (*before, (kind, given)))


@dataclass(frozen=True)
class Every(AbstractSave):
    """Every n-th level, from level 0."""

    n: int

    @classmethod
    def checked(cls, n: Any, what: str, example: str) -> "Every":
        """Refuses what is no number of levels; `what` begins the message, and `example` ends it."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise DeclarationError(
                f"{what} takes a whole number of levels of at least 1, got {n!r}. Give an int: {example}."
            )
        return cls(int(n))

    def times(self, time: Time) -> np.ndarray:
        return time.points[:: self.n]


@dataclass(frozen=True)
class At(AbstractSave):
    """Given times, interpolated linearly between levels."""

    at: tuple[float, ...] | tuple[str, ...]

    def times(self, time: Time) -> np.ndarray:
        values = self._from_datetimes(time) if isinstance(self.at[0], str) else np.asarray(self.at, float)
        slack = 1e-6 * time.step
        outside = (values < time.start - slack) | (values > time.stop + slack)
        if outside.any():
            text = time.text_like(self.at[0])
            raise DeclarationError(
                f"save=fd.at(...): the time {text(values[outside][0])} lies outside the time axis, "
                f"{text(time.start)} to {text(time.stop)}."
            )
        return np.clip(values, time.start, time.stop)

    def _from_datetimes(self, time: Time) -> np.ndarray:
        try:
            return time.to_number(list(self.at))
        except DeclarationError as error:
            raise DeclarationError(f"save=fd.at(...): {error}") from None


@dataclass(frozen=True)
class Final(AbstractSave):
    """The last level alone."""

    def times(self, time: Time) -> np.ndarray:
        return time.points[-1:]


def every(n: Any) -> Every:
    """Keeps every n-th level, from level 0: `solve(u, save=fd.every(10))`."""
    return Every.checked(n, "fd.every", "fd.every(10)")


def at(times: Any) -> At:
    """Keeps given times, interpolated linearly between the levels around each.

    `times` is one number or a list of them, in the units of the time axis, or datetimes where it has `since=`.
    """
    wanted = "fd.at takes one or more times: concrete numbers, or datetimes where the time axis has `since=`;"
    try:
        values = np.atleast_1d(np.asarray(times))
    except (TypeError, ValueError):  # ragged lists; a traced value raises a TypeError too
        raise DeclarationError(f"{wanted} got {type(times).__name__}.") from None
    if values.ndim != 1 or values.size == 0:
        raise DeclarationError(f"{wanted} got an array of shape {np.shape(times)}. Give a list: fd.at([0.1, 0.5]).")
    if values.dtype.kind in "MU" or all(isinstance(value, date) for value in values):
        return At(tuple(str(np.datetime64(value)) if isinstance(value, date) else str(value) for value in values))
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise DeclarationError(f"{wanted} got {values.tolist()!r}.")
    return At(tuple(float(value) for value in values))


@dataclass(frozen=True)
class Stream(AbstractSave):
    """Saved states that go to a Zarr store while the run goes on; made by `fd.stream`."""

    path: str
    save: AbstractSave
    overwrite: bool = False

    def times(self, time: Time) -> np.ndarray:
        return self.save.times(time)


def stream(path: Any, save: Any = None, *, overwrite: bool = False) -> Stream:
    """Writes saved states to the Zarr store at `path` while the run goes on: `save=fd.stream("run.zarr", fd.every(9))`.

    Memory holds a few states only; the store can be read while it is written (`xarray.open_zarr`). `save` chooses
    levels, `fd.every(n)` (default: all), `fd.final()`, or `fd.at(times)` with ascending times of levels. A store that
    is at `path` already is an error, unless `overwrite=True`.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise DeclarationError(f"fd.stream takes the path of a Zarr store, got {path!r}.")
    save = Every(1) if save is None else save
    if not isinstance(save, Every | At | Final | Derived):
        raise DeclarationError(
            f"fd.stream takes fd.every(n), fd.at(times) or fd.final() beside its path, got {save!r}."
        )
    return Stream(os.path.abspath(os.fspath(path)), save, overwrite)


def final() -> Final:
    """Keeps the last level alone."""
    return Final()


@dataclass(frozen=True)
class SavePlan:
    """Levels to store while marching, and how the saved states are made of them: state k = mix of two stored levels."""

    levels: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    share: tuple[float, ...]
    times: tuple[float, ...]

    @property
    def interpolates(self) -> bool:
        """Whether a saved state lies between levels."""
        return any(self.share)

    @property
    def follows_levels(self) -> bool:
        """Whether the saved states are the stored levels, one after the other."""
        return not self.interpolates and self.left == tuple(range(len(self.levels)))


def plan_saves(save: AbstractSave, time: Time) -> SavePlan:
    """The levels to store for a choice of times."""
    times = save.times(time)
    position = (times - time.start) / time.step
    left = np.clip(np.floor(position + 1e-9).astype(int), 0, time.num - 1)
    share = np.where(np.abs(position - left) < 1e-6, 0.0, position - left)
    right = np.where(share > 0, np.minimum(left + 1, time.num - 1), left)
    levels = np.unique(np.concatenate([left, right]))
    return SavePlan(
        tuple(int(n) for n in levels),
        tuple(int(k) for k in np.searchsorted(levels, left)),
        tuple(int(k) for k in np.searchsorted(levels, right)),
        tuple(float(s) for s in share),
        tuple(float(t) for t in times),
    )

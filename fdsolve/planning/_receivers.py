"""Receivers: places between the points where fields are recorded, at a cost that does not depend on the grid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..grid import Time
from ..region import AbstractInterpolation, Place, check_coordinate, check_inside, place_window, to_interpolation
from ._problem import Problem
from ._save import AbstractSave, Every
from ._seams import Signs, check_sign

_WANTED = (
    "fd.receivers takes a list of places, [fd.point(x=0.3, y=0.1), ...], or coordinates by axis, dict(x=xs, y=0.1)"
)


@dataclass(frozen=True, eq=False)
class Receivers(AbstractSave):
    """Places where every n-th level is recorded, from level 0; made by `fd.receivers`."""

    places: tuple[Place, ...]
    n: int

    def times(self, time: Time) -> np.ndarray:
        return time.points[:: self.n]


@dataclass(frozen=True)
class Recording:
    """What is static about receivers: every n-th level, how many levels and places, and the widths of the windows."""

    every: int
    num_levels: int
    num_places: int


def receivers(points: Any, *, every: Any = 1, interpolation: Any = "linear") -> Receivers:
    """Records the fields at places between the points: `solve(u, save=fd.receivers([fd.point(x=0.3)], every=2))`.

    `points` are places, each with its own interpolation, or coordinates by axis, `dict(x=xs, y=0.1)`: arrays of one
    length and numbers; then `interpolation` ("linear" or "sinc") serves all. Every `every`-th level is kept, from
    level 0. `solution["u"]` has the shape (times, receivers); with another save beside it,
    `save=[fd.final(), fd.receivers(...)]`, records are in `solution.receivers["u"]`. Coordinates may be traced: records
    are differentiable in them. Inside holes a field counts as 0.
    """
    count = Every.checked(every, "fd.receivers: every=", "every=10").n
    places = _from_coordinates(points, interpolation) if isinstance(points, Mapping) else _from_places(points)
    if not places:
        raise DeclarationError(f"{_WANTED}, at least one; got none.")
    return Receivers(places, count)


def _from_places(points: Any) -> tuple[Place, ...]:
    given = [points] if isinstance(points, Place) else points
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, Place) for one in given):
        raise DeclarationError(f"{_WANTED}; got {type(points).__name__}.")
    return tuple(given)


def _from_coordinates(points: Mapping[Any, Any], interpolation: Any) -> tuple[Place, ...]:
    chosen: AbstractInterpolation = to_interpolation(interpolation, "fd.receivers")
    if isinstance(points, xr.Dataset):
        points = {str(name): points[name].data for name in points.variables}
    lengths = {name: np.shape(value) for name, value in points.items()}
    wrong = [name for name, shape in lengths.items() if len(shape) > 1]
    if wrong:
        raise DeclarationError(f"{_WANTED}; `{wrong[0]}` has the shape {lengths[wrong[0]]}, and one length is wanted.")
    counts = {shape[0] for shape in lengths.values() if shape}
    if len(counts) > 1:
        shown = ", ".join(f"{name} {shape[0]}" for name, shape in lengths.items() if shape)
        raise DeclarationError(f"{_WANTED}; arrays of one length are wanted, got {shown}.")
    count = counts.pop() if counts else 1
    columns = {name: value if lengths[name] else [value] * count for name, value in points.items()}
    if not points:
        return ()
    return tuple(Place({name: column[k] for name, column in columns.items()}, chosen) for k in range(count))


def split_saves(save: Any) -> tuple[AbstractSave | None, Receivers | None]:
    """What is saved of the grid, and the receivers, of one save or a list of them."""
    given = list(save) if isinstance(save, list | tuple) else [] if save is None else [save]
    grid = [one for one in given if not isinstance(one, Receivers)]
    listening = [one for one in given if isinstance(one, Receivers)]
    if len(grid) > 1 or len(listening) > 1:
        raise DeclarationError(
            "save= takes one of fd.every(n), fd.at(times) and fd.final(), and one fd.receivers(...) beside it, got "
            f"{len(grid)} and {len(listening)}. Put all places into one fd.receivers([...])."
        )
    return (grid[0] if grid else None), (listening[0] if listening else None)


def plan_receivers(
    problem: Problem, chosen: Receivers | None, signs: Mapping[str, Signs]
) -> tuple[Recording | None, dict[str, Any]]:
    """What is static about the receivers, and the arrays they need: indices and weights by field and axis."""
    if chosen is None:
        return None, {}
    grid = problem.scope.grid
    if grid.time is None:
        raise DeclarationError("fd.receivers records time levels, and the grid has no time axis.")
    wholes: dict[str, Any] = {}
    for name in (one.name for one in problem.fields):
        if not jnp.issubdtype(problem.scope.dtypes[name], jnp.inexact):
            raise DeclarationError(
                f"fd.receivers interpolates between points, and `{name}` has dtype {problem.scope.dtypes[name]}. "
                f"Declare it with dtype=float."
            )
        for axis, sign in zip(grid.space, signs[name], strict=True):
            check_sign(sign, axis, name, "fd.receivers reach")
            index, weights = _windows(problem, name, axis, chosen, sign)
            wholes[index_key(name, axis)], wholes[weight_key(name, axis)] = index, weights
    levels = len(chosen.times(grid.time))
    return Recording(chosen.n, levels, len(chosen.places)), wholes


def index_key(name: str, axis: str) -> str:
    """The operand that holds the points around each receiver, (receivers, width)."""
    return f"receiver index {name} {axis}"


def weight_key(name: str, axis: str) -> str:
    """The operand that holds their weights, (receivers, width)."""
    return f"receiver weight {name} {axis}"


def _windows(problem: Problem, name: str, axis: str, chosen: Receivers, sign: int) -> tuple[jax.Array, jax.Array]:
    layout, scope = problem.scope.layouts[name], problem.scope
    owner, face = layout.grid.space_axis(axis), axis in layout.faces
    groups: dict[AbstractInterpolation, list[int]] = {}
    for number, place in enumerate(chosen.places):
        what = f"fd.receivers, `{name}` at {place!r}"
        if set(place.coordinates) != set(layout.space):
            got = ", ".join(map(str, place.coordinates))
            raise DeclarationError(f"{what}: a coordinate for each of {', '.join(layout.space)} is wanted, got {got}.")
        value = place.coordinates[axis]
        check_coordinate(axis, value, what)
        check_inside(axis, owner, face, value, place.interpolation, what, read=True)
        groups.setdefault(place.interpolation, []).append(number)
    found = []
    for chosen_one, numbers in groups.items():
        at = jnp.stack([jnp.asarray(chosen.places[number].coordinates[axis], scope.real) for number in numbers])
        window = partial(place_window, owner, face, interpolation=chosen_one, real=scope.real, sign=sign, read=True)
        found.append(jax.vmap(window)(at))
    width = max(index.shape[1] for index, _ in found)
    order = np.argsort([number for numbers in groups.values() for number in numbers])
    index, weights = (
        jnp.concatenate([jnp.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])[order]
        for parts in zip(*found, strict=True)
    )
    return index, weights

"""What can be assigned to a region: numbers, arrays, functions, rates and boundary conditions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError


@dataclass(frozen=True, eq=False)
class Rate:
    """A rule that gives du/dt; made by `fd.rate`."""

    function: Any


def rate(function: Any) -> Rate:
    """Marks a rule as a time derivative: `u[...] = fd.rate(lambda u, D: D * laplacian(u))`.

    The function's arguments are found by name as in any rule; `t` is the time of the stage, and fields are read at the
    stage (not at older levels). A number or an array is taken as it is. Units: those of the field over those of time.
    """
    if isinstance(function, Rate):
        raise DeclarationError("`fd.rate` of a rate: give it the function itself.")
    return Rate(function)


@dataclass(frozen=True, eq=False)
class Along:
    """An array labelled by grid axes; made by `fd.along`."""

    array: Any
    axes: tuple[str, ...]
    faces: frozenset[str] = frozenset()


def along(array: Any, *axes: str, at: dict[str, str] | None = None) -> Along:
    """Labels an array (traced ones too) by grid axes: `solve(u, q=fd.along(series, "t"))`.

    `array` has one dimension an axis named, each as long as the axis; `at=dict(x="face")` says that it lies on faces.
    """
    if not axes or not all(isinstance(name, str) for name in axes):
        raise DeclarationError('`fd.along` takes an array and the names of its axes: fd.along(series, "t").')
    if np.ndim(array) != len(axes):
        raise DeclarationError(f"`fd.along`: the array has {np.ndim(array)} dimensions, {len(axes)} axes are named.")
    return Along(array, axes, frozenset(name for name, place in (at or {}).items() if place == "face"))


@dataclass(frozen=True, eq=False)
class Whole:
    """An array that reaches rules whole; made by `fd.whole`."""

    array: Any


def whole(array: Any) -> Whole:
    """An array that a rule receives whole, even where its shape is that of the grid."""
    return Whole(array)


@dataclass(frozen=True, eq=False)
class Interpolate:
    """A DataArray to be resampled to the grid; made by `fd.interpolate`."""

    array: xr.DataArray


def interpolate(array: xr.DataArray) -> Interpolate:
    """Resamples a DataArray linearly to the coordinates of the grid; points outside its coordinates are an error."""
    if not isinstance(array, xr.DataArray):
        raise DeclarationError(f"`fd.interpolate` takes an xarray.DataArray, got {type(array).__name__}.")
    return Interpolate(array)


class AbstractWall(ABC):
    """One ghost point and the line of points behind it, as a boundary condition sees them.

    `layer` is k ≥ 1. `on_point` says whether the field has a point on the wall. Distances are along the outward normal,
    in the units of the axis.
    """

    layer: int
    on_point: bool

    @abstractmethod
    def interior(self, index: int) -> jax.Array:
        """The value `index` points inwards: 0 is the point on the wall, or the one next to it."""

    @abstractmethod
    def distance(self, index: int) -> Any:
        """Distance from interior point `index` to the ghost point."""


class AbstractCondition(ABC):
    """A boundary condition: it sets the value on the wall, or supplies the ghost values that the rule below reads."""

    @property
    @abstractmethod
    def sets_value_on_points(self) -> bool:
        """Whether the condition sets the value where the field has a point on the wall."""

    @property
    @abstractmethod
    def coefficients(self) -> tuple[Any, ...]:
        """The rules (numbers, arrays, functions) the condition depends on, evaluated at the wall."""

    @abstractmethod
    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        """The value of the ghost point, from the values behind it and the coefficients at the wall."""


def describe_rule(rule: Any) -> str:
    """A rule's name in messages and in the plan."""
    if isinstance(rule, Rate):
        return f"rate {describe_rule(rule.function)}"
    if isinstance(rule, AbstractCondition):
        return repr(rule)
    if callable(rule):
        name = getattr(rule, "__name__", type(rule).__name__)
        return "lambda" if name == "<lambda>" else name
    if isinstance(rule, Along | Whole):
        return f"array {tuple(np.shape(rule.array))}"
    if isinstance(rule, xr.DataArray | Interpolate):
        array = rule.array if isinstance(rule, Interpolate) else rule
        return f"DataArray({', '.join(str(d) for d in array.dims)})"
    return str(rule) if np.ndim(rule) == 0 and not isinstance(rule, Tracer) else f"array {np.shape(rule)}"

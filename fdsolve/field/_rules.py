"""What can be assigned to a region besides boundary conditions: numbers, arrays, functions and rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError
from ..units import is_quantity, magnitude
from ._conditions import AbstractBoundary


@dataclass(frozen=True, eq=False)
class Marked:
    """A rule that does not give the value itself."""

    function: Any


@dataclass(frozen=True, eq=False)
class Rate(Marked):
    """A rule that gives du/dt; made by `fd.rate`."""

    implicit: bool = False


@dataclass(frozen=True, eq=False)
class Residual(Marked):
    """A rule that gives what is to be zero; made by `fd.residual`."""

    guess: Any = None


def bare(rule: Any) -> Any:
    """The function (number, array) behind a rate or a residual; other rules as they are."""
    return rule.function if isinstance(rule, Marked) else rule


def rate(function: Any, *, implicit: Any = False) -> Rate:
    """Marks a rule as a time derivative: `u[...] = fd.rate(lambda u, D: D * laplacian(u))`.

    The function's arguments are found by name as in any rule; `t` is the time of the stage, and fields are read at the
    stage (not at older levels). A number or an array is taken as it is. Units: those of the field over those of time.
    `implicit=True` marks the stiff linear part for steppers that treat it apart (ETDRK4); others take no notice.
    """
    if not isinstance(implicit, bool):
        raise DeclarationError(f"`fd.rate`: implicit= takes True or False, got {implicit!r}.")
    return Rate(_checked_function(function, "`fd.rate`"), implicit)


def residual(function: Any, *, guess: Any = None) -> Residual:
    """Marks a rule as an equation: `u[...] = fd.residual(lambda u, f: laplacian(u) - f)` says that it is zero there.

    The points of all such regions are determined together, with the boundary conditions and rules beside them: on a
    grid without time once, with it at every level (a field read at `"t-1"` is that of the level before), before what
    reads them. `function`'s arguments are found by name as in any rule. `guess` (a number, an array, or a function as
    of an initial state) is where the iteration starts; without it, from the level before, or zero.
    """
    if isinstance(guess, Marked | AbstractBoundary | str | type | bool):
        raise DeclarationError(
            f"`fd.residual`: guess= takes a number, an array or a function of the coordinates, got {guess!r}."
        )
    if are_keys(guess):
        raise DeclarationError(
            "`fd.residual`: guess= takes numbers, got a random key. Draw them: guess=jax.random.normal(key, shape)."
        )
    if not (guess is None or callable(guess) or isinstance(guess, Along | Whole | Interpolate | xr.DataArray)):
        check_numbers(guess, "`fd.residual`: guess=")
    return Residual(_checked_function(function, "`fd.residual`"), own(guess))


def _checked_function(function: Any, what: str) -> Any:
    if isinstance(function, Marked):
        kind = "rate" if isinstance(function, Rate) else "residual"
        raise DeclarationError(
            f"{what} takes a function, a number or an array, got a {kind}. Give it the function itself."
        )
    if isinstance(function, AbstractBoundary):
        raise DeclarationError(f"{what} takes a function, a number or an array, got {function!r}. Assign it without.")
    if function is None or isinstance(function, str | type):
        raise DeclarationError(f"{what} takes a function, a number or an array, got {function!r}.")
    return own(function) if isinstance(function, np.ndarray | xr.DataArray) else function


@dataclass(frozen=True, eq=False)
class Along:
    """An array labelled by grid axes; made by `fd.along`."""

    array: Any
    axes: tuple[str, ...]
    faces: frozenset[str] = frozenset()


def along(array: Any, *axes: Any, at: Any = None) -> Along:
    """Labels an array (traced ones too) by grid axes: `solve(u, q=fd.along(series, "t"))`.

    `array` has one dimension an axis named, each as long as the axis; `at=dict(x="face")` says that it lies on faces.
    """
    if not axes or not all(isinstance(name, str) for name in axes):
        raise DeclarationError(
            f'`fd.along` takes an array and the names of its axes, as in fd.along(series, "t"); '
            f"got {', '.join(map(repr, axes)) or 'no names'}."
        )
    check_numbers(array, "`fd.along` takes an array and the names of its axes;")
    if np.ndim(array) != len(axes) or len(set(axes)) < len(axes):
        raise DeclarationError(
            f"`fd.along` takes one axis for each dimension: the array has {np.ndim(array)}, "
            f"and the axes named are {', '.join(axes)}."
        )
    return Along(own(array), axes, _faces(at, axes))


def _faces(at: Any, axes: tuple[str, ...]) -> frozenset[str]:
    """The axes on whose faces a labelled array lies."""
    places = {} if at is None else at
    if not isinstance(places, Mapping) or not all(
        name in axes and place in ("face", "point") for name, place in places.items()
    ):
        raise DeclarationError(
            f'`fd.along`: at= takes a dict of "face" or "point" by axis, for the axes {", ".join(axes)}; got {at!r}.'
        )
    return frozenset(name for name, place in places.items() if place == "face")


@dataclass(frozen=True, eq=False)
class Whole:
    """An array that reaches rules whole; made by `fd.whole`."""

    array: Any


def whole(array: Any) -> Whole:
    """An array that a rule receives whole, even where its shape is that of the grid."""
    check_numbers(array, "`fd.whole` takes an array;")
    return Whole(own(array))


@dataclass(frozen=True, eq=False)
class Interpolate:
    """A DataArray to be resampled to the grid; made by `fd.interpolate`."""

    array: xr.DataArray


def interpolate(array: Any) -> Interpolate:
    """Resamples a DataArray (of traced values too) linearly to the coordinates of the grid; points outside its
    coordinates are an error."""
    if not isinstance(array, xr.DataArray):
        raise DeclarationError(f"`fd.interpolate` takes an xarray.DataArray, got {type(array).__name__}.")
    check_numbers(array.variable.data, "`fd.interpolate`: the DataArray")
    return Interpolate(own(array))


def own(value: Any) -> Any:
    """A copy of an array that its owner could write into after it was assigned; other values as they are."""
    if isinstance(value, list):
        return np.array(value)
    return value.copy() if isinstance(value, np.ndarray | xr.DataArray) else value


def check_numbers(value: Any, what: str) -> None:
    """Refuses what is no array of numbers; traced values are arrays too."""
    value = magnitude(value) if is_quantity(value) else value
    if isinstance(value, jax.Array):
        return
    try:
        dtype = np.asarray(value).dtype
    except (TypeError, ValueError):  # ragged lists
        dtype = np.dtype(object)
    if not (jnp.issubdtype(dtype, jnp.number) or dtype.kind == "b"):
        got = f"an array of dtype {value.dtype}" if isinstance(value, np.ndarray) else f"{value!r:.60}"
        raise DeclarationError(f"{what} got {' '.join(got.split())}, which is no array of numbers.")


OF_KEYS = (
    "Draw from it in a rule, at each point from one of its own: jax.random.normal(jax.random.fold_in(key, number))."
)
"""What to do about a random key that stands for numbers."""


def are_keys(value: Any) -> TypeGuard[jax.Array]:
    """Whether an array is one of random keys, of `jax.random.key`."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def describe_rule(rule: Any) -> str:
    """A rule's name in messages and in the plan."""
    if isinstance(rule, Marked):
        return f"{type(rule).__name__.lower()} {describe_rule(rule.function)}"
    if isinstance(rule, AbstractBoundary):
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

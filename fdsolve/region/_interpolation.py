"""Interpolation to places between the points: which points a place reads or writes, and with which weights."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError
from ..grid import Axis

ON_POINT = 1e-9
"""How far from a point, in steps, a place still lies on it."""


class AbstractInterpolation(ABC):
    """Weights, one axis at a time, of the points around a place."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many points on each side have a weight."""

    @abstractmethod
    def weights(self, points: Any, at: Any) -> jax.Array:
        """Weights of the values at sorted `points`, (n,), for the value at the coordinate `at`."""

    @abstractmethod
    def check(self, axis: str, owner: Axis, points: np.ndarray, at: float, what: str) -> None:
        """Refuses a place on an axis that the interpolation does not serve; `what` begins the message."""

    def has_room(self, points: jax.Array, at: jax.Array) -> Any:
        """Whether a place lies far enough from the ends of the sorted points of an axis, where it may be traced."""
        return True


@dataclass(frozen=True)
class Linear(AbstractInterpolation):
    """Hat functions: exact for linear functions, second order, weights that sum to one; on stretched axes as well."""

    @property
    def reach(self) -> int:
        return 1

    def weights(self, points: Any, at: Any) -> jax.Array:
        points = jnp.asarray(points, at.dtype)
        if points.size == 1:
            return jnp.ones(1, at.dtype)
        left, right = points[:-1], points[1:]
        share = (at - left) / (right - left)
        last = jnp.arange(left.size) == left.size - 1
        inside = (share >= 0) & ((share < 1) | last) & (share <= 1)
        zero = jnp.zeros(1, at.dtype)
        lower = jnp.where(inside, 1 - share, zero)
        upper = jnp.where(inside, share, zero)
        return jnp.concatenate([lower, zero]) + jnp.concatenate([zero, upper])

    def check(self, axis: str, owner: Axis, points: np.ndarray, at: float, what: str) -> None:
        return


@dataclass(frozen=True)
class Sinc(AbstractInterpolation):
    """A sinc function under a Kaiser window: w(s) = sinc(s) I₀(b √(1 − s²/r²)) / I₀(b), |s| < r, s in steps.

    `radius` r is the number of points on each side, `b` the shape of the window. Source: Hicks, "Arbitrary source and
    receiver positioning in finite-difference schemes using Kaiser windowed sinc functions", Geophysics 67 (2002) 156.
    Good values: r = 4, b = 6.31, with errors of 5e-4 for waves of six points a length and 1.4e-3 for four (linear: .13
    and .29). The spacing must be even.
    """

    radius: int = 4
    b: float = 6.31

    def __post_init__(self) -> None:
        if isinstance(self.radius, bool) or not isinstance(self.radius, int) or self.radius < 1:
            raise DeclarationError(f"Sinc: `radius` is a whole number of points, got {self.radius!r}. Take 4.")
        if not isinstance(self.b, int | float) or not 0 <= self.b < 20:
            raise DeclarationError(f"Sinc: `b` is a number from 0 to 20, got {self.b!r}. Take 6.31 for radius 4.")

    @property
    def reach(self) -> int:
        return self.radius

    def weights(self, points: Any, at: Any) -> jax.Array:
        points = jnp.asarray(points, at.dtype)
        offsets = (points - at) / (points[1] - points[0])
        square = (offsets / self.radius) ** 2
        inside = square < 1
        window = _bessel(self.b**2 / 4 * (1 - jnp.where(inside, square, jnp.zeros_like(square))))
        scale = _bessel(jnp.asarray(self.b**2 / 4, at.dtype))
        return jnp.where(inside, jnp.sinc(offsets) * window / scale, jnp.zeros_like(offsets))

    def has_room(self, points: jax.Array, at: jax.Array) -> Any:
        position = (at - points[0]) / (points[1] - points[0])
        room = jnp.minimum(jnp.floor(position) + 1, points.size - 1 - jnp.floor(position))
        rounding = max(ON_POINT, 8 * points.size * float(jnp.finfo(points.dtype).eps))
        return (room >= self.radius) | (jnp.abs(position - jnp.round(position)) <= rounding)

    def check(self, axis: str, owner: Axis, points: np.ndarray, at: float, what: str) -> None:
        if not owner.uniform:
            raise DeclarationError(
                f"{what}: sinc interpolation wants an even spacing, and axis `{axis}` is stretched. "
                f'Write interpolation="linear".'
            )
        if points.size < 2 * self.radius:
            raise DeclarationError(
                f"{what}: sinc interpolation takes {2 * self.radius} points, and axis `{axis}` has {points.size}. "
                f'Write interpolation="linear".'
            )
        position = (at - points[0]) / owner.step
        room = min(np.floor(position) + 1, points.size - 1 - np.floor(position))
        if not owner.periodic and room < self.radius and abs(position - round(position)) > ON_POINT:
            raise DeclarationError(
                f"{what}: sinc interpolation takes {self.radius} points on each side of a place between the points, "
                f"and `{axis}={at}` has {int(room)} on one. Move it inwards or onto a point, or write "
                f'interpolation="linear".'
            )


def _bessel(quarter: Any) -> Any:
    """I₀(z) as its series in z²/4, which has no kink at z = 0; to rounding for z < 20."""
    total = jnp.ones_like(quarter)
    for k in range(40, 0, -1):
        total = 1 + total * quarter / (k * k)
    return total


_BY_NAME = {"linear": Linear(), "sinc": Sinc()}


def to_interpolation(value: Any, what: str) -> AbstractInterpolation:
    """The interpolation that a name stands for, or an object of the user's own; `what` begins the message."""
    if isinstance(value, AbstractInterpolation):
        return value
    if not isinstance(value, str) or value not in _BY_NAME:
        names = " or ".join(f'"{name}"' for name in _BY_NAME)
        raise DeclarationError(f"{what}: interpolation= takes {names}, got {value!r}.")
    return _BY_NAME[value]


def check_coordinate(axis: str, value: Any, what: str) -> None:
    """Refuses what is no single coordinate; traced ones pass."""
    if isinstance(value, Tracer):
        return
    if isinstance(value, str | bool) or np.ndim(value) or not np.issubdtype(np.asarray(value).dtype, np.number):
        shown, remedy = repr(value), ""
        if callable(value):
            shown = "a function"
            remedy = f" A source that moves is a rule of `{axis}` and time on a region around its path."
        elif np.ndim(value):
            shown, remedy = f"{np.size(value)} of them", " For several places write several points."
        raise DeclarationError(f"{what}: a coordinate of `fd.point` is one number, got {axis}={shown}.{remedy}")


def check_inside(
    axis: str, owner: Axis, face: bool, value: Any, interpolation: AbstractInterpolation, what: str, *, read: bool
) -> None:
    """Refuses a coordinate outside the points of an axis, or too near its ends; a traced one passes.

    What is `read` linearly may lie between a wall and the first or last point.
    """
    if isinstance(value, Tracer):
        return
    points = owner.positions(face, 0, owner.size(face))
    goes_on = read and isinstance(interpolation, Linear)
    low, high = (owner.lower, owner.upper) if goes_on else (points[0], points[-1])
    if not owner.periodic and not low <= float(value) <= high:
        to_walls = read and owner.lower <= float(value) <= owner.upper
        remedy = ' Write interpolation="linear", which goes on to the walls.' if to_walls else ""
        raise DeclarationError(
            f"{what}: `{axis}={float(value)}` lies outside the points of axis `{axis}`, {low} to {high}.{remedy}"
        )
    interpolation.check(axis, owner, points, float(value), what)


def place_window(
    owner: Axis, face: bool, value: Any, interpolation: AbstractInterpolation, real: Any, sign: int = 1, *, read: bool
) -> tuple[jax.Array, jax.Array]:
    """Indices and weights, (2 reach,) or fewer on a short axis, of the points around a coordinate, traced or not.

    Across the ends of a periodic axis values repeat with a `sign`. What is `read` linearly between a wall and the first
    or last point goes on from there as beside it. A traced place for which `check_inside` would refuse any other has
    weights that are nan.
    """
    at, size, reach = jnp.asarray(value, real), owner.size(face), interpolation.reach
    beyond, distance = reach if owner.periodic else 0, at - owner.lower
    if owner.periodic:
        at = owner.lower + distance % owner.length
    points = jnp.asarray(owner.positions(face, -beyond, size + beyond), real)
    width = min(2 * reach, points.size)
    left = jnp.searchsorted(points, at, side="right") - 1
    first = jnp.clip(left - reach + 1, 0, points.size - width)
    around = jax.lax.dynamic_slice_in_dim(points, first, width)
    weights = interpolation.weights(around, at)
    if read and isinstance(interpolation, Linear) and not owner.periodic and width == 2:
        outside = (at < points[0]) | (at > points[-1])
        share = (at - around[0]) / (around[1] - around[0])
        goes_on = outside & (at >= owner.lower) & (at <= owner.upper)
        weights = jnp.where(goes_on, jnp.stack([1 - share, share]), weights)
    if not owner.periodic:
        goes_on = read and isinstance(interpolation, Linear)
        low, high = (owner.lower, owner.upper) if goes_on else (points[0], points[-1])
        rounding = 8 * jnp.finfo(points.dtype).eps * jnp.maximum(jnp.abs(low), jnp.abs(high))
        fits = (at >= low - rounding) & (at <= high + rounding) & interpolation.has_room(points, at)
        weights = jnp.where(fits, weights, jnp.nan)
    places = first - beyond + jnp.arange(width, dtype=first.dtype)
    if sign == -1:
        periods = jnp.floor(distance / owner.length).astype(places.dtype) + places // size
        weights = jnp.where(periods % 2 == 0, weights, -weights)
    return places % size, weights


def place_span(owner: Axis, face: bool, value: Any, interpolation: AbstractInterpolation) -> tuple[int, int]:
    """`start, stop` of points that hold all that have a weight; all of the axis where the place is traced."""
    size, reach = owner.size(face), interpolation.reach
    if isinstance(value, Tracer):
        return 0, size
    at = owner.lower + (float(value) - owner.lower) % owner.length if owner.periodic else float(value)
    left = int(np.searchsorted(owner.positions(face, 0, size), at, side="right")) - 1
    start, stop = left - reach + 1, left + reach + 1
    if owner.periodic:
        return (start, stop) if start >= 0 and stop <= size else (0, size)
    start = int(np.clip(start, 0, max(size - 2 * reach, 0)))
    return start, min(start + 2 * reach, size)

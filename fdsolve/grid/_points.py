"""The points of a stretched axis: checked, with the walls they imply."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from ..errors import DeclarationError
from ._checks import to_float


def to_points(points: Any) -> Float64[np.ndarray, " num"]:
    """`points` as float64, (num,), finite and strictly increasing, two at least.

    >>> to_points([0, 1, 3])
    array([0., 1., 3.])
    """
    what = "`points` of an Axis"
    try:
        array = np.asarray(points)
    except (TypeError, ValueError):  # ragged, or traced by JAX
        raise DeclarationError(f"{what} must be a concrete list of numbers. Give a plain NumPy array.") from None
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        message = f"{what} must be real numbers in one dimension, got {array.dtype} of shape {array.shape}."
        raise DeclarationError(f"{message} Give a list such as [0.0, 0.1, 0.3].")
    array = array.astype(np.float64) + 0.0  # −0.0 becomes 0.0, for equal points to have equal bytes
    if len(array) < 2:
        raise DeclarationError(f"{what} must be two at least, got {len(array)}. Use `Axis(lower, upper, num)`.")
    if not np.all(np.isfinite(array)):
        bad = int(np.argmin(np.isfinite(array)))
        raise DeclarationError(f"{what} must be finite, got {array[bad]} at index {bad}. Leave such points out.")
    falls = np.diff(array) <= 0
    if np.any(falls):
        i = int(np.argmax(falls))
        hint = "Give them in reverse." if np.all(np.diff(array) < 0) else "Sort them and drop repeated ones."
        message = f"{what} must increase strictly, got {array[i]} then {array[i + 1]} at index {i + 1}."
        raise DeclarationError(f"{message} {hint}")
    return array


def to_period(period: Any, points: Float64[np.ndarray, " num"], periodic: bool) -> float | None:
    """`period` as a float longer than the points reach, or None on an axis that is not periodic.

    >>> to_period(4, np.array([0.0, 1.0, 3.0]), True)
    4.0
    """
    if not periodic:
        if period is not None:
            message = f"`period` belongs to a periodic axis, got period={period} with periodic=False."
            raise DeclarationError(f"{message} Add `periodic=True`, or leave `period` out.")
        return None
    if period is None:
        message = "A periodic axis from points wants its `period`, as points do not say where they begin again."
        raise DeclarationError(f"{message} Got none: give `period=`, the length of the axis.")
    length = to_float(period, "`period` of an Axis")
    extent = float(points[-1] - points[0])
    if not length > extent:
        message = f"`period` must exceed the distance from the first point to the last, {extent}, got {length}."
        raise DeclarationError(f"{message} Give a longer one, or leave out the repeated end point.")
    return length


def to_walls(points: Float64[np.ndarray, " num"], cells: bool, period: float | None) -> tuple[float, float]:
    """Where an axis through `points` ends: on its end nodes, or half a distance beyond its end centres.

    >>> to_walls(np.array([1.0, 2.0, 4.0]), True, None)
    (0.5, 5.0)
    """
    first, last = float(points[0]), float(points[-1])
    if period is not None:
        lower = (first + last - period) / 2 if cells else first
        return lower, lower + period
    if cells:
        return first - float(points[1] - first) / 2, last + float(last - points[-2]) / 2
    return first, last

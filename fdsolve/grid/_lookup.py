"""From a coordinate to a position in an array: matched to a millionth of a step, or an error."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, Int

from ..errors import DeclarationError

TOLERANCE = 1e-6  # of the local step: wide enough for rounding, far too narrow to hide a wrong coordinate


def to_text(value: float) -> str:
    """A coordinate for a message, without its rounding error.

    >>> to_text(0.1 + 0.2)
    '0.3'
    """
    return f"{value:.10g}"


def match(
    value: float,
    positions: Float64[np.ndarray, " num"],
    spacings: Float64[np.ndarray, " num"],
    indices: Int[np.ndarray, " num"],
    noun: str,
    show: Callable[[float], str] = to_text,
) -> int:
    """The index of the one point that lies at `value`.

    Arguments: increasing `positions`, their `spacings` and `indices`; `noun` and `show` word the error.
    Raises: DeclarationError naming the nearest points when none lies within `TOLERANCE` of a step.

    >>> x = np.linspace(0.0, 1.0, 11)
    >>> match(0.3, x, np.full(11, 0.1), np.arange(11), "node")
    3
    """
    right = int(np.searchsorted(positions, value))
    around = sorted({max(right - 1, 0), min(right, len(positions) - 1)})
    best = min(around, key=lambda i: abs(positions[i] - value))
    if abs(positions[best] - value) <= TOLERANCE * spacings[best]:
        return int(indices[best])
    nearest = " and ".join(f"{show(float(positions[i]))} (index {int(indices[i])})" for i in around)
    verb = "are" if len(around) == 2 else "is"
    message = f"No {noun} lies at {show(value)}, to a millionth of a step; nearest {verb} {nearest}."
    raise DeclarationError(f"{message} Give the coordinate of a {noun}, or a slice of coordinates.")


def match_between(
    ends: tuple[float | None, float | None],
    positions: Float64[np.ndarray, " num"],
    spacings: Float64[np.ndarray, " num"],
    show: Callable[[float], str] = to_text,
) -> tuple[int, int]:
    """`start, stop` of the points between `ends`, both included; None leaves a side open.

    >>> x = np.linspace(0.0, 1.0, 11)
    >>> match_between((0.3, 0.6), x, np.full(11, 0.1))
    (3, 7)
    """
    lower, upper = ends
    if lower is not None and upper is not None and lower > upper:
        message = f"A slice of coordinates runs upwards, got slice({show(lower)}, {show(upper)})."
        raise DeclarationError(f"{message} Swap its two ends.")
    slack = TOLERANCE * spacings
    start = 0 if lower is None else int(np.count_nonzero(positions < lower - slack))
    stop = len(positions) if upper is None else int(np.count_nonzero(positions <= upper + slack))
    return start, max(start, stop)

"""Between datetimes and numbers, by way of whole nanoseconds so that no second is rounded away."""

import warnings
from datetime import date

import numpy as np
from jaxtyping import Float64, Shaped

from ..errors import DeclarationError

Datetime = str | np.datetime64 | date  # a datetime.datetime is a date too

_SECOND = 10**9
_NANOSECONDS = {
    **dict.fromkeys(["ns", "nanosecond", "nanoseconds"], 1),
    **dict.fromkeys(["us", "µs", "microsecond", "microseconds"], 10**3),
    **dict.fromkeys(["ms", "millisecond", "milliseconds"], 10**6),
    **dict.fromkeys(["s", "sec", "second", "seconds"], _SECOND),
    **dict.fromkeys(["min", "minute", "minutes"], 60 * _SECOND),
    **dict.fromkeys(["h", "hr", "hour", "hours"], 3600 * _SECOND),
    **dict.fromkeys(["d", "day", "days"], 86400 * _SECOND),
    **dict.fromkeys(["week", "weeks"], 7 * 86400 * _SECOND),
}
_RANGE = np.array(["1677-09-22", "2262-04-11"], "datetime64[s]")  # what 64 bits of nanoseconds can hold, in whole days


def to_nanoseconds(units: str) -> int:
    """How many nanoseconds one of `units` lasts.

    >>> to_nanoseconds("min")
    60000000000
    """
    if units not in _NANOSECONDS:
        known = ", ".join(f'"{name}"' for name in ("ns", "us", "ms", "s", "min", "h", "days", "weeks"))
        message = f'`units` of a Time with `since` must be one of {known} (or such a word in full), got "{units}".'
        raise DeclarationError(f"{message} Months and years differ in length: count them in days.")
    return _NANOSECONDS[units]


def to_datetimes(values: object, what: str) -> Shaped[np.ndarray, "*shape"]:
    """`values` (a datetime, or an array or list of them, any shape) as datetime64[ns] of that shape.

    >>> to_datetimes("2016-06-01", "`since` of a Time")
    array('2016-06-01T00:00:00.000000000', dtype='datetime64[ns]')
    """
    hint = 'Give them like "2016-06-01" or "2016-06-01T12:00", in UTC and without a time zone.'
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns when it drops a time zone
            array = np.asarray(values)
            if array.dtype.kind not in "MUO":
                raise TypeError
            array = array if array.dtype.kind == "M" else np.asarray(values, "datetime64")  # unit from the text
    except (TypeError, ValueError, UserWarning, DeprecationWarning):
        raise DeclarationError(f"{what} must be datetimes, got {values!r}. {hint}") from None
    if np.any(np.isnat(array)):
        raise DeclarationError(f"{what} must be datetimes without gaps, got NaT among them. {hint}")
    seconds = array.astype("datetime64[s]")
    if np.any((seconds < _RANGE[0]) | (seconds >= _RANGE[1])):
        message = f"{what} must lie between {_RANGE[0].astype('M8[D]')} and {_RANGE[1].astype('M8[D]')}"
        raise DeclarationError(f"{message}, which is what datetime64[ns] holds, got {values!r}. Take a nearer origin.")
    return array.astype("datetime64[ns]")


def to_offsets(numbers: Float64[np.ndarray, "*shape"], unit: int) -> Shaped[np.ndarray, "*shape"]:
    """`numbers` of units of `unit` nanoseconds, any shape, as timedelta64[ns]; whole units stay exact."""
    whole = np.floor(numbers)
    part = np.rint((numbers - whole) * unit)
    return np.asarray(whole.astype(np.int64) * unit + part.astype(np.int64)).astype("timedelta64[ns]")


def to_numbers(offsets: Shaped[np.ndarray, "*shape"], unit: int) -> Float64[np.ndarray, "*shape"]:
    """timedelta64[ns] of any shape as float64 numbers of units of `unit` nanoseconds; whole units stay exact.

    >>> to_numbers(np.array([90], "m8[m]"), to_nanoseconds("h"))
    array([1.5])
    """
    whole, part = np.divmod(offsets.astype("timedelta64[ns]").astype(np.int64), unit)
    return np.asarray(whole + part / unit)

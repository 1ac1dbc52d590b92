"""The axis a solve marches along."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from ..errors import DeclarationError
from ..units import to_magnitudes
from ._calendar import Datetime, to_datetimes, to_nanoseconds, to_numbers, to_offsets
from ._checks import check_interval, to_count, to_float, to_units
from ._lookup import match, match_between, to_text


@dataclass(frozen=True, init=False, repr=False)
class Time:
    """Evenly spaced time levels from `start` to `stop`, both included.

    Arguments:
        start, stop: first and last level, in `units`.
        num: how many levels; or
        step: the time between levels, in `units`. Exactly one of the two.
        since: the datetime that time 0 stands for, in UTC, as `"2016-06-01"`; levels then match datetimes.
        units: a name for the units, or a unit of saiunit; with `since` one of "ns", "us", "ms", "s" (the default),
            "min", "h", "days", "weeks".

    Raises: DeclarationError.

    >>> Time(0.0, 0.5, num=6).points
    array([0. , 0.1, 0.2, 0.3, 0.4, 0.5])
    >>> Time(0.0, 0.5, step=0.1)
    Time(0.0, 0.5, num=6)
    >>> Time(0, 12, step=6, since="2016-06-01", units="h").datetimes().astype("datetime64[h]")
    array(['2016-06-01T00', '2016-06-01T06', '2016-06-01T12'],
          dtype='datetime64[h]')
    """

    start: float
    stop: float
    num: int
    since: np.datetime64 | None
    units: str | None

    def __init__(
        self,
        start: Any,
        stop: Any,
        *,
        num: Any = None,
        step: Any = None,
        since: Any = None,
        units: Any = None,
    ) -> None:
        (start, stop, step), units = to_magnitudes((start, stop, step), units, "`start`, `stop` and `step` of a Time")
        first, last = to_float(start, "`start` of a Time"), to_float(stop, "`stop` of a Time")
        check_interval(first, last, last - first, ("start", "stop"), "A Time")
        count = _to_num(first, last, num, step)
        check_interval(first, last, (last - first) / (count - 1), ("start", "stop"), "A Time")
        origin = None if since is None else _to_origin(since)
        name = to_units(units, "`units` of a Time")
        name = "s" if name is None and origin is not None else name
        if origin is not None:
            _check_calendar(first, last, origin, to_nanoseconds(str(name)))
        for field, value in dict(start=first, stop=last, num=count, since=origin, units=name).items():
            object.__setattr__(self, field, value)

    @property
    def step(self) -> float:
        """Δt, the time between levels, in `units`."""
        return (self.stop - self.start) / (self.num - 1)

    @cached_property
    def points(self) -> Float64[np.ndarray, " num"]:
        """The time of each level, (num,), in `units`; read-only."""
        points = np.linspace(self.start, self.stop, self.num)
        points.setflags(write=False)
        return points

    def datetimes(self) -> Shaped[np.ndarray, " num"]:
        """The datetime of each level, (num,), datetime64[ns]; without `since`, DeclarationError."""
        return self._origin + to_offsets(self.points, self._unit)

    def to_number(self, values: object) -> Float64[np.ndarray, "*shape"]:
        """Datetimes of any shape as float64 times on this axis, in `units`.

        Raises: DeclarationError when there is no `since`.

        >>> Time(0, 5, num=6, since="2016-06-01", units="days").to_number(["2016-06-02", "2016-06-03T12:00"])
        array([1. , 2.5])
        """
        origin, unit = self._origin, self._unit
        datetimes = to_datetimes(values, "Times on a Time axis with `since`")
        return to_numbers(np.asarray(datetimes - origin), unit)

    def index_of(self, value: Any) -> int:
        """The level at a time, a number or with `since` also a datetime, matched to 1e-6 of a step.

        Raises: DeclarationError naming the nearest levels.

        >>> Time(0, 24, num=25, since="2016-06-01", units="h").index_of("2016-06-01T06:00")
        6
        """
        indices = np.arange(self.num)
        return match(self._number(value), self.points, self._spacing, indices, "time level", self.text_like(value))

    def indices_between(self, lower: Any, upper: Any) -> tuple[int, int]:
        """`start, stop` of the levels from `lower` to `upper`, both included to 1e-6 of a step.

        None leaves that side open; a date stands for its midnight. Raises DeclarationError when `lower` comes
        after `upper`.

        >>> Time(0.0, 0.5, num=6).indices_between(0.1, 0.3)
        (1, 4)
        """
        ends = self._end(lower), self._end(upper)
        return match_between(ends, self.points, self._spacing, self.text_like(lower if upper is None else upper))

    def text_like(self, value: Any) -> Callable[[float], str]:
        """How messages write times on this axis: as datetimes where `value` is one or an array of them, or as numbers.

        >>> Time(0, 24, num=25, since="2016-06-01", units="h").text_like("2016-07-01")(30)
        '2016-06-02T06:00'
        """
        if value is None or not _is_datetime(value):
            return to_text
        return lambda number: _date_text((self._origin + to_offsets(np.array([number], float), self._unit))[0])

    @property
    def _spacing(self) -> Float64[np.ndarray, " num"]:
        return np.broadcast_to(np.float64(self.step), (self.num,))

    @property
    def _origin(self) -> np.datetime64:
        if self.since is None:
            message = f"Datetimes want a Time that says when its time 0 is, got {self!r}."
            raise DeclarationError(f'{message} Give it `since=`, as in `since="2016-06-01"`.')
        return self.since

    @property
    def _unit(self) -> int:
        return to_nanoseconds(str(self.units))

    def _number(self, value: Any) -> float:
        return self.to_number(value).item() if _is_datetime(value) else to_float(value, "A time")

    def _end(self, value: Any) -> float | None:
        return None if value is None else self._number(value)

    def __repr__(self) -> str:
        parts = [f"{self.start}, {self.stop}, num={self.num}"]
        parts += [f'since="{_date_text(self.since)}"'] if self.since is not None else []
        parts += [f'units="{self.units}"'] if self.units is not None else []
        return f"Time({', '.join(parts)})"


def _date_text(value: np.datetime64) -> str:
    return str(np.datetime_as_string(value, unit="auto"))


def _is_datetime(value: object) -> bool:
    return isinstance(value, Datetime) or getattr(getattr(value, "dtype", None), "kind", None) == "M"


def _to_origin(since: object) -> np.datetime64:
    origin = to_datetimes(since, "`since` of a Time")
    if origin.ndim:
        raise DeclarationError(f"`since` of a Time must be one datetime, got {since!r}. Give the one of time 0.")
    return np.datetime64(origin.item(), "ns")


def _to_num(start: float, stop: float, num: Any, step: Any) -> int:
    if (num is None) == (step is None):
        got = "neither" if num is None else f"num={num} and step={step}"
        message = f"A Time wants either `num`, the number of levels, or `step`, the time between them, got {got}."
        raise DeclarationError(f"{message} Give exactly one.")
    if num is not None:
        return to_count(num, "`num` of a Time", 2, ", the first and the last level")
    size = to_float(step, "`step` of a Time")
    if not size > 0:
        raise DeclarationError(f"`step` of a Time must be positive, got {size}. Time runs from `start` up to `stop`.")
    ratio = (stop - start) / size
    steps = round(ratio)
    if steps < 1 or abs(ratio - steps) > 1e-6:
        fits = [start + n * size for n in (int(ratio), int(ratio) + 1) if n > 0]
        message = f"`step` must divide the time from {start} to {stop} evenly, got step={size}, {ratio:.6g} steps."
        stops = " or ".join(f"stop={to_text(fit)}" for fit in fits)
        raise DeclarationError(f"{message} The nearest that fit: {stops}; or give `num`.")
    return steps + 1


def _check_calendar(start: float, stop: float, origin: np.datetime64, unit: int) -> None:
    """Raise when an end is beyond what datetime64[ns] can hold, where NumPy would wrap around in silence."""
    limit = np.iinfo(np.int64).max
    nanoseconds = [int(origin.astype(np.int64)) + end * unit for end in (start, stop)]
    if max(map(abs, nanoseconds)) >= limit:
        message = f"A Time with `since` must stay between the years 1678 and 2261, got {start} to {stop} since"
        raise DeclarationError(f"{message} {_date_text(origin)}. Shorten it, check `units`, or leave `since` out.")

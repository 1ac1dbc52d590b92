"""Time: levels, steps that must fit, and datetimes."""

import pickle
from datetime import date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdsolve.grid import Time


def test_levels_include_both_ends() -> None:
    time = Time(0.0, 0.5, num=151)
    assert (time.start, time.stop, time.num, time.since, time.units) == (0.0, 0.5, 151, None, None)
    assert time.step == pytest.approx(0.5 / 150)
    np.testing.assert_array_equal(time.points, np.linspace(0.0, 0.5, 151))
    with pytest.raises(ValueError, match="read-only"):
        time.points[0] = 1.0


@pytest.mark.parametrize(("stop", "step", "num"), [(1.0, 0.1, 11), (0.3, 0.1, 4), (7, 7, 2), (1, 1 / 3, 4)])
def test_a_step_that_fits_gives_the_number_of_levels(stop: float, step: float, num: int) -> None:
    assert Time(0, stop, step=step) == Time(0, stop, num=num)


def test_a_time_is_a_value() -> None:
    time = Time(0, 1, num=3, since="2016-06-01", units="days")
    assert time == Time(0.0, 1.0, step=0.5, since=np.datetime64("2016-06-01T00"), units="days")
    assert hash(time) == hash(pickle.loads(pickle.dumps(time)))
    assert time != Time(0, 1, num=3, since="2016-06-02", units="days")
    assert Time(0, 1, num=3, since="2016-06-01") == Time(0, 1, num=3, since="2016-06-01", units="s")
    with pytest.raises(AttributeError, match="cannot assign"):
        time.num = 4  # type: ignore[misc]


def test_a_time_prints_in_one_line() -> None:
    assert repr(Time(0.0, 0.5, num=151)) == "Time(0.0, 0.5, num=151)"
    text = repr(Time(0, 12, num=3, since="2016-06-01T06:30", units="h"))
    assert text == 'Time(0.0, 12.0, num=3, since="2016-06-01T06:30", units="h")'


@pytest.mark.parametrize(
    ("units", "seconds"),
    [(None, 1), ("s", 1), ("min", 60), ("h", 3600), ("hours", 3600), ("days", 86400), ("weeks", 604800)],
)
def test_units_say_how_long_a_number_lasts(units: str | None, seconds: int) -> None:
    time = Time(0, 3, num=4, since="2016-06-01", units=units)
    steps = np.arange(4) * np.timedelta64(seconds, "s")
    np.testing.assert_array_equal(time.datetimes(), np.datetime64("2016-06-01", "ns") + steps)
    assert time.datetimes().dtype == np.dtype("datetime64[ns]")


def test_short_units() -> None:
    for units in ("ns", "us", "ms"):
        time = Time(0, 3, num=4, since="2016-06-01", units=units)
        assert time.datetimes()[1] - time.datetimes()[0] == np.timedelta64(1, units)


@given(st.integers(-40_000, 40_000), st.sampled_from(["s", "min", "h", "days"]))
def test_datetimes_and_numbers_convert_both_ways(start: int, units: str) -> None:
    time = Time(start, start + 3.75, num=16, since="2016-02-29T12:00:01.5", units=units)
    np.testing.assert_array_equal(time.to_number(time.datetimes()), time.points)
    assert [time.index_of(moment) for moment in time.datetimes()] == list(range(16))


def test_seconds_stay_exact_over_a_century() -> None:
    time = Time(0, 3_155_760_000, num=2, since="1950-01-01")
    assert time.datetimes()[-1] == np.datetime64("1950-01-01", "ns") + np.timedelta64(3_155_760_000, "s")


def test_datetimes_come_in_many_forms() -> None:
    time = Time(0, 24, num=25, since=date(2016, 6, 1), units="h")
    assert time.index_of("2016-06-01T05") == 5
    assert time.index_of(datetime(2016, 6, 1, 5)) == 5
    assert time.index_of(np.datetime64("2016-06-01T05:00")) == 5
    assert time.index_of(5) == 5 and time.index_of(5.0000001) == 5
    assert time.to_number(["2016-06-01", "2016-06-02T12:00"]).tolist() == [0.0, 36.0]
    assert time.to_number([[datetime(2016, 6, 1, 1)]]).tolist() == [[1.0]]
    assert time.to_number(np.datetime64("2016-05-31")).shape == ()
    assert time.to_number([datetime(2016, 6, 1), date(2016, 6, 2)]).tolist() == [0.0, 24.0]


def test_slices_of_time_include_both_ends() -> None:
    time = Time(0, 24, num=25, since="2016-06-01", units="h")
    assert time.indices_between("2016-06-01T05", np.datetime64("2016-06-01T07")) == (5, 8)
    assert time.indices_between(None, "2016-06-01T07:30") == (0, 8)
    assert time.indices_between(datetime(2016, 6, 1, 22, 30), None) == (23, 25)
    assert time.indices_between(5, 7) == (5, 8)
    assert time.indices_between(None, None) == (0, 25)
    assert time.indices_between(5.2, 5.8) == (6, 6)

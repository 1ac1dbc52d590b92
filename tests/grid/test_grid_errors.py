"""Every message of the grid package: what was wanted, what was got, what to do."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import jax
import numpy as np
import pytest

from fdsolve.errors import DeclarationError, FdsolveError, FdsolveWarning, PlanningError, RunError
from fdsolve.grid import Axis, Grid, Time

NODES = Axis(0.0, 1.0, 11)
DAY = Time(0, 24, num=25, since="2016-06-01", units="h")

AXIS = {
    "`num` of an Axis must be at least 2 for an axis with a node on each wall, got 1. Give a larger number.": (
        lambda: Axis(0, 1, 1)
    ),
    "`num` of an Axis must be at least 1, got 0. Give a larger number.": lambda: Axis(0, 1, 0, cells=True),
    "`num` of an Axis must be a whole number, got 5.0. Give an int, as in `num=51`.": (lambda: Axis(0, 1, 5.0)),
    "`num` of an Axis must be a whole number, got True. Give an int, as in `num=51`.": (lambda: Axis(0, 1, True)),
    "`lower` of an Axis must be one concrete number, got '0'. Give a plain number.": (lambda: Axis("0", 1, 5)),
    "`upper` of an Axis must be one concrete number, got array([1.]). Give a plain number.": (
        lambda: Axis(0, np.array([1.0]), 5)
    ),
    "`upper` of an Axis must be finite, got inf. Give a plain number.": lambda: Axis(0, np.inf, 5),
    "An Axis runs upwards, from `lower` to a larger `upper`, got lower=1.0, upper=0.0. Swap the two.": (
        lambda: Axis(1, 0, 5)
    ),
    "An Axis runs upwards, from `lower` to a larger `upper`, got lower=1.0, upper=1.0. "
    "Give a larger `upper`.": lambda: Axis(1, 1, 5),
    "An Axis from 1e+16 to 1.0000000000000002e+16 would have steps of 0.0408, too fine for float64. "
    "Take fewer points, or measure from an origin nearby.": lambda: Axis(1e16, 1e16 + 2, 50),
    "`periodic` of an Axis must be True or False, got 'no'.": lambda: Axis(0, 1, 5, periodic="no"),
    "`cells` of an Axis must be True or False, got 1.": lambda: Axis(0, 1, 5, cells=1),
    '`units` of an Axis must be a string such as "m", or None, got 3.': lambda: Axis(0, 1, 5, units=3),
    "A stretched axis has no single `step`, got Axis(0.0, 0.3, num=3, stretched). "
    "Use `.spacing`, one value for each point.": lambda: Axis.from_points([0, 0.1, 0.3]).step,
}

POINTS = {
    "`points` of an Axis must be a concrete list of numbers. Give a plain NumPy array.": (
        lambda: Axis.from_points([[0.0], [1.0, 2.0]])  # type: ignore[list-item]
    ),
    "`points` of an Axis must be real numbers in one dimension, got int64 of shape (1, 2). "
    "Give a list such as [0.0, 0.1, 0.3].": lambda: Axis.from_points([[0, 1]]),
    "`points` of an Axis must be real numbers in one dimension, got complex128 of shape (2,). "
    "Give a list such as [0.0, 0.1, 0.3].": lambda: Axis.from_points([0, 1j]),
    "`points` of an Axis must be two at least, got 1. Use `Axis(lower, upper, num)`.": (
        lambda: Axis.from_points([0.5])
    ),
    "`points` of an Axis must be finite, got nan at index 1. Leave such points out.": (
        lambda: Axis.from_points([0.0, np.nan, 1.0])
    ),
    "`points` of an Axis must increase strictly, got 0.1 then 0.1 at index 2. "
    "Sort them and drop repeated ones.": lambda: Axis.from_points([0, 0.1, 0.1]),
    "`points` of an Axis must increase strictly, got 3.0 then 2.0 at index 1. Give them in reverse.": (
        lambda: Axis.from_points([3, 2, 0])
    ),
    "`period` belongs to a periodic axis, got period=2.0 with periodic=False. "
    "Add `periodic=True`, or leave `period` out.": lambda: Axis.from_points([0, 1], period=2.0),
    "A periodic axis from points wants its `period`, as points do not say where they begin again. "
    "Got none: give `period=`, the length of the axis.": lambda: Axis.from_points([0, 1], periodic=True),
    "`period` must exceed the distance from the first point to the last, 3.0, got 3.0. "
    "Give a longer one, or leave out the repeated end point.": (
        lambda: Axis.from_points([0, 1, 3], periodic=True, period=3)
    ),
}

LOOKUP = {
    "No node lies at 0.33, to a millionth of a step; nearest are 0.3 (index 3) and 0.4 (index 4). "
    "Give the coordinate of a node, or a slice of coordinates.": lambda: NODES.index_of(0.33),
    "No node lies at 2, to a millionth of a step; nearest is 1 (index 10). "
    "Give the coordinate of a node, or a slice of coordinates.": lambda: NODES.index_of(2),
    "No midpoint lies at 0.3, to a millionth of a step; nearest are 0.25 (index 2) and 0.35 (index 3). "
    "Give the coordinate of a midpoint, or a slice of coordinates.": lambda: NODES.index_of(0.3, face=True),
    "No cell centre lies at 0.5, to a millionth of a step; nearest are 0.25 (index 0) and 0.75 (index 1). "
    "Give the coordinate of a cell centre, or a slice of coordinates.": (
        lambda: Axis(0, 1, 2, cells=True).index_of(0.5)
    ),
    "No face lies at 0.25, to a millionth of a step; nearest are 0 (index 0) and 0.5 (index 1). "
    "Give the coordinate of a face, or a slice of coordinates.": (
        lambda: Axis(0, 1, 2, cells=True).index_of(0.25, face=True)
    ),
    "No node lies at 0.9, to a millionth of a step; nearest are 0.75 (index 3) and 1 (index 0). "
    "Give the coordinate of a node, or a slice of coordinates.": (lambda: Axis(0, 1, 4, periodic=True).index_of(0.9)),
    "A coordinate must be finite, got nan. Give a plain number.": lambda: NODES.index_of(np.nan),
    "An end of a slice of coordinates must be finite, got nan. Give a plain number.": (
        lambda: NODES.indices_between(None, np.nan)
    ),
    "A slice of coordinates runs upwards, got slice(0.6, 0.3). Swap its two ends.": (
        lambda: NODES.indices_between(0.6, 0.3)
    ),
}

EITHER = "A Time wants either `num`, the number of levels, or `step`, the time between them, got"
WHEN = 'Give them like "2016-06-01" or "2016-06-01T12:00", in UTC and without a time zone.'
NO_ORIGIN = (
    "Datetimes want a Time that says when its time 0 is, got Time(0.0, 1.0, num=2). "
    'Give it `since=`, as in `since="2016-06-01"`.'
)
TIME = {
    f"{EITHER} neither. Give exactly one.": lambda: Time(0, 1),
    f"{EITHER} num=2 and step=1. Give exactly one.": lambda: Time(0, 1, num=2, step=1),
    "`num` of a Time must be at least 2, the first and the last level, got 1. Give a larger number.": (
        lambda: Time(0, 1, num=1)
    ),
    "`step` of a Time must be positive, got -0.1. Time runs from `start` up to `stop`.": (
        lambda: Time(0, 1, step=-0.1)
    ),
    "`step` must divide the time from 0.0 to 1.0 evenly, got step=0.3, 3.33333 steps. "
    "The nearest that fit: stop=0.9 or stop=1.2; or give `num`.": lambda: Time(0, 1, step=0.3),
    "`step` must divide the time from 0.0 to 1.0 evenly, got step=3.0, 0.333333 steps. "
    "The nearest that fit: stop=3; or give `num`.": lambda: Time(0, 1, step=3),
    "A Time runs upwards, from `start` to a larger `stop`, got start=2.0, stop=1.0. Swap the two.": (
        lambda: Time(2, 1, num=5)
    ),
    "`start` of a Time must be finite, got nan. Give a plain number.": lambda: Time(np.nan, 1, num=5),
    "`stop` of a Time must be one concrete number, got '2017-01-01'. Give a plain number.": (
        lambda: Time(0, "2017-01-01", num=5)
    ),
    '`units` of a Time must be a string such as "m", or None, got 3.': lambda: Time(0, 1, num=2, units=3),
    "No time level lies at 2016-06-01T05:20, to a millionth of a step; nearest are 2016-06-01T05:00 "
    "(index 5) and "
    "2016-06-01T06:00 (index 6). Give the coordinate of a time level, or a slice of coordinates.": (
        lambda: DAY.index_of("2016-06-01T05:20")
    ),
    "No time level lies at 0.5, to a millionth of a step; nearest are 0 (index 0) and 1 (index 1). "
    "Give the coordinate of a time level, or a slice of coordinates.": lambda: DAY.index_of(0.5),
    "A slice of coordinates runs upwards, got slice(2016-06-01T05:00, 2016-05-01). Swap its two ends.": (
        lambda: DAY.indices_between("2016-06-01T05", "2016-05-01")
    ),
}

CALENDAR = {
    NO_ORIGIN: lambda: Time(0, 1, num=2).to_number("2016-01-01"),
    f"`since` of a Time must be datetimes, got '2016-01-01Z'. {WHEN}": (lambda: Time(0, 1, num=2, since="2016-01-01Z")),
    f"`since` of a Time must be datetimes, got 'yesterday'. {WHEN}": (lambda: Time(0, 1, num=2, since="yesterday")),
    "`since` of a Time must be one datetime, got ['2016-01-01']. Give the one of time 0.": (
        lambda: Time(0, 1, num=2, since=["2016-01-01"])
    ),
    "`since` of a Time must lie between 1677-09-22 and 2262-04-11, which is what datetime64[ns] holds, "
    "got '0001-01-01'. Take a nearer origin.": lambda: Time(0, 1, num=2, since="0001-01-01"),
    "A Time with `since` must stay between the years 1678 and 2261, got 0.0 to 146000.0 since 2016-01-01. "
    "Shorten it, check `units`, or leave `since` out.": (
        lambda: Time(0, 146000, num=2, since="2016-01-01", units="days")
    ),
    '`units` of a Time with `since` must be one of "ns", "us", "ms", "s", "min", "h", "days", "weeks" '
    '(or such a word in full), got "months". Months and years differ in length: count them in days.': (
        lambda: Time(0, 1, num=2, since="2016-01-01", units="months")
    ),
    "Times on a Time axis with `since` must be datetimes without gaps, got NaT among them. " + WHEN: (
        lambda: DAY.to_number(np.datetime64("NaT", "ns"))
    ),
    f"Times on a Time axis with `since` must be datetimes, got 5. {WHEN}": lambda: DAY.to_number(5),
    f"must be datetimes, got datetime.datetime(2016, 6, 1, 0, 0, tzinfo=datetime.timezone.utc). {WHEN}": (
        lambda: DAY.to_number(datetime(2016, 6, 1, tzinfo=UTC))
    ),
}

GRID = {
    "A Grid wants at least one axis, got none. Give one by name: `Grid(x=Axis(0, 1, 51))`.": lambda: Grid(),
    "Axis `x` of a Grid must be an `Axis` or a `Time`, got 5. Write `x=Axis(lower, upper, num)`.": (lambda: Grid(x=5)),
    "A Grid has at most one Time, got 2: `t`, `s`. Make the others an `Axis`.": lambda: Grid(t=DAY, s=DAY),
    "The Time of a Grid is declared first, got `t` after `x`. Write `Grid(t=Time(...), x=...)`.": (
        lambda: Grid(x=NODES, t=DAY)
    ),
    "Axis `dx` has the name that rules give to the spacing of axis `x`. Rename one of the two.": (
        lambda: Grid(dx=NODES, x=NODES)
    ),
    "The name of an axis must not be one that a Grid uses itself (axes, lengths, names, ndim, shape, space, "
    "space_axis, time, time_name, volumes), got `shape`. Choose another.": lambda: Grid(shape=NODES),
    **{
        f"The name of an axis must be a Python name that does not begin with `_`, got {name!r}. "
        "Rules take it as an argument: choose one like `x` or `depth`.": lambda name=name: Grid(**{name: NODES})
        for name in ("_x", "x 1", "1x", "", "lambda")
    },
    "This Grid has no axis `z`; its axes are `t`, `x`. Call an axis by its name.": (lambda: Grid(t=DAY, x=NODES).z),
    "This Grid has no axis 0; its axes are `x`. Call an axis by its name.": (lambda: Grid(x=NODES)[0]),
}

ALL_MESSAGES = AXIS | POINTS | LOOKUP | TIME | CALENDAR | GRID


@pytest.mark.parametrize("message", ALL_MESSAGES)
def test_the_message_says_what_to_do(message: str) -> None:
    declare: Callable[[], object] = ALL_MESSAGES[message]
    with pytest.raises(DeclarationError, match=re.escape(message) + "$") as caught:
        declare()
    assert "\n" not in str(caught.value)


def test_a_time_without_an_origin_refuses_datetimes() -> None:
    time = Time(0, 1, num=2)
    for ask in (
        lambda: time.index_of("2016-06-01"),
        lambda: time.indices_between(np.datetime64("2016-06-01"), None),
        time.datetimes,
    ):
        with pytest.raises(DeclarationError, match=re.escape(NO_ORIGIN)):
            ask()


def test_traced_values_do_not_make_an_axis() -> None:
    @jax.jit
    def stretch(length: jax.Array) -> jax.Array:
        with pytest.raises(DeclarationError, match="`upper` of an Axis must be one concrete number"):
            Axis(0.0, length, 5)
        with pytest.raises(DeclarationError, match="must be a concrete list of numbers"):
            Axis.from_points(jax.numpy.stack([0 * length, length]))
        return length

    assert stretch(2.0) == 2.0


def test_the_family_of_errors() -> None:
    assert issubclass(DeclarationError, FdsolveError) and issubclass(DeclarationError, ValueError)
    assert issubclass(PlanningError, FdsolveError) and issubclass(PlanningError, ValueError)
    assert issubclass(RunError, FdsolveError) and issubclass(RunError, RuntimeError)
    assert issubclass(FdsolveWarning, UserWarning) and not issubclass(FdsolveWarning, FdsolveError)

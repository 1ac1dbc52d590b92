"""What is said of regions that are none: keys, coordinates, predicates, boolean arrays, places."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

from .messages import Wrong, assign, field, keep, undeclared, unplanned, with_line

MASK = (
    "A mask is a boolean array, as of mask.astype(bool): of one axis, or by itself of the shape of space, (6,); "
    "fd.region[mask] & fd.region[1:] is a part of one."
)

KEYS = {
    "unknown axis": undeclared("u[dict(z=0)]: unknown axis `z`; the axes are t, x.", assign(dict(z=0))),
    "position outside": undeclared(
        "u[:, 6]: position 6 lies outside axis `x`, which has 6 points.", assign((slice(None), 6))
    ),
    "negative position outside": undeclared(
        "u[:, -7]: position -7 lies outside axis `x`, which has 6 points.", assign((slice(None), -7))
    ),
    "list outside": undeclared(
        "u[:, [0, 9]]: position 9 lies outside axis `x`, which has 6 points.", assign((slice(None), [0, 9]))
    ),
    "slice out of range": undeclared(
        "u[:, 1:10]: the slice bound 10 lies outside axis `x`, which has 6 points.",
        assign((slice(None), slice(1, 10))),
    ),
    "step of zero": undeclared("u[::0]: the step of the slice on axis `t` is zero.", assign(slice(None, None, 0))),
    "too many": undeclared("u[0, 0, 0]: 3 positions for 2 axes (t, x).", assign((0, 0, 0))),
    "a float": undeclared(
        "u[:, 0.5]: 0.5 is no key for axis `x`; give an integer, a slice, a list of integers or `...`.",
        assign((slice(None), 0.5)),
    ),
    "a slice of coordinates": undeclared(
        "u[:, 0.0:0.5]: slices in `[]` take integer positions, got 0.0 on axis `x`. "
        "For coordinates write `.loc[dict(x=...)]`.",
        assign((slice(None), slice(0.0, 0.5))),
    ),
    "an offset": undeclared(
        "u[\"t-1\"]: 't-1' is no key for axis `t`; give an integer, a slice, a list of integers or `...`.",
        assign("t-1"),
    ),
    "None": undeclared("u[None]: `None` (a new axis) has no meaning in a region.", assign(None)),
    "two Ellipsis": undeclared("u[..., ...]: a key takes one `...` only.", assign((..., ...))),
    "dict in a tuple": undeclared(
        "u[0, dict(x=0)]: a dict key stands alone; put every axis into it.", assign((0, dict(x=0)))
    ),
    "True": undeclared("u[True]: `True` is no position on axis `t`; give an integer, slice or list.", assign(True)),
    "a table of positions": undeclared(
        f"u[[[0 1] [1 2]]]: an array of int64 and shape (2, 2) is no key for axis `t`. {MASK}",
        assign(np.array([[0, 1], [1, 2]])),
    ),
    "ragged list": undeclared(
        "u[[[True], [True, False]]]: [[True], [True, False]] is no key for axis `t`; "
        "give an integer, a slice, a list of integers or `...`.",
        assign([[True], [True, False]]),
    ),
    "a value for a point named twice": undeclared(
        "Rule `array (2,)` on u[:, [1, 1]]: a point of axis `x` is named more than once, for several values.",
        with_line((slice(None), [1, 1]), np.array([1.0, 2.0])),
    ),
    "a traced position": undeclared(
        "A region's key is known when it is declared, got a traced value of shape (). For a region that depends on "
        "parameters write fd.where(lambda x, c: x < c).",
        lambda: jax.jit(lambda i: assign((slice(None), i))())(1),
    ),
}

EMPTY = {
    "slice": undeclared("u[3:2]: the region is empty (no position on axis `t`).", assign(slice(3, 2))),
    "list": undeclared("u[[]]: the region is empty (no position on axis `t`).", assign([])),
    "mask": undeclared(
        "u[boolean array (6,)]: the region is empty (no entry of the boolean array is true).",
        assign(np.zeros(6, bool)),
    ),
    "predicate": undeclared(
        "u[where(x)]: the region is empty (the predicate holds at no point).", assign(fd.where(lambda x: x > 5))
    ),
    "coordinates": undeclared(
        "u.loc[dict(x=0.21:0.22)]: the region is empty (no coordinate on axis `x` lies in it).",
        assign(fd.region.loc[dict(x=slice(0.21, 0.22))]),
    ),
    "intersection": undeclared("u([0] & [1]): the region ([0] & [1]) is empty.", assign(fd.region[0] & fd.region[1])),
}

ORIGIN = (
    "Datetimes want a Time that says when its time 0 is, got Time(0.0, 1.0, num=5). "
    'Give it `since=`, as in `since="2016-06-01"`.'
)
COORDINATES = {
    "unknown axis": undeclared(
        "u.loc[dict(z=0.0)]: unknown axis `z`; the axes are t, x.", assign(fd.region.loc[dict(z=0.0)])
    ),
    "no dict": undeclared(
        "u.loc[0.5]: `.loc` takes a dict by axis name, for example `.loc[dict(x=0.5)]`.", assign(fd.region.loc[0.5])
    ),
    "between points": undeclared(
        "u.loc[dict(x=0.33)], axis `x`: No node lies at 0.33, to a millionth of a step; nearest are 0.2 (index 1) and "
        "0.4 (index 2). Give the coordinate of a node, or a slice of coordinates.",
        assign(fd.region.loc[dict(x=0.33)]),
    ),
    "a string": undeclared(
        "u.loc[dict(x=\"a\")], axis `x`: A coordinate must be one concrete number, got 'a'. Give a plain number.",
        assign(fd.region.loc[dict(x="a")]),
    ),
    "a step": undeclared(
        "u.loc[dict(x=0:1:2)], axis `x`: A slice of coordinates has no step, got 2. Leave it out.",
        assign(fd.region.loc[dict(x=slice(0, 1, 2))]),
    ),
    "datetimes without since": undeclared(
        f'u.loc[dict(t="2016-01-01")], axis `t`: {ORIGIN}', assign(fd.region.loc[dict(t="2016-01-01")])
    ),
}

MASKS = {
    "of integers": undeclared(
        f"u[1:, [0 1 1 0 0 1]]: an array of int64 and shape (6,) is no key for axis `x`. {MASK}",
        assign((slice(1, None), np.array([0, 1, 1, 0, 0, 1]))),
    ),
    "of integers, at all levels": undeclared(
        f"u[array (5, 6)]: an array of int64 and shape (5, 6) is no key for axis `t`. {MASK}",
        assign(np.ones((5, 6), int)),
    ),
    "wrong shape": undeclared(
        "u[boolean array (4,)]: the boolean array has shape (4,); the field has shape (5, 6) and (6,) in space.",
        assign(np.ones(4, bool)),
    ),
    "wrong shape on an axis": undeclared(
        "u[:, [ True True True True]]: the mask on axis `x` has 4 entries; it needs 6.",
        assign((slice(None), np.ones(4, bool))),
    ),
    "traced": undeclared(
        "A region's key is known when it is declared, got a traced value of shape (6,). For a region that depends on "
        "parameters write fd.where(lambda x, c: x < c).",
        lambda: jax.jit(lambda mask: assign(mask)())(jnp.ones(6, bool)),
    ),
}

PREDICATES = {
    "no function": undeclared(
        "`fd.where` takes a function of coordinates, for example lambda x: x < 1; got 3.", lambda: fd.where(3)
    ),
    "floats": undeclared(
        "u[where(x)]: the predicate returned float64; a predicate returns true or false, as a comparison does.",
        assign(fd.where(lambda x: 2 * x)),
    ),
    "nothing": undeclared(
        "u[where(x)]: the predicate returned nothing; a predicate returns true or false, as a comparison does.",
        assign(fd.where(lambda x: None)),
    ),
    "floats at run time": undeclared(
        "The predicate of `0.0` on u[where(t, x)] returned one value of float64; a predicate returns true or false at "
        "one point, as a comparison does.",
        with_line(fd.where(lambda t, x: t * x), 0.0),
    ),
    "and": undeclared(
        "u[where(x)]: the predicate failed on the arrays of coordinates it is called with (The truth value of an array "
        "with more than one element is ambiguous. Use a.any() or a.all()). Use `&`, `|` and `~` on comparisons in "
        "brackets for `and`, `or` and `not`, and functions of `np` or `jnp`.",
        assign(fd.where(lambda x: x > 0 and x < 0.5)),
    ),
    "and at run time": undeclared(
        "The predicate of `0.0` on u[where(t)] needs to know the number of a value that has none before the run: … Use "
        "jnp.where(condition, a, b) for `if`, `&` and `|` for `and` and `or`, and functions and arrays of `jnp`.",
        with_line(fd.where(lambda t: t > 0 and t < 0.5), 0.0),
    ),
    "wrong shape": undeclared(
        "u[where(x)]: the predicate returned an array of shape (3,); the points have shape (6,). "
        "Calculate it from its arguments.",
        assign(fd.where(lambda x: np.ones(3, bool))),
    ),
    "of the state": unplanned(
        "The predicate of `0.0` on u[where(u)] reads `u`; here only coordinates, time and parameters are known. "
        "Put a condition on the state into the rule, with jnp.where.",
        with_line(fd.where(lambda u: u > 0), 0.0),
    ),
    "unknown name": unplanned(
        "The predicate of `0.0` on u[where(z)] asks for `z`, which is not known. Known are fields: u; axes: t, x; "
        "spacings: dt, dx. Pass it to `solve` as a keyword: z=...",
        with_line(fd.where(lambda z: z > 0), 0.0),
    ),
    "any arguments": undeclared(
        "`fd.where`: arguments are found by name, one by one; `*a` has none. Write out each argument.",
        lambda: fd.where(lambda *a: True),
    ),
    "a ufunc": undeclared(
        "`fd.where`: the arguments of `isfinite` have no names to be found by; wrap it in a function of named "
        "arguments, for example lambda x: isfinite(x).",
        lambda: fd.where(np.isfinite),
    ),
}


def add(place: Any, rule: Any = 1.0) -> Any:
    """`u[place] += rule`, to be called."""

    def program() -> None:
        u = field()
        u[place] += rule

    return program


COMBINED = (
    ": a place between points is not combined with regions. For a source that acts at some times multiply it, for "
    "example by jnp.where(t < 1, 1.0, 0.0); for several places write several `+=`."
)
PLACES = {
    "= instead of +=": undeclared(
        "u[point(x=0.5)]: a place between points takes `+=` (a source), not `=`.", assign(fd.point(x=0.5))
    ),
    "outside": undeclared(
        "u[point(x=1.5)]: `x=1.5` lies outside the points of axis `x`, 0.0 to 1.0.", add(fd.point(x=1.5))
    ),
    "missing axis": undeclared(
        "u[point(z=1.5)]: `fd.point` takes a coordinate for each space axis (x); missing: x.", add(fd.point(z=1.5))
    ),
    "a time": undeclared(
        "u[point(t=0.5, x=0.3)]: `fd.point` takes a coordinate for each space axis (x); unknown: t.",
        add(fd.point(t=0.5, x=0.3)),
    ),
    "nowhere": undeclared(
        "`fd.point` takes a coordinate for each space axis, for example fd.point(x=0.3).", lambda: fd.point()
    ),
    "a function": undeclared(
        "u[point(x=…)]: a coordinate of `fd.point` is one number, got x=a function. A source that moves is a rule of "
        "`x` and time on a region around its path.",
        add(fd.point(x=abs)),
    ),
    "an array": undeclared(
        "u[point(x=array (9,))]: a coordinate of `fd.point` is one number, got x=9 of them. For several places write "
        "several points.",
        add(fd.point(x=np.linspace(0, 1, 9))),
    ),
    "a string": undeclared(
        "u[point(x=\"a\")]: a coordinate of `fd.point` is one number, got x='a'.", add(fd.point(x="a"))
    ),
    "combined": undeclared(f"([point(x=0.5)] & [1:]){COMBINED}", lambda: fd.point(x=0.5) & fd.region[1:]),
    "a condition": undeclared(
        "u[point(x=0.5)]: `+=` adds a value or a rate; assign a boundary condition with `=`.",
        add(fd.point(x=0.5), fd.boundary.Dirichlet(0.0)),
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in dict(key=KEYS, empty=EMPTY, loc=COORDINATES, mask=MASKS, where=PREDICATES, point=PLACES).items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_message(case: Wrong) -> None:
    case.check()


def test_a_source_may_follow_the_initial_state() -> None:
    def source(u: fd.Field) -> None:
        u[fd.point(x=0.5)] += fd.rate(1.0)

    first, last = field(), field()
    for u, early in ((first, True), (last, False)):
        u[...] = fd.rate(lambda u: -u)
        if early:
            source(u)
        u[0] = 0.0
        if not early:
            source(u)
    found = [np.asarray(fd.solve(u)["u"]) for u in (first, last)]
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][-1].sum() == pytest.approx(1 - np.exp(-1), rel=1e-3)


def test_keys_and_arrays_are_copied_when_assigned() -> None:
    where, values = np.array([1, 2]), np.array([5.0, 6.0])
    u = field()
    u[...] = keep
    u[0] = 0.0
    u[0, where] = values
    where[:], values[:] = 0, -1.0
    assert fd.solve(u)["u"][0].tolist() == [0.0, 5.0, 6.0, 0.0, 0.0, 0.0]

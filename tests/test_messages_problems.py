"""What is said of declarations that make no problem: coverage, cycles, boundaries, fields, options, "
"results."""

import jax
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import laplacian

from .messages import (
    Wrong,
    assign,
    field,
    keep,
    lines,
    nodes,
    pair,
    ruled,
    steady,
    undeclared,
    unplanned,
    with_line,
    with_sum,
)


def wall(axis: str, key: str, end: int) -> str:
    return (
        f"Assign a boundary condition there (`u[dict({axis}={end})] = fd.boundary.Neumann(0.0)`), {key}, or declare "
        "the axis periodic."
    )


COVERAGE = {
    "no rule at all": unplanned("Field `u` has no rule; assign one, for example u[...] = 0.0.", lines()),
    "a gap": unplanned(
        "Field `u` has no rule on u[1, 0] (1 point). Assign `u[...] = rule`, before the others.",
        lines((np.s_[1:, 1:], keep), (0, 0.0)),
    ),
    "a gap without time": unplanned(
        "Field `u` has no rule on u[0] (1 point). Assign `u[...] = rule`, before the others.",
        lines((np.s_[1:], 1.0), grid=steady()),
    ),
    "no initial state": unplanned(
        "Field `u` has no rule on u[0, 0:6] (6 points). Assign an initial state, `u[0] = ...`, before the others.",
        lines((np.s_[1:], keep)),
    ),
    "no initial state of a rate": unplanned(
        "Field `u` has no initial state on u[0, 0:6]: the rule there is a rate. Assign `u[0] = ...`.",
        lines((..., fd.rate(lambda u: -u))),
    ),
    "half an initial state of a rate": unplanned(
        "Field `u` has no initial state on u[0, 0]: the rule there is a rate. Assign `u[0] = ...`.",
        lines((..., fd.rate(lambda u: -u)), (np.s_[0, 1:], 0.0)),
    ),
    "a run-time predicate alone": unplanned(
        "Field `u` has no rule on u[1, 0:6] (6 points). Assign `u[...] = rule`, before the others.",
        lines((0, 0.0), (fd.where(lambda t: t > 0), 1.0)),
    ),
}


def far_face() -> None:
    grid = nodes(cells=True)
    p, v = field(grid, "p"), field(grid, "v", at=dict(x="face"))
    p[...] = lambda v: v["t-1", "x-3/2"]
    p[0], v[...] = 0.0, 0.0
    fd.solve((p, v))


READS = {
    "outside": unplanned(
        'Rule `lambda` on u[...] reads `u["t-1", "x-1"]`, one point outside the lower end of axis `x`. '
        + wall("x", "start the region at 1", 0),
        ruled(lambda u: u["t-1", "x-1"]),
    ),
    "outside, far": unplanned(
        'Rule `lambda` on u[...] reads `u["t-1", "x+2"]`, 2 points outside the upper end of axis `x`. '
        + wall("x", "end the region at 4", -1),
        ruled(lambda u: u["t-1", "x+2"]),
    ),
    "outside, by an operator": unplanned(
        'Rule `rate lambda` on u[...] reads `u["x-1"]`, one point outside the lower end of axis `x`. '
        + wall("x", "start the region at 1", 0),
        ruled(fd.rate(lambda u: laplacian(u))),
    ),
    "an operator for a rule": unplanned(
        "Rule `rate laplacian` on u[...] asks for `view`, which is not known. Known are fields: u; axes: t, x; "
        "spacings: dt, dx. Pass it to `solve` as a keyword: view=...",
        ruled(fd.rate(laplacian)),
    ),
    "outside, from further in": unplanned(
        'Rule `lambda` on u[1:, 1:] reads `u["t-1", "x-3"]`, 2 points outside the lower end of axis `x`. '
        + wall("x", "start the region at 3", 0),
        with_line(np.s_[1:, 1:], lambda u: u["t-1", "x-3"]),
    ),
    "outside, beside a condition": unplanned(
        'Rule `rate lambda` on u[...] reads `u["x-1"]`, one point outside the lower end of axis `x`. Assign a boundary '
        "condition, at all levels, on u[0] (`u[dict(x=0)] = fd.boundary.Neumann(0.0)`), start the region at 1, or "
        "declare the axis periodic.",
        with_line(np.s_[3:, [0, -1]], fd.boundary.Neumann(0.0), fd.rate(lambda u: laplacian(u))),
    ),
    "outside, of a staggered field": unplanned(
        'Rule `lambda` on p[...] reads `v["t-1", "x-3/2"]`, one point outside the lower end of axis `x`. '
        + wall("x", "start the region at 1", 0).replace("u[", "v["),
        far_face,
    ),
    "a later level": unplanned(
        'Rule `lambda` on u[...] reads `u["t+1"]`, a later level, which is not known yet. '
        'Read older levels ("t-1") or the same one.',
        ruled(lambda u: u["t+1"]),
    ),
    "a level before the first": unplanned(
        '`lambda` on u[...] reads `u["t-2"]` at level 1: there is no level -1. Start the region at 2, and assign the '
        "levels before it.",
        ruled(lambda u: u["t-2"]),
    ),
    "an older level in a rate": unplanned(
        'Rule `rate keep` on u[...] reads `u["t-1"]`, an older level; a rate is read at its stage only. '
        "Drop the time offset, or assign a plain update rule instead of `fd.rate`.",
        ruled(fd.rate(keep)),
    ),
    "across a short period": unplanned(
        "Axis `x` has 6 points, and a rule on `u` reads 7 points across its period. Give the axis more points.",
        ruled(lambda u: u["t-1", "x+7"], grid=nodes(periodic=True)),
    ),
    "beyond a near wall": unplanned(
        "`Neumann(0.0)` on u[dict(x=0)]: rules read 6 points beyond the wall of axis `x`, which has only 5 to "
        "mirror. Give the axis more points.",
        with_line(dict(x=0), fd.boundary.Neumann(0.0), fd.rate(lambda u: u["x-6"])),
    ),
}


def mutual() -> None:
    u, v = pair()
    u[...], v[...] = lambda v: v[...], lambda u: u[...]
    u[0], v[0] = 0.0, 0.0
    fd.solve((u, v))


SELF = (
    "`lambda` on u[...] reads the value it defines: a cycle of one point at x=0. Read an older level, for example "
    'u["t-1"] (operators: at="t-1"), or give the rule as fd.rate(...).'
)
LOOP = "Points read each other at the same level, in a cycle:"
CYCLES = {
    "of one point": unplanned(SELF, ruled(lambda u: u[...] + 1)),
    "of one point, by a view": unplanned(SELF, ruled(lambda u: u + 1)),
    "of two points": unplanned(
        f"{LOOP} u at x=4 → u at x=5 → u at x=4 (rules `lambda` on u[...], `lambda` on u[1:, -1]). "
        "Read one of them at an older level.",
        with_line(np.s_[1:, -1], lambda u: u["x-1"], lambda u: u["x+1"]),
    ),
    "of two fields": unplanned(
        f"{LOOP} u at x=0 → v at x=0 → u at x=0 (rules `lambda` on u[...], `lambda` on v[...]). "
        "Read one of them at an older level.",
        mutual,
    ),
}

SUMS = {
    "value onto a rate": unplanned(
        "`1.0` on u[1:, 2]: `+=` adds a value where the rule below is a rate; add a rate, `+= fd.rate(...)`, or take a "
        "region where values are set.",
        with_sum(np.s_[1:, 2], 1.0, fd.rate(lambda u: -u)),
    ),
    "rate onto a value": unplanned(
        "`rate lambda` on u[1:, 2]: `+=` adds a rate to the rate below, and there is none. Assign one first, "
        "`u[...] = fd.rate(...)`, or add a value, without `fd.rate`.",
        with_sum(np.s_[1:, 2], fd.rate(lambda x: x)),
    ),
    "a condition": undeclared(
        "u[dict(x=0)]: `+=` adds a value or a rate; assign a boundary condition with `=`.",
        with_sum(dict(x=0), fd.boundary.Neumann(0.0)),
    ),
}


def nothing_below() -> None:
    u = field(steady())
    u[1] += 1.0
    fd.solve(u)


SUMS["no rule below"] = unplanned(
    "Field `u` has no rule on u[0:6] (6 points). Assign `u[...] = rule`, before the others.", nothing_below
)


def subtract() -> None:
    u = field()
    u[0] -= 1.0


SUMS["-="] = undeclared(
    "u[0] is a region to assign to (`=`, `+=`), not a value to calculate with. Inside a rule a field is read through "
    "the "
    "argument of its name; after solving, its values are solution[name].",
    subtract,
)

PLAIN = "a rule is a number, an array, a function, `fd.rate(...)` or a boundary condition, got"
COEFFICIENT = "a coefficient is a number, an array or a function that gives its value, got a"
BOUNDARIES = {
    "periodic axis": undeclared(
        "`Neumann(0.0)` on u[dict(x=0)]: axis `x` is periodic, it has no wall. Drop the condition or declare the axis "
        "without periodic=True.",
        with_line(dict(x=0), fd.boundary.Neumann(0.0), grid=nodes(periodic=True)),
    ),
    "Robin with b = 0": undeclared(
        "Robin(1.0, 0.0, 0.0): with b = 0 there is no derivative; write Dirichlet(g / a) for a·u = g.",
        lambda: fd.boundary.Robin(1.0, 0.0, 0.0),
    ),
    "Robin with a zero in b": undeclared(
        "Robin(1.0, ndarray, 0.0): with b = 0 there is no derivative; write Dirichlet(g / a) for a·u = g.",
        lambda: fd.boundary.Robin(1.0, np.array([1.0, 0.0]), 0.0),
    ),
    "the class": undeclared(
        f"u[dict(x=0)]: {PLAIN} the class Neumann. Give it its arguments: Neumann(0.0).",
        assign(dict(x=0), fd.boundary.Neumann),
    ),
    "a string": undeclared(f"Dirichlet(str): {PLAIN} '0'.", lambda: fd.boundary.Dirichlet("0")),
    "nested": undeclared(
        f"Neumann(Neumann): {COEFFICIENT} Neumann.", lambda: fd.boundary.Neumann(fd.boundary.Neumann(0.0))
    ),
    "a rate": undeclared(f"Neumann(Rate): {COEFFICIENT} Rate.", lambda: fd.boundary.Neumann(fd.rate(1.0))),
    "everywhere": unplanned(
        "`Neumann(0.0)` on u[...] cuts out every point of `u`. A boundary condition goes on the walls, "
        "`u[dict(x=[0, -1])] = ...`, or on an inner part.",
        with_line(..., fd.boundary.Neumann(0.0)),
    ),
    "unknown parameter": unplanned(
        "`Neumann(lambda)` on u[dict(x=0)] at the lower wall of `x` asks for `q`, which is not known. Known are "
        "fields: "
        "u; axes: t, x; spacings: dt, dx. Pass it to `solve` as a keyword: q=...",
        with_line(dict(x=0), fd.boundary.Neumann(lambda q: q), lambda u: u["t-1", "x-1"]),
    ),
}

GUESSES = {
    "a random key": undeclared(
        "`fd.residual`: guess= takes numbers, got a random key. Draw them: guess=jax.random.normal(key, shape).",
        lambda: fd.residual(laplacian, guess=jax.random.key(0)),
    ),
    "text": undeclared(
        "`fd.residual`: guess= got an array of dtype <U1, which is no array of numbers.",
        lambda: fd.residual(laplacian, guess=np.array(["a", "b"])),
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in dict(
        coverage=COVERAGE,
        read=READS,
        cycle=CYCLES,
        sum=SUMS,
        boundary=BOUNDARIES,
        guess=GUESSES,
    ).items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_message(case: Wrong) -> None:
    case.check()


def test_a_cycle_of_many_points_names_the_first_few() -> None:
    with pytest.raises(
        fd.PlanningError, match=r"in a cycle: u at x=0 → .* → … → u at x=0 \(rules `lambda` on u\[...\]"
    ):
        ruled(lambda u: u["x-1"], grid=nodes(periodic=True))()

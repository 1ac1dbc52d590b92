"""Each schedule is chosen where it should be, says so in the plan, and gives the numbers of the reference."""

from typing import Any

import numpy as np
import pytest

import fdsolve as fd

from . import translate
from .agreement import check
from .declarations import Condition, Declaration, Expr, Line, Region, Rule, Unknown, Values, call, index, name, view
from .strategies import ALL, arrays, initial

U, V = view("u"), view("v")
INNER = slice(1, -1)


def methods(declaration: Declaration) -> list[str]:
    """What the last phase of a plan does, sweeps by their method."""
    stages = translate.plan(declaration).structure.phases[-1].stages
    return sorted({getattr(stage, "method", "parallel") for stage in stages})


def over_values(shape: tuple[int, ...], *rules: Rule) -> Declaration:
    """A problem without time: rules over random values on the unit interval, square or cube."""
    lines = {axis: Line(0.0, 1.0, size) for axis, size in zip("xyz", shape, strict=False)}
    return Declaration(lines, (Unknown("u", (Rule(index(...), Values(arrays(shape, 4))), *rules)),))


def test_reads_of_older_levels_march_in_parallel() -> None:
    shape, body = (6, 5), 0.4 * U.at(t=-1, x=1) + 0.3 * call("sin", U.at(t=-1, y=-1)) - 0.2 * U.at(t=-2)
    rules = (Rule(index(...), 0.3), Rule(index(slice(2, None), INNER, INNER), body), initial(shape, 1, 2))
    lines = {"x": Line(0.0, 1.0, 6), "y": Line(0.0, 1.0, 5)}
    declaration = Declaration(lines, (Unknown("u", rules),), (0.0, 1.0, 6))
    assert methods(declaration) == ["parallel"]
    assert translate.plan(declaration).structure.array("u").kept == 2
    assert check(declaration)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_nonlinear_recurrence_along_one_axis_is_a_scan(sign: int) -> None:
    body = 0.6 * call("sin", U.at(x=sign)) + 0.3 * call("tanh", U.at(x=2 * sign)) * name("y")
    declaration = over_values((7, 4), Rule(index(slice(2, -2)), body))
    assert methods(declaration) == ["parallel", "scan"]
    assert check(declaration)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("order", [1, 3])
def test_an_affine_recurrence_is_an_associative_scan(sign: int, order: int) -> None:
    body = 0.6 * U.at(x=sign) + 0.2 * name("x") * U.at(x=order * sign) + 0.1 * call("sin", name("x"))
    declaration = over_values((90,), Rule(index(slice(3, -3)), body))
    assert methods(declaration) == ["associative", "parallel"]
    assert check(declaration)


@pytest.mark.parametrize(
    "body",
    [
        0.25 * (U.at(x=-1) + U.at(y=-1) + U.at(x=1, y=-1)) + name("x"),
        0.3 * (U.at(x=1) + U.at(y=-1)) + call("sin", U.at(x=1, y=1)),
        0.3 * (U.at(y=1) + U.at(x=-1, y=-1)) + 0.2 * call("tanh", U.at(x=-1, y=1)),
    ],
)
def test_reads_behind_along_two_axes_are_a_wavefront(body: Expr) -> None:
    declaration = over_values((6, 5), Rule(index(INNER, INNER), body))
    assert methods(declaration) == ["parallel", "wavefront"]
    assert check(declaration)


def test_a_wavefront_in_space() -> None:
    body = 0.2 * (U.at(x=-1) + U.at(y=1) + U.at(z=-1)) + 0.1 * U.at(x=-1, y=-1, z=1)
    declaration = over_values((5, 5, 5), Rule(index(INNER, INNER, INNER), body))
    assert methods(declaration) == ["parallel", "wavefront"]
    assert check(declaration)


def interleaved() -> Declaration:
    """Two regions that wait for each other point by point: u₁ ← u₄, u₅ ← u₁, u₂ ← u₅, … — no direction orders them."""
    left = Rule(index(slice(1, 4)), 0.5 * U.at(x=3) + name("x"))
    right = Rule(index(slice(4, 7)), 0.7 * call("sin", U.at(x=-4)) + 0.1)
    return over_values((8,), left, right)


def test_what_no_hyperplane_orders_goes_point_by_point() -> None:
    declaration = interleaved()
    assert methods(declaration) == ["parallel", "points"]
    assert check(declaration)


def test_single_points_under_a_mask() -> None:
    """The order of points is found while parameters are traced."""
    mask = np.array([True, True, False, True, True, True, False, True])
    left = Rule(Region("mask", (mask & (np.arange(8) > 0) & (np.arange(8) < 4),)), 0.5 * U.at(x=3) + name("x"))
    right = Rule(Region("mask", (mask & (np.arange(8) > 3) & (np.arange(8) < 7),)), 0.7 * call("sin", U.at(x=-4)))
    declaration = over_values((8,), left, right)
    assert methods(declaration) == ["parallel", "points"]
    assert check(declaration)


def test_the_plan_names_the_last_resort() -> None:
    (sweep,) = [s for s in translate.plan(interleaved()).structure.phases[0].stages if hasattr(s, "method")]
    assert "no hyperplane" in sweep.reason


def test_points_in_a_circle_are_named() -> None:
    rules = [Rule(index(slice(1, 3)), 0.5 * U.at(x=3)), Rule(index(slice(4, 6)), 0.5 * U.at(x=-3))]
    with pytest.raises(fd.PlanningError, match="cycle: u at x="):
        translate.plan(over_values((8,), *rules))


def test_red_and_black_points_need_no_sweep() -> None:
    mask = np.indices((6, 5)).sum(axis=0) % 2 == 0
    mask[[0, -1], :] = mask[:, [0, -1]] = False
    body = 0.25 * (U.at(x=-1) + U.at(x=1) + U.at(y=-1) + U.at(y=1))
    declaration = over_values((6, 5), Rule(Region("mask", (mask,)), body))
    assert methods(declaration) == ["parallel"]
    assert check(declaration)


def test_two_fields_swept_together_at_every_level() -> None:
    lines: dict[str, Any] = {"x": Line(0.0, 1.0, 7)}
    own = [
        Rule(index(...), 0.2),
        Rule(index(ALL, slice(1, None)), 0.5 * V.at(x=-1) + 0.4 * U.at(t=-1)),
        initial((7,), 1),
    ]
    other = [Rule(index(...), 0.6 * call("sin", U.at()) + 0.1 * name("t")), initial((7,), 2)]
    declaration = Declaration(lines, (Unknown("u", tuple(own)), Unknown("v", tuple(other))), (0.0, 1.0, 4))
    assert methods(declaration) == ["parallel", "scan"]
    assert check(declaration)


def test_fields_swept_together_have_walls_of_their_own() -> None:
    """One field is read beyond one wall of y alone, the other beyond the other: both ghosts are in the sweep."""
    lines = {"x": Line(0.0, 1.0, 6), "y": Line(0.0, 1.0, 4, cells=True)}
    bodies = {"u": 0.5 * V.at(x=-1, y=-1) + name("x"), "v": 0.4 * call("sin", U.at(x=-1, y=1)) + 0.3 * U.at(x=-2)}
    unknowns = []
    for number, (one, body) in enumerate(bodies.items()):
        walls = [Rule(index(ALL, side), Condition("neumann", (0.3 + number,))) for side in (0, -1)]
        swept = Rule(index(slice(2, None), ALL), body)
        unknowns.append(Unknown(one, (Rule(index(...), Values(arrays((6, 4), number))), swept, *walls)))
    declaration = Declaration(lines, tuple(unknowns))
    assert methods(declaration) == ["parallel", "scan"]
    assert check(declaration)

"""Random rules on random overlapping regions of every kind, marched along time: fdsolve equals the reference."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from .agreement import check
from .declarations import Condition, Declaration, Expr, Labelled, Line, Rule, Unknown, index, name, view
from .strategies import arrays, expressions, initial, predicates, reads, regions, wall

LEVELS = 5
LINES = {
    1: {"x": Line(0.0, 1.0, 6)},
    2: {"x": Line(0.0, 1.0, 5, periodic=True), "y": Line(-0.5, 1.0, 4)},
    3: {"x": Line(0.0, 1.0, 4), "y": Line(0.0, 1.0, 4, periodic=True), "z": Line(0.0, 2.0, 3, periodic=True)},
}
TIMES = (0.1, 0.9, LEVELS)


def make_parameters(lines: dict[str, Line]) -> dict[str, Any]:
    """One parameter of each kind."""
    shape = tuple(line.num for line in lines.values())
    return {
        "c": 0.37,
        "q": Labelled(tuple(lines), arrays(shape, 1)),
        "s": Labelled(("t",), arrays((LEVELS,), 2)),
        "p": Labelled(("x",), arrays(shape[:1], 3)),
    }


def known_in(lines: dict[str, Line]) -> list[Expr]:
    """Coordinates, times, spacings and parameters that rules may name."""
    labelled = [view("q").at(x=1), view("q").at(), view("s").at(), view("s").at(t=-1), view("p").at(x=-1)]
    return [*(name(axis) for axis in lines), name("t"), name("dt"), name("dx"), name("c"), *labelled]


def used_parameters(rules: list[Rule], parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the rules name: others would be refused."""
    shown = repr(rules)
    return {key: value for key, value in parameters.items() if f"args=('{key}',)" in shown}


@st.composite
def declarations(draw: Any, ndim: int) -> Declaration:
    lines, levels = LINES[ndim], [-1, -1, draw(st.sampled_from([-1, -2]))]
    depth, known = -min(levels), known_in(LINES[ndim])
    read = reads(["u"], list(lines), levels)
    rules = [Rule(index(...), draw(expressions(read, known)))]
    for _ in range(draw(st.integers(1, 4))):
        at_run_time = draw(st.integers(0, 4)) == 0
        region = draw(
            predicates([name("t"), name("c")], [name(axis) for axis in lines])
            if at_run_time
            else regions(lines, LEVELS)
        )
        body = draw(st.one_of(st.sampled_from([0.5, -0.25]), expressions(read, known), expressions(read, known)))
        rules.append(Rule(region, body, adds=draw(st.integers(0, 3)) == 0))
    for axis, line in lines.items():
        if not line.periodic:
            # Added first, so that the regions above do not take the ghosts away.
            rules += [Rule(wall(lines, axis, upper), Condition("neumann", (0.1,))) for upper in (False, True)]
    shape = tuple(line.num for line in lines.values())
    rules.append(initial(shape, draw(st.integers(0, 99)), depth))
    return Declaration(lines, (Unknown("u", tuple(rules)),), TIMES, used_parameters(rules, make_parameters(lines)))


@settings(max_examples=14)
@given(declarations(1))
def test_rules_on_overlapping_regions_of_a_line(declaration: Declaration) -> None:
    check(declaration)


@settings(max_examples=9)
@given(declarations(2))
def test_rules_on_overlapping_regions_of_a_plane(declaration: Declaration) -> None:
    check(declaration)


@settings(max_examples=4)
@given(declarations(3))
def test_rules_on_overlapping_regions_of_space(declaration: Declaration) -> None:
    check(declaration)

"""Random boundary conditions on walls, parts of walls and holes, around random rules: fdsolve equals the reference."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from .agreement import check
from .declarations import Declaration, Expr, Line, Region, Rule, Unknown, index, laplacian, name, view
from .reference_geometry import place_of
from .strategies import ALL, arrays, conditions, expressions, initial, reads, wall, weights

LEVELS = 4
TIMES = (0.0, 0.03, LEVELS)
NODES, CELLS = {"x": Line(0.0, 1.0, 5), "y": Line(0.0, 1.0, 4)}, {"x": Line(0.0, 1.0, 4, cells=True)}
LINES = {
    "nodes": NODES,
    "cells": {**CELLS, "y": Line(-1.0, 1.0, 5, cells=True)},
    "mixed": {**CELLS, "y": Line(0.0, 1.0, 5)},
    "stretched": {"x": Line(0.0, 1.5, 4, points=(0.0, 0.3, 0.7, 1.5)), "y": Line(0.0, 1.0, 4)},
    "channel": {"x": Line(0.0, 1.0, 4), "y": Line(0.0, 1.0, 4, periodic=True)},
    "duct": {"x": Line(0.0, 1.0, 4, periodic=True), "y": Line(0.0, 1.0, 4, cells=True)},
    "space": {"x": Line(0.0, 1.0, 3), "y": Line(0.0, 1.0, 4, cells=True), "z": Line(0.0, 1.0, 3)},
}
U = view("u")


@st.composite
def wall_regions(draw: Any, shape: tuple[int, ...], axis: int) -> tuple[Region, bool]:
    """A wall, both walls of an axis, or a part of one, at all levels or from some level on; and whether it is whole."""
    form = draw(st.sampled_from(["wall", "both", "part", "later"]))
    end: Any = draw(st.sampled_from([0, -1]))
    key: list[Any] = [ALL, *[ALL] * len(shape)]
    key[axis + 1] = (0, -1) if form == "both" else end
    if form == "part":
        other = draw(st.integers(0, len(shape) - 1).filter(lambda a: a != axis)) if len(shape) > 1 else axis
        if other != axis:
            key[other + 1] = slice(draw(st.integers(0, 1)), draw(st.integers(2, shape[other])))
    if form == "later":
        key[0] = slice(draw(st.integers(1, 2)), None)
    return index(*key), form == "wall"


@st.composite
def walled(draw: Any, kind: str, rate: bool, faces: frozenset[str] = frozenset()) -> Declaration:
    """A rule or a rate with reads all around it, conditions on every wall, more conditions and rules over them."""
    lines = LINES[kind]
    place = place_of(Declaration(lines, (), TIMES), Unknown("u", (), faces))
    shape, axes = place.shape, tuple(lines)
    known = [*map(name, axes), name("t"), name("c")]
    reach = 1 if rate or min(shape) < 4 else draw(st.integers(1, 2))
    read = reads(["u"], axes, [0 if rate else -1], reach)
    body = draw(expressions(read, known, nonlinear=draw(st.booleans())))
    if rate and draw(st.booleans()):
        body = 0.02 * laplacian(U, axes) + body
    rules = [Rule(index(...), body, "rate" if rate else "value")]
    ghosts = ["neumann", "robin"]
    for a, axis in enumerate(axes):
        for upper in (False, True):
            if not lines[axis].periodic:
                there = tuple(n for b, n in enumerate(shape) if b != a)
                region = wall(lines, axis, upper)
                rules.append(Rule(region, draw(conditions([*known, U.at()], there, ghosts))))
    for _ in range(draw(st.integers(0, 3))):
        a = draw(st.sampled_from([a for a, axis in enumerate(axes) if not lines[axis].periodic]))
        region, whole = draw(wall_regions(shape, a))
        there = tuple(n for b, n in enumerate(shape) if b != a) if whole else ()
        more: list[Any] = [draw(conditions(known, there, [*ghosts, "dirichlet", "dirichlet"]))]
        more += [0.4, draw(weights()) * name("t") + 0.1] * (not rate)
        rules.append(Rule(region, draw(st.sampled_from(more))))
    rules.insert(draw(st.integers(1, len(rules))), initial(shape, draw(st.integers(0, 99))))
    parameters = {"c": 0.37} if "('c',)" in repr(rules) else {}
    stepper = draw(st.sampled_from(["Euler", "Heun", "RK4"]))
    return Declaration(lines, (Unknown("u", tuple(rules), faces),), TIMES, parameters, stepper)


@settings(max_examples=16)
@given(st.sampled_from(["nodes", "cells", "mixed", "stretched"]).flatmap(lambda kind: walled(kind, False)))
def test_conditions_around_an_update_rule(declaration: Declaration) -> None:
    check(declaration)


@settings(max_examples=10)
@given(st.sampled_from(["channel", "duct", "space"]).flatmap(lambda kind: walled(kind, False)))
def test_conditions_beside_periodic_axes_and_in_space(declaration: Declaration) -> None:
    check(declaration)


@settings(max_examples=9)
@given(st.sampled_from(["nodes", "cells", "mixed", "stretched", "duct"]).flatmap(lambda kind: walled(kind, True)))
def test_conditions_around_a_rate(declaration: Declaration) -> None:
    check(declaration)


@settings(max_examples=10)
@given(st.sampled_from(["nodes", "cells", "mixed"]).flatmap(lambda kind: walled(kind, False, frozenset({"x"}))))
def test_conditions_around_a_staggered_field(declaration: Declaration) -> None:
    check(declaration)


@st.composite
def holed(draw: Any, rate: bool) -> Declaration:
    """One or two holes, as boxes and by predicates, inside a square with fixed or insulated walls."""
    lines = {"x": Line(0.0, 1.0, 7), "y": Line(0.0, 1.2, 6)}
    known: list[Expr] = [name("x"), name("y"), name("t"), U.at()]
    straight = reads(["u"], [draw(st.sampled_from(["x", "y"]))], [0 if rate else -1], 2)
    read = st.one_of(reads(["u"], ["x", "y"], [0 if rate else -1]), straight)
    body: Any = draw(expressions(read, known, most=4))
    if rate:
        body = 0.02 * laplacian(U, ("x", "y")) + body
    rules = [Rule(index(...), body, "rate" if rate else "value")]
    for axis in lines:
        for upper in (False, True):
            rules.append(Rule(wall(lines, axis, upper), draw(conditions(known[:3], (), ["neumann", "robin"]))))
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["box", "disc", "mask", "value"]))
        region = index(ALL, draw(inner_keys(7)), draw(inner_keys(6)))
        if kind == "disc":
            x, y = name("x") - draw(st.sampled_from([0.4, 0.52])), name("y") - draw(st.sampled_from([0.5, 0.66]))
            region = Region("where", (0.05 - x * x - y * y,))
        elif kind == "mask":
            inner = arrays((7, 6), draw(st.integers(0, 99))) > 0.2
            inner[[0, 1, -2, -1], :] = inner[:, [0, 1, -2, -1]] = False
            inner[3, 3] = True
            region = Region("mask", (inner,))
        ghosts = ["dirichlet"] if kind == "value" else ["neumann", "robin"]
        shown = known[:3] if kind == "value" else known
        rules.append(Rule(region, draw(conditions(shown, (), ghosts))))
    rules.insert(draw(st.integers(1, len(rules))), initial((7, 6), draw(st.integers(0, 99))))
    return Declaration(lines, (Unknown("u", tuple(rules)),), TIMES, {}, draw(st.sampled_from(["Euler", "RK4"])))


@st.composite
def inner_keys(draw: Any, size: int) -> Any:
    """A position or slice two points away from the ends."""
    a = draw(st.integers(2, size - 3))
    return draw(st.sampled_from([a, slice(a, draw(st.integers(a + 1, size - 2)))]))


@settings(max_examples=6)
@given(st.booleans().flatmap(holed))
def test_holes(declaration: Declaration) -> None:
    check(declaration)

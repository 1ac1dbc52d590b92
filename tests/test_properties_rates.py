"""Random rates, sources between points and plain rules beside them, stage by stage: fdsolve equals the reference."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from .agreement import check
from .declarations import Condition, Declaration, Labelled, Line, Region, Rule, Unknown, index, laplacian, name, view
from .strategies import arrays, expressions, index_regions, initial, predicates, reads, wall, weights

LEVELS = 4
LINES = {
    1: {"x": Line(0.0, 1.0, 6)},
    2: {"x": Line(0.0, 1.0, 5, periodic=True), "y": Line(0.0, 1.0, 4)},
    3: {"x": Line(0.0, 1.0, 3), "y": Line(0.0, 1.0, 4, periodic=True), "z": Line(0.0, 1.0, 3, cells=True)},
}


@st.composite
def evolving(draw: Any, ndim: int, names: tuple[str, ...]) -> Declaration:
    """Fields with rates, the last of several perhaps with a plain rule, which holds at every stage."""
    lines, axes = LINES[ndim], tuple(LINES[ndim])
    shape = tuple(line.num for line in lines.values())
    known = [*map(name, axes), name("t"), name("c"), view("q").at(), view("s").at(), view("s").at(t=-1)]
    unknowns = []
    for k, own in enumerate(names):
        read = reads(names, axes, [0])
        plain = k == 1 and draw(st.booleans())
        if plain:
            others = reads([other for other in names if other != own], axes, [0, -1])
            rules = [Rule(index(...), draw(expressions(others, known)))]
        else:
            body = draw(expressions(read, known)) + 0.01 * laplacian(view(own), axes)
            rules = [Rule(index(...), body, "rate")]
        more = [draw(amendments(lines, shape, read, known)) for _ in range(0 if plain else draw(st.integers(0, 3)))]
        # A rate under a predicate lies over rates, not over values.
        rules += sorted(more, key=lambda rule: rule.region.kind != "where")
        for axis, line in lines.items():
            if not line.periodic:
                rules += [
                    Rule(wall(lines, axis, up), Condition("robin", (1.0, 2.0, 0.1 * name("t")))) for up in (False, True)
                ]
        rules.insert(draw(st.integers(len(rules) - 2 * (ndim != 2), len(rules))), initial(shape, k))
        unknowns.append(Unknown(own, tuple(rules)))
    parameters = {
        "c": 0.37,
        "q": Labelled(axes, arrays(shape, 1)),
        "s": Labelled(("t",), arrays((LEVELS,), 2)),
    }
    used = {key: value for key, value in parameters.items() if f"args=('{key}',)" in repr(unknowns)}
    return Declaration(
        lines, tuple(unknowns), (0.2, 0.5, LEVELS), used, draw(st.sampled_from(["Euler", "Euler", "Heun", "RK4"]))
    )


@st.composite
def amendments(draw: Any, lines: dict[str, Line], shape: tuple[int, ...], read: Any, known: list[Any]) -> Rule:
    """Another rate or a value on a region, a rate added on one, a source between points, a rate under a predicate."""
    kind = draw(st.sampled_from(["rate", "adds", "source", "value", "run time"]))
    region = draw(index_regions(shape, LEVELS, first_level=1))
    if kind == "source":
        at = {axis: draw(st.sampled_from([0.31, 0.5, 0.62])) for axis in lines}
        return Rule(Region("place", (at,)), draw(weights()) * draw(st.sampled_from(known)), "rate", adds=True)
    if kind == "value":
        return Rule(region, draw(weights()) * name("t"))
    if kind == "run time":
        region = draw(predicates([name("t") - 0.3], [name(axis) for axis in lines]))
        return Rule(region, draw(expressions(read, known, most=1)), "rate")
    return Rule(region, draw(expressions(read, known, most=2)), "rate", adds=kind == "adds")


@settings(max_examples=7)
@given(evolving(1, ("u",)))
def test_rates_on_a_line(declaration: Declaration) -> None:
    check(declaration)


@settings(max_examples=4)
@given(evolving(2, ("u", "v")))
def test_coupled_rates_on_a_plane(declaration: Declaration) -> None:
    check(declaration)


@settings(max_examples=2)
@given(evolving(3, ("u", "v")))
def test_coupled_rates_in_space(declaration: Declaration) -> None:
    check(declaration)

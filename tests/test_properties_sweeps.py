"""Random rules that read their own level, in any direction along axes and diagonals: fdsolve equals the recursion of
the reference, whatever schedule it chose, and names the cycle where the reference finds one."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from .agreement import check
from .declarations import Declaration, Expr, Labelled, Line, Rule, Unknown, Values, index, name, view
from .strategies import arrays, expressions, initial, reads

LINES = {
    1: {"x": Line(0.0, 1.0, 7)},
    2: {"x": Line(0.0, 1.0, 6), "y": Line(0.0, 1.0, 5)},
    3: {"x": Line(0.0, 1.0, 4), "y": Line(0.0, 1.0, 4), "z": Line(0.0, 1.0, 4)},
}
DIRECTIONS = st.sampled_from([(1, 1, 1), (-1, 1, 1), (1, -1, -1), (-1, -1, 1)])


@st.composite
def backward_reads(draw: Any, fields: list[str], axes: list[str], direction: tuple[int, ...], reach: int) -> Expr:
    """A same-level neighbour behind the point in a row-major order with the given directions along the axes."""
    order = draw(st.integers(0, len(axes) - 1))
    offsets: dict[str, Any] = {}
    for rank, (axis, sign) in enumerate(zip(axes, direction, strict=False)):
        low, high = (-reach, reach) if rank > order else (-reach, -1) if rank == order else (0, 0)
        by = sign * draw(st.integers(low, high))
        if by:
            offsets[axis] = by
    return view(draw(st.sampled_from(fields))).at(**offsets)


def inner_key(draw: Any, size: int, reach: int) -> slice:
    """Positions at least `reach` from both ends."""
    a = draw(st.integers(reach, size - reach - 1))
    return slice(a, draw(st.integers(a + 1, size - reach)), draw(st.sampled_from([None, None, 2])))


@st.composite
def sweeps(draw: Any, ndim: int, names: tuple[str, ...], timed: bool = False) -> Declaration:
    """Regions that all look backwards in one order, over values given everywhere."""
    lines, axes = LINES[ndim], list(LINES[ndim])
    shape, reach = tuple(line.num for line in lines.values()), 1 if ndim == 3 else draw(st.integers(1, 2))
    direction, unknowns = draw(DIRECTIONS), []
    same = backward_reads(list(names), axes, direction, reach)
    old = reads(list(names), axes, [-1], reach) if timed else same
    known = [name(axis) for axis in axes] + [view("q").at()]
    read = st.one_of(same, same, old)
    for k, own in enumerate(names):
        rules = [Rule(index(...), Values(arrays(shape, 7 + k)))]
        for _ in range(draw(st.integers(1, 3))):
            keys = [inner_key(draw, size, reach) for size in shape]
            body = draw(expressions(read, known, nonlinear=draw(st.booleans())))
            region = index(slice(1, None), *keys) if timed else index(*keys)
            rules.append(Rule(region, body, adds=draw(st.integers(0, 4)) == 0))
        rules += [initial(shape, k)] if timed else []
        unknowns.append(Unknown(own, tuple(rules)))
    parameters = {"q": Labelled(tuple(axes), arrays(shape, 5))} if "('q',)" in repr(unknowns) else {}
    return Declaration(lines, tuple(unknowns), (0.0, 0.3, 3) if timed else None, parameters)


@st.composite
def tangles(draw: Any) -> Declaration:
    """Regions of two fields, masked ones among them, that look in any direction: often a cycle, often not."""
    lines, axes = LINES[2], ["x", "y"]
    shape, unknowns = (6, 5), []
    for k, own in enumerate(("u", "v")):
        rules = [Rule(index(...), Values(arrays(shape, 3 + k)))]
        for _ in range(draw(st.integers(1, 2))):
            keys = [inner_key(draw, size, 1) for size in shape]
            read = reads(["u", "v"], axes, [0])
            rules.append(Rule(index(*keys), draw(expressions(read, [name("x")], nonlinear=False, most=2))))
        unknowns.append(Unknown(own, tuple(rules)))
    return Declaration(lines, tuple(unknowns))


@settings(max_examples=10)
@given(sweeps(1, ("u",)))
def test_a_recurrence_along_a_line(declaration: Declaration) -> None:
    assert check(declaration)


@settings(max_examples=10)
@given(sweeps(2, ("u",)))
def test_a_sweep_of_a_plane(declaration: Declaration) -> None:
    assert check(declaration)


@settings(max_examples=6)
@given(sweeps(3, ("u",)))
def test_a_sweep_of_space(declaration: Declaration) -> None:
    assert check(declaration)


@settings(max_examples=7)
@given(sweeps(2, ("u", "v"), timed=True))
def test_coupled_fields_swept_at_every_level(declaration: Declaration) -> None:
    assert check(declaration)


@settings(max_examples=20)
@given(tangles())
def test_regions_that_look_in_any_direction(declaration: Declaration) -> None:
    check(declaration)

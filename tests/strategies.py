"""Hypothesis strategies for declarations: rules that keep values of order one, regions of every kind."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .declarations import Condition, Declaration, Expr, Line, Region, Rule, Unknown, Values, call, index, name, view
from .reference_expressions import Expressions
from .reference_rules import Assignments, Moment

ALL = slice(None)


def weights() -> st.SearchStrategy[float]:
    """Factors between 0.05 and 0.3 in size, so that a sum of three bounded terms stays bounded."""
    return st.sampled_from([0.05, 0.11, 0.17, 0.23, 0.3]).flatmap(lambda w: st.sampled_from([w, -w]))


def arrays(shape: tuple[int, ...], seed: int, complex_valued: bool = False) -> np.ndarray:
    """Values in [-1, 1], the same for the same seed and shape."""
    random = np.random.default_rng([seed, *shape])
    found = random.uniform(-1, 1, shape)
    return found + 1j * random.uniform(-1, 1, shape) if complex_valued else found


@st.composite
def reads(
    draw: Any,
    fields: Sequence[str],
    axes: Sequence[str],
    levels: Sequence[int],
    reach: int = 1,
    halves: dict[str, dict[str, bool]] | None = None,
) -> Expr:
    """A neighbour's value of one of the fields, at one of the levels; `halves[field][axis]` asks for a half offset."""
    field, level = draw(st.sampled_from(list(fields))), draw(st.sampled_from(list(levels)))
    offsets: dict[str, Any] = {"t": level} if level else {}
    for axis in axes:
        by = Fraction(draw(st.sampled_from([0, 0, *range(-reach, reach + 1)])))
        if halves and halves.get(field, {}).get(axis):
            by = Fraction(draw(st.sampled_from([-1, 1])), 2)
        if by:
            offsets[axis] = by
    return view(field).at(**offsets)


@st.composite
def expressions(
    draw: Any, read: st.SearchStrategy[Expr], known: Sequence[Expr], nonlinear: bool = True, most: int = 3
) -> Expr:
    """A weighted sum of at most `most` terms: reads, their products with coordinates and parameters, functions."""
    kinds = ["read", "read", "scaled", "known"] + ["sin", "product", "choose"] * nonlinear
    total: Any = None
    for _ in range(draw(st.integers(1, most))):
        kind, weight = draw(st.sampled_from(kinds)), draw(weights())
        first = draw(read)
        if kind == "scaled":
            term = first * draw(st.sampled_from(list(known)))
        elif kind == "known":
            term = draw(st.sampled_from(list(known))) + 0.5 * first
        elif kind == "sin":
            term = call("sin", first)
        elif kind == "product":
            term = call("tanh", first) * draw(read)
        elif kind == "choose":
            term = call("choose", first, draw(read), 0.2, 0.4)
        else:
            term = first
        total = weight * term if total is None else total + weight * term
    return total


@st.composite
def keys(draw: Any, size: int, low: int = 0) -> Any:
    """An integer, slice or list of positions from `low` on, negative ones too; never empty."""
    kind = draw(st.sampled_from(["all", "int", "slice", "slice", "step", "list"]))
    a = draw(st.integers(low, size - 1))
    if kind == "int":
        return a if draw(st.booleans()) else a - size
    if kind == "list":
        return tuple(sorted(draw(st.sets(st.integers(low, size - 1), min_size=1, max_size=3))))
    b = draw(st.integers(a + 1, size))
    if kind == "slice":
        return slice(a if draw(st.booleans()) else a - size, b if b == size else draw(st.sampled_from([b, b - size])))
    if kind == "step":
        return slice(a, None, draw(st.integers(2, 3)))
    return slice(low, None) if low else ALL


@st.composite
def index_regions(draw: Any, shape: tuple[int, ...], levels: int | None, first_level: int = 0) -> Region:
    """Positions on every axis, time first where there is time."""
    parts = [draw(keys(levels, first_level))] if levels else []
    return index(*parts, *(draw(keys(size)) for size in shape))


def regions(lines: dict[str, Line], levels: int | None, deep: bool = True) -> st.SearchStrategy[Region]:
    """Any region that is not empty: positions, coordinates, predicates of coordinates, masks, combinations of them."""
    times = (0.0, 1.0, levels) if levels else None

    def selects_points(region: Region) -> bool:
        found = Assignments(Declaration(lines, (Unknown("u", ()),), times), evaluate_at)
        moments = [Moment(n, 1.0, 0.0) for n in range(levels or 1)]
        rule, points = Rule(region, 0.0), list(np.ndindex(*(line.num for line in lines.values())))
        return any(found.covers(rule, "u", moment, point) for moment in moments for point in points)

    def evaluate_at(predicate: Expr, moment: Moment, _: str, point: tuple[int, ...]) -> bool:
        places = Expressions(Declaration(lines, (Unknown("u", ()),), times))
        return bool(places.evaluate(predicate, places.stand(moment, "u", point)) > 0)

    return _any_regions(lines, levels, deep).filter(selects_points)


@st.composite
def _any_regions(draw: Any, lines: dict[str, Line], levels: int | None, deep: bool) -> Region:
    shape = tuple(line.num for line in lines.values())
    kinds = ["index", "index", "loc", "where", "mask", "full mask"] + ["union", "both", "minus", "not"] * deep
    kind = draw(st.sampled_from(kinds))
    if kind == "loc":
        axis = draw(st.sampled_from(list(lines)))
        step = (lines[axis].upper - lines[axis].lower) / (lines[axis].num - (not lines[axis].periodic))
        ends = sorted(draw(st.tuples(*[st.integers(0, lines[axis].num - 1)] * 2)))
        picked = tuple(lines[axis].lower + k * step for k in ends)
        return Region("loc", ({axis: picked if draw(st.booleans()) else picked[0]},))
    if kind == "where":
        return draw(predicates(*[[name(axis) for axis in lines]] * 2))
    if kind in ("mask", "full mask"):
        whole = (levels, *shape) if levels and kind == "full mask" else shape
        return Region("mask", (arrays(whole, draw(st.integers(0, 99))) > draw(st.sampled_from([-0.4, 0.0, 0.4])),))
    if kind == "index":
        return draw(index_regions(shape, levels))
    inner = regions(lines, levels, deep=False)
    if kind == "not":
        return Region("~", (draw(inner),))
    return Region({"union": "|", "both": "&", "minus": "-"}[kind], (draw(inner), draw(inner)))


@st.composite
def predicates(draw: Any, known: Sequence[Expr], more: Sequence[Expr] = ()) -> Region:
    """Where a combination of one of the known quantities, and perhaps one more, is positive; never exactly zero."""
    total: Any = 0.0317 + draw(st.sampled_from([-0.5, -0.2, 0.1, 0.4]))
    parts = [draw(st.sampled_from(list(known)))] + ([draw(st.sampled_from(list(more)))] if more else [])
    for part in parts:
        total = total + draw(st.sampled_from([-1.3, -0.7, 0.7, 1.3])) * part
    return Region("where", (total,))


@st.composite
def conditions(draw: Any, known: Sequence[Expr], wall_shape: tuple[int, ...], kinds: Sequence[str]) -> Condition:
    """A boundary condition with numbers, functions or an array along the wall."""
    kind = draw(st.sampled_from(list(kinds)))

    def coefficient() -> Any:
        form = draw(st.sampled_from(["number", "function", "array"]))
        if form == "number":
            return draw(weights())
        if form == "array" and wall_shape:
            return Values(0.3 * arrays(wall_shape, draw(st.integers(0, 99))))
        return draw(weights()) * draw(st.sampled_from(list(known))) + 0.1

    if kind == "robin":
        return Condition(kind, (draw(st.sampled_from([0.5, 1.0])), draw(st.sampled_from([2.0, 3.0])), coefficient()))
    return Condition(kind, (coefficient(),))


def wall(lines: dict[str, Line], axis: str, upper: bool, timed: bool = True) -> Region:
    """The region `u[dict(axis=0 or -1)]`."""
    at = -1 if upper else 0
    return index(*([ALL] if timed else []), *(at if other == axis else ALL for other in lines))


def initial(shape: tuple[int, ...], seed: int, levels: int = 1, complex_valued: bool = False) -> Rule:
    """The state at the first levels."""
    if levels == 1:
        return Rule(index(0), Values(arrays(shape, seed, complex_valued)))
    return Rule(index(slice(0, levels)), Values(arrays((levels, *shape), seed, complex_valued)))

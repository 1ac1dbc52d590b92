"""Operators, staggered and stretched axes, complex numbers and single precision: fdsolve equals the reference."""

from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given, settings

from . import reference
from .agreement import assert_close, check, solve_jitted
from .declarations import (
    Condition,
    Declaration,
    Expr,
    Labelled,
    Line,
    Rule,
    Unknown,
    call,
    derivative,
    divergence,
    index,
    laplacian,
    name,
    place,
    view,
)
from .reference_geometry import place_of
from .strategies import ALL, arrays, expressions, initial, reads, wall, weights

HALF = Fraction(1, 2)
LINES = {
    "nodes": {"x": Line(0.0, 1.0, 6), "y": Line(0.0, 2.0, 5)},
    "stretched": {"x": Line(0.0, 2.0, 6, points=(0.0, 0.2, 0.5, 1.1, 1.5, 2.0)), "y": Line(0.0, 1.0, 4, cells=True)},
    "cells": {"x": Line(0.0, 1.0, 5, cells=True), "y": Line(0.0, 1.0, 5, periodic=True)},
    "ring": {
        "x": Line(0.0, 2.0, 5, periodic=True, points=(0.0, 0.3, 0.8, 1.1, 1.6)),
        "y": Line(-0.1, 2.15, 4, cells=True, points=(0.1, 0.5, 1.2, 1.7)),
    },
}
LINES["ring"]["y"] = Line(-0.1, 1.95, 4, cells=True, points=(0.1, 0.5, 1.2, 1.7))
TIMES = (0.0, 0.004, 3)


def insulated(lines: dict[str, Line]) -> list[Rule]:
    """Conditions on every wall there is."""
    ends = [(axis, upper) for axis, line in lines.items() if not line.periodic for upper in (False, True)]
    return [Rule(wall(lines, axis, upper), Condition("neumann", (0.1,))) for axis, upper in ends]


@st.composite
def operators(draw: Any, kind: str, coefficient: str) -> Expr:
    """A differential operator on u, on arithmetic of views, or nested; `coefficient` names one at points or faces."""
    axes, u = ("x", "y"), view("u")
    of = draw(st.sampled_from([u, call("mul", u, u), call("sin", u), u * view("q"), place("x", "u") * u]))
    axis = draw(st.sampled_from(axes))
    form = draw(st.sampled_from(["laplacian", "first", "second", "flux", "flux", "fourth", "nested"]))
    if form == "laplacian":
        return laplacian(of, axes)
    if form in ("first", "second"):
        return derivative(of, axis, 1 if form == "first" else 2)
    if form == "fourth":
        return derivative(u, axis, draw(st.sampled_from([1, 2])), 4)
    if form == "nested":
        return laplacian(0.1 * of - 0.01 * laplacian(u, axes), axes)
    return divergence(view(coefficient), u, axes)


@st.composite
def differenced(draw: Any) -> Declaration:
    """A rate or an update made of operators, with a coefficient at points or on faces."""
    kind = draw(st.sampled_from(list(LINES)))
    lines, rate = LINES[kind], draw(st.booleans())
    shape = tuple(line.num for line in lines.values())
    body: Any = draw(weights()) * view("u").at(t=0 if rate else -1)
    for _ in range(draw(st.integers(1, 2))):
        one = draw(operators(kind, "q"))
        if not rate:
            one = call("mul", 0.004, _older(one))
        body = body + draw(weights()) * one
    rules = [
        Rule(index(...), body, "rate" if rate else "value"),
        *insulated(lines),
        initial(shape, draw(st.integers(0, 9))),
    ]
    parameters = {"q": Labelled(("x", "y"), arrays(shape, 6))} if "('q',)" in repr(rules) else {}
    return Declaration(lines, (Unknown("u", tuple(rules)),), TIMES, parameters, "Heun")


def _older(expr: Any) -> Any:
    """The expression with every view of u taken at the level before."""
    if not isinstance(expr, Expr):
        return expr
    if expr == view("u"):
        return expr.seen_from(t=-1)
    return Expr(expr.op, tuple(_older(part) for part in expr.args))


@settings(max_examples=8)
@given(differenced())
def test_operators_on_uniform_and_stretched_axes(declaration: Declaration) -> None:
    check(declaration)


@st.composite
def staggered(draw: Any) -> Declaration:
    """A pressure at points and velocities on faces, each by neighbours half a step away, at older or the same level."""
    kind = draw(st.sampled_from(["nodes", "cells", "stretched"]))
    lines, axes = LINES[kind], ("x", "y")
    faces = {"p": frozenset(), "v": frozenset({"x"}), "w": frozenset({"x", "y"})}
    halves = {a: {b: {x: (x in faces[a]) != (x in faces[b]) for x in axes} for b in faces} for a in faces}
    known = [name("x"), name("y"), name("dt"), view("k").at(), view("k").at(x=1)]
    unknowns = []
    for own in faces:
        levels = [-1, 0] if own == "p" else [-1]
        others = [other for other in faces if other != own]
        read = st.one_of(reads(faces, axes, [-1], 1, halves[own]), reads(others, axes, levels, 1, halves[own]))
        body = draw(expressions(read, known if own == "p" else known[:3]))
        if own == "p" and draw(st.booleans()):
            body = body + 0.01 * derivative(view("v"), "x")
        if own == "v" and draw(st.booleans()):
            body = body - 0.01 * derivative(view("p").seen_from(t=-1), "x")
        sizes = Declaration(lines, (), TIMES), Unknown(own, (), faces[own])
        rules = [Rule(index(...), body), *insulated(lines), initial(place_of(*sizes).shape, len(unknowns))]
        unknowns.append(Unknown(own, tuple(rules), faces[own]))
    shape = tuple(line.num for line in lines.values())
    parameters = {"k": Labelled(axes, arrays(shape, 3))} if "('k',)" in repr(unknowns) else {}
    return Declaration(lines, tuple(unknowns), TIMES, parameters)


@settings(max_examples=7)
@given(staggered())
def test_staggered_fields(declaration: Declaration) -> None:
    check(declaration)


def wave(dtype: str) -> Declaration:
    """A nonlinear Schrödinger-like rate (real: a heat equation) with Robin walls, a source and a plain rule."""
    lines, u = LINES["cells"], view("u")
    factor = 0.3j if dtype.startswith("complex") else 0.3
    body = factor * (0.1 * laplacian(u, ("x", "y")) + 0.5 * call("abs", u.at()) * u.at()) + name("t") * name("y")
    rules = [Rule(index(...), body, "rate")]
    rules += [Rule(wall(lines, "x", up), Condition("robin", (1.0, 2.0, 0.1 * name("y")))) for up in (False, True)]
    rules += [Rule(index(ALL, 2, 2), 0.3), initial((5, 5), 1, complex_valued=dtype.startswith("complex"))]
    other = [Rule(index(...), 0.5 * u.at(x=1) - 0.2 * view("v").at(t=-1)), initial((5, 5), 2)]
    unknowns = (Unknown("u", tuple(rules), dtype=dtype), Unknown("v", tuple(other), dtype=dtype))
    return Declaration(lines, unknowns, (0.0, 0.2, 4), {}, "RK4")


@pytest.mark.parametrize("dtype, tolerance", [("float32", 3e-6), ("complex64", 3e-6), ("complex128", 1e-12)])
def test_precision_is_that_of_the_field(dtype: str, tolerance: float) -> None:
    declaration = wave(dtype)
    with jax.numpy_dtype_promotion("standard"):  # the rule itself mixes real and complex numbers
        got, wanted = solve_jitted(declaration), reference.solve(declaration)
    for key, array in wanted.items():
        assert got[key].dtype == np.dtype(dtype)
        assert_close(got[key], array, tolerance)

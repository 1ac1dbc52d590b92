"""Plain-data declarations handed to fdsolve."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.field import Along
from fdsolve.views import move

from .declarations import Condition, Declaration, Expr, Labelled, Line, Region, Rule, Values, names_in

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "exp": jnp.exp,
    "abs": jnp.abs,
    "maximum": jnp.maximum,
    "choose": lambda a, b, c, d: jnp.where(b > c, a, d),
}
STEPPERS = {"Euler": fd.schemes.Euler, "Heun": fd.schemes.Heun, "RK4": fd.schemes.RK4}
CONDITIONS = {
    "dirichlet": fd.boundary.Dirichlet,
    "neumann": fd.boundary.Neumann,
    "robin": fd.boundary.Robin,
}


def make_function(expr: Expr) -> Callable[..., Any]:
    """The expression as a rule: a function whose arguments are found by name."""
    names = names_in(expr)

    def rule(*values: Any, **named: Any) -> Any:
        return _build(expr, {**dict(zip(names, values, strict=False)), **named})

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    rule.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])  # type: ignore[attr-defined]
    return rule


def _build(expr: Any, known: Mapping[str, Any]) -> Any:
    if not isinstance(expr, Expr):
        return expr
    if expr.op in ("name", "view"):
        return known[expr.args[0]]
    if expr.op == "place":
        return fd.coordinate(known[expr.args[1]], expr.args[0])
    parts = [_build(part, known) for part in expr.args]
    if expr.op == "at":
        return parts[0][_key(parts[1])]
    if expr.op == "moved":
        return move(parts[0], _key(parts[1]))
    if expr.op == "derivative":
        view, axis, n, order = parts
        return fd.schemes.derivative(view, axis, n, order=order)
    if expr.op == "laplacian":
        return fd.schemes.laplacian(parts[0])
    if expr.op == "divergence":
        return fd.schemes.divergence(parts[0], parts[1])
    return fd.apply(FUNCTIONS[expr.op], *parts)


def _key(offsets: tuple[tuple[str, Any], ...]) -> Any:
    parts = tuple(f"{name}{'+' if by >= 0 else '-'}{abs(by)}" for name, by in offsets if by)
    return parts or ...


def make_region(region: Region) -> Any:
    """A region's key, good for `u[key]` and for combination by |, &, - and ~."""
    if region.kind == "index":
        return fd.region[tuple(list(k) if isinstance(k, tuple) else k for k in region.args)]
    if region.kind == "loc":
        picked = {n: slice(*k) if isinstance(k, tuple) else k for n, k in region.args[0].items()}
        return fd.region.loc[picked]
    if region.kind == "where":
        inner = make_function(region.args[0])

        def predicate(*values: Any, **named: Any) -> Any:
            return inner(*values, **named) > 0

        predicate.__signature__ = inspect.signature(inner)  # type: ignore[attr-defined]
        return fd.where(predicate)
    if region.kind == "mask":
        return fd.region[np.asarray(region.args[0])]
    if region.kind == "place":
        return fd.point(**region.args[0])
    parts = [make_region(part) for part in region.args]
    if region.kind == "~":
        return ~parts[0]
    return (
        parts[0] | parts[1]
        if region.kind == "|"
        else parts[0] & parts[1]
        if region.kind == "&"
        else parts[0] - parts[1]
    )


def make_rule(body: Any) -> Any:
    """A number, array, function or condition."""
    if isinstance(body, Expr):
        return make_function(body)
    if isinstance(body, Values):
        return body.array
    if isinstance(body, Condition):
        return CONDITIONS[body.kind](*(make_rule(part) for part in body.coefficients))
    return body


def make_axis(line: Line) -> fd.Axis:
    if line.points is not None:
        period = line.upper - line.lower if line.periodic else None
        return fd.Axis.from_points(line.points, periodic=line.periodic, cells=line.cells, period=period)
    return fd.Axis(line.lower, line.upper, line.num, periodic=line.periodic, cells=line.cells)


def make_fields(declaration: Declaration) -> list[fd.Field]:
    """The declaration's fields, assigned."""
    axes = {name: make_axis(line) for name, line in declaration.lines.items()}
    if declaration.times is not None:
        start, stop, num = declaration.times
        axes = {"t": fd.Time(start, stop, num=num), **axes}
    grid = fd.Grid(**axes)
    fields = []
    for one in declaration.unknowns:
        at = dict.fromkeys(sorted(one.faces), "face") or None
        fields.append(fd.Field(one.name, grid, at=at, dtype=np.dtype(one.dtype)))
        for rule in one.rules:
            assign(fields[-1], rule)
    return fields


def assign(target: fd.Field, rule: Rule) -> None:
    """One assignment, as a user writes it."""
    body = make_rule(rule.body)
    if rule.kind == "rate":
        body = fd.rate(body)
    key = make_region(rule.region)
    if rule.adds:
        target[key] += body
    else:
        target[key] = body


def make_parameters(declaration: Declaration) -> dict[str, Any]:
    """The parameters as `solve` takes them."""
    return {
        name: fd.along(value.array, *value.axes, at=dict.fromkeys(sorted(value.faces), "face"))
        if isinstance(value, Labelled)
        else value
        for name, value in declaration.parameters.items()
    }


def jit_over_arrays(function: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """The function compiled with the arrays of its parameters as arguments, labels kept."""

    def run(parameters: dict[str, Any]) -> Any:
        labels = {name: (v.axes, v.faces) for name, v in parameters.items() if isinstance(v, Along)}
        arrays = {name: v.array if name in labels else v for name, v in parameters.items()}

        def relabelled(values: dict[str, Any]) -> Any:
            return function({name: Along(v, *labels[name]) if name in labels else v for name, v in values.items()})

        return jax.jit(relabelled)(arrays)

    return run


def solve(declaration: Declaration, parameters: dict[str, Any] | None = None, **options: Any) -> fd.Solution:
    """fdsolve's answer, with the declaration's parameters or others."""
    given = make_parameters(declaration) if parameters is None else parameters
    return fd.solve(make_fields(declaration), stepper=STEPPERS[declaration.stepper](), parameters=given, **options)


def plan(declaration: Declaration) -> fd.Plan:
    """What fdsolve will run."""
    stepper = STEPPERS[declaration.stepper]()
    return fd.plan(make_fields(declaration), stepper=stepper, parameters=make_parameters(declaration))

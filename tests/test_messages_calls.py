"""What is said of declarations and calls that make no problem: coverage, cycles, boundaries, fields, options, "
"results."""

from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

from .messages import (
    SOLVE,
    Wrong,
    assign,
    declare,
    field,
    keep,
    lines,
    nodes,
    pair,
    ruled,
    steady,
    undeclared,
    unplanned,
)

PLAIN = "a rule is a number, an array, a function, `fd.rate(...)` or a boundary condition, got"
ASSIGNED = {
    "a string": undeclared(f"u[...]: {PLAIN} 'u + 1'.", assign(..., "u + 1")),
    "None": undeclared(f"u[...]: {PLAIN} None.", assign(..., None)),
    "a dict": undeclared(f"u[...]: {PLAIN} an object of type dict.", assign(..., dict(a=1))),
    "a field": undeclared(f"u[...]: {PLAIN} an object of type Field.", lambda: assign(..., field(name="v"))()),
    "a region": undeclared(
        "Field `u`: assign a number, an array or a function, not a region of a field. To copy from a field write a "
        "rule "
        "that reads it: lambda v: v[...].",
        lambda: assign(..., field(name="v")[0])(),
    ),
    "a rate of a condition": undeclared(
        "`fd.rate` takes a function, a number or an array, got Neumann(0.0). Assign it without.",
        lambda: fd.rate(fd.boundary.Neumann(0.0)),
    ),
    "a rate of a string": undeclared(
        "`fd.rate` takes a function, a number or an array, got 'u'.", lambda: fd.rate("u")
    ),
    "a rate without time": unplanned(
        "Field `u` has a rate, but its grid has no time axis. Declare one first: fd.Grid(t=fd.Time(...), x=...).",
        lines((..., fd.rate(lambda u: -u)), grid=steady()),
    ),
}

PYTHON_NAME = "A field's name is a Python name that rules read it by, got"
FIELDS = {
    "no name": undeclared(f'{PYTHON_NAME} an object of type int: fd.Field("u", grid).', lambda: fd.Field(3, nodes())),
    "two words": undeclared(f"{PYTHON_NAME} 'u v': fd.Field(\"u\", grid).", lambda: field(name="u v")),
    "a keyword": undeclared(f"{PYTHON_NAME} 'lambda': fd.Field(\"u\", grid).", lambda: field(name="lambda")),
    "no grid": undeclared("Field `u`: the second argument is a Grid, got str.", lambda: fd.Field("u", "grid")),
    "no space": undeclared(
        "Field `u`: its grid has no space axis; declare one, for example x=fd.Axis(0, 1, 51).",
        lambda: field(fd.Grid(t=fd.Time(0, 1, num=3))),
    ),
    "named like an axis": undeclared(
        "Field `x`: the name is that of an axis or its spacing; choose another.", lambda: field(name="x")
    ),
    "named like a spacing": undeclared(
        "Field `dx`: the name is that of an axis or its spacing; choose another.", lambda: field(name="dx")
    ),
    **{
        f"named like {what}": undeclared(
            f"Field `{name}`: Datasets of this grid have a coordinate or dimension of that name; choose another.",
            partial(field, name=name),
        )
        for what, name in (("faces", "x_face"), ("bounds", "x_bnds"), ("the description of the grid", "grid_topology"))
    },
    "at an unknown axis": undeclared(
        "Field `u`: `at=` names the axis `z`; the space axes of the grid are x.", lambda: field(at=dict(z="face"))
    ),
    "at an unknown place": undeclared(
        'Field `u`: `at=` takes "face" or "point" for axis `x`, got \'faces\'.', lambda: field(at=dict(x="faces"))
    ),
    "at a word": undeclared(
        "Field `u`: `at=` takes a dict by axis name, as in at=dict(x=\"face\"); got 'face'.", lambda: field(at="face")
    ),
    "units": undeclared('Field `u`: `units=` takes a string such as "m/s", got 3.', lambda: field(units=3)),
}


def together(rule: Any, solved: str = "uv") -> Any:
    """Solving two fields that are set together, to be called."""

    def program() -> None:
        u, v = pair()
        fd.together(u, v)[...] = rule
        u[0], v[0] = 0.0, 0.0
        fd.solve([one for one in (u, v) if one.name in solved])

    return program


WANT = "fields set together want a tuple or dict of 2 values: u, v."
TOGETHER = {
    "too few results": undeclared(
        f"Rule `lambda` on u[...] returned 1 value(s); {WANT}", together(lambda u, v: (u["t-1"],))
    ),
    "one result": undeclared(f"Rule `lambda` on u[...] returned one value; {WANT}", together(lambda u, v: u["t-1"])),
    "an array": undeclared(
        f"Rule `lambda` on u[...] returned an array of shape (2,); {WANT}",
        together(lambda u, v: jnp.stack([u["t-1"], v["t-1"]])),
    ),
    "other names": undeclared(
        "Rule `lambda` on u[...] returned a dict of u, w; fields set together want u, v.",
        together(lambda u, v: dict(u=u["t-1"], w=0.0)),
    ),
    "a number": undeclared(
        "together(u, v)[...]: give one function that returns a tuple or dict of 2 values, got 3.0.", together(3.0)
    ),
    "solved apart": unplanned(
        "Rule `lambda` on u[...] sets u, v together, and `v` is missing. Solve them together: fd.solve((u, v)).",
        together(lambda u: (u["t-1"], u["t-1"]), solved="u"),
    ),
    "one field": undeclared(
        "`fd.together` takes two or more fields, got u. Write fd.together(u, v)[...] = rule.",
        lambda: fd.together(field()),
    ),
    "names": undeclared(
        "`fd.together` takes two or more fields, got str, str. Write fd.together(u, v)[...] = rule.",
        lambda: fd.together("u", "v"),
    ),
    "a field twice": undeclared(
        "`fd.together`: a field is named twice in u, u.", lambda: fd.together(field(), field())
    ),
    "different grids": undeclared(
        "`fd.together`: the fields are on different grids; fields set together share one.",
        lambda: fd.together(field(), field(steady(), "v")),
    ),
}

CLASH = "has the name of a field, an axis or a spacing; rename it."
TAKE = "solve and plan take a field or a sequence of coupled fields, as in solve((u, v)); got"
CALLS = {
    "None": undeclared(f"{TAKE} NoneType.", lambda: fd.solve(None)),
    "nothing": undeclared(f"{TAKE} none.", lambda: fd.solve(())),
    "a name": undeclared(f"{TAKE} str.", lambda: fd.solve("u")),
    "more than fields": undeclared(f"{TAKE} Field, int.", lambda: fd.solve([declare(keep), 3])),
    "duplicate names": undeclared(
        "Two fields have the same name among u, u; give each its own.", lambda: fd.solve((declare(keep), declare(keep)))
    ),
    "different grids": undeclared(
        "Fields `u` and `v` are on different grids; coupled fields share one.",
        lambda: fd.solve((declare(keep), field(steady(), "v"))),
    ),
    "missing parameter": unplanned(
        "Rule `lambda` on u[...] asks for `c`, which is not known. Known are fields: u; axes: t, x; spacings: dt, dx. "
        "Pass it to `solve` as a keyword: c=...",
        ruled(lambda u, c: c * u["t-1"]),
    ),
    "unused parameter": unplanned(
        "No rule asks for the parameter `c`. No rule takes a parameter. Leave it out, or name it among the arguments "
        "of "
        "a rule.",
        ruled(keep, c=3.0),
    ),
    "another unused parameter": unplanned(
        "No rule asks for the parameter `c`. Rules ask for k. Leave it out, or name it among the arguments of a rule.",
        ruled(lambda u, k: k * u["t-1"], k=1.0, c=3.0),
    ),
    "an option written wrongly": unplanned(
        "No rule asks for the parameter `progres`. No rule takes a parameter. Leave it out, or name it among the "
        "arguments of a rule. There is an option `progress=`, if that was meant.",
        ruled(keep, progres=True),
    ),
    "an option of an object written wrongly": undeclared(
        "The parameter `steper` is no number and no array, got RK4. There is an option `stepper=`, if that was meant.",
        ruled(keep, steper=fd.schemes.RK4()),
    ),
    "a parameter like a field": undeclared(f"The parameter `u` {CLASH}", ruled(keep, u=3.0)),
    "a parameter like an axis": undeclared(f"The parameter `x` {CLASH}", ruled(lambda u, x: u["t-1"] * x, x=3.0)),
    "a parameter like a spacing": undeclared(f"The parameter `dt` {CLASH}", ruled(lambda u, dt: u["t-1"], dt=3.0)),
    "a parameter twice": undeclared(
        "The parameter `c` is given twice: as a keyword and in parameters=dict(...).",
        ruled(lambda u, c: c * u["t-1"], c=3.0, parameters=dict(c=2.0)),
    ),
    "a parameter that is no array": undeclared(
        "The parameter `c` is no number and no array, got object.", ruled(lambda u, c: u["t-1"], c=object())
    ),
    "parameters in a number": undeclared(
        "parameters= takes a dict of parameters by name, got 3.0. A parameter called `parameters` goes into it: "
        "parameters=dict(parameters=...).",
        ruled(keep, parameters=3.0),
    ),
    "a parameter without a name": undeclared(
        "parameters= takes a dict of parameters by name, got the key 3; use a string.",
        ruled(keep, parameters={3: 1.0}),
    ),
}


def elsewhere(option: str) -> str:
    return f"A parameter called `{option}` goes into parameters=dict({option}=...)."


SAVE = "save= takes fd.every(n), fd.at(times), fd.final() or fd.receivers(...), got"
STEPPER = "stepper= takes a stepper such as fd.schemes.RK4(), got"
TIMES = "fd.at takes one or more times: concrete numbers, or datetimes where the time axis has `since=`; got"
WHOLE = "fd.every takes a whole number of levels of at least 1, got"
OPTIONS = {
    "a parameter like an option": undeclared(
        f"{SAVE} 3.0. {elsewhere('save')}", ruled(lambda u, save: u["t-1"] * save, save=3.0)
    ),
    "save: a list": undeclared(f"{SAVE} 0. {elsewhere('save')}", ruled(keep, save=[0, 1])),
    "save: a function": undeclared(f"{SAVE} the function final; call it.", ruled(keep, save=fd.final)),
    "save: without time": undeclared(
        "save= chooses among time levels, and the grid has no time axis; leave it out.",
        ruled(1.0, grid=steady(), save=fd.every(2)),
    ),
    "every: zero": undeclared(f"{WHOLE} 0. Give an int: fd.every(10).", lambda: fd.every(0)),
    "every: a string": undeclared(f"{WHOLE} '3'. Give an int: fd.every(10).", lambda: fd.every("3")),
    "at: outside": undeclared(
        "save=fd.at(...): the time 2 lies outside the time axis, 0 to 1.", ruled(keep, save=fd.at([0.0, 2.0]))
    ),
    "at: nothing": undeclared(f"{TIMES} an array of shape (0,). Give a list: fd.at([0.1, 0.5]).", lambda: fd.at([])),
    "at: nan": undeclared(f"{TIMES} [nan].", lambda: fd.at(float("nan"))),
    "at: None": undeclared(f"{TIMES} [None].", lambda: fd.at(None)),
    "at: traced": undeclared(f"{TIMES} list.", lambda: jax.jit(lambda s: fd.at([s]))(0.5)),
    "at: between levels of integers": undeclared(
        "save=fd.at(...) interpolates between levels, and `u` has dtype int64. Give times of levels.",
        ruled(keep, initial=1, dtype=int, save=fd.at(0.3)),
    ),
    "at: datetimes without since": undeclared(
        "save=fd.at(...): Datetimes want a Time that says when its time 0 is, got Time(0.0, 1.0, num=5). Give it "
        '`since=`, as in `since="2016-06-01"`.',
        ruled(keep, save=fd.at("2016-01-01")),
    ),
    "stepper: the class": undeclared(
        f"{STEPPER} the class RK4; write it with parentheses, RK4().",
        ruled(fd.rate(lambda u: -u), stepper=fd.schemes.RK4),
    ),
    "stepper: a string": undeclared(
        f"{STEPPER} 'rk4'. {elsewhere('stepper')}", ruled(fd.rate(lambda u: -u), stepper="rk4")
    ),
    "kernel": undeclared(f"{fd.kernels.show_known()}, got 'fast'. {elsewhere('kernel')}", ruled(keep, kernel="fast")),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in dict(assigned=ASSIGNED, field=FIELDS, together=TOGETHER, call=CALLS, option=OPTIONS).items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_message(case: Wrong) -> None:
    case.check()


@pytest.mark.parametrize(
    "initial, where",
    [
        (np.array([0, 1, np.nan, 2, np.inf, 3]), "2 points, the first at x=2"),
        (lambda x: jnp.log(x - 0.5), "3 points, the first at x=0"),
        (float("nan"), "6 points, the first at x=0"),
    ],
)
def test_an_initial_state_that_is_not_finite(initial: Any, where: str) -> None:
    message = f"The initial state of `u` is not finite at {where}. Check the rule assigned to its first level."
    Wrong(ruled(keep, initial=initial), message, fd.RunError).check()


def test_a_history_that_does_not_fit_is_refused() -> None:
    with mock.patch(f"{SOLVE}.available_bytes", return_value=1000):
        message = (
            "The saved history would take 240.0 KiB (5120 levels); 1000 B are free. "
            "Save less: save=fd.every(615), fd.at(times) or fd.final()."
        )
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=5120), x=fd.Axis(0.0, 1.0, num=6))
        Wrong(ruled(keep, grid=grid), message, fd.RunError).check()
        assert ruled(keep, grid=grid, save=fd.final())()["u"].shape == (1, 6)


def test_a_state_that_does_not_fit_is_refused() -> None:
    with mock.patch(f"{SOLVE}.available_bytes", return_value=100):
        message = (
            "The levels held while marching would take 96 B; 100 B are free. Take fewer points, or a smaller dtype "
            "such "
            "as jnp.float32."
        )
        Wrong(ruled(keep, save=fd.final()), message, fd.RunError).check()


def test_options_and_conditions_without_effect_are_noted() -> None:
    u = declare(keep)
    u[dict(x=0)] = fd.boundary.Neumann(0.0)
    assert fd.plan(u, stepper=fd.schemes.Euler()).notes == (
        "`Neumann(0.0)` on u[dict(x=0)] has no effect at the lower end of x: no rule reads beyond it",
        "stepper= has no effect: no rule is a rate (fd.rate)",
    )


def test_a_failed_assignment_leaves_nothing_behind() -> None:
    grid = nodes()
    u, v = field(grid), field(grid, "v", at=dict(x="face"))
    with pytest.raises(fd.DeclarationError, match=r"v\[:, 5\]: position 5 lies outside axis `x`, which has 5 points"):
        fd.together(u, v)[:, 5] = lambda u, v: (u["t-1"], v["t-1"])
    assert u.assignments == [] and v.assignments == []


def test_results_are_called_by_the_names_of_fields() -> None:
    solution = fd.solve(declare(keep))
    for ask in (lambda: solution["nope"], lambda: solution.final["nope"]):
        with pytest.raises(fd.DeclarationError) as caught:
            ask()
        assert str(caught.value) == "The solution has no field 'nope'; it has 'u'. Call it by name."


def test_traced_results_do_not_go_to_xarray() -> None:
    @jax.jit
    def run(c: jax.Array) -> Any:
        return fd.solve(declare(lambda u, c: c * u["t-1"]), c=c).to_xarray()["u"].values

    with pytest.raises(fd.RunError) as caught:
        run(1.0)
    assert str(caught.value) == ("to_xarray needs concrete values: call it outside jit and grad, on what they return.")

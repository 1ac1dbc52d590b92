"""`fd.relax`: sweeps over the points of an elliptic declaration."""

from collections.abc import Mapping
from dataclasses import replace
from math import pi, sin
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError, PlanningError, RunError
from ..kernels import Arrays, forwards_alone
from ..planning import METHODS, Plan, Relaxation, Solve, Structure, describe_sweep, make_plan, plan_relaxation
from ..solution import LastLevel, Solution
from ..solvers import Report
from ..stepping import ASSEMBLY, Log, Operator, hidden_points, prepare_operator, read_start, relax_for, relax_until
from ._holes import mark_holes

MOST = 100_000
"""Sweeps at most, where only `until` is given."""
BACK = (
    "fd.relax: with until= the number of sweeps is not known, and there are derivatives forwards alone (jax.jvp). Give "
    "sweeps= without until= for gradients; or solve by fd.solve, which differentiates the equation itself."
)


def relax(
    fields: Any,
    /,
    *,
    method: Any = "gauss-seidel",
    omega: Any = None,
    sweeps: Any = None,
    until: Any = None,
    every: Any = 10,
    start: Any = None,
    parameters: Any = None,
    **keywords: Any,
) -> Solution:
    """Relaxes residuals on a grid without time: sweeps of uᵢ ← uᵢ − ω rᵢ/(∂rᵢ/∂uᵢ), one Newton step of each point's
    own equation.

    Arguments: `fields`, and parameters by keyword (or in `parameters=`), as for `solve`; `method`: "jacobi" (all
    points from the sweep before), "gauss-seidel" (in the order of the arrays, field after field at each point, with the
    newest values: the same numbers as the loop over the points, done hyperplane by hyperplane), "red-black" (points of
    even index sum from the sweep before, then the others), "sor" (Gauss–Seidel, over-relaxed); `omega`, the factor ω,
    between 0 and 2 (default 1; for "sor" 2/(1 + sin π/n) with the largest number n of steps along an axis, the best for
    Laplace's equation); `sweeps`, how many; `until`, where ‖r‖ has fallen to this part of what it was at the start
    (looked at every `every` sweeps; then `sweeps` is the most); `start`, a solution or arrays by field to start from
    (default: the declared guess, or zero).

    What an equation reads besides unknown values, boundary values, ghosts and other fields, is that of the sweep
    before: it is evaluated again after each sweep.

    Returns a Solution: `solution["u"]`; `solution.equations[0]` tells the sweeps (`iterations`), the relative residual
    and its history. With `sweeps` alone it is differentiable in both directions; with `until` in the forward one, and
    traced fields are nan where it was not reached.

    Sources: Young, Iterative Solution of Large Linear Systems (1971); Adams & Ortega, ICPP (1982) 53 (colours).

    Raises PlanningError for declarations without residuals, with rates, or whose residuals do not read their own point;
    RunError where `until` is not reached or values are no longer finite.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise DeclarationError(f"parameters= takes a dict of parameters by name, got {parameters!r}.")
    plan = replace(make_plan(fields, {**(parameters or {}), **keywords}, None, None), assembly=ASSEMBLY)
    _check_steady(plan)
    operator, arrays = prepare_operator(plan)
    assert operator.stage is not None
    _check_method(method)
    sweeps, every, until = _check_ends(sweeps, every, until)
    factor = _factor(operator, method, omega)
    base = read_start(operator, start.last if isinstance(start, Solution) else start)
    axes, masks = plan.problem.scope.grid.space, plan.problem.store.masks
    structure = plan_relaxation(plan.structure, operator.stage, axes, method, masks)
    arrays = replace(arrays, consts=[rule.consts for rule in structure.rules])
    found, reached = _sweep(operator, structure, arrays, base, factor, (sweeps, every, until))
    concrete = not isinstance(found.residual, Tracer)
    values = found.fields
    if until is not None and not concrete:
        values = {name: _spoiled(one, reached) for name, one in values.items()}
    count = len(structure.phases[0].stages) - len(operator.stage.inner)
    return _solution(
        plan, operator, arrays, values, found, reached, Relaxation(method, describe_sweep(structure, count))
    )


def _sweep(
    operator: Operator, structure: Structure, arrays: Arrays, base: Any, factor: jax.Array, ends: tuple[int, int, Any]
) -> tuple[Any, jax.Array]:
    """What the sweeps gave, and whether they reached what was asked for; refused where it can be told that they did
    not."""
    sweeps, every, until = ends
    if until is None:
        found, reached = relax_for(operator, structure, sweeps, every, arrays, base, factor), jnp.asarray(False)
    else:
        goal = jnp.asarray(until, _real_dtype(operator))
        found = relax_until(operator, structure, sweeps, every, arrays, base, factor, goal)
        reached = found.residual <= goal
        found = found._replace(fields=forwards_alone(BACK, found.fields))
    if not isinstance(found.residual, Tracer):
        _check_result(operator, found, reached, until)
    return found, reached


def _solution(
    plan: Plan, operator: Operator, arrays: Any, values: Any, found: Any, reached: Any, relaxation: Relaxation
) -> Solution:
    stage = operator.stage
    assert stage is not None
    reasons = (f"{relaxation!r}: {relaxation.order}",)
    shown = replace(
        stage, solver=relaxation, linear=relaxation, outline=operator.outline, affine=operator.affine, reasons=reasons
    )
    phase = replace(plan.structure.phases[-1], stages=(shown,))
    shown_plan = replace(plan, structure=replace(plan.structure, phases=(phase,)))
    hidden = hidden_points(plan.structure, operator.axes, arrays)
    finals = {}
    for name, one in values.items():
        array = mark_holes(plan, name, one)
        finals[name] = jnp.where(hidden[name], jnp.asarray(jnp.nan, array.dtype), array) if name in hidden else array
    zero = jnp.zeros((), found.residual.dtype)
    report = Report(found.sweeps, found.residual, reached, found.history, zero)
    log = Log(jnp.asarray(-1, jnp.int32), found.sweeps, zero, report)
    return Solution(shown_plan, LastLevel(finals, False), finals, logs={shown: log})


def _real_dtype(operator: Operator) -> Any:
    """The real dtype of a system's norms."""
    dtypes = [np.dtype(operator.structure.array(name).dtype) for name in operator.fields]
    return jnp.finfo(np.result_type(*dtypes)).dtype


def _spoiled(array: jax.Array, good: jax.Array) -> jax.Array:
    """nan where what was asked for was not reached."""
    return array + jnp.where(good, 0.0, jnp.nan).astype(array.real.dtype).astype(array.dtype)


def _check_steady(plan: Plan) -> None:
    timed = plan.problem.scope.grid.time is not None
    solved = any(isinstance(stage, Solve) for phase in plan.structure.phases for stage in phase.stages)
    if timed or not solved:
        what = "the grid has a time axis" if timed else "no rule is a residual"
        raise PlanningError(
            f"fd.relax sweeps over residuals on a grid without time, and {what}. "
            + ("March with fd.solve." if timed else "Give the equation as u[...] = fd.residual(...).")
        )


def _check_method(method: Any) -> None:
    if method not in METHODS:
        raise DeclarationError(f"fd.relax: method= is one of {', '.join(map(repr, METHODS))}, got {method!r}.")


def _check_ends(sweeps: Any, every: Any, until: Any) -> tuple[int, int, Any]:
    if sweeps is None and until is None:
        raise DeclarationError("fd.relax wants to know when to end: sweeps=100, until=1e-6, or both.")
    for name, value in (("sweeps", MOST if sweeps is None else sweeps), ("every", every)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise DeclarationError(f"fd.relax: {name}= is a whole number from 1, got {value!r}.")
    real = isinstance(until, int | float | np.floating) and not isinstance(until, bool)
    if until is not None and not (real and 0 < until < 1):
        raise DeclarationError(f"fd.relax: until= is a number between 0 and 1, got {until!r}.")
    return int(MOST if sweeps is None else sweeps), int(every), until


def _factor(operator: Operator, method: str, omega: Any) -> jax.Array:
    if omega is None:
        steps = max(n for name in operator.fields for n in operator.structure.array(name).shape) - 1
        omega = 2 / (1 + sin(pi / max(steps, 2))) if method == "sor" else 1.0
    if isinstance(omega, bool | str) or np.ndim(omega) or not hasattr(omega, "__float__"):
        raise DeclarationError(f"fd.relax: omega= is one number, got {omega!r}.")
    if not isinstance(omega, Tracer) and not 0 < float(omega) < 2:
        raise DeclarationError(f"fd.relax: omega= lies between 0 and 2, got {omega!r}.")
    return jnp.asarray(omega, _real_dtype(operator))


def _check_result(operator: Operator, found: Any, reached: Any, until: Any) -> None:
    names = ", ".join(f"`{name}`" for name in operator.fields)
    size, count = float(found.residual), int(found.sweeps)
    if not np.isfinite(size):
        raise RunError(
            f"The sweeps over {names} did not stay finite ({count} were done). Where the coefficient of the point "
            f"itself (the diagonal) is zero there is no update; where it is small beside the others sweeps "
            f"diverge: take a smaller omega=, or fd.solve."
        )
    if until is not None and not bool(reached):
        raise RunError(
            f"{count} sweeps over {names} brought the residual to {size:.3g} of what it was, not to {until:g}. Allow "
            f'more sweeps=, take method="sor", or fd.solve.'
        )

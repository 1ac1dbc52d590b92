"""`fd.manufactured`: the order of accuracy that a declaration shows on an exact solution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._solve import solve
from ..errors import DeclarationError, PlanningError
from ..field import Field, Rate, Residual
from ..grid import Grid
from ..pictures import convergence
from ..planning import Plan, final, in_magnitudes, make_plan
from ..solution import Solution
from ._analyse import modified_of, symbol_of
from ._exact import ReadByHand, World, to_exact
from ._linearise import Site
from ._modified import Equation, Modified
from ._refine import refined_field, refined_grid
from ._rules import Target, asked_names, solved_by


@dataclass(frozen=True)
class Manufactured:
    """Errors at the final time on a series of grids, and the orders they show: `print` gives a table.

    `sizes` are the points of the first axis; `max_errors["u"]` and `l1_errors["u"]` (means of |error|) one number a
    grid; `orders["u"]` and `l1_orders["u"]` one a pair of neighbouring grids, the finest last.
    """

    sizes: tuple[int, ...]
    factors: tuple[float, ...] = field(repr=False)
    max_errors: Mapping[str, tuple[float, ...]]
    l1_errors: Mapping[str, tuple[float, ...]]

    @property
    def orders(self) -> dict[str, tuple[float, ...]]:
        """Observed orders in the maximum norm."""
        return {name: self._orders(errors) for name, errors in self.max_errors.items()}

    @property
    def l1_orders(self) -> dict[str, tuple[float, ...]]:
        """Observed orders of the mean error."""
        return {name: self._orders(errors) for name, errors in self.l1_errors.items()}

    def _orders(self, errors: Sequence[float]) -> tuple[float, ...]:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(np.divide(errors[:-1], errors[1:])) / np.log(np.divide(self.factors[1:], self.factors[:-1]))
        return tuple(float(order) for order in found)

    def plot(self, *, order: Any = None, ax: Any = None) -> Any:
        """Greatest and mean errors over the spacing, 1 on the coarsest grid; returns the Figure.

        `order` draws a line of that slope.
        """
        curves = {f"{name}, greatest": errors for name, errors in self.max_errors.items()}
        curves |= {f"{name}, mean": errors for name, errors in self.l1_errors.items()}
        steps = [self.factors[0] / factor for factor in self.factors]
        return convergence(steps, curves, order=order, label="Δx / coarsest Δx", ax=ax)

    def __str__(self) -> str:
        lines = []
        for name in self.max_errors:
            lines.append(f"{name:>8}  {'max error':>10}  {'order':>5}  {'L1 error':>10}  {'order':>5}")
            columns = zip(
                self.sizes,
                self.max_errors[name],
                ("", *(f"{order:.2f}" for order in self.orders[name])),
                self.l1_errors[name],
                ("", *(f"{order:.2f}" for order in self.l1_orders[name])),
                strict=True,
            )
            lines += [f"{n:>8}  {a:>10.3e}  {p:>5}  {b:>10.3e}  {q:>5}" for n, a, p, b, q in columns]
        return "\n".join(lines)


def manufactured(
    fields: Any,
    exact: Any,
    /,
    *,
    refine: Any = (1, 2, 4),
    step_power: Any = 1,
    stepper: Any = None,
    parameters: Any = None,
    **keywords: Any,
) -> Manufactured:
    """Solves the declared problem on a series of grids with data that make `exact` its solution; tells the orders.

    `fd.manufactured(u, lambda t, x: jnp.sin(x - t), c=1.0)`

    Arguments: `fields` and parameters as for `solve`; `exact`, a JAX function of the axes' names, or a dict of such by
    field; `refine`, factors by which the declared grid is refined, coarse to fine; `step_power` m, Δt ∝ Δxᵐ; `stepper`.

    Rates get the source ∂(exact)/∂t − f(exact), where f is the rule with its operators as those of calculus (each
    view's method `exact`), and residuals −f(exact); boundary conditions get the data of `exact` at the wall, and values
    assigned to points become those of `exact`. Rules that read neighbours by hand have their equation from their
    weights, which are then constant (see `fd.analyse`); to plain ones the source is added in the middle of the levels
    they read: where that costs them an order (Lax–Wendroff), take an `exact` that solves the equation by itself.
    Stretched axes are refined along the smooth mapping i ↦ x through their points. Regions by position keep their
    positions, so write such as hold on every grid: `u[0]`, `u[1:, 1:-1]`, `u[dict(x=[0, -1])]`, `fd.where(...)`.

    Source: Roache, J. Fluids Eng. 124 (2002) 4. Raises PlanningError where a rule has no exact counterpart or a
    condition no exact data.
    """
    given = {**(parameters or {}), **keywords}
    plan = make_plan(fields, given, stepper, None)
    if plan.problem.units is not None:  # checked now; exact solutions are functions of magnitudes
        fields, given = in_magnitudes(plan.problem)
        plan = make_plan(fields, given, stepper, None)
    factors, power = _to_series(refine, step_power)
    dtypes = plan.problem.scope.dtypes
    solutions = {
        name: to_exact(one, name, plan.problem.scope.grid, dtypes[name]) for name, one in _by_field(plan, exact).items()
    }
    own = any(isinstance(each.rule, Rate | Residual) for one in plan.problem.fields for each in one.assignments)
    targets = [_target(plan, solutions, None if own else _equation(plan))]
    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in plan.problem.names}
    sizes = []
    for factor in factors:
        grid = refined_grid(plan.problem.scope.grid, factor, power)
        try:
            found = _run(plan, targets[-1], grid, stepper, given)
        except ReadByHand:
            targets.append(_target(plan, solutions, _equation(plan)))
            found = _run(plan, targets[-1], grid, stepper, given)
        sizes.append(grid.space_axis(grid.space[0]).num)
        for name in errors:
            errors[name].append(_errors(found, name, solutions[name], grid))
    maxima = {name: tuple(a for a, _ in pairs) for name, pairs in errors.items()}
    means = {name: tuple(b for _, b in pairs) for name, pairs in errors.items()}
    return Manufactured(tuple(sizes), factors, maxima, means)


def _to_series(refine: Any, step_power: Any) -> tuple[tuple[float, ...], float]:
    """The factors of refinement and the power of the time step, checked."""
    factors = list(refine) if isinstance(refine, Sequence) and not isinstance(refine, str) else []
    fine = len(factors) >= 2 and all(isinstance(f, int | float) and f > 0 for f in factors)
    if not fine or any(b <= a for a, b in pairwise(factors)):
        raise DeclarationError(
            f"fd.manufactured: refine= takes two or more growing factors, as in (1, 2, 4); got {refine!r}."
        )
    if isinstance(step_power, bool) or not isinstance(step_power, int | float) or step_power < 0:
        raise DeclarationError(f"fd.manufactured: step_power= takes a number m for Δt ∝ Δxᵐ, got {step_power!r}.")
    return tuple(float(factor) for factor in factors), float(step_power)


def _by_field(plan: Plan, exact: Any) -> dict[str, Any]:
    names = plan.problem.names
    solutions = dict(exact) if isinstance(exact, Mapping) else {names[0]: exact}
    if set(solutions) != set(names):
        raise DeclarationError(
            f"fd.manufactured: exact solutions are wanted for {', '.join(names)}, got "
            f"{', '.join(map(str, solutions)) if isinstance(exact, Mapping) else 'one function'}. Give a dict by field."
        )
    return solutions


def _target(plan: Plan, solutions: dict[str, Any], equation: tuple[Equation, int] | None) -> Target:
    world = World(plan.problem.scope.grid, solutions, "the rule")
    found, depth = equation or (None, 0)
    return Target(world, plan.problem.scope.layouts, found, depth)


def _equation(plan: Plan) -> tuple[Equation, int] | None:
    """The equation that rules with constant weights are consistent with, and how many levels they reach back."""
    if plan.problem.scope.grid.time is None:
        return None
    site = Site({}, {})
    symbol = symbol_of(plan, site)
    found = modified_of(plan, site, symbol)
    if not isinstance(found, Modified):
        raise PlanningError(f"fd.manufactured: the rules have no equation that could be told: {found}.")
    return found.exact, symbol.depth


def _run(plan: Plan, target: Target, grid: Grid, stepper: Any, given: Mapping[str, Any]) -> Solution:
    fields = [refined_field(one, grid, partial(solved_by, target, one.name)) for one in plan.problem.fields]
    return solve(fields, stepper=stepper, save=None if grid.time is None else final(), parameters=_used(fields, given))


def _used(fields: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the changed rules still ask for."""
    asked: set[str] = set()
    for one in fields:
        for own in one.assignments:
            asked |= asked_names(own)
    return {name: value for name, value in given.items() if name in asked}


def _errors(found: Solution, name: str, exact: Any, grid: Grid) -> tuple[float, float]:
    """The largest and the mean error at the last level; points inside holes do not count."""
    layout = next(one.layout for one in found.plan.problem.fields if one.name == name)
    lines = [
        grid.space_axis(axis).positions(axis in layout.faces, 0, grid.space_axis(axis).size(axis in layout.faces))
        for axis in grid.space
    ]
    axes = jnp.meshgrid(*(jnp.asarray(line) for line in lines), indexing="ij")
    point = tuple(axes) if grid.time is None else (jnp.full_like(axes[0], grid.time.stop), *axes)
    error = np.abs(np.asarray(found.last[name]) - np.asarray(jnp.broadcast_to(exact(point), axes[0].shape)))
    return float(np.nanmax(error)), float(np.nanmean(error))

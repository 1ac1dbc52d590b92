"""How systems of equations were solved, for people."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..errors import FdsolveWarning, RunError
from ..planning import Plan, Solve, Structure
from ..solvers import AbstractNonlinearSolver
from ..stepping import Log, solves_of

INCOMPATIBLE = 0.02
"""Relative size of what no solution can give, from which data are wrong, and not only discretised."""
NOTED = 1e-8


@dataclass(frozen=True, eq=False)
class Solved:
    """How a system was solved: `fields` together; `iterations` over all levels; `residual` relative, at the last level;
    `converged`; `history`, the residual after each iteration there (nan after the last); `solver`."""

    fields: tuple[str, ...]
    iterations: jax.Array
    residual: jax.Array
    converged: jax.Array
    history: jax.Array
    solver: Any

    @classmethod
    def of(cls, stage: Solve, log: Log) -> "Solved":
        """From what a run kept."""
        report = log.report
        return cls(stage.fields, log.iterations, report.residual, report.converged, report.history, stage.solver)


def check_logs(plan: Plan, logs: Sequence[Log], structure: Structure) -> None:
    """Refuses a run in which equations were not solved; warns of data that had to be made consistent."""
    for stage, log in zip(solves_of(structure), logs, strict=True):
        names, defect = ", ".join(f"`{name}`" for name in stage.fields), float(log.defect)
        rules = "; ".join(dict.fromkeys(piece.label for piece in stage.residuals))
        if defect > INCOMPATIBLE:
            raise RunError(
                f"The equations for {names} ({rules}) have no solution{_where(plan, log)}: nothing fixes the mean, and "
                f"the data do not balance (by {defect:.2g} of their size). Make the sources sum to the flux through "
                f"the walls, or give a value at a wall, as in {stage.fields[0]}[dict("
                f"{plan.problem.scope.grid.space[0]}=0)] = fd.boundary.Dirichlet(0.0)."
            )
        if int(log.failed) >= 0:
            raise RunError(_not_solved(plan, stage, log, names, rules))
        if defect > NOTED:
            warnings.warn(
                f"The data of the equations for {names} did not quite balance and were made to: {defect:.2g} of their "
                f"size was taken out evenly.",
                FdsolveWarning,
                stacklevel=5,
            )


def _where(plan: Plan, log: Log) -> str:
    time = plan.problem.scope.grid.time
    if time is None or int(log.failed) < 0:
        return ""
    return f" at level {int(log.failed)}, t = {float(time.points[int(log.failed)]):g}"


def _not_solved(plan: Plan, stage: Solve, log: Log, names: str, rules: str) -> str:
    report = log.report
    residual, count = float(report.residual), int(report.iterations)
    history = np.asarray(report.history)
    best = np.nanmin(history) if np.isfinite(history).any() else np.nan
    what = "is not finite" if not np.isfinite(residual) else f"is {residual:.3g}"
    nonlinear = isinstance(stage.solver, AbstractNonlinearSolver)
    explain = getattr(stage.linear, "explain", None)
    reason = explain(report) if explain is not None and not nonlinear else ""
    other = "GMRES" if count <= 1 else "Direct"
    singular = f"look whether a boundary condition is missing, or take solver=fd.solvers.{other}()"
    advice = (
        "Start nearer (fd.residual(f, guess=...)), go there by steps (fd.solvers.Continuation), or look whether there "
        "is a solution"
        if nonlinear
        else f"The matrix may be singular or indefinite: {singular}"
    )
    if nonlinear and count >= getattr(stage.solver, "max_steps", np.inf):
        advice = f"It used up max_steps={count}: allow more if the residual falls. {advice}"
    if not np.isfinite(residual) and not np.isfinite(best):
        reads = "hat the equations read is not finite: look whether the march is unstable, and at divisions and roots"
        in_one = not nonlinear and count <= 1  # a method without iterations says no more of a singular matrix
        advice, reason = (f"The matrix is singular: {singular}; or w{reads}" if in_one else f"W{reads}"), ""
    return (
        f"The equations for {names} ({rules}) were not solved{_where(plan, log)}: after {count} "
        f"iteration{'s' * (count != 1)} of {stage.solver!r} the relative residual {what}"
        + (f" (least {best:.3g})" if np.isfinite(best) else "")
        + f". {reason + ' ' if reason else ''}{advice}."
    )

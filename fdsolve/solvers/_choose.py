"""Which solver a system gets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..errors import PlanningError
from ._banded import Banded
from ._base import AbstractLinearSolver, LinearSystem, Report, SystemOutline
from ._dense import Dense
from ._direct import Direct
from ._krylov import GMRES
from ._matrix import Vector
from ._multigrid import Multigrid
from ._nonlinear import AbstractNonlinearSolver, Newton
from ._transform import Transform

SMALL = 512
"""Points up to which dense elimination is no dearer than anything else."""
MANY_FLAT, MANY_DEEP = 20_000, 5_000
"""Points from which multigrid is faster than sparse elimination, in two axes and in three."""
MANY_FACTORED = 1_000_000
"""Points up to which sparse elimination fits into memory, should multigrid fail."""


@dataclass(frozen=True)
class Choice:
    """A solver, the one of the linear systems in it, and why."""

    solver: AbstractLinearSolver | AbstractNonlinearSolver
    linear: AbstractLinearSolver
    reasons: tuple[str, ...]


def choose(outline: SystemOutline, affine: bool, asked: Any, what: str) -> Choice:
    """The solver for a system: the one asked for, or the first that serves it.

    Raises PlanningError where the one asked for does not, or none does.
    """
    wanted = asked.linear if isinstance(asked, AbstractNonlinearSolver) else asked
    refused: list[str] = []
    if wanted is not None:
        reason = wanted.refuse(outline)
        if reason is not None:
            raise PlanningError(
                f"The {what} is not served by {wanted!r}: {reason}. Leave the choice to the plan, without solver=."
            )
        linear, why = wanted, "as asked"
    else:
        linear, why = _first(outline, refused, what)
    solver: Any = linear if affine else asked if isinstance(asked, AbstractNonlinearSolver) else Newton()
    name = linear.describe() if affine else f"{solver!r} with {linear.describe()}"
    return Choice(solver, linear, (f"{name} ({why})", *refused))


def _first(outline: SystemOutline, refused: list[str], what: str) -> tuple[AbstractLinearSolver, str]:
    for candidate, why in _candidates(outline):
        reason = candidate.refuse(outline)
        if reason is None:
            return candidate, why
        refused.append(f"refused {type(candidate).__name__}: {reason}")
    raise PlanningError(f"No solver serves the {what}: {'; '.join(refused)}.")


def _candidates(outline: SystemOutline) -> Sequence[tuple[AbstractLinearSolver, str]]:
    """Solvers in the order in which they are tried, and why each is taken."""
    if outline.layout is None:
        return [(GMRES(), "rows can depend on points anywhere: the matrix is not known, only what it does")]
    size, direct = outline.layout.size, Direct()
    few = MANY_FLAT if outline.layout.ndim < 3 else MANY_DEEP
    found: list[tuple[AbstractLinearSolver, str]] = [
        (Banded(), "points are coupled along one axis"),
        (Transform(), "constant coefficients on a box"),
    ]
    if size <= SMALL:
        found.append((Dense(), "small"))
    if size <= few:
        found.append((direct, "few enough points for sparse elimination"))
    preconditioned = GMRES(preconditioner=Multigrid())
    if size <= MANY_FACTORED and direct.refuse(outline) is None:
        found.append((Either(preconditioned, direct), "many points"))
    found += [(preconditioned, "many points"), (direct, "other systems"), (GMRES(), "nothing else serves")]
    return found


@dataclass(frozen=True)
class Either(AbstractLinearSolver):
    """A solver, and another for the case that it does not converge."""

    first: AbstractLinearSolver
    otherwise: AbstractLinearSolver

    def refuse(self, outline: SystemOutline) -> str | None:
        return self.first.refuse(outline) or self.otherwise.refuse(outline)

    def prepare(self, system: LinearSystem) -> Any:
        return self.first.prepare(system)

    def solve(self, system: LinearSystem, prepared: Any, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        x, report = self.first.solve(system, prepared, rhs, guess)
        found = (x, Report(*map(jnp.asarray, report)))

        def again(rhs: Vector) -> tuple[Vector, Report]:
            x, report = self.otherwise.solve(system, self.otherwise.prepare(system), rhs, guess)
            like = zip(report, found[1], strict=True)
            return x, Report(*(jnp.asarray(new).astype(jnp.asarray(old).dtype) for new, old in like))

        return lax.cond(found[1].converged, lambda _: found, again, rhs)

    def describe(self) -> str:
        return f"{self.first.describe()}, {self.otherwise.describe()} where it does not converge"

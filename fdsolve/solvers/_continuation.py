"""Continuation: a nonlinear system solved step by step along a parameter, each step from the last solution."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import DeclarationError
from ._base import AbstractLinearSolver, Report
from ._matrix import Vector
from ._nonlinear import AbstractNonlinearSolver, LinearSolve, Newton, Residual


@dataclass(frozen=True)
class Continuation(AbstractNonlinearSolver):
    """F(x, p₁) = 0, F(x, p₂) = 0, … up to the given value of a parameter p, each started from the solution before.

    `parameter` is its name; `values` are those on the way, or, with `start` and `steps`,
    pₖ = start + (p − start) k/steps for k = 0 … steps − 1. The value that is given to `solve` comes last, in any case.
    `newton` is the method at each of them, with its tolerance and linear solver. Derivatives are those of the last
    solution alone. Rules evaluated before the system see the last value throughout. At a fold, where the solution ends,
    no step is small enough. Source: Allgower & Georg, Numerical Continuation Methods (1990), section 2.1 (embedding).

    >>> Continuation("Re", values=(10.0, 100.0)).targets(1000.0)
    (10.0, 100.0)
    >>> Continuation("Re", start=0.0, steps=4).targets(1000.0)
    (0.0, 250.0, 500.0, 750.0)
    """

    parameter: Any
    values: Any = ()
    start: Any = None
    steps: Any = None
    newton: Any = field(default_factory=Newton)

    def __post_init__(self) -> None:
        if not isinstance(self.parameter, str) or not self.parameter:
            raise DeclarationError(f"Continuation takes the name of a parameter first, got {self.parameter!r}.")
        if isinstance(self.values, list):
            object.__setattr__(self, "values", tuple(self.values))
        if not isinstance(self.values, tuple) or not all(map(_is_number, self.values)):
            raise DeclarationError(f"Continuation: values= is a tuple of numbers, got {self.values!r}.")
        stepped = self.start is not None or self.steps is not None
        if stepped == bool(self.values):
            raise DeclarationError(
                "Continuation takes the values on the way, values=(10.0, 100.0), or start= and steps=; give one of "
                "them."
            )
        if stepped and not (_is_number(self.start) and _is_count(self.steps)):
            raise DeclarationError(
                f"Continuation: start= is a number and steps= a whole number from 1, got start={self.start!r}, "
                f"steps={self.steps!r}."
            )
        if not isinstance(self.newton, AbstractNonlinearSolver) or isinstance(self.newton, Continuation):
            raise DeclarationError(f"Continuation: newton= takes fd.solvers.Newton() or Picard(), got {self.newton!r}.")

    @property
    def linear(self) -> AbstractLinearSolver | None:  # type: ignore[override]
        """The solver of the linear systems."""
        return self.newton.linear

    def targets(self, last: Any) -> tuple[Any, ...]:
        """The values on the way to the last one."""
        if self.values:
            return self.values
        assert self.start is not None and self.steps is not None
        return tuple(self.start + (last - self.start) * (k / self.steps) for k in range(self.steps))

    def key(self, wholes: Mapping[str, Any]) -> str:
        """The name of the parameter's array among those of a run.

        Raises DeclarationError where it is not a number that the rules read.
        """
        name = f"parameter {self.parameter}"
        if name not in wholes or jnp.shape(wholes[name]) != ():
            raise DeclarationError(
                f"{self!r} goes to a parameter by steps, and `{self.parameter}` is not given as a real number, as in "
                f"solve(u, solver=..., {self.parameter}=100.0)."
            )
        return name

    def solve(self, residual: Residual, guess: Vector, linear_solve: LinearSolve) -> tuple[Vector, Report]:
        """The last step."""
        return self.newton.solve(residual, guess, linear_solve)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def kept_finite(x: Vector, before: Vector) -> Vector:
    """x, or where it is not finite what was there before."""
    good = jnp.all(jnp.stack([jnp.all(jnp.isfinite(one)) for one in x.values()]))
    return jax.tree.map(lambda new, old: jnp.where(good, new, old), x, before)

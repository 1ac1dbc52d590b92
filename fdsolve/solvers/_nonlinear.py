"""Nonlinear systems: Newton's method with a line search, and Picard's iteration."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import DeclarationError
from ._base import HISTORY, AbstractLinearSolver, Report
from ._matrix import Vector, norm

Residual = Callable[[Vector], Vector]
LinearSolve = Callable[[Residual, Vector, Vector], tuple[Vector, Report]]
"""(J, rhs, point) ↦ x with J x = rhs, where J is the derivative at a point."""

MAX_HALVINGS = 12


class AbstractNonlinearSolver(ABC):
    """A method for F(x) = 0; `linear` solves the linear systems in it (None: chosen as for a linear problem)."""

    linear: AbstractLinearSolver | None

    @abstractmethod
    def solve(self, residual: Residual, guess: Vector, linear_solve: LinearSolve) -> tuple[Vector, Report]:
        """x with F(x) = 0, and how the iteration went."""


@dataclass(frozen=True)
class Newton(AbstractNonlinearSolver):
    """Newton's method with exact derivatives: J(xₖ) δ = −F(xₖ), xₖ₊₁ = xₖ + s δ.

    The step s is halved until ‖F‖ falls (Armijo's condition with 10⁻⁴; Dennis & Schnabel 1983, section 6.3).
    `tolerance`: it ends where ‖F‖ ≤ tolerance · (‖F(x₀)‖ + ‖J x₀‖); `max_steps`; `linear`, a solver for the linear
    systems (with an iterative one, Newton–Krylov). It has also arrived where a step is rounding, 10⁴ε of ‖x‖: the next
    would be its square. A larger step that no halving makes better ends it as not converged.
    """

    tolerance: float = 1e-10
    max_steps: int = 50
    linear: AbstractLinearSolver | None = None

    def __post_init__(self) -> None:
        check_iteration("Newton", self.tolerance, self.max_steps)
        _check_linear("Newton", self.linear)

    def solve(self, residual: Residual, guess: Vector, linear_solve: LinearSolve) -> tuple[Vector, Report]:
        return _iterate(residual, guess, linear_solve, self.tolerance, self.max_steps, _line_search, 1e4)


@dataclass(frozen=True)
class Picard(AbstractNonlinearSolver):
    """Damped Newton's iteration with the derivative at the first guess: the matrix is made once (chord method).

    `damping` scales every step. Converges linearly, and only near the solution; each step is cheap. Source: Kelley,
    Iterative Methods for Linear and Nonlinear Equations (1995), section 5.4.
    """

    tolerance: float = 1e-10
    max_steps: int = 200
    damping: float = 1.0
    linear: AbstractLinearSolver | None = None

    def __post_init__(self) -> None:
        check_iteration("Picard", self.tolerance, self.max_steps)
        _check_linear("Picard", self.linear)
        if not 0 < self.damping <= 1:
            raise DeclarationError(f"Picard: damping= is a number above 0, at most 1; got {self.damping!r}.")

    def solve(self, residual: Residual, guess: Vector, linear_solve: LinearSolve) -> tuple[Vector, Report]:
        damping = self.damping

        def at_guess(jacobian: Residual, rhs: Vector, point: Vector) -> tuple[Vector, Report]:
            fixed = jax.linearize(residual, guess)[1]
            return linear_solve(fixed, rhs, guess)

        def damped(residual: Residual, x: Vector, step: Vector, size: Any) -> tuple[Vector, Vector, Any]:
            new = {name: x[name] + damping * step[name] for name in x}
            return new, residual(new), jnp.asarray(True)

        return _iterate(residual, guess, at_guess, self.tolerance, self.max_steps, damped, 1e1)


def _iterate(
    residual: Residual,
    guess: Vector,
    linear_solve: LinearSolve,
    tolerance: float,
    max_steps: int,
    search: Any,
    roundings: float,
) -> tuple[Vector, Report]:
    """Steps until F is small, or a step is no more than so many roundings of x."""
    value, push = jax.linearize(residual, guess)
    first = norm(value)
    scale = first + norm(push(guess))
    history = jnp.full((HISTORY,), jnp.nan, first.dtype)
    goal = tolerance * jnp.where(scale > 0, scale, jnp.ones_like(scale))

    least = roundings * jnp.finfo(first.dtype).eps

    def goes_on(state: Any) -> Any:
        _, _, size, count, alive, settled, _ = state
        return (size > goal) & (count < max_steps) & alive & ~settled

    def body(state: Any) -> Any:
        x, value, size, count, _, _, history = state
        jacobian = jax.linearize(residual, x)[1]
        step, _ = linear_solve(jacobian, {name: -one for name, one in value.items()}, x)
        settled = (norm(step) <= least * norm(x)) & jnp.isfinite(norm(step))
        new, found, alive = search(residual, x, step, size)
        x = {name: jnp.where(alive, new[name], x[name]) for name in x}
        value = {name: jnp.where(alive, found[name], value[name]) for name in value}
        size = norm(value)
        history = history.at[jnp.minimum(count, HISTORY - 1)].set(size / scale)
        return x, value, size, count + 1, alive & jnp.isfinite(size), settled, history

    state = (guess, value, first, jnp.asarray(0), jnp.isfinite(first), jnp.asarray(False), history)
    x, _, size, count, _, settled, history = lax.while_loop(goes_on, body, state)
    relative = size / jnp.where(scale > 0, scale, jnp.ones_like(scale))
    return x, Report(count, relative, (size <= goal) | settled, history)


def _line_search(residual: Residual, x: Vector, step: Vector, size: Any) -> tuple[Vector, Vector, Any]:
    def at(share: Any) -> tuple[Vector, Vector, Any]:
        new = {name: x[name] + share.astype(x[name].dtype) * step[name] for name in x}
        value = residual(new)
        return new, value, norm(value)

    def too_large(state: Any) -> Any:
        share, _, _, found, count = state
        return ~(found <= (1 - 1e-4 * share) * size) & (count < MAX_HALVINGS)

    def halve(state: Any) -> Any:
        share, _, _, _, count = state
        return (share / 2, *at(share / 2), count + 1)

    one = jnp.ones_like(size)
    share, new, value, found, _ = lax.while_loop(too_large, halve, (one, *at(one), jnp.asarray(0)))
    return new, value, found <= (1 - 1e-4 * share) * size


def check_iteration(name: str, tolerance: Any, most: Any) -> None:
    """Refuses tolerances and counts that are none."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
        raise DeclarationError(f"{name}: tolerance= is a number between 0 and 1, got {tolerance!r}.")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise DeclarationError(f"{name}: the largest number of iterations is a whole number from 1, got {most!r}.")


def _check_linear(name: str, linear: Any) -> None:
    if linear is not None and not isinstance(linear, AbstractLinearSolver):
        raise DeclarationError(f"{name}: linear= takes a linear solver such as fd.solvers.Direct(), got {linear!r}.")

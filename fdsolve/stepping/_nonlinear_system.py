"""Nonlinear systems solved for the fields they determine; their derivatives are linear systems."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..solvers import AbstractNonlinearSolver, Report, Vector
from ._linear_system import masked, solve_linear

Free = Mapping[str, jax.Array]
"""Where values are unknown, by field."""


def solve_nonlinear(
    solver: AbstractNonlinearSolver,
    linear: Any,
    outline: Any,
    residual: Callable[[Vector], Vector],
    guess: Vector,
    free: Free,
) -> tuple[Vector, Report]:
    """x with F(x) = 0 on the unknown points; its derivative by the implicit function theorem."""
    if outline.parts is not None:
        parts, alone = outline.parts, replace(outline, parts=None)
        inner, start = parts.through(residual), parts.split(guess)
        x, report = solve_nonlinear(solver, linear, alone, inner, start, parts.of_both(free))
        return parts.join(x), report

    def with_identity(x: Vector) -> Vector:
        found = residual(x)
        return {name: jnp.where(free[name], found[name], x[name]) for name in x}

    closed = jax.make_jaxpr(with_identity)(guess)
    names = tuple(sorted(guess))
    root = _Root(solver, linear, outline, closed.jaxpr, names)
    x, (count, size, converged, history, defect) = _solve_root(root, guess, dict(free), list(closed.consts))
    return x, Report(count.astype(int), size, converged > 0, history, defect)


@dataclass(frozen=True, eq=False)
class _Root:
    """F(x) = 0: how it is solved, and F as a jaxpr of what it is made of and x; x at points that are not unknown."""

    solver: AbstractNonlinearSolver
    linear: Any
    outline: Any
    jaxpr: jex.Jaxpr
    names: tuple[str, ...]

    def value(self, consts: Sequence[Any], x: Vector) -> Vector:
        """F(x)."""
        run = jex.jaxpr_as_fun(jex.ClosedJaxpr(self.jaxpr, list(consts)))
        return dict(zip(self.names, run(*(x[name] for name in self.names)), strict=True))


@own_derivative
def _solve_root(root: _Root, guess: Vector, free: Free, consts: list[Any]) -> tuple[Vector, list[jax.Array]]:
    """x, and the report as real numbers."""
    real = jnp.finfo(next(iter(guess.values())).dtype).dtype

    def linear_solve(jacobian: Callable[[Vector], Vector], rhs: Vector, point: Vector) -> tuple[Vector, Report]:
        zeros = {name: jnp.zeros_like(one) for name, one in rhs.items()}
        return solve_linear(root.linear, root.outline, jacobian, rhs, zeros, free, spoils=False)

    x, report = root.solver.solve(lambda x: masked(root.value(consts, x), free), guess, linear_solve)
    return x, [jnp.asarray(one).astype(real) for one in report]


@_solve_root.defjvp
def _push_root(root: _Root, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """∂x = −(∂F/∂x)⁻¹ ∂F for what F is made of; the report has no derivative."""
    guess, free, consts = primals
    x, report = _solve_root(root, guess, free, consts)
    moving = [place for place, one in enumerate(tangents[2]) if moves(one)]
    still = [SymbolicZero(jax.typeof(one).to_tangent_aval()) for one in report]
    if not moving:
        return (x, report), ({name: SymbolicZero(jax.typeof(one).to_tangent_aval()) for name, one in x.items()}, still)

    def of_consts(*some: Any) -> Vector:
        return root.value(replaced(consts, moving, some), x)

    change = jax.jvp(of_consts, tuple(consts[k] for k in moving), tuple(tangents[2][k] for k in moving))[1]
    push = jax.linearize(lambda x: root.value(consts, x), x)[1]
    rhs = {name: -one for name, one in masked(change, free).items()}
    zeros = {name: jnp.zeros_like(one) for name, one in rhs.items()}
    along, _ = solve_linear(root.linear, root.outline, push, rhs, zeros, free)
    return (x, report), (along, still)

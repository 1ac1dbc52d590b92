"""Linear systems solved for the fields they determine: values, derivatives in both directions, and how it went."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import Partial

from ..solvers import LinearSystem, Report, StencilMatrix, Vector, probe
from ._null import Null, find_null


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a linear system needs besides its right-hand side: matrix, factors, null space."""

    matrix: StencilMatrix | None
    factors: Any
    null: Null | None


jax.tree_util.register_dataclass(Prepared, data_fields=["matrix", "factors", "null"], meta_fields=[])


def prepare_linear(
    solver: Any, outline: Any, apply: Callable[[Vector], Vector], free: Mapping[str, jax.Array]
) -> Prepared:
    """The matrix of a linear map, what the solver makes of it, and its null space. They have no derivatives: those of
    a solution are found by further solves."""
    if outline.parts is not None:
        parts, alone = outline.parts, replace(outline, parts=None)
        return prepare_linear(solver, alone, parts.through(apply), parts.of_both(free))

    def still(x: Vector) -> Vector:
        return lax.stop_gradient(apply(x))

    matrix = None if outline.layout is None else probe(still, outline.layout, free)
    system = _system(outline, still, matrix, free)
    factors = solver.prepare(system)
    null = find_null(solver, system, factors, free) if outline.may_float and matrix is not None else None
    return Prepared(matrix, factors, null)


def _system(
    outline: Any, apply: Callable[[Vector], Vector], matrix: StencilMatrix | None, free: Mapping[str, jax.Array]
) -> LinearSystem:
    if matrix is not None:
        return LinearSystem(outline, matrix.apply, matrix)

    def with_identity(x: Vector) -> Vector:
        found = apply({name: jnp.where(free[name], one, jnp.zeros((), one.dtype)) for name, one in x.items()})
        return {name: jnp.where(free[name], found[name], x[name]) for name in x}

    return LinearSystem(outline, with_identity, None)


def solve_linear(
    solver: Any,
    outline: Any,
    apply: Callable[[Vector], Vector],
    rhs: Vector,
    guess: Vector,
    free: Mapping[str, jax.Array],
    prepared: Prepared | None = None,
    spoils: bool = True,
) -> tuple[Vector, Report]:
    """x with `apply`(x) = rhs on the unknown points, differentiable: dx = A⁻¹(db − dA x), transposed in reverse.

    With `spoils`, x and its derivatives are nan where the solver did not get there.
    """
    if outline.parts is not None:
        parts, alone = outline.parts, replace(outline, parts=None)
        inner, right, start = parts.through(apply), parts.split(rhs), parts.split(guess)
        x, report = solve_linear(solver, alone, inner, right, start, parts.of_both(free), prepared, spoils)
        return parts.join(x), report
    fixed = lax.stop_gradient(apply) if isinstance(apply, Partial) else apply
    made = prepared if prepared is not None else lax.stop_gradient(prepare_linear(solver, outline, fixed, free))
    system = _system(outline, fixed, made.matrix, free)

    real = jnp.finfo(next(iter(rhs.values())).dtype).dtype

    def packed(x: Vector, report: Report) -> tuple[Vector, list[jax.Array]]:
        return spoiled(x, report) if spoils else x, [jnp.asarray(one).astype(real) for one in report]

    def forward(_: Any, b: Any) -> Any:
        return packed(*_deflated(solver, system, made.factors, made.null, b[0], masked(guess, free)))

    def backward(vecmat: Callable[[Any], Any], b: Any) -> Any:
        matrix = None if made.matrix is None else made.matrix.transpose()
        turned = _system(outline, lambda x: vecmat((x, b[1]))[0], matrix, free)
        null = None if made.null is None else made.null.transposed
        zeros = {name: jnp.zeros_like(one) for name, one in b[0].items()}
        x, _ = packed(*_deflated(solver, turned, solver.prepare(turned), null, b[0], zeros))
        return x, [jnp.zeros_like(one) for one in b[1]]

    def matvec(x: Any) -> Any:
        found = apply(x[0])
        return tied(({name: jnp.where(free[name], found[name], one) for name, one in x[0].items()}, x[1]))

    # The report goes along as if it were unknown too: what JAX lets come beside a solution cannot be batched.
    shapes = jax.eval_shape(forward, None, (rhs, []))[1]
    nothing = [jnp.zeros(one.shape, one.dtype) for one in shapes]
    x, kept = tied(lax.custom_linear_solve(matvec, tied((rhs, nothing)), forward, backward))
    count, size, converged, history, defect = lax.stop_gradient(kept)
    return x, Report(count.astype(int), size, converged > 0, history, defect)


def spoiled(x: Vector, report: Report) -> Vector:
    """nan where the solver did not get there: never a wrong field."""
    bad = jnp.where(report.converged, 0.0, jnp.nan)
    return {name: one + bad.astype(one.real.dtype).astype(one.dtype) for name, one in x.items()}


def tied(parts: Any) -> Any:
    """The same arrays, each as if it depended on all: JAX transposes the whole of a solve's right-hand side or none,
    and what comes out of a solve goes in when it is transposed."""
    leaves, tree = jax.tree.flatten(parts)
    real = jnp.finfo(leaves[0].dtype).dtype
    never = jnp.zeros((), bool)
    touches = [jnp.where(never, one[(0,) * one.ndim].real.astype(real), jnp.zeros((), real)) for one in leaves]
    touch = jnp.stack(touches).sum()
    return jax.tree.unflatten(tree, [one + touch.astype(one.real.dtype).astype(one.dtype) for one in leaves])


def masked(x: Vector, free: Mapping[str, jax.Array]) -> Vector:
    """The vector with zeros at points that are not unknown."""
    return {name: jnp.where(free[name], one, jnp.zeros((), one.dtype)) for name, one in x.items()}


def _deflated(
    solver: Any, system: LinearSystem, factors: Any, null: Null | None, rhs: Vector, guess: Vector
) -> tuple[Vector, Report]:
    if null is None:
        return solver.solve(system, factors, rhs, guess)
    right, defect = null.consistent(rhs)
    x, report = solver.solve(system, factors, right, guess)
    return null.with_fixed_mean(x), report._replace(defect=defect)

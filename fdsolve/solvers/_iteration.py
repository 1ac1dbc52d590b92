"""How an iteration goes on and ends: residuals, their history, and what counts as converged."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ._base import HISTORY, LinearSystem, Report
from ._matrix import StencilMatrix, Vector

STUCK = 4
"""Iterations without progress after which cycles of multigrid end."""


class Progress(NamedTuple):
    """The state of an iteration: `scale` is ‖b‖ (1 where b = 0), `target` the residual's norm at which it ends, `size`
    a bound of ‖A‖; `count`, `residual` (norm), `best`, `stuck` (iterations that brought nothing), `broken` (it cannot
    go on), `floor` (the residual is at rounding), `history`, relative."""

    scale: jax.Array
    target: jax.Array
    size: jax.Array
    count: jax.Array
    residual: jax.Array
    best: jax.Array
    stuck: jax.Array
    broken: jax.Array
    floor: jax.Array
    history: jax.Array


def length(x: Vector) -> jax.Array:
    """The Euclidean norm, by dot products, which are quick on a CPU."""
    return jnp.sqrt(sum((jnp.real(jnp.vdot(one, one)) for one in x.values()), start=_zero(x)))


def inner_product(x: Vector, y: Vector) -> jax.Array:
    """Σ conj(x) y."""
    total = None
    for name in x:
        one = jnp.vdot(x[name], y[name])
        total = one if total is None else total + one
    assert total is not None
    return total


def _zero(x: Vector) -> jax.Array:
    first = next(iter(x.values()))
    return jnp.zeros((), jnp.finfo(first.dtype).dtype)


def bound(matrix: StencilMatrix | None, like: Vector) -> jax.Array:
    """The largest sum of absolute values in a row; 0 where there is no matrix."""
    if matrix is None:
        return _zero(like)
    rows: dict[str, jax.Array] = {}
    for (row, _, offsets), values in zip(matrix.layout.blocks, matrix.values, strict=True):
        if offsets:
            sums = sum((jnp.abs(v) for v in values[1:]), start=jnp.abs(values[0]))
            rows[row] = rows[row] + sums if row in rows else sums
    return jnp.max(jnp.stack([_zero(like), *(jnp.max(r) for r in rows.values())]))


def begin(system: LinearSystem, rhs: Vector, left: Vector, tolerance: float) -> Progress:
    """Before the first iteration; `left` is b − A x of the guess."""
    scale = length(rhs)
    scale = jnp.where(scale > 0, scale, 1)
    now = length(left)
    no = jnp.asarray(False)
    history = jnp.full((HISTORY,), jnp.nan, now.dtype)
    count = jnp.zeros((), jnp.int32)
    size = bound(system.matrix, rhs)
    return Progress(scale, tolerance * scale, size, count, now, now, count, no, no, history)


def go_on(progress: Progress, most: int, patience: int = STUCK) -> jax.Array:
    """Whether another iteration is wanted."""
    done = (progress.residual <= progress.target) | progress.floor | progress.broken
    return ~done & jnp.isfinite(progress.residual) & (progress.stuck < patience) & (progress.count < most)


def record(progress: Progress, left: Vector, x: Vector) -> Progress:
    """After an iteration that left b − A x = `left`."""
    now = length(left)
    return advance(progress, now)._replace(floor=at_floor(progress, now, x))


def at_floor(progress: Progress, now: jax.Array, x: Vector) -> jax.Array:
    """Whether a residual is no larger than rounding makes it; beyond ε^¼ ‖b‖ a system counts as singular, as in
    `rounding_report`."""
    epsilon = jnp.finfo(now.dtype).eps
    rounding = 4 * epsilon * (progress.size * length(x) + progress.scale)
    return now <= jnp.minimum(rounding, float(epsilon) ** 0.25 * progress.scale)


def advance(progress: Progress, now: jax.Array) -> Progress:
    """After an iteration that left a residual of norm `now`."""
    place = jnp.minimum(progress.count, HISTORY - 1)
    history = progress.history.at[place].set(now / progress.scale)
    stuck = jnp.where(now < 0.95 * progress.best, 0, progress.stuck + 1)
    best = jnp.minimum(progress.best, now)
    return progress._replace(count=progress.count + 1, residual=now, best=best, stuck=stuck, history=history)


def to_report(progress: Progress) -> Report:
    """What the caller gets; the residual must be the true one."""
    small = (progress.residual <= progress.target) | progress.floor
    return Report(progress.count, progress.residual / progress.scale, small, progress.history)

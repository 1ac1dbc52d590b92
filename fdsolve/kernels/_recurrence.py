"""Affine recurrences along one axis by a parallel prefix: uᵢ = Σ w_k(i) uᵢ₋ₖ + b(i)."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..planning import Sweep
from ..stencil import StateRead, linear_weights
from ._level import Level, take_box, vectorise_function


def solve_recurrence(level: Level, stage: Sweep, axes: tuple[str, ...]) -> Level:
    """The level with an affine recurrence solved by `lax.associative_scan` (Blelloch 1990)."""
    (piece,) = stage.pieces
    rule, consts = level.structure.rules[piece.rule], level.arrays.consts[piece.rule]
    axis = next(a for a, w in enumerate(stage.direction) if w)
    sign = stage.direction[axis]
    inner = [
        o
        for o in rule.operands
        if isinstance(o, StateRead) and o.level == 0 and o.field == piece.field and o.offset[axis]
    ]
    inner = [o for o in inner if not any(x for a, x in enumerate(o.offset) if a != axis)]
    others = [o for o in rule.operands if o not in inner]
    taken = [level.take(operand, piece.box, axes) for operand in others]
    evaluate = rule.function(consts)
    dtype = level.current[piece.field].dtype

    def local(*values: Any) -> tuple[list[Any], Any]:
        given = dict(zip(others, values, strict=True))

        def of_reads(*reads: Any) -> Any:
            known = {**given, **dict(zip(inner, reads, strict=True))}
            return evaluate(*(known[operand] for operand in rule.operands))

        return linear_weights(of_reads, len(inner), dtype)

    found, constant = vectorise_function(local, [v for v, _ in taken], [f for _, f in taken], piece.box.shape)
    lags = [abs(read.offset[axis]) for read in inner]
    order = max(lags)

    def lead(array: jax.Array) -> jax.Array:
        array = jnp.moveaxis(array, axis, 0)
        return jnp.flip(array, 0) if sign < 0 else array

    columns = [jnp.zeros_like(lead(constant))] * order
    for lag, weight in zip(lags, found, strict=True):
        columns[lag - 1] = columns[lag - 1] + lead(weight)
    storage = level.structure.array(piece.field)
    start, stop = piece.box.start[axis], piece.box.stop[axis]
    before = (
        piece.box.with_range(axis, start - order, start) if sign > 0 else piece.box.with_range(axis, stop, stop + order)
    )
    history = lead(take_box(level.current[piece.field], storage.origin, before))
    solved = _prefix(columns, lead(constant), history)
    solved = jnp.moveaxis(jnp.flip(solved, 0) if sign < 0 else solved, 0, axis)
    place = [a - o for a, o in zip(piece.box.start, storage.origin, strict=True)]
    return level.with_current(piece.field, lax.dynamic_update_slice(level.current[piece.field], solved, place))


def _prefix(columns: list[jax.Array], constant: jax.Array, history: jax.Array) -> jax.Array:
    """Solves uᵢ = Σ columns[k−1][i] uᵢ₋ₖ + constant[i] along axis 0; `history` holds the values before i = 0."""
    order = len(columns)
    if order == 1:
        weight = columns[0]
        offset = constant.at[0].add(weight[0] * history[-1])

        def join(a: Any, b: Any) -> Any:
            return a[0] * b[0], b[0] * a[1] + b[1]

        return lax.associative_scan(join, (weight, offset), axis=0)[1]
    size = constant.shape
    matrix = jnp.zeros((*size, order, order), constant.dtype)
    for lag, column in enumerate(columns):
        matrix = matrix.at[..., 0, lag].set(column)
    for row in range(1, order):
        matrix = matrix.at[..., row, row - 1].set(1)
    vector = jnp.zeros((*size, order), constant.dtype).at[..., 0].set(constant)
    state = jnp.stack([history[-1 - k] for k in range(order)], axis=-1)
    vector = vector.at[0].add(jnp.einsum("...ij,...j->...i", matrix[0], state))

    def join_matrices(a: Any, b: Any) -> Any:
        product = jnp.einsum("...ij,...jk->...ik", b[0], a[0])
        return product, jnp.einsum("...ij,...j->...i", b[0], a[1]) + b[1]

    return lax.associative_scan(join_matrices, (matrix, vector), axis=0)[1][..., 0]

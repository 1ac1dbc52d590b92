"""Matrices of reach one near matrices that reach further: what coarse grids are made from."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._matrix import MatrixLayout, Offset, StencilMatrix, shifts


def reach_one(matrix: StencilMatrix) -> StencilMatrix:
    """The matrix with u(k), |k| ≥ 2, replaced by the parabola through u(−1), u(0), u(1) along each axis.

    It is exact for parabolas: the fourth-order Laplacian becomes the one of second order. Where the grid ends beside a
    point a straight line through the two others takes the parabola's place. The matrix itself where it reaches one.
    """
    if max(matrix.layout.reach, default=0) <= 1:
        return matrix
    blocks, values = [], []
    for (row, column, offsets), own in zip(matrix.layout.blocks, matrix.values, strict=True):
        found: dict[Offset, jax.Array] = {}
        for offset, value in zip(offsets, own, strict=True):
            for near, share in _shares(offset, matrix.layout, value):
                found[near] = found[near] + share if near in found else share
        order = tuple(sorted(found))
        blocks.append((row, column, order))
        free = matrix.free[column]
        values.append(jnp.stack([_without_known(found[o], o, free, matrix.layout) for o in order]))
    old = matrix.layout
    layout = MatrixLayout(old.fields, old.shapes, old.wraps, tuple(blocks), old.dtype)
    return StencilMatrix(layout, tuple(values), matrix.free)


def _shares(offset: Offset, layout: MatrixLayout, value: jax.Array) -> list[tuple[Offset, jax.Array]]:
    """An entry distributed over offsets of reach one."""
    choices = []
    for axis, k in enumerate(offset):
        if abs(k) <= 1:
            choices.append({k: 1.0})
            continue
        shape, side = layout.shapes[0], 1 if k > 0 else -1
        curve = {-side: abs(k) * (abs(k) - 1) / 2, 0: 1.0 - k * k, side: abs(k) * (abs(k) + 1) / 2}
        line = {-side: 0.0, 0: 1.0 - abs(k), side: float(abs(k))}
        if layout.wraps[axis]:
            choices.append(curve)
            continue
        index = lax.broadcasted_iota(jnp.int32, shape, axis)
        behind = index > 0 if side > 0 else index < shape[axis] - 1
        choices.append({o: _choose(behind, curve[o], line[o], layout) for o in curve})
    found = []
    for near in product(*choices):
        share = value
        for weights, o in zip(choices, near, strict=True):
            share = share * weights[o] if not isinstance(weights[o], float) or weights[o] != 1.0 else share
        found.append((tuple(near), share))
    return found


def _choose(behind: jax.Array, curve: float, line: float, layout: MatrixLayout) -> Any:
    return jnp.where(behind, jnp.asarray(curve, layout.dtype), jnp.asarray(line, layout.dtype))


def _without_known(values: jax.Array, offset: Offset, free: jax.Array, layout: MatrixLayout) -> jax.Array:
    """Entries in columns of points that are not unknown, or outside, removed."""
    return jnp.where(shifts(free, [offset], free.shape, layout.wraps)[0], values, 0)

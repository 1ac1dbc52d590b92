"""Rates along one axis: the part of their derivative that reaches along it, with the walls at its ends."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from ..kernels import Level, vectorise_function
from ..planning import Piece
from ..stencil import StateRead


def evaluate_along(
    level: Level, change: dict[str, jax.Array], piece: Piece, axes: tuple[str, ...], axis: str
) -> jax.Array:
    """How a rate answers to a change of the padded arrays around it, by what it reads along one axis.

    Σ_k w_k (δ_k − δ_0) over reads k along the axis, and of δ_0 times the sum of all weights an equal share for every
    axis; so the parts of all axes add up to Σ_k w_k δ_k, beside walls too. Reads off all axes belong to none.
    """
    rule, position = level.structure.rules[piece.rule], axes.index(axis)
    changed = replace(level, current=change, cuts={})
    known = [level.take(operand, piece.box, axes) for operand in rule.operands]
    values, flags = [v for v, _ in known], [f for _, f in known]
    moving, tangents = [], []
    for number, read in enumerate(rule.operands):
        if not isinstance(read, StateRead) or read.level or read.field not in change or sum(map(bool, read.offset)) > 1:
            continue
        if (tangent := _share(changed, read, piece, axes, position)) is not None:
            moving.append(number)
            tangents.append(tangent)
    storage = level.structure.array(piece.field)
    if not moving:
        return jnp.zeros(piece.box.shape, storage.dtype)
    function = rule.function(level.arrays.consts[piece.rule])

    def derivative(*inputs: Any) -> Any:
        points, steps = inputs[: len(values)], inputs[len(values) :]

        def of_reads(*reads: Any) -> Any:
            given = list(points)
            for place, read in zip(moving, reads, strict=True):
                given[place] = read
            return function(*given)

        return jax.jvp(of_reads, tuple(points[place] for place in moving), tuple(steps))[1]

    every = [*flags, *(flags[place] for place in moving)]
    return vectorise_function(derivative, [*values, *tangents], every, piece.box.shape)


def _share(changed: Level, read: StateRead, piece: Piece, axes: tuple[str, ...], position: int) -> jax.Array | None:
    """What one read adds to the change along an axis; None for nothing."""
    here = changed.take(read, piece.box, axes)[0]
    if not jnp.issubdtype(here.dtype, jnp.inexact):
        return None
    share = jnp.asarray(1 / len(axes), here.dtype)
    if not any(read.offset):
        return share * here
    along = bool(read.offset[position])
    if read.field != piece.field:
        return here if along else None
    centre = changed.take(replace(read, offset=(0,) * len(axes)), piece.box, axes)[0]
    return here - centre + share * centre if along else share * centre

"""Affine pieces as stencil operations: one for each field and level that they read, and what stands beside them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..planning import Parallel, PhaseStructure, Piece, Structure
from ..stencil import AFFINE, ProfileRead, StateRead, linear_weights
from ._level import Level, take_box, vectorise, weights_vary
from ._registry import get
from ._selection import refusal_of
from ._stencil_call import StencilCall


@dataclass(frozen=True)
class Part:
    """The reads of one field at one level: their places among the rule's reads, and the operation on them."""

    field: str
    level: int
    places: tuple[int, ...]
    call: StencilCall


def split_piece(structure: Structure, piece: Piece) -> tuple[Part, ...] | str:
    """A piece's reads as stencil operations; or why it is not one."""
    rule = structure.rules[piece.rule]
    if piece.operation is not None:
        return "acts on all points at once"
    if not rule.affine:
        return "is not affine"
    if rule.degree < AFFINE or not rule.reads:
        return "reads no field"
    if piece.role not in ("value", "rate"):
        return f"gives a {piece.role}"
    if piece.mask is not None or piece.predicate is not None:
        return "acts on a part of its box"
    dtypes = {np.dtype(rule.dtype), *(np.dtype(structure.array(read.field).dtype) for read in rule.reads)}
    if len(dtypes) > 1 or not jnp.issubdtype(rule.dtype, jnp.inexact):
        return f"mixes dtypes or holds no floats ({', '.join(sorted(map(str, dtypes)))})"
    if weights_vary(rule):
        return "has weights that vary in space"
    groups: dict[tuple[str, int], list[int]] = {}
    for place, read in enumerate(rule.reads):
        groups.setdefault((read.field, read.level), []).append(place)
    return tuple(
        Part(field, level, tuple(places), _call_of(piece, [rule.reads[p].offset for p in places], rule.dtype))
        for (field, level), places in groups.items()
    )


def _call_of(piece: Piece, offsets: list[tuple[int, ...]], dtype: Any) -> StencilCall:
    return StencilCall(piece.box.shape, np.dtype(dtype).str, tuple(offsets))


def stencil_calls(structure: Structure) -> tuple[dict[StencilCall, list[Piece]], dict[str, str]]:
    """The stencil operations of a run with the pieces that have them; and by label why other pieces have none."""
    calls: dict[StencilCall, list[Piece]] = {}
    others: dict[str, str] = {}
    for piece in dict.fromkeys(piece for phase in structure.phases for piece in _parallel_pieces(phase)):
        parts = split_piece(structure, piece)
        if isinstance(parts, str):
            others.setdefault(piece.label, parts)
            continue
        for call in dict.fromkeys(part.call for part in parts):
            calls.setdefault(call, []).append(piece)
    return calls, others


def _parallel_pieces(phase: PhaseStructure) -> list[Piece]:
    return [*phase.rates, *(stage.piece for stage in phase.every_stage if isinstance(stage, Parallel))]


def evaluate_parts(
    level: Level, piece: Piece, axes: tuple[str, ...], parts: tuple[Part, ...], backend: str
) -> jax.Array:
    """The piece's rule at every point of its box by the stencil kernel of a name; parts it does not serve by slices."""
    weights, result = _weights_and_rest(level, piece, axes)
    for part in parts:
        kernel = get("stencil", backend)
        if refusal_of(kernel, part.call) is not None:
            kernel = get("stencil", "slices")
        storage = level.structure.array(part.field)
        array = level.current[part.field] if part.level == 0 else level.older[part.field][-part.level - 1]
        values = take_box(array, storage.origin, piece.box.grow(part.call.lower, part.call.upper))
        result = result + kernel(part.call, values, jnp.stack([weights[place] for place in part.places]))
    return result


def _weights_and_rest(level: Level, piece: Piece, axes: tuple[str, ...]) -> tuple[list[Any], jax.Array]:
    """The weights of an affine rule by read, and its value at every point of the box where all it reads is zero."""
    rule, consts = level.structure.rules[piece.rule], level.arrays.consts[piece.rule]
    function = rule.function(consts)
    taken: list[tuple[Any, tuple[bool, ...]]] = []
    point: list[Any] = []
    for operand in rule.operands:
        if isinstance(operand, StateRead):
            zero = jnp.zeros((), level.structure.array(operand.field).dtype)
            taken.append((zero, (False,) * len(axes)))
            point.append(zero)
            continue
        value, flags = level.take(operand, piece.box, axes)
        taken.append((value, flags))
        point.append(value.ravel()[0] if isinstance(operand, ProfileRead) else value)
    reads = [i for i, operand in enumerate(rule.operands) if isinstance(operand, StateRead)]

    def of_reads(*values: Any) -> Any:
        given = list(point)
        for place, value in zip(reads, values, strict=True):
            given[place] = value
        return function(*given)

    weights, _ = linear_weights(of_reads, len(reads), np.dtype(rule.dtype))
    rest = vectorise(rule, consts, [v for v, _ in taken], [f for _, f in taken], piece.box.shape)
    return weights, rest

"""The portable kernel: a rule on a box as fused shifted slices, written into the field's array."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..planning import Array, Piece
from ..region import Box
from ..stencil import Operand, ProfileRead, StateRead, Traced, count_equations, may_share, share
from ..transforms import along
from ._affine_pieces import evaluate_parts, split_piece
from ._level import Level, guarded, take_box, vectorise, vectorise_function
from ._long import FAR, evaluate_long, long_rule
from ._numbers import at_points
from ._settle import settle, settle_back

Read = TypeVar("Read", bound=Operand)

LONG = 16
"""Equations of a linear rule that is long."""
SMALL = 2**10
"""Points of a box that are too few for it to matter how often XLA computes a value there."""


def evaluate(level: Level, piece: Piece, axes: tuple[str, ...], held: jax.Array | None = None) -> jax.Array:
    """The piece's rule at every point of its box, or the result of its operation; with no derivative where it does not
    act, or is not `held` to."""
    if piece.operation is not None:
        return operate(level, piece)
    backend = level.structure.kernel("stencil")
    parts = split_piece(level.structure, piece) if backend != "slices" and held is None else ""
    if not isinstance(parts, str):
        return evaluate_parts(level, piece, axes, parts, backend)
    rule = level.structure.rules[piece.rule]
    taken = {one: level.take(one, piece.box, axes) for one in farthest_first(rule.operands)}
    values, flags = [taken[one][0] for one in rule.operands], [taken[one][1] for one in rule.operands]
    acts = selector(level, piece, axes, piece.box)
    held = acts if held is None else held if acts is None else held & acts
    consts, none = level.arrays.consts[piece.rule], (False,) * len(axes)
    if (long := long_rule(rule, piece.box.size)) is not None:
        given, axes_of = [*consts, *values], [*[none] * len(consts), *flags]
        sources = [*[None] * len(consts), *(level.source(one, piece.box, axes) for one in rule.operands)]
        return settle(evaluate_long(long, held, given, axes_of, piece.box.shape, sources)[0])
    function = partial(_with_consts, rule, len(consts))
    values, flags = [*consts, *values], [*[none] * len(consts), *flags]
    if not rule.operands:
        return at_points(function, values, flags, piece.box.shape)
    return _settled(_at_held_points(function, held, values, flags, piece.box.shape), rule)


def _settled(value: jax.Array, rule: Traced) -> jax.Array:
    """What a rule gives on a box, settled where the rule is long; where it reads much, what comes back to it.

    Left to XLA: what there is on few points, and rules that are not linear where arrays lie in no cache.
    """
    if value.size < SMALL or len(rule.reads) < 2 or not (rule.affine or value.size < FAR):
        return value
    return settle(value) if count_equations(rule.jaxpr) >= LONG else settle_back(value)


def evaluate_shared(level: Level, pieces: Sequence[Piece], axes: tuple[str, ...]) -> dict[Piece, jax.Array]:
    """The values of those among pieces, which hold at the level as it is, that have much to compute in common."""
    groups: dict[Any, list[Piece]] = {}
    for piece in pieces:
        rule = level.structure.rules[piece.rule]
        plain = piece.predicate is None and piece.operation is None
        if plain and may_share(rule) and not _is_split(level, piece):
            groups.setdefault((piece.box, piece.mask, frozenset(rule.operands)), []).append(piece)
    found: dict[Piece, jax.Array] = {}
    for (box, *_), group in groups.items():
        together = share(tuple(level.structure.rules[piece.rule] for piece in group)) if len(group) > 1 else None
        if together is not None:
            taken = {one: level.take(one, box, axes) for one in farthest_first(together.operands)}
            values, flags = zip(*(taken[one] for one in together.operands), strict=True)
            held = selector(level, group[0], axes, box)
            linear = all(level.structure.rules[piece.rule].affine for piece in group)
            long = None if linear else long_rule(together, box.size)
            if long is None:
                results = _at_held_points(together, held, values, flags, box.shape)
            else:
                sources = [level.source(one, box, axes) for one in together.operands]
                results = evaluate_long(long, held, values, flags, box.shape, sources)
            found.update((piece, settle(one)) for piece, one in zip(group, results, strict=True))
    return found


def _at_held_points(
    function: Callable[..., Any],
    held: jax.Array | None,
    values: Sequence[Any],
    flags: Sequence[tuple[bool, ...]],
    shape: tuple[int, ...],
) -> Any:
    """A scalar function of several values at all points of a box, with no derivative where it is not `held` to."""
    if held is None:
        return at_points(function, values, flags, shape)
    return at_points(guarded(function), [held, *values], [(True,) * len(shape), *flags], shape)


def sets_box(piece: Piece) -> bool:
    """Whether a piece gives all points of its box by its rule."""
    return piece.mask is None and piece.predicate is None and piece.operation is None and not piece.adds


def _is_split(level: Level, piece: Piece) -> bool:
    """Whether another kernel computes parts of a piece."""
    backend = level.structure.kernel("stencil")
    return backend != "slices" and not isinstance(split_piece(level.structure, piece), str)


def _with_consts(rule: Traced, count: int, *values: Any) -> Any:
    """The rule of its constants, of which there are so many, and its operands."""
    return rule.function(values[:count])(*values[count:])


def farthest_first(operands: Sequence[Read]) -> list[Read]:
    """The order in which slices are taken. Their cotangents are added up the other way round, and so begin with the
    point's own: XLA on a CPU computes such a sum in less than half the time."""

    def distance(operand: Operand) -> int:
        return sum(map(abs, operand.offset)) if isinstance(operand, StateRead | ProfileRead) else 0

    return sorted(operands, key=distance, reverse=True)


def operate(level: Level, piece: Piece) -> jax.Array:
    """The result of a piece's operation on the values it reads; beyond periodic ends it repeats with its signs."""
    assert piece.operation is not None
    (read,) = level.structure.rules[piece.rule].reads
    source, prefix = level.structure.array(read.field), f"{piece.field} "
    values = take_box(level.current[read.field], source.origin, source.interior)
    wholes = level.arrays.wholes
    operands = {name.removeprefix(prefix): array for name, array in wholes.items() if name.startswith(prefix)}
    result = piece.operation.apply(values, operands)
    around = [(-a, b - n) for a, b, n in zip(piece.box.start, piece.box.stop, result.shape, strict=True)]
    if not any(a or b for a, b in around):
        return result
    result = jnp.pad(result, around, mode="wrap")
    for axis, (sign, (below, _), size) in enumerate(zip(piece.signs, around, values.shape, strict=True)):
        if sign == -1:
            outside = along((np.arange(result.shape[axis]) - below) // size % 2 != 0, axis, result.ndim)
            result = jnp.where(outside, -result, result)
    return result


def vectorise_guarded(
    function: Callable[..., Any],
    held: jax.Array,
    values: Sequence[jax.Array],
    flags: Sequence[tuple[bool, ...]],
    shape: tuple[int, ...],
) -> jax.Array:
    """A scalar function at all points of a box, its derivative cut where `held` is false.

    So no inf or nan from a point that the function does not define enters a gradient.
    """
    return vectorise_function(guarded(function), [held, *values], [(True,) * len(shape), *flags], shape)


def selector(level: Level, piece: Piece, axes: tuple[str, ...], box: Box) -> jax.Array | None:
    """Where in a box the piece acts; None for everywhere."""
    held = None
    if piece.mask is not None:
        read = ProfileRead(piece.mask, axes, (0,) * len(axes))
        held, _ = level.take(read, box, axes)
    if piece.predicate is not None:
        rule = level.structure.rules[piece.predicate]
        taken = [level.take(operand, box, axes) for operand in rule.operands]
        consts = level.arrays.consts[piece.predicate]
        holds = vectorise(rule, consts, [v for v, _ in taken], [f for _, f in taken], box.shape)
        held = holds if held is None else held & holds
    return held


def write(level: Level, piece: Piece, axes: tuple[str, ...], target: jax.Array | None, storage: Array) -> jax.Array:
    """The padded array of the piece's field with the piece's points set (or added to)."""
    return place(level, piece, axes, target, storage, evaluate(level, piece, axes))


def place(
    level: Level,
    piece: Piece,
    axes: tuple[str, ...],
    target: jax.Array | None,
    storage: Array,
    value: jax.Array,
) -> jax.Array:
    """The padded array of the piece's field with the given values on the piece's points (or added to them)."""
    held = selector(level, piece, axes, piece.box)
    if target is None:
        if held is not None:
            value = jnp.where(held, value, jnp.zeros((), value.dtype))
        if piece.box.shape == storage.padded_shape:
            return value
        if piece.field in level.spare:
            target = level.spare[piece.field]
            return lax.dynamic_update_slice(target, value, _place(piece, storage))
        low = [a - o for a, o in zip(piece.box.start, storage.origin, strict=True)]
        high = [o + n - b for b, o, n in zip(piece.box.stop, storage.origin, storage.padded_shape, strict=True)]
        return lax.pad(value, jnp.zeros((), value.dtype), [(a, b, 0) for a, b in zip(low, high, strict=True)])
    if held is not None or piece.adds:
        below = take_box(target, storage.origin, piece.box)
        if piece.adds:
            value = value + below
        if held is not None:
            value = jnp.where(held, value, below)
    return lax.dynamic_update_slice(target, value, _place(piece, storage))


def _place(piece: Piece, storage: Array) -> list[int]:
    """Where the piece's box starts in its field's array."""
    return [a - o for a, o in zip(piece.box.start, storage.origin, strict=True)]

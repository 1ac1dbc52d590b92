"""Whether a field continues beyond its walls as its mirror image, and its equations with it: what transforms take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..solvers import Side
from ..stencil import Operand, ProfileRead, StateRead, Traced
from ._holomorphy import derivative_of
from ._pieces import Piece

Offset = tuple[int, ...]
Marks = Callable[[Operand], bool]
Weigh = Callable[[Traced, Offset], Mapping[StateRead, Any]]
SIGNS = {"value": -1.0, "slope": 1.0, "periodic": 1.0}
"""What a value beyond such a side is of the one that it repeats."""
CLOSE = 1e-6
DRAWS = ((1, 1.0), (-1, 1.0), (1, 30.0), (-1, 30.0), (0, 1.0))
"""Sign (0: either) and size of the numbers that stand for parameters: weights may depend on signs, or branch."""


def find_mirrors(
    field: str,
    rows: Sequence[Piece],
    beside: Sequence[Piece],
    rules: Sequence[Traced],
    inner: Marks,
    axes: Sequence[str],
) -> tuple[bool, ...]:
    """Along which axes the weights of a field's equations are the same both ways, whatever parameters are."""
    derived: dict[str, set[int]] = {}
    for piece in beside:
        if piece.field != field and piece.role != "ghost":
            derived.setdefault(piece.field, set()).add(piece.rule)
    numbers = {piece.rule for piece in rows}
    if len(numbers) > 1 or any(len(found) > 1 for found in derived.values()):
        return (False,) * len(axes)
    known = {name: rules[number] for name, (number,) in derived.items()}
    (number,) = numbers

    def weigh(draw: int) -> Weigh:
        return lambda rule, shift: weights_of(rule, shift, inner, axes, draw)

    found = [True] * len(axes)
    for draw in _draws([rules[number], *known.values()]):
        total = _total_weights(field, rules[number], known, weigh(draw))
        if total is None:
            return (False,) * len(axes)
        if draw == 0 or np.isfinite(list(total.values())).all():
            found = [even and _is_even(total, axis) for axis, even in enumerate(found)]
    return tuple(found)


def _draws(rules: Sequence[Traced]) -> range:
    """How often weights of rules are looked at: once, where they are numbers."""
    depends = any(not isinstance(one, StateRead) for rule in rules for one in rule.operands)
    depends = depends or any(isinstance(one, Tracer) for rule in rules for one in rule.consts)
    return range(len(DRAWS) if depends else 1)


def _total_weights(
    field: str,
    rule: Traced,
    known: Mapping[str, Traced],
    weigh: Weigh,
) -> dict[Offset, Any] | None:
    """The weights of a field in a rule, by offset, through other fields whose rules are known; None where one's is
    not."""
    total: dict[Offset, Any] = {}

    def add(rule: Traced, shift: Offset, factor: Any, depth: int) -> bool:
        for read, weight in weigh(rule, shift).items():
            at = tuple(a + b for a, b in zip(shift, read.offset, strict=True))
            if read.field == field:
                total[at] = total.get(at, 0.0) + factor * weight
            elif read.field not in known or depth == 0 or not add(known[read.field], at, factor * weight, depth - 1):
                return False
        return True

    ndim = len(rule.reads[0].offset) if rule.reads else 0
    return total if add(rule, (0,) * ndim, 1.0, len(known)) else None


def _is_even(total: Mapping[Offset, Any], axis: int) -> bool:
    """Whether weights are the same both ways along an axis."""
    size = max(map(abs, total.values()), default=0.0)
    turned = {tuple(-x if a == axis else x for a, x in enumerate(o)): w for o, w in total.items()}
    return all(abs(turned.get(o, 0.0) - w) <= CLOSE * size for o, w in total.items())


def true_sides(
    sides: Sequence[tuple[Side, Side]],
    shape: Sequence[int],
    ghosts: Sequence[Piece],
    rules: Sequence[Traced],
    inner: Marks,
    axes: Sequence[str],
) -> tuple[tuple[Side, Side], ...]:
    """Sides of a field; those beyond which it is not the mirror image that their kind says, or the other end of a ring,
    are of another kind."""
    found = [list(pair) for pair in sides]
    for piece in ghosts:
        beyond = [(a, upper) for a, n in enumerate(shape) for upper in (False, True)
                  if (piece.box.start[a] >= n if upper else piece.box.stop[a] <= 0)]  # fmt: skip
        if len(beyond) != 1:  # corners follow from the sides
            continue
        (axis, upper) = beyond[0]
        side = sides[axis][upper]
        if side.kind in SIGNS and not _repeats(piece, side, axis, shape[axis], rules, inner, axes):
            found[axis][upper] = replace(side, kind="other")
    return tuple((low, high) for low, high in found)


def _repeats(
    piece: Piece, side: Side, axis: int, size: int, rules: Sequence[Traced], inner: Marks, axes: Sequence[str]
) -> bool:
    """Whether a piece beyond a side gives what its kind says."""
    if piece.mask is not None or piece.predicate is not None or piece.adds:
        return False
    at, upper = piece.box.start[axis], piece.box.start[axis] >= 0
    if side.kind == "periodic":
        moved = -size if upper else size
    elif piece.box.shape[axis] > 1:
        return False
    else:  # twice the place of the wall, less its own
        moved = (2 * (size - 1) + (not side.on_point) if upper else -(not side.on_point)) - 2 * at
    wanted = tuple(moved if a == axis else 0 for a in range(len(axes)))
    for draw in _draws([rules[piece.rule]]):
        weights = weights_of(rules[piece.rule], (0,) * len(axes), inner, axes, draw)
        if draw and not np.isfinite(list(weights.values())).all():
            continue
        acting = {read: weight for read, weight in weights.items() if abs(weight) > CLOSE}
        same = all(read.field == piece.field and abs(w - SIGNS[side.kind]) <= CLOSE for read, w in acting.items())
        if not same or [read.offset for read in acting] != [wanted]:
            return False
    return True


def weights_of(rule: Traced, shift: Offset, inner: Marks, axes: Sequence[str], draw: int) -> Mapping[StateRead, Any]:
    """The weights of what an affine rule reads of the unknown, where all else is some number of a draw, always the same
    for what stands at the same place; the rule is applied at a `shift`."""
    moving = [inner(operand) for operand in rule.operands]
    if not any(moving):
        return {}
    closed, count = derivative_of(rule, moving)
    specs = [variable.aval for variable in rule.jaxpr.invars]
    with jax.ensure_compile_time_eval():
        consts = [
            _number(f"constant {k}", one, draw) if isinstance(one, Tracer) else one
            for k, one in enumerate(closed.consts)
        ]
        function = jex.jaxpr_as_fun(jex.ClosedJaxpr(closed.jaxpr, consts))
        values = [_some(one, spec, shift, axes, draw) for one, spec in zip(rule.operands, specs, strict=True)]
        directions = [spec for spec, m in zip(specs, moving, strict=True) if m]

        def along(chosen: int) -> Any:
            tangents = [jnp.full(spec.shape, float(k == chosen), spec.dtype) for k, spec in enumerate(directions)]
            return complex(function(*values, *tangents)[0])

        weights = [along(k) for k in range(count)]
    reads = [one for one, m in zip(rule.operands, moving, strict=True) if m and isinstance(one, StateRead)]
    return dict(zip(reads, weights, strict=True))


def _some(operand: Operand, spec: Any, shift: Offset, axes: Sequence[str], draw: int) -> jax.Array:
    """Some number for what an operand reads."""
    if isinstance(operand, ProfileRead):
        moved = zip(operand.axes, operand.offset, strict=True)
        place = [o + (shift[list(axes).index(axis)] if axis in axes else 0) for axis, o in moved]
        key = f"{operand.name} {operand.axes} {place}"
    else:
        key = repr(operand)
    return _number(key, spec, draw)


def _number(key: str, spec: Any, draw: int) -> jax.Array:
    """Some number for a key, as an array of a shape and dtype."""
    random = np.random.default_rng([crc32(key.encode()), draw])
    sign, size = DRAWS[draw]
    number: Any = random.uniform(0.5, 1.5) * size * (sign or random.choice([-1, 1]))
    if jnp.issubdtype(spec.dtype, jnp.complexfloating):
        number += 1j * random.uniform(-1.5, 1.5)
    elif jnp.issubdtype(spec.dtype, jnp.bool_):
        number = sign > 0
    elif not jnp.issubdtype(spec.dtype, jnp.inexact):
        number = random.integers(1, 30)
    return jnp.full(spec.shape, number, spec.dtype)

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
SIGNS = {"value": -1.0, "slope": 1.0, "periodic": 1.0}
"""What a value beyond such a side is of the one that it repeats."""
CLOSE = 1e-6


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
    total: dict[Offset, Any] = {}

    def add(rule: Traced, shift: Offset, factor: Any, depth: int) -> bool:
        for read, weight in weights_of(rule, inner, shift, axes).items():
            at = tuple(a + b for a, b in zip(shift, read.offset, strict=True))
            if read.field == field:
                total[at] = total.get(at, 0.0) + factor * weight
            elif read.field not in known or depth == 0 or not add(known[read.field], at, factor * weight, depth - 1):
                return False
        return True

    if not add(rules[numbers.pop()], (0,) * len(axes), 1.0, len(known)):
        return (False,) * len(axes)
    size = max(map(abs, total.values()), default=0.0)

    def is_even(axis: int) -> bool:
        turned = {tuple(-x if a == axis else x for a, x in enumerate(o)): w for o, w in total.items()}
        return all(abs(turned.get(o, 0.0) - w) <= CLOSE * size for o, w in total.items())

    return tuple(map(is_even, range(len(axes))))


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
    weights = weights_of(rules[piece.rule], inner, (0,) * len(axes), axes)
    acting = {read: weight for read, weight in weights.items() if abs(weight) > CLOSE}
    return [read.offset for read in acting] == [wanted] and all(
        read.field == piece.field and abs(weight - SIGNS[side.kind]) <= CLOSE for read, weight in acting.items()
    )


def weights_of(rule: Traced, inner: Marks, shift: Offset, axes: Sequence[str]) -> Mapping[StateRead, Any]:
    """The weights of what an affine rule reads of the unknown, where all else is some number, always the same for what
    stands at the same place; the rule is applied at a `shift`."""
    moving = [inner(operand) for operand in rule.operands]
    if not any(moving):
        return {}
    closed, count = derivative_of(rule, moving)
    specs = [variable.aval for variable in rule.jaxpr.invars]
    with jax.ensure_compile_time_eval():
        consts = [
            _number(f"constant {k}", one) if isinstance(one, Tracer) else one for k, one in enumerate(closed.consts)
        ]
        function = jex.jaxpr_as_fun(jex.ClosedJaxpr(closed.jaxpr, consts))
        values = [_some(one, spec, shift, axes) for one, spec in zip(rule.operands, specs, strict=True)]
        directions = [spec for spec, m in zip(specs, moving, strict=True) if m]

        def along(chosen: int) -> Any:
            tangents = [jnp.full(spec.shape, float(k == chosen), spec.dtype) for k, spec in enumerate(directions)]
            return complex(function(*values, *tangents)[0])

        weights = [along(k) for k in range(count)]
    reads = [one for one, m in zip(rule.operands, moving, strict=True) if m and isinstance(one, StateRead)]
    return dict(zip(reads, weights, strict=True))


def _some(operand: Operand, spec: Any, shift: Offset, axes: Sequence[str]) -> jax.Array:
    """Some number for what an operand reads."""
    if isinstance(operand, ProfileRead):
        moved = zip(operand.axes, operand.offset, strict=True)
        place = [o + (shift[list(axes).index(axis)] if axis in axes else 0) for axis, o in moved]
        key = f"{operand.name} {operand.axes} {place}"
    else:
        key = repr(operand)
    return _number(key, spec)


def _number(key: str, spec: Any) -> jax.Array:
    """Some number for a key, as an array of a shape and dtype."""
    number = np.random.default_rng(crc32(key.encode())).uniform(0.5, 1.5)
    return jnp.full(spec.shape, number if jnp.issubdtype(spec.dtype, jnp.inexact) else 1, spec.dtype)

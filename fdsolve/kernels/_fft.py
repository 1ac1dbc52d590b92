"""Many levels of a constant affine march at once, in the modes that diagonalise it.

Where every level is x ↦ Sx + c with the same S and c, n of them are

    xₙ = x₀ + Gₙ (Dx₀ + c),   D = S − 1,   Gₙ = Σ_{k<n} Sᵏ,

whatever S is. In Fourier modes (cosines and sines beside walls) S is a number a mode, or a small matrix for coupled
fields and older levels, and Gₙ takes 2 log₂ n products: G₂ₙ = Gₙ (2 + DGₙ), Gₙ₊₁ = 1 + Gₙ + DGₙ. D, and not S, is
computed from the weights, w (e^{iθk} − 1), so that long waves, which hardly change in a step, keep all their digits.

Matrices are tuples of rows of arrays, one array an entry: so products, and what their derivatives are, are sums of
products of arrays, which XLA fuses.
"""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..planning import Piece
from ..schemes import Part, Values
from ..transforms import AbstractLine, Mirrored, Ring, along, complex_of
from ._affine_level import Levels, Rates, assembled, constant_part, next_level, unknowns
from ._affine_march import AffineField, AffineMarch, affine_march
from ._affine_rules import weights_in
from ._level import Arrays
from ._march_call import MarchCall
from ._registry import register

Unknown = tuple[str, int]
"""A field, and the age of its level: 0 for the newest."""
Row = dict[Unknown, Any]
Matrix = tuple[tuple[jax.Array, ...], ...]
"""A matrix for every mode: rows of entries."""

MIN_STEPS = 384
"""Levels of one unknown that cost more than two transforms, by the fastest of the other kernels."""
FEW_POINTS, FEWER_POINTS = 4096, 512
"""Points whose transforms take no longer than starting them, and those of which the same holds for a level."""
SMALL_FACTOR, AWKWARD = 31, 4
"""The largest prime factor of a length that transforms are quick for; how much slower they are at others."""
UNROLLED = 1
"""Unknowns a mode up to which all products are one fused loop."""


def why_not(call: MarchCall) -> str | None:
    """Why the transforms do not serve a march; None if they do."""
    found = affine_march(call)
    return found if isinstance(found, str) else None


def rank(call: MarchCall) -> int:
    """First of all where transforms cost less than the levels they stand for, else after the portable kernel."""
    march = affine_march(call)
    assert isinstance(march, AffineMarch)
    unknowns = sum(one.held for one in march.fields)
    lines = march.fields[0].lines
    points = prod(line.angles.size for line in lines)
    starting = (FEW_POINTS + points) / (FEWER_POINTS + points)
    awkward = any(_largest_factor(line.length) > SMALL_FACTOR for line in lines)
    least = MIN_STEPS * unknowns**2 * starting * (AWKWARD if awkward else 1)
    return 20 if call.steps >= least else -20


def _largest_factor(number: int) -> int:
    """The largest prime factor, 1 for 1."""
    found, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            found, number = factor, number // factor
        factor += 1
    return max(found, number)


@register("march", backend="fft", priority=rank, serves=why_not, jumps=True)
def march_by_modes(call: MarchCall, arrays: Arrays, levels: Levels, start: Any) -> Levels:
    """All levels as one product with a power of the symbol: the cost of two transforms, however many there are."""
    march = affine_march(call)
    assert isinstance(march, AffineMarch)
    left = call.steps
    # Levels given need not heed the walls; those computed do, and then mirrors stand for them.
    for _ in range(min(march.held, call.steps)):
        levels, left = next_level(call, march, arrays, levels), left - 1
    if left == 0:
        return levels
    held = unknowns(call, march, levels)
    values = {(one.name, age): held[one.name][age] for one in march.fields for age in range(one.held)}
    change = _change(call, march, arrays, list(values))
    modes = tuple((_to_modes(march.field(name), array),) for (name, _), array in values.items())
    first = _product(change, modes)
    if not march.linear:
        constant = constant_part(call, march, arrays)
        added = [_to_modes(march.field(name), constant[name]) if age == 0 else None for name, age in values]
        first = tuple(
            (one if more is None else one + more.astype(one.dtype),) for (one,), more in zip(first, added, strict=True)
        )
    moved = _product(_geometric(change, left), first)
    reached = {
        key: array + _to_values(march.field(key[0]), one, array.dtype)
        for (key, array), (one,) in zip(values.items(), moved, strict=True)
    }
    return assembled(call, march, arrays, reached)


def _order(lines: tuple[AbstractLine, ...]) -> list[int]:
    """The axes in the order of their transforms: those that give real numbers first."""
    return sorted(range(len(lines)), key=lambda a: (not isinstance(lines[a], Mirrored), not _halves(lines[a])))


def _halves(line: AbstractLine) -> bool:
    return isinstance(line, Ring) and line.half


def _to_modes(field: AffineField, values: jax.Array) -> jax.Array:
    for axis in _order(field.lines):
        values = field.lines[axis].forward(values, axis)
    return values


def _to_values(field: AffineField, modes: jax.Array, dtype: Any) -> jax.Array:
    for axis in _order(field.lines)[::-1]:
        modes = field.lines[axis].backward(modes, axis)
    return modes if jnp.iscomplexobj(jnp.zeros((), dtype)) else modes.real


def _change(call: MarchCall, march: AffineMarch, arrays: Arrays, keys: list[Unknown]) -> Matrix:
    """D of every mode."""
    rows = (_rated_rows if march.rated else _plain_rows)(call, march, arrays)
    one = np.ones((), _symbol_dtype(call, march))
    for name, age in keys:
        if age:
            rows[name, age] = {(name, age - 1): one, (name, age): -one}
    shape = tuple(line.angles.size for line in march.fields[0].lines)
    zero = np.zeros((), one.dtype)
    return tuple(tuple(jnp.broadcast_to(rows[key].get(other, zero), shape) for other in keys) for key in keys)


def _plain_rows(call: MarchCall, march: AffineMarch, arrays: Arrays) -> dict[Unknown, Row]:
    """Rows of D for rules that give new values."""
    one, rows = np.ones((), _symbol_dtype(call, march)), {}
    for piece in march.pieces:
        row: Row = rows.setdefault((piece.field, 0), {(piece.field, 0): -one})
        for (name, level), (flat, rest) in _entries(call, march, arrays, piece).items():
            if level < 0:
                _add(row, (name, -level - 1), flat, rest)
                continue
            _add(row, (name, 0), flat, rest)
            for key, entry in rows[name, 0].items():  # what it reads is new: (1 + D) times the old values
                _add(row, key, (flat + rest) * entry)
    return rows


def _rated_rows(call: MarchCall, march: AffineMarch, arrays: Arrays) -> dict[Unknown, Row]:
    """Rows of D for rates: how far the stepper gets from zero with the slopes of w + e, for each unit vector e."""
    structure, dtype = call.structure, _symbol_dtype(call, march)
    tables = [(piece, _entries(call, march, arrays, piece)) for piece in march.pieces]
    rows: dict[Unknown, Row] = {(one.name, 0): {} for one in march.fields}
    for unit in march.fields:

        def slopes(values: Values, part: Part, unit: str = unit.name) -> Values:
            found: dict[str, Any] = {}
            for piece, table in tables:
                if part.has(piece.field, piece.group, structure.is_linear(piece.rule)):
                    total = found.get(piece.field, np.zeros((), dtype))
                    for (name, _), (flat, rest) in table.items():
                        total = total + (flat + rest) * (values[name][0] + np.asarray(name == unit, dtype))
                    found[piece.field] = total
            return {name: (slope,) for name, slope in found.items()}

        assert structure.stepper is not None
        start = {one.name: (jnp.zeros((), dtype),) for one in march.fields}
        reached, _ = structure.stepper.step(Rates(0, arrays.wholes["dt"], start, slopes), None, None)
        for name, (moved,) in reached.items():
            rows[name, 0][unit.name, 0] = moved
    return rows


def _entries(
    call: MarchCall, march: AffineMarch, arrays: Arrays, piece: Piece
) -> dict[tuple[str, int], tuple[jax.Array, jax.Array]]:
    """By field and level that a rule reads: Σ w, and Σ w (e^{iθk} − 1) of every mode."""
    dtype, reads = _symbol_dtype(call, march), call.structure.rules[piece.rule].reads
    # Behind a barrier: weights that are numbers would have XLA compute whole symbols while compiling.
    weights = lax.optimization_barrier(weights_in(call.structure, arrays, piece.rule))
    found: dict[tuple[str, int], tuple[jax.Array, jax.Array]] = {}
    own, none = march.field(piece.field).lines, jnp.zeros((), dtype)
    for read, weight in zip(reads, weights, strict=True):
        flat, rest = found.get((read.field, read.level), (none, none))
        factor: Any = None
        for axis, (line, other) in enumerate(zip(own, march.field(read.field).lines, strict=True)):
            shift = line.shift(read.offset[axis], other)
            if not shift.any():
                continue
            shift = along(np.real(shift) if march.symmetric else shift, axis, len(own)).astype(dtype)
            factor = jnp.asarray(shift) if factor is None else factor + shift + factor * shift
        weight = weight.astype(dtype)
        found[read.field, read.level] = (flat + weight, rest if factor is None else rest + weight * factor)
    return found


def _symbol_dtype(call: MarchCall, march: AffineMarch) -> Any:
    """The symbol is real where weights are real and symmetric."""
    dtype = np.dtype(call.structure.arrays[0].dtype)
    return dtype if march.symmetric else complex_of(dtype)


def _add(row: Row, key: Unknown, *terms: Any) -> None:
    for term in terms:
        row[key] = row[key] + term if key in row else term


def _geometric(change: Matrix, count: int) -> Matrix:
    """G = Σ_{k<count} Sᵏ of every mode, from D = S − 1. Its derivative keeps G after each bit of `count`."""
    size, like = len(change), change[0][0]
    one = tuple(tuple(jnp.full_like(like, i == j) for j in range(size)) for i in range(size))

    @partial(jax.checkpoint, prevent_cse=False)
    def doubled(total: Matrix, bit: Any) -> Matrix:
        total = _sum(_sum(total, total), _product(total, _product(change, total)))
        more = _sum(_sum(one, total), _product(change, total))
        return jax.tree.map(partial(jnp.where, bit), more, total)

    bits, total = [bool(int(bit)) for bit in f"{count:b}"[1:]], one
    if size <= UNROLLED:
        for bit in bits:
            total = doubled(total, bit)
        return total
    return lax.scan(lambda g, bit: (doubled(g, bit), None), total, jnp.asarray(bits))[0] if bits else total


def _product(matrix: Matrix, other: Matrix) -> Matrix:
    """The product of the matrices of all modes."""
    dtype = np.result_type(matrix[0][0].dtype, other[0][0].dtype)
    matrix, other = jax.tree.map(lambda entry: entry.astype(dtype), (matrix, other))
    columns = list(zip(*other, strict=True))
    return tuple(tuple(_dot(row, column) for column in columns) for row in matrix)


def _dot(row: Sequence[Any], column: Sequence[Any]) -> Any:
    terms = [a * b for a, b in zip(row, column, strict=True)]
    return sum(terms[1:], terms[0])


def _sum(matrix: Matrix, other: Matrix) -> Matrix:
    return jax.tree.map(jnp.add, matrix, other)

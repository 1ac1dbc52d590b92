"""Many levels of a constant affine march at once, in the modes that diagonalise it.

Where every level is x ↦ Sx + c with the same S and c, n of them are

    xₙ = x₀ + Gₙ (Dx₀ + c),   D = S − 1,   Gₙ = Σ_{k<n} Sᵏ,

whatever S is. In Fourier modes (cosines and sines beside walls) S is a number a mode, or a small matrix for coupled
fields and older levels, and Gₙ takes 2 log₂ n products: G₂ₙ = Gₙ (2 + DGₙ), Gₙ₊₁ = 1 + Gₙ + DGₙ. D, and not S, is
computed from the weights, w (e^{iθk} − 1), so that long waves, which hardly change in a step, keep all their digits.
For the same reason older levels stand as differences, u, ∇u = u − u₋₁, ∇²u, …, and what rules make of equal values is
asked of the rules: sums of their weights would round.

Matrices are tuples of rows of arrays, one array an entry: so products, and what their derivatives are, are sums of
products of arrays, which XLA fuses.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import comb, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..planning import Piece
from ..schemes import Part, Values
from ..stencil import StateRead
from ..transforms import AbstractLine, Mirrored, Ring, along, complex_of
from ._affine_level import Levels, Rates, assembled, constant_part, next_level, unknowns
from ._affine_march import AffineField, AffineMarch, affine_march
from ._affine_rules import weights_in
from ._level import Arrays
from ._march_call import MarchCall
from ._registry import register

Unknown = tuple[str, int]
"""A field, and how often its newest level is differenced backwards in time."""
Pair = tuple[Any, Any]
"""An entry of a symbol: what it is for a mode that is the same everywhere, and for each mode what is added to that."""
Row = dict[Unknown, Pair]
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
    if isinstance(found, str):
        return found
    dtype = np.dtype(call.structure.arrays[0].dtype)
    return f"transforms take no {dtype}" if jnp.finfo(dtype).bits < 32 else None


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
    values = _differences(march, unknowns(call, march, levels))
    change = _change(call, march, arrays, list(values))
    modes = tuple((_to_modes(march.field(name), array),) for (name, _), array in values.items())
    first = _product(change, modes)
    if not march.linear:
        constant = constant_part(call, march, arrays)
        added = {name: _to_modes(march.field(name), array) for name, array in constant.items()}
        first = tuple((one + added[name].astype(one.dtype),) for (one,), (name, _) in zip(first, values, strict=True))
    moved = _product(_geometric(change, left), first)
    reached = {
        key: array + _to_values(march.field(key[0]), one, array.dtype)
        for (key, array), (one,) in zip(values.items(), moved, strict=True)
    }
    return assembled(call, march, arrays, _levels(march, reached))


def _signs(order: int) -> list[int]:
    """Newest first, what levels count for in a backward difference; and differences in a level of that age."""
    return [(-1) ** k * comb(order, k) for k in range(order + 1)]


def _differences(march: AffineMarch, held: Levels) -> dict[Unknown, jax.Array]:
    """The unknowns from levels, the newest first."""
    found: dict[Unknown, jax.Array] = {}
    for one in march.fields:
        columns = list(held[one.name])
        for order in range(one.held):
            found[one.name, order] = columns[0]
            columns = [new - old for new, old in pairwise(columns)]
    return found


def _levels(march: AffineMarch, values: dict[Unknown, jax.Array]) -> dict[tuple[str, int], jax.Array]:
    """Levels, by field and age, from the unknowns."""
    found = {}
    for one in march.fields:
        for age in range(one.held):
            terms = [sign * values[one.name, order] for order, sign in enumerate(_signs(age))]
            found[one.name, age] = sum(terms[1:], terms[0])
    return found


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
    one, none = np.ones((), _symbol_dtype(call, march)), np.zeros((), _symbol_dtype(call, march))
    for name, order in keys:
        if order:  # ∇ᵏu' = ∇ᵏ⁻¹u' − ∇ᵏ⁻¹u, the row before
            rows[name, order] = dict(rows[name, order - 1])
            _add(rows[name, order], (name, order), (-one, none))
    shape = tuple(line.angles.size for line in march.fields[0].lines)
    entries = [[rows[key].get(other, (none, none)) for other in keys] for key in keys]
    return tuple(tuple(jnp.broadcast_to(flat + rest, shape) for flat, rest in row) for row in entries)


def _plain_rows(call: MarchCall, march: AffineMarch, arrays: Arrays) -> dict[Unknown, Row]:
    """Rows of D for rules that give new values."""
    one, none = np.ones((), _symbol_dtype(call, march)), np.zeros((), _symbol_dtype(call, march))
    rows: dict[Unknown, Row] = {}
    for piece in march.pieces:
        row: Row = rows.setdefault((piece.field, 0), {(piece.field, 0): (-one, none)})
        for (name, order), (flat, rest) in _entries(call, march, arrays, piece).items():
            if order is not None:
                _add(row, (name, order), (flat, rest))
                continue
            _add(row, (name, 0), (flat, rest))
            for key, (even, more) in rows[name, 0].items():  # what it reads is new: (1 + D) times the old values
                _add(row, key, (flat * even, flat * more + rest * (even + more)))
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
            rows[name, 0][unit.name, 0] = np.zeros((), dtype), moved
    return rows


def _entries(call: MarchCall, march: AffineMarch, arrays: Arrays, piece: Piece) -> dict[tuple[str, int | None], Pair]:
    """By field and order of differences that a rule reads, or None for its own level: Σ w, and Σ w (e^{iθk} − 1) of
    every mode."""
    structure, dtype = call.structure, _symbol_dtype(call, march)
    reads = structure.rules[piece.rule].reads
    wanted: dict[tuple[str, int | None], list[int]] = {}
    for at, read in enumerate(reads):
        for order in range(march.field(read.field).held) if read.level < 0 else (None,):
            row = wanted.setdefault((read.field, order), [0] * len(reads))
            row[at] = 1 if order is None else ([*_signs(-read.level - 1), *[0] * march.held])[order]
    # Behind a barrier: weights that are numbers would have XLA compute whole symbols while compiling.
    weights = lax.optimization_barrier(weights_in(structure, arrays, piece.rule))
    flats = lax.optimization_barrier(weights_in(structure, arrays, piece.rule, list(wanted.values())))
    factors = [_factor(march, piece, read, dtype) for read in reads]
    found = {}
    for (key, row), flat in zip(wanted.items(), flats, strict=True):
        parts = zip(row, weights, factors, strict=True)
        terms = [
            count * weight.astype(dtype) * factor for count, weight, factor in parts if count and factor is not None
        ]
        found[key] = flat.astype(dtype), sum(terms, start=jnp.zeros((), dtype))
    return found


def _factor(march: AffineMarch, piece: Piece, read: StateRead, dtype: Any) -> jax.Array | None:
    """e^{iθk} − 1 of every mode at the offset of a read; None for 0."""
    own, found = march.field(piece.field).lines, None
    for axis, (line, other) in enumerate(zip(own, march.field(read.field).lines, strict=True)):
        shift = line.shift(read.offset[axis], other)
        if shift.any():
            shift = along(np.real(shift) if march.symmetric else shift, axis, len(own)).astype(dtype)
            found = jnp.asarray(shift) if found is None else found + shift + found * shift
    return found


def _symbol_dtype(call: MarchCall, march: AffineMarch) -> Any:
    """The symbol is real where weights are real and symmetric."""
    dtype = np.dtype(call.structure.arrays[0].dtype)
    return dtype if march.symmetric else complex_of(dtype)


def _add(row: Row, key: Unknown, term: Pair) -> None:
    row[key] = (row[key][0] + term[0], row[key][1] + term[1]) if key in row else term


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

"""Transfers between a grid and its coarse points, weighted by the operator (black-box multigrid)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._matrix import MatrixLayout, Offset, StencilMatrix, Vector, shifts
from ._small import inverses

Parity = tuple[int, ...]


@dataclass(frozen=True)
class Coarsening:
    """Which axes of a grid are halved: coarse point I is fine point 2I there, and I elsewhere.

    The fine points fall into classes by parity, 0 or 1 along each halved axis, 0 along the others; class p holds the
    points 2I + p, and its arrays have an entry for each coarse point I: the last has no point where the size is odd.
    """

    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    halved: tuple[bool, ...]

    @property
    def classes(self) -> tuple[Parity, ...]:
        """All parities, the coarse points first, each after those with fewer odd axes."""
        return tuple(sorted(product(*((0, 1) if h else (0,) for h in self.halved)), key=sum))

    @property
    def coarse_shape(self) -> tuple[int, ...]:
        """The shape of the coarse grid, and of a class."""
        return tuple((n + 1) // 2 if h else n for n, h in zip(self.shape, self.halved, strict=True))

    def pick(self, array: jax.Array, parity: Parity) -> jax.Array:
        """The entries of a class, zero where it has no point; axes before those of the grid are kept."""
        lead = array.ndim - len(self.shape)
        pads = [(0, 0, 0)] * lead + [(-p, p + n % 2 if h else 0, 0) for n, p, h in
                                     zip(self.shape, parity, self.halved, strict=True)]  # fmt: skip
        if any(low or high for low, high, _ in pads):
            array = lax.pad(array, jnp.zeros((), array.dtype), pads)
        return lax.slice(array, (0,) * array.ndim, array.shape, [1] * lead + [2 if h else 1 for h in self.halved])

    def spread(self, parts: Sequence[jax.Array]) -> jax.Array:
        """The array whose classes these are (in the order of `classes`)."""
        total = None
        for parity, part in zip(self.classes, parts, strict=True):
            pads = [
                (p, n - p - (2 * m - 1), 1) if h else (0, 0, 0)
                for p, n, m, h in zip(parity, self.shape, part.shape, self.halved, strict=True)
            ]
            placed = lax.pad(part, jnp.zeros((), part.dtype), pads)
            total = placed if total is None else total + placed
        assert total is not None
        return total

    def split(self, parity: Parity, offset: Offset) -> tuple[Parity, Offset]:
        """The class of points 2I + `parity` + `offset`, and the shift t with which they are its points I + t."""
        sums = [p + o for p, o in zip(parity, offset, strict=True)]
        theirs = tuple(s % 2 if h else 0 for s, h in zip(sums, self.halved, strict=True))
        return theirs, tuple(s // 2 if h else s for s, h in zip(sums, self.halved, strict=True))

    def fill(self, array: jax.Array, more: int) -> jax.Array:
        """An array with an even number of points along each halved axis, and `more`: the first ones again where it
        wraps and needs no other, else zeros."""
        return self._widen(array, 0, [n % 2 + more for n in self.shape], [n % 2 == 0 for n in self.shape])

    def before(self, array: jax.Array) -> jax.Array:
        """An array with one more entry before its first along each halved axis: the last one where it wraps, else
        zero."""
        return self._widen(array, 1, [0] * len(self.shape), self.wraps)

    def extend(self, array: jax.Array) -> jax.Array:
        """A class with one more entry along each halved axis: the first one again where it wraps, else zero."""
        return self._widen(array, 0, [1] * len(self.shape), self.wraps)

    def _widen(self, array: jax.Array, low: int, high: Sequence[int], round_them: Sequence[bool]) -> jax.Array:
        """Entries added along halved axes: those of the other end where the axis wraps and `round_them`, else zeros."""
        lead = array.ndim - len(self.shape)
        pads = [(0, 0)] * lead + [(low, h) if halved else (0, 0) for h, halved in zip(high, self.halved, strict=True)]
        for axis, (wraps, around) in enumerate(zip(self.wraps, round_them, strict=True), lead):
            if wraps and around and any(pads[axis]):
                (below, above), size = pads[axis], array.shape[axis]
                parts = [(size - below, size), (0, size), (0, above)]
                whole = [lax.slice_in_dim(array, a, b, axis=axis) for a, b in parts if b > a]
                array, pads[axis] = jnp.concatenate(whole, axis), (0, 0)
        return jnp.pad(array, pads) if any(map(any, pads)) else array

    @property
    def terms(self) -> tuple[tuple[Parity, Offset], ...]:
        """The terms of interpolation: each class with each of the coarse points round it."""
        return tuple((parity, corner) for parity in self.classes for corner in corners(parity))


def corners(parity: Parity) -> tuple[Offset, ...]:
    """The coarse points round a point of a class: offsets 0 or 1 along its odd axes."""
    return tuple(product(*((0, 1) if p else (0,) for p in parity)))


@dataclass(frozen=True, eq=False)
class Transfer:
    """Interpolation P from coarse points, and restriction R, its transpose where A is symmetric.

    `weights`, by field of the fine and of the coarse points: (terms of the coarsening, *coarse shape); of coarse points
    1 where they are unknown. `columns` are those of the restriction at the coarse points that they belong to: term
    (p, q) is the weight of coarse point I in fine point 2(I − q) + p.
    """

    coarsening: Coarsening
    weights: dict[tuple[str, str], jax.Array]
    columns: dict[tuple[str, str], jax.Array]

    def prolong(self, coarse: Vector) -> Vector:
        """P e: values at all points of the fine grid."""
        shape, wide = self.coarsening.coarse_shape, {n: self.coarsening.extend(c) for n, c in coarse.items()}
        parts: dict[tuple[str, Parity], jax.Array] = {}
        for (row, column), weights in self.weights.items():
            for (parity, corner), weight in zip(self.coarsening.terms, weights, strict=True):
                there = lax.slice(wide[column], corner, [n + c for n, c in zip(shape, corner, strict=True)])
                _add(parts, (row, parity), weight * there)
        return {name: self.coarsening.spread([parts[name, p] for p in self.coarsening.classes]) for name in coarse}

    def restrict(self, fine: Vector) -> Vector:
        """R r, the transpose (without conjugation) of the interpolation of Aᵀ."""
        coarsening, found = self.coarsening, dict[str, jax.Array]()
        wide = {n: lax.optimization_barrier(coarsening.before(coarsening.fill(r, 0))) for n, r in fine.items()}
        for (row, column), weights in self.columns.items():
            for (parity, corner), weight in zip(coarsening.terms, weights, strict=True):
                triples = list(zip(parity, corner, coarsening.halved, strict=True))
                start = [p - 2 * q + 1 if h else 0 for p, q, h in triples]
                stop = [s + 2 * n - 1 if h else n for s, n, (_, _, h) in zip(start, weight.shape, triples, strict=True)]
                part = lax.slice(wide[row], start, stop, [2 if h else 1 for h in coarsening.halved])
                _add(found, column, weight * part)
        return {name: found[name] for name in fine}


def _add(found: dict[Any, jax.Array], key: Any, part: jax.Array) -> None:
    found[key] = found[key] + part if key in found else part


jax.tree_util.register_dataclass(Transfer, data_fields=["weights", "columns"], meta_fields=["coarsening"])


def transfer_of(matrix: StencilMatrix, coarsening: Coarsening) -> Transfer:
    """Interpolation weighted by a matrix whose stencils reach one point (Dendy, J. Comput. Phys. 48 (1982) 366).

    At a point that is odd along the axes S, the row of the matrix is summed along the other axes, and the value that
    satisfies it without a right-hand side is taken, the points with fewer odd axes being interpolated before. Where
    fields read each other all this is done with the rows of all fields at a point at once. The restriction is the
    transpose of the interpolation that Aᵀ has (Dendy, Appl. Math. Comput. 13 (1983) 261).
    """
    weights, columns, names = {}, {}, matrix.layout.fields
    for group in [names] if coupled(matrix.layout) else [(name,) for name in names]:
        offsets, values = _both_ways(*_stacked(matrix, group), matrix.layout.wraps)
        free = jnp.stack([matrix.free[name] for name in group])
        found = jax.vmap(lambda v, o=offsets, f=free: _weights(o, v, f, coarsening))(values)
        found = lax.optimization_barrier(found)
        for (i, row), (j, column) in product(enumerate(group), repeat=2):
            weights[row, column] = found[0, :, i, j]
            columns[row, column] = _columns(found[1, :, i, j], coarsening)
    return Transfer(coarsening, weights, columns)


def _both_ways(
    offsets: tuple[Offset, ...], values: jax.Array, wraps: Sequence[bool]
) -> tuple[tuple[Offset, ...], jax.Array]:
    """The entries of a matrix and of its transpose: (2, offsets, fields, fields, *shape)."""
    every = offsets + tuple(sorted({tuple(-x for x in o) for o in offsets} - set(offsets)))
    zero = jnp.zeros(values.shape[1:], values.dtype)
    own = [values[offsets.index(o)] if o in offsets else zero for o in every]
    turned = []
    for o in every:
        there = shifts(own[every.index(tuple(-x for x in o))], [(0, 0, *o)], zero.shape, (False, False, *wraps))[0]
        turned.append(jnp.swapaxes(there, 0, 1))
    return every, lax.optimization_barrier(jnp.stack([jnp.stack(own), jnp.stack(turned)]))


def coupled(layout: MatrixLayout) -> bool:
    """Whether fields read each other."""
    return any(row != column for row, column, _ in layout.blocks)


def _columns(weights: jax.Array, coarsening: Coarsening) -> jax.Array:
    wide = lax.optimization_barrier(coarsening.before(weights))
    found = []
    for number, (_, corner) in enumerate(coarsening.terms):
        start = [1 - q if h else 0 for q, h in zip(corner, coarsening.halved, strict=True)]
        stop = [a + n for a, n in zip(start, coarsening.coarse_shape, strict=True)]
        found.append(lax.slice(wide, (number, *start), (number + 1, *stop)))
    return lax.optimization_barrier(jnp.concatenate(found))


def own_block(matrix: StencilMatrix, name: str) -> tuple[tuple[Offset, ...], jax.Array]:
    """The entries of a field's rows in its own columns: offsets, and their arrays in one."""
    found = [
        (offsets, values)
        for (row, column, offsets), values in zip(matrix.layout.blocks, matrix.values, strict=True)
        if row == column == name
    ]
    if not found:
        centre = (0,) * matrix.layout.ndim
        return (centre,), jnp.zeros((1, *matrix.layout.shape(name)), matrix.layout.dtype)
    return found[0]


@dataclass(frozen=True)
class _Pairs:
    """The entries of collapsed rows beside their centres, as tables: each class with each offset along its odd axes.

    All tables are of numbers; classes are those of `Coarsening.classes` from the second on.
    """

    coarsening: Coarsening

    @property
    def classes(self) -> list[Parity]:
        """Classes that are not the coarse points."""
        return [p for p in self.coarsening.classes if any(p)]

    @property
    def rows(self) -> list[tuple[Parity, Offset]]:
        """Class and offset."""
        every = [(p, o) for p in self.classes for o in product(*((-1, 0, 1) if q else (0,) for q in p))]
        return [(p, o) for p, o in every if any(o)]

    def sums(self, offsets: Sequence[Offset]) -> list[tuple[int, ...]]:
        """For each class and each offset of the matrix: the offset's number, the row it adds to, those of the centre
        and of the sum round it (a spare one for the centre), the class, the place of the column's first point."""
        count, found = len(self.rows), []
        for number, parity in enumerate(self.classes):
            centre = count + number
            for k, offset in enumerate(offsets):
                along = tuple(o if p else 0 for o, p in zip(offset, parity, strict=True))
                row = self.rows.index((parity, along)) if any(along) else centre
                around = centre + len(self.classes) if any(along) else count + 2 * len(self.classes)
                first = (p + o for p, o in zip(parity, along, strict=True))
                found.append((k, row, centre, around, *parity, *first))
        return found

    def products(self) -> list[tuple[int, ...]]:
        """For each product that a weight is a sum of: the weight, the entry, the class, the column's weight, its
        shift."""
        terms, found = self.coarsening.terms, []
        for number, (parity, offset) in enumerate(self.rows):
            theirs, move = self.coarsening.split(parity, offset)
            for corner in corners(theirs):
                total = tuple(m + c for m, c in zip(move, corner, strict=True))
                weight, column = terms.index((parity, total)), terms.index((theirs, corner))
                found.append((weight, number, self.classes.index(parity), column, *move))
        return found


def _table(rows: list[tuple[int, ...]]) -> jax.Array:
    """Without a sign: of other numbers XLA would ask whether they count from the end."""
    return jnp.asarray(np.asarray(rows, np.uint32))


def _at(array: jax.Array, index: jax.Array) -> jax.Array:
    return lax.dynamic_index_in_dim(array, index, 0, keepdims=False)


def _weights(offsets: tuple[Offset, ...], values: jax.Array, free: jax.Array, coarsening: Coarsening) -> jax.Array:
    """(terms, fields, fields, *coarse shape), by loops over small tables: written out, the same sums take many times
    as long to compile."""
    shape, pairs, some = coarsening.coarse_shape, _Pairs(coarsening), len(free)
    entries, inverse = _collapsed(offsets, values, free, coarsening)
    known = list(coarsening.pick(free, (0,) * len(shape)).astype(entries.dtype))
    first = coarsening.extend(_matrices([[d if i == j else jnp.zeros_like(d) for j in range(some)]
                                         for i, d in enumerate(known)]))  # fmt: skip
    start = jnp.pad(first[None], [(0, len(coarsening.terms) - 1)] + [(0, 0)] * first.ndim)

    def add(found: jax.Array, places: jax.Array) -> tuple[jax.Array, None]:
        weight, number, kind, column, *move = places
        none = jnp.zeros((), move[0].dtype)
        there = lax.dynamic_slice(found, [column, none, none, *move], (1, some, some, *shape))[0]
        here = lax.slice(_at(found, weight), (0,) * first.ndim, (some, some, *shape))
        own = here - _times(_at(inverse, kind), _times(_at(entries, number), there))
        return lax.dynamic_update_index_in_dim(found, coarsening.extend(own), weight, 0), None

    found = lax.scan(add, start, _table(pairs.products()))[0]
    return lax.slice(found, (0,) * found.ndim, (*found.shape[:3], *shape))


def _matrices(rows: list[list[jax.Array]]) -> jax.Array:
    """(fields, fields, …) from arrays; without stacking where there is one."""
    if len(rows) == 1:
        return rows[0][0][None, None]
    return jnp.stack([jnp.stack(row) for row in rows])


def _times(x: jax.Array, y: jax.Array) -> jax.Array:
    """Products of the small matrices whose axes come first."""
    first, *rest = (x[:, b, None] * y[None, b] for b in range(len(y)))
    return sum(rest, start=first)


def _collapsed(
    offsets: tuple[Offset, ...], values: jax.Array, free: jax.Array, coarsening: Coarsening
) -> tuple[jax.Array, jax.Array]:
    """Rows of each class summed along its even axes: the entries of `_Pairs`, and the inverse of each class' centres;
    both (…, fields, fields, *coarse shape).

    An entry beside a point that is not unknown goes to the centre: nothing can be interpolated from there. Beside a
    wall along an even axis the sum has what the wall adds to the diagonal, which says nothing of how the solution
    varies along the odd axes: where both neighbours along each odd axis are there the weights add up to 1. Not so where
    the centre is the smaller, if not by much: columns of a transposed matrix have other scales.
    """
    pairs, shape, some = _Pairs(coarsening), coarsening.coarse_shape, len(free)
    steps = [2 if h else 1 for h in coarsening.halved]
    spans = [2 * m - 1 if h else m for m, h in zip(shape, coarsening.halved, strict=True)]
    values, free = coarsening.fill(values, 0), coarsening.fill(free, 1)
    count, kinds = len(pairs.rows), len(pairs.classes)

    def add(sums: jax.Array, places: jax.Array) -> tuple[jax.Array, None]:
        number, row, centre, around, *starts = places
        parity, first = starts[: len(shape)], starts[len(shape) :]
        none = jnp.zeros((), row.dtype)
        value = lax.dynamic_slice(values, [number, none, none, *parity], (1, some, some, *spans))
        value = lax.slice(value, (0,) * value.ndim, value.shape, (1, 1, 1, *steps))[0]
        there = lax.dynamic_slice(free, [none, *first], (some, *spans))
        there = lax.slice(there, (0,) * there.ndim, there.shape, (1, *steps))[None]
        near, lost = jnp.where(there, value, 0), jnp.where(there, 0, value)
        for place, part in (row, near), (centre, lost), (around, near):
            sums = lax.dynamic_update_index_in_dim(sums, _at(sums, place) + part, place, 0)
        return sums, None

    start = jnp.zeros((count + 2 * kinds + 1, some, some, *shape), values.dtype)
    sums = lax.scan(add, start, _table(pairs.sums(offsets)))[0]
    entries, centre, near = sums[:count], sums[count : count + kinds], sums[count + kinds : count + 2 * kinds]
    both = []
    for number, parity in enumerate(pairs.classes):
        straight = [t for t, (p, o) in enumerate(pairs.rows) if p == parity and sum(map(abs, o)) == 1]
        held = jnp.stack([near[number, i, i] != 0 for i in range(some)])
        for t in straight:
            held = held & jnp.stack([entries[t, i, i] != 0 for i in range(some)])
        size, round_it = (jnp.stack([jnp.abs(part[number, i, i]) for i in range(some)]) for part in (centre, near))
        held = held & ((size >= round_it) | (2 * size < round_it))
        both.append(held if not all(parity) else jnp.zeros_like(held))
    return entries, _inverses(jnp.where(jnp.stack(both)[:, :, None], -near, centre))


def _inverses(centre: jax.Array) -> jax.Array:
    """The inverses of the matrices whose axes are the second and third; zero where a diagonal is."""
    if centre.shape[1] == 1:
        return jnp.where(centre == 0, 0, 1 / jnp.where(centre == 0, 1, centre))
    moved = jnp.moveaxis(centre, (1, 2), (-2, -1))
    held = jnp.diagonal(moved, axis1=-2, axis2=-1) != 0
    pairs = held[..., :, None] & held[..., None, :]
    inverse = inverses(jnp.where(pairs, moved, jnp.eye(centre.shape[1], dtype=centre.dtype)))
    return jnp.moveaxis(jnp.where(pairs & jnp.isfinite(inverse), inverse, 0), (-2, -1), (1, 2))


def _stacked(matrix: StencilMatrix, names: Sequence[str]) -> tuple[tuple[Offset, ...], jax.Array]:
    """The offsets of all blocks among fields, and the entries: (offsets, fields, fields, *shape)."""
    if len(names) == 1:
        offsets, values = own_block(matrix, names[0])
        return offsets, values[:, None, None]
    held: dict[tuple[Offset, str, str], jax.Array] = {}
    for (row, column, offsets), values in zip(matrix.layout.blocks, matrix.values, strict=True):
        held |= {(o, row, column): value for o, value in zip(offsets, values, strict=True)}
    every = tuple(sorted({o for o, _, _ in held}))
    zero = jnp.zeros(matrix.layout.shapes[0], matrix.layout.dtype)
    return every, jnp.stack([_matrices([[held.get((o, r, c), zero) for c in names] for r in names]) for o in every])

"""Transfers between a grid and its coarse points, weighted by the operator (black-box multigrid)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import jax
import jax.numpy as jnp
from jax import lax

from ._matrix import MatrixLayout, Offset, StencilMatrix, Vector, box_offsets, probe, shifts

Parity = tuple[int, ...]


@dataclass(frozen=True)
class Coarsening:
    """Which axes of a grid are halved: coarse point I is fine point 2I there, and I elsewhere.

    The fine points fall into classes by parity, 0 or 1 along each halved axis, 0 along the others; class p holds the
    points 2I + p, and its arrays have one entry for each I.
    """

    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    halved: tuple[bool, ...]

    @property
    def classes(self) -> tuple[Parity, ...]:
        """All parities, the coarse points first, each after those with fewer odd axes."""
        found = [p for p in product(*((0, 1) if h else (0,) for h in self.halved)) if all(self.class_shape(p))]
        return tuple(sorted(found, key=sum))

    @property
    def coarse_shape(self) -> tuple[int, ...]:
        """The shape of the coarse grid."""
        return self.class_shape((0,) * len(self.shape))

    def class_shape(self, parity: Parity) -> tuple[int, ...]:
        """How many points a class has along each axis."""
        triples = zip(self.shape, self.halved, parity, strict=True)
        return tuple((n + 1 - p) // 2 if h else n for n, h, p in triples)

    def pick(self, array: jax.Array, parity: Parity) -> jax.Array:
        """The entries of a class."""
        return lax.slice(array, parity, self.shape, [2 if h else 1 for h in self.halved])

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


def corners(parity: Parity) -> tuple[Offset, ...]:
    """The coarse points round a point of a class: offsets 0 or 1 along its odd axes."""
    return tuple(product(*((0, 1) if p else (0,) for p in parity)))


@dataclass(frozen=True, eq=False)
class Transfer:
    """Interpolation from coarse points, and its transpose.

    `weights`, by field and by class (in the order of `Coarsening.classes`): (corners, *class shape); at coarse points
    1 where they are unknown.
    """

    coarsening: Coarsening
    weights: dict[str, tuple[jax.Array, ...]]

    def prolong(self, coarse: Vector) -> Vector:
        """P e: values at all points of the fine grid."""
        return {name: self._prolong(name, coarse[name]) for name in coarse}

    def _prolong(self, name: str, coarse: jax.Array) -> jax.Array:
        parts = []
        for parity, weights in zip(self.coarsening.classes, self.weights[name], strict=True):
            shape = self.coarsening.class_shape(parity)
            around = shifts(coarse, corners(parity), shape, self.coarsening.wraps)
            parts.append(
                sum((w * c for w, c in zip(weights, around, strict=True)), start=jnp.zeros(shape, coarse.dtype))
            )
        return self.coarsening.spread(parts)

    def restrict(self, fine: Vector) -> Vector:
        """Pᵀ r (without conjugation)."""
        return {name: self._restrict(name, fine[name]) for name in fine}

    def _restrict(self, name: str, fine: jax.Array) -> jax.Array:
        shape = self.coarsening.coarse_shape
        total = jnp.zeros(shape, fine.dtype)
        for parity, weights in zip(self.coarsening.classes, self.weights[name], strict=True):
            part = self.coarsening.pick(fine, parity)
            for corner, weight in zip(corners(parity), weights, strict=True):
                back = tuple(-q for q in corner)
                total = total + shifts(weight * part, [back], shape, self.coarsening.wraps)[0]
        return total


jax.tree_util.register_dataclass(Transfer, data_fields=["weights"], meta_fields=["coarsening"])


def transfer_of(matrix: StencilMatrix, coarsening: Coarsening) -> Transfer:
    """Interpolation weighted by a matrix whose stencils reach one point (Dendy, J. Comput. Phys. 48 (1982) 366).

    At a point that is odd along the axes S, the row of the matrix is summed along the other axes, and the value that
    satisfies it without a right-hand side is taken, the points with fewer odd axes being interpolated before.
    """
    names = matrix.layout.fields
    return Transfer(coarsening, {name: _field_weights(matrix, coarsening, name) for name in names})


def own_block(matrix: StencilMatrix, name: str) -> Iterator[tuple[Offset, jax.Array]]:
    """The entries of a field's rows in its own columns: offsets and arrays."""
    for (row, column, offsets), values in zip(matrix.layout.blocks, matrix.values, strict=True):
        if row == column == name:
            yield from zip(offsets, values, strict=True)


def _field_weights(matrix: StencilMatrix, coarsening: Coarsening, name: str) -> tuple[jax.Array, ...]:
    free = matrix.free[name]
    dtype = jnp.dtype(matrix.layout.dtype)
    coarse_free = coarsening.pick(free, (0,) * free.ndim)
    found: dict[Parity, dict[Offset, jax.Array]] = {}
    for parity in coarsening.classes:
        if not any(parity):
            found[parity] = {parity: coarse_free.astype(dtype)}
            continue
        row = lax.optimization_barrier(_collapsed(matrix, coarsening, name, parity))
        found[parity] = lax.optimization_barrier(_solved(row, parity, coarsening, found, coarse_free))
    return tuple(jnp.stack([found[p][q] for q in corners(p)]) for p in coarsening.classes)


def _collapsed(matrix: StencilMatrix, coarsening: Coarsening, name: str, parity: Parity) -> dict[Offset, jax.Array]:
    """Rows of a class summed along its even axes: arrays by offset along the odd ones.

    An entry beside a point that is not unknown goes to the centre: nothing can be interpolated from there.
    """
    shape, free = coarsening.class_shape(parity), matrix.free[name]
    found: dict[Offset, jax.Array] = {}
    for offset, values in own_block(matrix, name):
        part = coarsening.pick(values, parity)
        along = tuple(o if p else 0 for o, p in zip(offset, parity, strict=True))
        centre = (0,) * len(along)
        if along != offset and any(along):
            kind, move = coarsening.split(parity, along)
            there = shifts(coarsening.pick(free, kind), [move], shape, coarsening.wraps)[0]
            found[centre] = found.get(centre, 0) + jnp.where(there, 0, part)
            part = jnp.where(there, part, 0)
        found[along] = found[along] + part if along in found else part
    return found


def _solved(
    row: dict[Offset, jax.Array],
    parity: Parity,
    coarsening: Coarsening,
    known: dict[Parity, dict[Offset, jax.Array]],
    coarse_free: jax.Array,
) -> dict[Offset, jax.Array]:
    """Weights of the corners of a class from its collapsed rows and the weights of the classes before."""
    shape = coarsening.class_shape(parity)
    inverse = _inverse_centre(row, parity)
    found: dict[Offset, jax.Array] = {}
    for offset, values in row.items():
        if not any(offset):
            continue
        theirs, move = coarsening.split(parity, offset)
        for corner, weight in known.get(theirs, {}).items():
            there = shifts(weight, [move], shape, coarsening.wraps)[0]
            total = tuple(m + c for m, c in zip(move, corner, strict=True))
            share = -values * inverse * there
            found[total] = found[total] + share if total in found else share
    free = shifts(coarse_free, corners(parity), shape, coarsening.wraps)
    return {
        corner: jnp.where(there, found[corner], 0) if corner in found else jnp.zeros(shape, inverse.dtype)
        for corner, there in zip(corners(parity), free, strict=True)
    }


def _inverse_centre(row: dict[Offset, jax.Array], parity: Parity) -> jax.Array:
    """1 over the centre of collapsed rows.

    Beside a wall along an even axis the sum has what the wall adds to the diagonal, which says nothing of how the
    solution varies along the odd axes: where both neighbours along each odd axis are there the weights add up to 1.
    """
    centre = row[(0,) * len(parity)]
    if not all(parity):
        both = jnp.ones(centre.shape, bool)
        for axis in [a for a, p in enumerate(parity) if p]:
            for side in (-1, 1):
                offset = tuple(side if a == axis else 0 for a in range(len(parity)))
                both = both & (row[offset] != 0 if offset in row else False)
        around = -sum((v for o, v in row.items() if any(o)), start=jnp.zeros_like(centre))
        centre = jnp.where(both & (around != 0), around, centre)
    return jnp.where(centre == 0, 0, 1 / jnp.where(centre == 0, 1, centre))


def galerkin(matrix: StencilMatrix, transfer: Transfer) -> StencilMatrix:
    """Pᵀ A P, in stencil form on the coarse grid.

    From its products with vectors: written out as sums of products of arrays it takes XLA minutes to compile.
    """
    coarsening = transfer.coarsening
    layout = coarse_layout(matrix.layout, coarsening)
    free = {name: coarsening.pick(array, (0,) * array.ndim) for name, array in matrix.free.items()}

    def apply(x: Vector) -> Vector:
        fine = lax.optimization_barrier(transfer.prolong(x))
        return transfer.restrict(lax.optimization_barrier(multiply(matrix, fine)))

    return lax.optimization_barrier(probe(apply, layout, free))


def coarse_layout(layout: MatrixLayout, coarsening: Coarsening) -> MatrixLayout:
    """The layout of Pᵀ A P: boxes that reach as far as the finer stencils, one point where they reach one."""
    blocks = []
    for row, column, offsets in layout.blocks:
        far = [max((abs(o[a]) for o in offsets), default=0) for a in range(layout.ndim)]
        reach = [(n + 2) // 2 if halved else n for n, halved in zip(far, coarsening.halved, strict=True)]
        blocks.append((row, column, box_offsets(reach)))
    shapes = (coarsening.coarse_shape,) * len(layout.fields)
    return MatrixLayout(layout.fields, shapes, layout.wraps, tuple(blocks), layout.dtype)


def multiply(matrix: StencilMatrix, x: Vector) -> Vector:
    """A x at unknown points, where x is zero at the others: no identity rows."""
    found: dict[str, jax.Array] = {}
    for (row, column, offsets), values in zip(matrix.layout.blocks, matrix.values, strict=True):
        pieces = shifts(x[column], offsets, matrix.layout.shape(row), matrix.layout.wraps)
        for piece, value in zip(pieces, values, strict=True):
            found[row] = found[row] + value * piece if row in found else value * piece
    return {name: found[name] if name in found else jnp.zeros_like(x[name]) for name in matrix.layout.fields}

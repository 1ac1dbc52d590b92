"""Matrices whose rows are stencils: what an affine system of equations on a grid comes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Vector = dict[str, jax.Array]
"""An array for each field, of the field's shape; zero at points that are not unknown."""
Offset = tuple[int, ...]


@dataclass(frozen=True)
class MatrixLayout:
    """What is static about a matrix.

    `fields` with their `shapes`; `wraps`, whether each axis is periodic; `blocks`, for a row field and a column field
    the offsets o at which row i has an entry in column i + o (modulo the number of points where the axis wraps; columns
    that leave the field are zero); `dtype`.
    """

    fields: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    wraps: tuple[bool, ...]
    blocks: tuple[tuple[str, str, tuple[Offset, ...]], ...]
    dtype: str

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a field."""
        return self.shapes[self.fields.index(name)]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.wraps)

    @property
    def size(self) -> int:
        """Rows: the points of all fields, unknown or not."""
        return sum(prod(shape) for shape in self.shapes)

    @cached_property
    def reach(self) -> tuple[int, ...]:
        """The largest |offset| along each axis."""
        offsets = [o for _, _, found in self.blocks for o in found]
        return tuple(max((abs(o[a]) for o in offsets), default=0) for a in range(self.ndim))

    @property
    def transposed(self) -> "MatrixLayout":
        """The layout of the transpose."""
        blocks = tuple((b, a, tuple(tuple(-x for x in o) for o in offsets)) for a, b, offsets in self.blocks)
        return MatrixLayout(self.fields, self.shapes, self.wraps, blocks, self.dtype)


@dataclass(frozen=True, eq=False)
class StencilMatrix:
    """A matrix in stencil form: `values` by block, (offsets, *shape of the row field); `free`, the unknown points.

    Rows and columns of points that are not unknown are those of the identity: they hold no entries in `values`.
    """

    layout: MatrixLayout
    values: tuple[jax.Array, ...]
    free: Mapping[str, jax.Array]

    def apply(self, x: Vector) -> Vector:
        """A x."""
        found = {name: jnp.where(self.free[name], 0, x[name]) for name in self.layout.fields}
        for (row, column, offsets), values in zip(self.layout.blocks, self.values, strict=True):
            pieces = shifts(x[column], offsets, self.layout.shape(row), self.layout.wraps)
            for piece, value in zip(pieces, values, strict=True):
                found[row] = found[row] + value * piece
        return found

    def transpose(self) -> "StencilMatrix":
        """Aᵀ (without conjugation), again in stencil form."""
        values = []
        for (_, column, offsets), own in zip(self.layout.blocks, self.values, strict=True):
            back = [tuple(-x for x in o) for o in offsets]
            moved = [
                shifts(value, [o], self.layout.shape(column), self.layout.wraps)[0]
                for value, o in zip(own, back, strict=True)
            ]
            values.append(jnp.stack(moved) if moved else jnp.zeros((0, *self.layout.shape(column)), own.dtype))
        return StencilMatrix(self.layout.transposed, tuple(values), self.free)

    def diagonal(self) -> Vector:
        """The diagonal: 1 where a point is not unknown."""
        found = {name: jnp.where(self.free[name], 0, 1).astype(self.layout.dtype) for name in self.layout.fields}
        zero = (0,) * self.layout.ndim
        for (row, column, offsets), values in zip(self.layout.blocks, self.values, strict=True):
            if row == column and zero in offsets:
                found[row] = found[row] + values[offsets.index(zero)]
        return found

    def entries(self) -> tuple[jax.Array, np.ndarray, np.ndarray]:
        """(values, rows, columns) of all entries, those of known points last; points are numbered field after field.

        Entries that leave the grid have value 0 and column 0.
        """
        starts = np.cumsum([0, *(prod(shape) for shape in self.layout.shapes)])
        start = dict(zip(self.layout.fields, starts, strict=False))
        values, rows, columns = [], [], []
        for (row, column, offsets), own in zip(self.layout.blocks, self.values, strict=True):
            shape, other = self.layout.shape(row), self.layout.shape(column)
            places = np.indices(shape).reshape(self.layout.ndim, -1)
            for offset, value in zip(offsets, own, strict=True):
                moved = places + np.asarray(offset)[:, None]
                for axis, wraps in enumerate(self.layout.wraps):
                    if wraps:
                        moved[axis] %= other[axis]
                inside = np.all((moved >= 0) & (moved < np.asarray(other)[:, None]), axis=0)
                safe = np.where(inside, moved, 0)
                rows.append(start[row] + np.ravel_multi_index(tuple(places), shape))
                columns.append(np.where(inside, start[column] + np.ravel_multi_index(tuple(safe), other), 0))
                values.append(jnp.where(inside, value.ravel(), 0))
        identity = [jnp.where(self.free[name], 0, 1).astype(self.layout.dtype).ravel() for name in self.layout.fields]
        everything = np.arange(self.layout.size)
        return (
            jnp.concatenate([*values, *identity]),
            np.concatenate([*rows, everything]),
            np.concatenate([*columns, everything]),
        )

    def ravel(self, x: Vector) -> jax.Array:
        """A vector as one array: field after field."""
        return jnp.concatenate([x[name].ravel() for name in self.layout.fields])

    def unravel(self, x: jax.Array) -> Vector:
        """The inverse of `ravel`."""
        found, at = {}, 0
        for name, shape in zip(self.layout.fields, self.layout.shapes, strict=True):
            found[name] = x[at : at + prod(shape)].reshape(shape)
            at += prod(shape)
        return found


jax.tree_util.register_dataclass(StencilMatrix, data_fields=["values", "free"], meta_fields=["layout"])


def shifts(
    array: jax.Array, offsets: Sequence[Offset], shape: tuple[int, ...], wraps: Sequence[bool]
) -> list[jax.Array]:
    """For each offset o the array B[i] = A[i + o] for i in `shape`: wrapped round along axes that wrap, else with
    zeros outside."""
    if not offsets:
        return []
    low = [max(0, *(-o[a] for o in offsets)) for a in range(array.ndim)]
    high = [max(0, *(o[a] + n - m for o in offsets)) for a, (n, m) in enumerate(zip(shape, array.shape, strict=True))]
    for axis, (below, above) in enumerate(zip(low, high, strict=True)):
        if wraps[axis] and (below or above):
            size = array.shape[axis]
            parts = [_around(array, axis, -below, 0), array, _around(array, axis, size, size + above)]
            array = jnp.concatenate([p for p in parts if p.shape[axis]], axis)
    padding = [(0, 0) if w else (a, b) for w, a, b in zip(wraps, low, high, strict=True)]
    if any(a or b for a, b in padding):
        array = jnp.pad(array, padding)
    return [lax.slice(array, [a + b for a, b in zip(low, o, strict=True)],
                      [a + b + n for a, b, n in zip(low, o, shape, strict=True)]) for o in offsets]  # fmt: skip


def _around(array: jax.Array, axis: int, start: int, stop: int) -> jax.Array:
    """Entries start … stop − 1 along an axis, counted round."""
    size = array.shape[axis]
    if start < 0 and stop <= 0 and -start <= size:
        return lax.slice_in_dim(array, size + start, size + stop, axis=axis)
    if start >= size and stop <= 2 * size:
        return lax.slice_in_dim(array, start - size, stop - size, axis=axis)
    return jnp.take(array, np.arange(start, stop) % size, axis=axis)


def probe(apply: Callable[[Vector], Vector], layout: MatrixLayout, free: Mapping[str, Any]) -> StencilMatrix:
    """The matrix of a linear map that is known by what it does, from one application for each colour.

    Points of one colour are so far apart that no row reads two of them (Curtis, Powell & Reid 1974). `apply` need only
    be right at unknown points.
    """
    masks = {name: jnp.asarray(free[name]) for name in layout.fields}
    columns = tuple(dict.fromkeys(column for _, column, _ in layout.blocks))
    values: dict[tuple[str, str], jax.Array] = {}
    for column in columns:
        colours = _colours(layout, column)
        counts = tuple(int(along.max()) + 1 for along in colours)
        table = _total([along[None] for along in colours], counts)[0]

        def one(colour: jax.Array, column: str = column, table: jax.Array = table) -> Vector:
            zeros = {
                name: jnp.zeros(shape, layout.dtype) for name, shape in zip(layout.fields, layout.shapes, strict=True)
            }
            seen = apply(zeros | {column: ((table == colour) & masks[column]).astype(layout.dtype)})
            return {name: jnp.where(masks[name], seen[name], 0) for name in layout.fields}

        answers = lax.map(one, jnp.arange(prod(counts), dtype=jnp.int32))
        for row, other, offsets in layout.blocks:
            if other == column:
                values[row, column] = _entries_of(answers[row], colours, counts, offsets, layout.wraps)
    found = tuple(values[row, column] for row, column, _ in layout.blocks)
    return StencilMatrix(layout, found, masks)


def _colours(layout: MatrixLayout, column: str) -> list[np.ndarray]:
    """The colour of each index of a field, by axis: 2·reach + 1 colours, more where the axis wraps and this does not
    divide its points."""
    found = []
    for size, wraps, span in zip(layout.shape(column), layout.wraps, _spans(layout, column), strict=True):
        period = min(size, span)
        index = np.arange(size)
        whole = size - size % period if wraps else size
        found.append(np.where(index < whole, index % period, period + index - whole).astype(np.int32))
    return found


def _total(along: Sequence[np.ndarray], counts: Sequence[int]) -> jax.Array:
    """The numbers of colours at points, (k, *shape), from those by axis, each (k, size); < 0 where one of them is."""
    ndim, total = len(along), jnp.zeros((), jnp.int32)
    for axis, (one, count) in enumerate(zip(along, counts, strict=True)):
        # Behind a barrier: XLA would compute the whole table while compiling.
        numbers = lax.optimization_barrier(jnp.asarray(np.where(one < 0, -prod(counts), one), jnp.int32))
        shape = (len(one), *(-1 if a == axis else 1 for a in range(ndim)))
        total = total * jnp.asarray(count, jnp.int32) + numbers.reshape(shape)
    return total


def _spans(layout: MatrixLayout, column: str) -> list[int]:
    """By axis, how many neighbouring columns a row can have entries in."""
    spans = [1] * layout.ndim
    for _, other, offsets in layout.blocks:
        if other == column and offsets:
            for axis in range(layout.ndim):
                along = [o[axis] for o in offsets]
                spans[axis] = max(spans[axis], max(along) - min(along) + 1)
    return spans


def _entries_of(
    answers: jax.Array, colours: list[np.ndarray], counts: tuple[int, ...], offsets: Sequence[Offset], wraps: Any
) -> jax.Array:
    """Entries by offset: row i reads the answer to the colour of column i + o.

    Of a column that is not unknown this answer is zero: the row reads no other of its colour.
    """
    shape = answers.shape[1:]
    if not offsets:
        return jnp.zeros((0, *shape), answers.dtype)
    along = []
    for axis, (one, size) in enumerate(zip(colours, shape, strict=True)):
        index = np.arange(size) + np.asarray([o[axis] for o in offsets])[:, None]
        inside = np.full(index.shape, wraps[axis]) | ((index >= 0) & (index < len(one)))
        along.append(np.where(inside, one[index % len(one)], -1))
    wanted = _total(along, counts)
    found = jnp.zeros((len(offsets), *shape), answers.dtype)
    # Choices are quicker to compile, and to run, than look-ups.
    for number in range(prod(counts)):
        found = jnp.where(wanted == number, answers[number], found)
    return found


def box_offsets(reach: Sequence[int]) -> tuple[Offset, ...]:
    """All offsets of a box of this reach."""
    return tuple(product(*(range(-r, r + 1) for r in reach)))


def inner(x: Vector, y: Vector) -> jax.Array:
    """Σ conj(x) y over all points and fields."""
    first, *rest = (jnp.vdot(x[name], y[name]) for name in x)
    return sum(rest, start=first)


def norm(x: Vector) -> jax.Array:
    """The Euclidean norm."""
    first, *rest = (jnp.sum(jnp.abs(one) ** 2) for one in x.values())
    return jnp.sqrt(sum(rest, start=first))


def axpy(a: Any, x: Vector, y: Vector) -> Vector:
    """a x + y."""
    return {name: a * x[name] + y[name] for name in y}


def multiply(matrix: StencilMatrix, x: Vector) -> Vector:
    """A x at unknown points, where x is zero at the others: no identity rows."""
    found: dict[str, jax.Array] = {}
    for (row, column, offsets), values in zip(matrix.layout.blocks, matrix.values, strict=True):
        pieces = shifts(x[column], offsets, matrix.layout.shape(row), matrix.layout.wraps)
        for piece, value in zip(pieces, values, strict=True):
            found[row] = found[row] + value * piece if row in found else value * piece
    return {name: found[name] if name in found else jnp.zeros_like(x[name]) for name in matrix.layout.fields}

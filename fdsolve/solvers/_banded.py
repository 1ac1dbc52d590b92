"""Lines of coupled points: systems whose entries lie along one axis only."""

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import DeclarationError
from . import _band
from ._base import AbstractLinearSolver, LinearSystem, Report, SystemOutline
from ._floating import pins, rounding_report, row_sum
from ._matrix import MatrixLayout, StencilMatrix, Vector


@dataclass(frozen=True)
class Banded(AbstractLinearSolver):
    """Gaussian elimination with pivoting along one axis, for all lines of the others at once.

    `axis`: its name; None takes the one that the entries lie along. Any number of entries and of coupled fields: their
    points are taken in turn, and places that a field does not have have equations x = 0. Periodic lines are bordered.
    Cost: points × bandwidth². Source: Golub & Van Loan, Matrix Computations, 4th ed., section 4.3.

    >>> Banded("x")
    Banded(axis='x')
    """

    axis: str | None = None

    def __post_init__(self) -> None:
        if self.axis is not None and not (isinstance(self.axis, str) and self.axis.isidentifier()):
            raise DeclarationError(f"Banded(axis) is the name of an axis or None, got {self.axis!r}.")

    def refuse(self, outline: SystemOutline) -> str | None:
        layout = outline.layout
        if layout is None:
            return "rows read points anywhere, not along one axis"
        if self.axis is not None and self.axis not in outline.axes:
            return f"there is no axis `{self.axis}`; the axes are {', '.join(outline.axes)}"
        coupled = [name for name, reach in zip(outline.axes, layout.reach, strict=True) if reach]
        if len(coupled) > 1 or (self.axis and coupled not in ([], [self.axis])):
            return f"points are coupled along {' and '.join(coupled)}, not along {self.axis or 'one axis'} only"
        axis = line_axis(self, outline)
        if len({shape[:axis] + shape[axis + 1 :] for shape in layout.shapes}) > 1:
            return f"fields have different places along other axes than {outline.axes[axis]}"
        return None

    def prepare(self, system: LinearSystem) -> Any:
        matrix, axis = system.matrix, line_axis(self, system.outline)
        assert matrix is not None
        added = pins(matrix, [axis]) if system.outline.may_float else None
        shape, table = line_table(matrix, axis, added)
        return _band.factor(shape, table), row_sum(matrix)

    def solve(self, system: LinearSystem, prepared: Any, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        layout, axis = system.outline.layout, line_axis(self, system.outline)
        assert layout is not None
        factors, size = prepared
        shape = line_shape(layout, axis)

        def once(right: Vector) -> Vector:
            return _points(_band.solve(shape, factors, _interleaved(right, layout, axis)), layout, axis)

        x = once(rhs)
        if not shape.tridiagonal:  # one step of refinement
            product = system.apply(x)
            more = once({name: rhs[name] - product[name] for name in rhs})
            x = {name: x[name] + more[name] for name in x}
        return x, rounding_report(system, rhs, x, size)


def line_axis(solver: Banded, outline: SystemOutline) -> int:
    """The axis of the lines."""
    if solver.axis is not None:
        return outline.axes.index(solver.axis)
    assert outline.layout is not None
    return next((axis for axis, reach in enumerate(outline.layout.reach) if reach), 0)


def line_shape(layout: MatrixLayout, axis: int) -> _band.BandShape:
    """The shape of a line's matrix, the points of all fields taken in turn."""
    offsets, count = _diagonals(layout, axis), len(layout.fields)
    size = max(shape[axis] for shape in layout.shapes) * count
    return _band.BandShape(size, -min(offsets), max(offsets), layout.wraps[axis] and layout.reach[axis] > 0)


def _diagonals(layout: MatrixLayout, axis: int) -> list[int]:
    """The diagonals that hold entries, and the main one."""
    count = len(layout.fields)
    found = {0}
    for row, column, offsets in layout.blocks:
        apart = layout.fields.index(column) - layout.fields.index(row)
        found |= {o[axis] * count + apart for o in offsets}
    return sorted(found)


def line_table(matrix: StencilMatrix, axis: int, added: Vector | None = None) -> tuple[_band.BandShape, jax.Array]:
    """The matrices of all lines: their shape and diagonals (below + 1 + above, n, lines).

    `added` to the diagonal of the unknown points. Entries along other axes are left out.
    """
    layout = matrix.layout
    shape, count = line_shape(layout, axis), len(layout.fields)
    longest = max(one[axis] for one in layout.shapes)
    lines = prod(layout.shapes[0]) // layout.shapes[0][axis]
    # By row field and diagonal: (n, lines)
    none = jnp.zeros((longest, lines), layout.dtype)
    found = {(f, k): none for f in range(count) for k in range(shape.below + 1 + shape.above)}
    for (row, column, offsets), values in zip(layout.blocks, matrix.values, strict=True):
        f, g = layout.fields.index(row), layout.fields.index(column)
        for offset, value in zip(offsets, values, strict=True):
            if any(o for a, o in enumerate(offset) if a != axis):
                continue
            key = f, offset[axis] * count + g - f + shape.below
            place = np.arange(layout.shape(row)[axis]) + offset[axis]
            inside = (place >= 0) & (place < layout.shape(column)[axis]) | layout.wraps[axis]
            value = _lines(value, axis)
            found[key] = found[key] + _longer(jnp.where(jnp.asarray(inside)[:, None], value, 0), longest, 0)
    for f, name in enumerate(layout.fields):
        unit = jnp.where(matrix.free[name], 0, 1).astype(layout.dtype)
        unit = unit if added is None else unit + added[name]
        found[f, shape.below] = found[f, shape.below] + _longer(_lines(unit, axis), longest, 1)
    table = jnp.stack(
        [jnp.stack([found[f, k] for f in range(count)], axis=1) for k in range(shape.below + 1 + shape.above)]
    )
    return shape, table.reshape(table.shape[0], longest * count, lines)


def _lines(values: jax.Array, axis: int) -> jax.Array:
    """(n, lines): an axis first, the others in one."""
    moved = jnp.moveaxis(values, axis, 0)
    return moved.reshape(moved.shape[0], -1)


def _longer(values: jax.Array, size: int, fill: int) -> jax.Array:
    """With rows of a number at the end, up to a size."""
    missing = size - values.shape[0]
    return lax.pad(values, jnp.asarray(fill, values.dtype), [(0, missing, 0), (0, 0, 0)]) if missing else values


def _interleaved(x: Vector, layout: MatrixLayout, axis: int) -> jax.Array:
    """(n, lines), the points of all fields in turn."""
    longest = max(one[axis] for one in layout.shapes)
    parts = [_longer(_lines(x[name], axis), longest, 0) for name in layout.fields]
    return jnp.stack(parts, axis=1).reshape(longest * len(parts), -1)


def _points(values: jax.Array, layout: MatrixLayout, axis: int) -> Vector:
    """The inverse of `_interleaved`."""
    count, found = len(layout.fields), {}
    for f, (name, shape) in enumerate(zip(layout.fields, layout.shapes, strict=True)):
        own = lax.slice_in_dim(values, f, None, count)[: shape[axis]]
        rest = shape[:axis] + shape[axis + 1 :]
        found[name] = jnp.moveaxis(own.reshape(shape[axis], *rest), 0, axis)
    return found

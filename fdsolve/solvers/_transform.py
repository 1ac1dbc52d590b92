"""Constant coefficients: the modes of Fourier, cosine and sine transforms diagonalise the matrix."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import DeclarationError
from . import _band
from ._base import AbstractLinearSolver, LinearSystem, Report, SystemOutline
from ._floating import rounding_report
from ._matrix import MatrixLayout, Offset, Vector, probe
from ._modes import Modes, modes_of


@dataclass(frozen=True)
class Transform(AbstractLinearSolver):
    """Transforms along the axes, a division by the eigenvalues, and transforms back; O(N log N).

    Serves one field without holes whose rule has constant weights: periodic axes, and axes between walls with a value
    or a slope, on a point or half-way between two (cosine and sine transforms I to IV), there with symmetric stencils.
    `axis` names one along which weights may vary and sides be of any kind: bands are solved along it, one system for
    each mode of the others; None takes one that is stretched or has other sides. Source: Buzbee, Golub & Nielson,
    SIAM J. Numer. Anal. 7 (1970) 627; Swarztrauber, SIAM Review 19 (1977) 490.

    >>> Transform()
    Transform(axis=None)
    """

    axis: str | None = None

    def __post_init__(self) -> None:
        if self.axis is not None and not (isinstance(self.axis, str) and self.axis.isidentifier()):
            raise DeclarationError(f"Transform(axis) is the name of an axis or None, got {self.axis!r}.")

    def refuse(self, outline: SystemOutline) -> str | None:
        found = modes_of(outline, self.axis)
        return found if isinstance(found, str) else None

    def prepare(self, system: LinearSystem) -> Any:
        modes = self._modes(system.outline)
        turned = _turned(system, modes)
        if modes.banded is None:
            weights = _inner_weights(system, modes)
            size = jnp.sum(jnp.abs(weights))
            return _inverse(modes, weights, size, system.outline.may_float), turned, size
        table, size = _bands(system, modes)
        return _band.factor(modes.band, table), turned, size

    def solve(self, system: LinearSystem, prepared: Any, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        modes = self._modes(system.outline)
        factors, turned, size = prepared
        (name,) = rhs
        scale = modes.scale(turned, rhs[name].dtype)
        values = modes.forward(modes.cut(rhs[name] / scale))
        if modes.banded is None:
            values = values.astype(factors.dtype) * factors
        else:
            lines = _band.solve(modes.band, factors, values.reshape(values.shape[0], -1).astype(modes.dtype))
            values = lines.reshape(values.shape)
        found = modes.backward(values)
        found = found if jnp.iscomplexobj(rhs[name]) else found.real
        x = {name: modes.paste(found, rhs[name]) * scale}
        return x, rounding_report(system, rhs, x, size)

    def _modes(self, outline: SystemOutline) -> Modes:
        found = modes_of(outline, self.axis)
        assert isinstance(found, Modes)
        return found


def _column(system: LinearSystem, place: tuple[int, ...]) -> jax.Array:
    """The column of a point."""
    assert system.outline.layout is not None
    (name,), (shape,), dtype = system.outline.layout.fields, system.outline.layout.shapes, system.outline.layout.dtype
    unit = lax.optimization_barrier(jnp.zeros(shape, dtype).at[place].set(1))  # else found while compiling
    return system.apply({name: unit})[name]


def _inner_weights(system: LinearSystem, modes: Modes) -> jax.Array:
    """Weights by offset, from the column of an inner point: entries of the matrix need not be known."""
    column, shape = _column(system, modes.centre), modes.layout.shapes[0]
    places = [tuple((c - x) % n for c, x, n in zip(modes.centre, o, shape, strict=True)) for o in modes.offsets]
    return jnp.stack([column[place] for place in places])


def _turned(system: LinearSystem, modes: Modes) -> jax.Array:
    """Whether the matrix is the transpose of one with mirrors: columns of wall points hold weights twice, not rows."""
    if not modes.walls:
        return jnp.asarray(False)
    axis, index = modes.walls[0]
    inner, wall = _column(system, modes.centre), (*modes.centre[:axis], index, *modes.centre[axis + 1 :])
    outer, step = _column(system, wall), 1 if index == modes.lines[axis].start else -1
    far, once, twice = modes.layout.reach[axis], [], []
    for k in range(1, far + 1):
        weight = inner[tuple(c + k * (a == axis) for a, c in enumerate(modes.centre))]
        found = outer[tuple(c + k * step * (a == axis) for a, c in enumerate(wall))]
        once.append(jnp.abs(found - weight))
        twice.append(jnp.abs(found - 2 * weight))
    return jnp.sum(jnp.stack(once)) > jnp.sum(jnp.stack(twice))


def _inverse(modes: Modes, weights: jax.Array, size: jax.Array, may_float: bool) -> jax.Array:
    """One over the eigenvalues Σ w + Σ w (e^{iθo} − 1) of all modes; 0 where they vanish.

    In two sums, so that long waves keep their digits; where nothing fixes the mean the first is rounding, and set to 0.
    """
    flat, rest = jnp.sum(weights), _rest(modes, weights, range(len(modes.offsets)))
    if may_float:
        flat = jnp.where(jnp.abs(flat) <= 8 * jnp.finfo(flat.dtype).eps * size, 0, flat)
    value = jnp.broadcast_to(rest + flat.astype(modes.dtype), modes.shape)
    return jnp.where(value == 0, 0, 1 / jnp.where(value == 0, 1, value))


def _rest(modes: Modes, weights: jax.Array, chosen: Any) -> jax.Array:
    """Σ w (e^{iθo} − 1) over some offsets."""
    total = jnp.zeros((1,) * len(modes.lines), modes.dtype)
    for at in chosen:
        factor = modes.factor(modes.offsets[at])
        if factor is not None:
            total = total + weights[at].astype(modes.dtype) * factor
    return total


def _bands(system: LinearSystem, modes: Modes) -> tuple[jax.Array, jax.Array]:
    """The diagonals (below + 1 + above, n, lines) along the banded axis, for all modes of the others."""
    axis = modes.banded
    assert axis is not None
    weights, known = _line_weights(system, modes, axis)
    shape, rows = modes.band, weights.shape[1]
    wide = weights.reshape(*weights.shape, *[1] * (len(modes.lines) - 1))
    diagonals = []
    for k in range(-shape.below, shape.above + 1):
        chosen = [at for at, o in enumerate(modes.offsets) if o[axis] == k]
        total = _rest(modes, wide, chosen) + sum(
            (wide[at].astype(modes.dtype) for at in chosen), start=jnp.zeros((), modes.dtype)
        )
        inside = (np.arange(rows) + k >= 0) & (np.arange(rows) + k < rows) | shape.cyclic
        total = jnp.broadcast_to(total, modes.shape).reshape(rows, -1)
        diagonals.append(jnp.where(jnp.asarray(inside)[:, None], total, 0))
    table = jnp.stack(diagonals)
    size = jnp.max(jnp.sum(jnp.abs(weights), axis=0))
    added = jnp.broadcast_to(known[:, None], table.shape[1:]).astype(table.dtype)
    if system.outline.may_float:
        added = added + _pins(table, shape.below, ~known, size)
    empty = np.broadcast_to(modes.empty, modes.shape).reshape(rows, -1)  # their matrices may be singular
    return jnp.where(empty, 0, table).at[shape.below].add(jnp.where(empty, 1, added)), size


def _line_weights(system: LinearSystem, modes: Modes, axis: int) -> tuple[jax.Array, jax.Array]:
    """Weights by offset along an axis (offsets, n), between far walls of the others; and which of its points are known.

    From the columns of a line in the middle, of as many points at once as no row reads two of. Rows beside the line are
    told apart as fields of a matrix with one axis.
    """
    layout, matrix = modes.layout, system.matrix
    assert matrix is not None
    (name,), (shape,), size = layout.fields, layout.shapes, layout.shapes[0][axis]
    beside: dict[Offset, list[Offset]] = {}
    for o in modes.offsets:
        beside.setdefault((*o[:axis], 0, *o[axis + 1 :]), []).append((o[axis],))
    middle: tuple[Any, ...] = tuple(slice(None) if a == axis else c for a, c in enumerate(modes.centre))
    rows = {
        str(o): tuple(slice(None) if a == axis else (c - o[a]) % shape[a] for a, c in enumerate(modes.centre))
        for o in beside
    }

    def lines(x: Vector) -> Vector:
        unit = lax.optimization_barrier(jnp.zeros(shape, layout.dtype).at[middle].set(x[name]))
        answer = system.apply({name: unit})[name]
        return {name: x[name]} | {row: answer[place] for row, place in rows.items()}

    fields = (name, *rows)
    blocks = tuple((str(o), name, tuple(found)) for o, found in beside.items())
    line = MatrixLayout(fields, ((size,),) * len(fields), (layout.wraps[axis],), blocks, layout.dtype)
    free = matrix.free[name][middle]
    found = probe(lines, line, dict.fromkeys(fields, free))
    entries = {
        (*o[:axis], k, *o[axis + 1 :]): value
        for (o, along_it), values in zip(beside.items(), found.values, strict=True)
        for (k,), value in zip(along_it, values, strict=True)
    }
    return jnp.stack([entries[o] for o in modes.offsets]), ~free


def _pins(table: jax.Array, below: int, free: jax.Array, size: jax.Array) -> jax.Array:
    """What to add to the diagonals of lines whose rows or columns sum to nothing, see `_floating.pins`."""
    rows = jnp.max(jnp.abs(jnp.sum(table, axis=0)), axis=0)
    moved = jnp.stack([jnp.roll(diagonal, at - below, axis=0) for at, diagonal in enumerate(table)])
    columns = jnp.max(jnp.abs(jnp.sum(moved, axis=0)), axis=0)
    floats = jnp.minimum(rows, columns) <= 8 * jnp.finfo(table.dtype).eps * size
    first = jnp.arange(free.shape[0]) == jnp.argmax(free)
    return jnp.where(first[:, None] & free[:, None] & floats, size, 0).astype(table.dtype)

"""Smoothers of multigrid: points by colour, damped Jacobi, lines."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._matrix import MatrixLayout, StencilMatrix, Vector, multiply
from ._small import inverses
from ._transfer import own_block


class AbstractSmoother(ABC):
    """A method that reduces the part of the error that coarse points do not see."""

    @abstractmethod
    def refuse(self, layout: MatrixLayout) -> str | None:
        """Why the smoother does not serve such matrices; None if it does."""

    @abstractmethod
    def prepare(self, matrix: StencilMatrix) -> Any:
        """Arrays made once for a matrix."""

    @abstractmethod
    def smooth(self, matrix: StencilMatrix, prepared: Any, b: Vector, x: Vector, count: int) -> Vector:
        """`count` sweeps over all points."""


@dataclass(frozen=True)
class Coloured(AbstractSmoother):
    """Gauss–Seidel by colours: points of one colour do not read each other, and are updated at once.

    Two colours where stencils are stars of reach one, else (reach + 1)ᵈ.
    """

    def refuse(self, layout: MatrixLayout) -> str | None:
        """It serves all matrices that have a diagonal."""
        return _refuse_pointwise(layout)

    def prepare(self, matrix: StencilMatrix) -> Any:
        """The inverse of the diagonal."""
        return inverse_diagonal(matrix)

    def smooth(self, matrix: StencilMatrix, prepared: Any, b: Vector, x: Vector, count: int) -> Vector:
        """One colour after the other, in the same order each time.

        The opposite order after the coarse grid would keep cycles symmetric, at a factor of .1 instead of .03.
        """
        masks = Colours(matrix.layout)

        def update(i: jax.Array, x: Vector) -> Vector:
            mask = masks.mask(i % masks.count)
            change = solve_points(prepared, residual(matrix, b, x))
            return {name: jnp.where(mask, x[name] + change[name], x[name]) for name in x}

        return lax.fori_loop(0, count * masks.count, update, x)


@dataclass(frozen=True)
class Jacobi(AbstractSmoother):
    """Damped Jacobi, x ← x + ω D⁻¹(b − A x)."""

    damping: float = 0.8

    def refuse(self, layout: MatrixLayout) -> str | None:
        """It serves all matrices that have a diagonal."""
        return _refuse_pointwise(layout)

    def prepare(self, matrix: StencilMatrix) -> Any:
        """The inverse of the diagonal."""
        return inverse_diagonal(matrix)

    def smooth(self, matrix: StencilMatrix, prepared: Any, b: Vector, x: Vector, count: int) -> Vector:
        """Sweeps; the order of points does not matter."""

        def update(_: jax.Array, x: Vector) -> Vector:
            change = solve_points(prepared, residual(matrix, b, x))
            return {name: x[name] + self.damping * change[name] for name in x}

        return lax.fori_loop(0, count, update, x)


@dataclass(frozen=True)
class Lined(AbstractSmoother):
    """Zebra lines along axes: all points of a line at once, lines in two colours (2ᵈ⁻¹ for boxes), axis after axis."""

    axes: tuple[int, ...]

    def refuse(self, layout: MatrixLayout) -> str | None:
        """Lines are tridiagonal, of one field."""
        if len(layout.fields) > 1:
            return "its lines hold one field, and the system couples several; use smoother='colour'"
        far = [a for a in self.axes if layout.reach[a] > 1]
        return f"along axis {far[0]} its lines are not tridiagonal; use smoother='colour'" if far else None

    def prepare(self, matrix: StencilMatrix) -> Any:
        """The diagonals of each axis' lines, lines last."""
        return tuple(line_diagonals(matrix, axis) for axis in self.axes)

    def smooth(self, matrix: StencilMatrix, prepared: Any, b: Vector, x: Vector, count: int) -> Vector:
        """Lines of one colour after those of the other."""

        def sweep(_: jax.Array, x: Vector) -> Vector:
            for axis, diagonals in zip(self.axes, prepared, strict=True):
                x = _sweep_lines(matrix, axis, diagonals, b, x)
            return x

        return lax.fori_loop(0, count, sweep, x)


def _sweep_lines(matrix: StencilMatrix, axis: int, diagonals: Any, b: Vector, x: Vector) -> Vector:
    masks = Colours(matrix.layout, skip=axis)

    def update(i: jax.Array, x: Vector) -> Vector:
        left = residual(matrix, b, x)
        mask = masks.mask(i)
        return {name: jnp.where(mask, x[name] + solve_lines(diagonals, left[name], axis), x[name]) for name in x}

    return lax.fori_loop(0, masks.count, update, x)


def residual(matrix: StencilMatrix, b: Vector, x: Vector) -> Vector:
    """b − A x, where x is zero at points that are not unknown."""
    product = multiply(matrix, x)
    return {name: b[name] - product[name] for name in b}


def _refuse_pointwise(layout: MatrixLayout) -> str | None:
    centre = (0,) * layout.ndim
    pairs = {(row, column) for row, column, offsets in layout.blocks if centre in offsets}
    if len(layout.fields) == 1 and not pairs:
        return "the equation at a point does not read the point itself"
    return None


def inverse_diagonal(matrix: StencilMatrix) -> dict[tuple[str, str], jax.Array]:
    """The inverse of the block of fields at each point (of one field: 1/diagonal), zero at points without one."""
    layout = matrix.layout
    names, shape = layout.fields, layout.shapes[0]
    blocks = {(r, c): jnp.zeros(shape, layout.dtype) for r in names for c in names}
    for (row, column, offsets), values in zip(layout.blocks, matrix.values, strict=True):
        for offset, value in zip(offsets, values, strict=True):
            if _returns(offset, layout):
                blocks[row, column] = blocks[row, column] + value
    if len(names) == 1:
        only = blocks[names[0], names[0]]
        return {(names[0], names[0]): jnp.where(only == 0, 0, 1 / jnp.where(only == 0, 1, only))}
    whole = jnp.stack([jnp.stack([blocks[r, c] for c in names], -1) for r in names], -2)
    free = jnp.stack([matrix.free[n] for n in names], -1)
    whole = jnp.where(free[..., :, None] & free[..., None, :], whole, jnp.eye(len(names), dtype=whole.dtype))
    inverse = inverses(whole)
    inverse = jnp.where(free[..., :, None] & free[..., None, :] & jnp.isfinite(inverse), inverse, 0)
    return {(r, c): inverse[..., i, j] for i, r in enumerate(names) for j, c in enumerate(names)}


def _returns(offset: Sequence[int], layout: MatrixLayout) -> bool:
    """Whether an offset leads to the point itself, round a short axis that wraps too."""
    return all(o == 0 or (w and o % n == 0) for o, n, w in zip(offset, layout.shapes[0], layout.wraps, strict=True))


def solve_points(inverse: Mapping[tuple[str, str], jax.Array], right: Vector) -> Vector:
    """The solution at each point, its neighbours being left out."""
    found: dict[str, jax.Array] = {}
    for (row, column), array in inverse.items():
        found[row] = found[row] + array * right[column] if row in found else array * right[column]
    return found


@dataclass(frozen=True)
class Colours:
    """The colours of points that do not read each other; along the axis `skip` all have the same."""

    layout: MatrixLayout
    skip: int | None = None

    @property
    def _axes(self) -> list[int]:
        layout = self.layout
        return [a for a in range(layout.ndim) if a != self.skip and layout.shapes[0][a] > 1 and layout.reach[a] > 0]

    @property
    def _star(self) -> bool:
        """Whether rows read one point along one axis, so that two colours suffice, as on a chess board."""
        return all(sum(abs(o[a]) for a in self._axes) <= 1 for _, _, found in self.layout.blocks for o in found)

    @property
    def count(self) -> int:
        """How many there are."""
        if not self._axes:
            return 1
        return 2 if self._star else prod(self.layout.reach[a] + 1 for a in self._axes)

    def mask(self, colour: jax.Array) -> jax.Array:
        """The points of a colour."""
        shape = self.layout.shapes[0]
        total = jnp.zeros(shape, jnp.int32)
        for axis in self._axes:
            index, period = lax.broadcasted_iota(jnp.int32, shape, axis), self.layout.reach[axis] + 1
            place = index & 1 if period == 2 else index % period
            total = total + place if self._star else total * period + place
        return (total & 1 if self._star else total) == colour.astype(jnp.int32)


def line_diagonals(matrix: StencilMatrix, axis: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """(lower, diagonal, upper, corner column) of the lines along an axis, that axis last.

    Where the axis wraps the two entries across its ends are a change of rank one (Sherman & Morrison 1950); the last
    array is what it needs, else None.
    """
    (name,) = matrix.layout.fields
    shape = matrix.layout.shapes[0]
    parts = [jnp.zeros(shape, matrix.layout.dtype) for _ in range(3)]
    for offset, values in zip(*own_block(matrix, name), strict=True):
        if all(o == 0 for a, o in enumerate(offset) if a != axis):
            parts[1 + offset[axis]] = parts[1 + offset[axis]] + values
    # Rows without a diagonal (points that are not unknown) become rows of the identity.
    parts[1] = jnp.where(parts[1] == 0, 1, parts[1])
    lower, middle, upper = (jnp.moveaxis(p, axis, -1) for p in parts)
    if not matrix.layout.wraps[axis] or shape[axis] < 3:
        return lower.at[..., 0].set(0), middle, upper.at[..., -1].set(0), None
    first, last = lower[..., 0], upper[..., -1]
    shift = -middle[..., 0]
    middle = middle.at[..., 0].add(-shift).at[..., -1].add(-first * last / shift)
    column = jnp.zeros_like(middle).at[..., 0].set(shift).at[..., -1].set(last)
    lower, upper = lower.at[..., 0].set(0), upper.at[..., -1].set(0)
    moved = _tridiagonal(lower, middle, upper, column)
    ratio = first / shift
    bottom = 1 + moved[..., 0] + ratio * moved[..., -1]
    scaled = moved / jnp.where(bottom == 0, 1, bottom)[..., None]
    return lower, middle, upper, jnp.stack([scaled, jnp.broadcast_to(ratio[..., None], scaled.shape)])


def solve_lines(diagonals: Any, right: jax.Array, axis: int) -> jax.Array:
    """The solutions of all lines along an axis."""
    lower, middle, upper, correction = diagonals
    found = _tridiagonal(lower, middle, upper, jnp.moveaxis(right, axis, -1))
    if correction is not None:
        column, ratio = correction
        found = found - (found[..., :1] + ratio[..., :1] * found[..., -1:]) * column
    return jnp.moveaxis(found, -1, axis)


def _tridiagonal(lower: jax.Array, middle: jax.Array, upper: jax.Array, right: jax.Array) -> jax.Array:
    if right.shape[-1] < 3:
        return _short_lines(lower, middle, upper, right)
    return lax.linalg.tridiagonal_solve(lower, middle, upper, right[..., None])[..., 0]


def _short_lines(lower: jax.Array, middle: jax.Array, upper: jax.Array, right: jax.Array) -> jax.Array:
    """Lines of one or two points."""
    if right.shape[-1] == 1:
        return right / middle
    determinant = middle[..., 0] * middle[..., 1] - upper[..., 0] * lower[..., 1]
    determinant = jnp.where(determinant == 0, 1, determinant)
    first = middle[..., 1] * right[..., 0] - upper[..., 0] * right[..., 1]
    second = middle[..., 0] * right[..., 1] - lower[..., 1] * right[..., 0]
    return jnp.stack([first / determinant, second / determinant], -1)

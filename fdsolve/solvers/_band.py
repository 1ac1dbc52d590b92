"""Systems with few diagonals, many lines of them at once: tridiagonal, banded, and cyclic ones bordered."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._small import solve_small


def tridiagonal(lower: jax.Array, diag: jax.Array, upper: jax.Array, rhs: jax.Array, cyclic: bool = False) -> jax.Array:
    """x with lowerᵢ xᵢ₋₁ + diagᵢ xᵢ + upperᵢ xᵢ₊₁ = rhsᵢ along the last axis, for every line of the others.

    All arguments have the shape (*lines, n). `cyclic`: x₋₁ is xₙ₋₁ and xₙ is x₀; else lower₀ and upperₙ₋₁ are not read.
    Elimination with pivoting; a cyclic system is bordered by its last row and column. A singular system gives values
    that are not finite.
    """
    size = diag.shape[-1]
    if not cyclic:
        return _tridiagonal(lower, diag, upper, rhs[..., None])[..., 0]
    if size <= 2:
        table = jnp.stack([lower, diag, upper])
        return solve_small(dense(table, 1, cyclic=True), rhs[..., None])[..., 0]
    column = jnp.zeros_like(diag[..., :-1]).at[..., 0].set(lower[..., 0]).at[..., -1].add(upper[..., -2])
    both = _tridiagonal(lower[..., :-1], diag[..., :-1], upper[..., :-1], jnp.stack([rhs[..., :-1], column], axis=-1))
    row = jnp.stack([upper[..., -1], lower[..., -1]], axis=-1)  # the last row reads the first and the last but one
    ends = row[..., 0, None] * both[..., 0, :] + row[..., 1, None] * both[..., -1, :]
    last = (rhs[..., -1] - ends[..., 0]) / (diag[..., -1] - ends[..., 1])
    return jnp.concatenate([both[..., 0] - both[..., 1] * last[..., None], last[..., None]], axis=-1)


def _tridiagonal(lower: jax.Array, diag: jax.Array, upper: jax.Array, rhs: jax.Array) -> jax.Array:
    if diag.shape[-1] == 1:
        return rhs / diag[..., None]
    return lax.linalg.tridiagonal_solve(lower, diag, upper, rhs)


def dense(table: jax.Array, below: int, *, cyclic: bool) -> jax.Array:
    """The matrices (*lines, n, n) of a table of diagonals (diagonals, *lines, n): entry k of row i is column i + k −
    `below`."""
    size = table.shape[-1]
    found = jnp.zeros((*table.shape[1:], size), table.dtype)
    rows = np.arange(size)
    for at, band in enumerate(table):
        columns = rows + at - below
        inside = np.full(size, True) if cyclic else (columns >= 0) & (columns < size)
        found = found.at[..., rows[inside], columns[inside] % size].add(band[..., inside])
    return found


class BandFactors(NamedTuple):
    """L and U of lines, from elimination with pivoting of rows.

    `upper` (n, below + above + 1, lines), rows of U; `factors` (n, below, lines), multiples of it taken from the rows
    that follow; `pivots` (n, lines), which of the rows at hand came first.
    """

    upper: jax.Array
    factors: jax.Array
    pivots: jax.Array


def factor_band(table: jax.Array, below: int) -> BandFactors:
    """Factors of band matrices, many lines at once.

    `table` (diagonals, n, lines): entry k of row i is column i + k − `below`. Entries that leave the matrix are zero.
    A pivot that vanishes becomes one far below rounding: the solution is then large, and its residual tells.
    """
    width, size = table.shape[:2]
    rows = jnp.moveaxis(table, 0, 1)  # (n, diagonals, lines)
    real = jnp.finfo(table.dtype)
    tiny = jnp.max(jnp.abs(table), axis=(0, 1)) * real.eps**2 + real.tiny
    window = jnp.stack([_from(rows[i], below - i) if i < size else jnp.zeros_like(rows[0]) for i in range(below + 1)])
    later = jnp.concatenate([rows[below + 1 :], jnp.zeros((min(below + 1, size), *rows.shape[1:]), table.dtype)])

    def step(window: jax.Array, row: jax.Array) -> tuple[jax.Array, BandFactors]:
        pivot = jnp.argmax(jnp.abs(window[:, 0]), axis=0)
        window = _to_front(window, pivot)
        first = window[0]
        first = first.at[0].set(jnp.where(jnp.abs(first[0]) > tiny, first[0], tiny.astype(first.dtype)))
        factors = window[1:, 0] / first[0]
        rest = window[1:] - factors[:, None] * first[None]
        rest = jnp.concatenate([rest[:, 1:], jnp.zeros_like(rest[:, :1])], axis=1)
        return jnp.concatenate([rest, row[None]]), BandFactors(first, factors, pivot)

    assert later.shape == (size, width, table.shape[2])
    return lax.scan(step, window, later)[1]


def _from(row: jax.Array, skip: int) -> jax.Array:
    """A row from its diagonal number `skip` on, zeros after."""
    return jnp.concatenate([row[skip:], jnp.zeros_like(row[:skip])])


def _to_front(window: jax.Array, pivot: jax.Array) -> jax.Array:
    """The rows with the one of index `pivot` (lines) exchanged for the first."""
    count, around = window.shape[0], [1] * (window.ndim - 2)
    here = jnp.arange(count).reshape(-1, *around, 1) == pivot
    chosen = jnp.sum(jnp.where(here, window, 0), axis=0)
    return jnp.concatenate([chosen[None], jnp.where(here[1:], window[0], window[1:])])


def solve_band(factors: BandFactors, rhs: jax.Array) -> jax.Array:
    """x of all lines, `rhs` and x (n, lines)."""
    size, below = factors.factors.shape[:2]
    head = jnp.zeros((below + 1, *rhs.shape[1:]), rhs.dtype).at[: min(below + 1, size)].set(rhs[: below + 1])
    later = jnp.concatenate([rhs[below + 1 :], jnp.zeros((min(below + 1, size), *rhs.shape[1:]), rhs.dtype)])

    def down(window: jax.Array, at: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        multiples, pivot, coming = at
        window = _to_front(window, pivot)
        return jnp.concatenate([window[1:] - multiples * window[0], coming[None]]), window[0]

    _, middle = lax.scan(down, head, (factors.factors, factors.pivots, later))

    def up(known: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        row, value = at
        found = (value - jnp.sum(row[1:] * known, axis=0)) / row[0]
        return jnp.concatenate([found[None], known])[: known.shape[0]], found

    start = jnp.zeros((factors.upper.shape[1] - 1, *rhs.shape[1:]), rhs.dtype)
    return lax.scan(up, start, (factors.upper, middle), reverse=True)[1]


@dataclass(frozen=True)
class BandShape:
    """`size` rows a line, entries from `below` diagonals under the main one to `above` over it, `cyclic` or not."""

    size: int
    below: int
    above: int
    cyclic: bool

    @property
    def border(self) -> int:
        """Rows and columns at the end that border what is left of a cyclic matrix."""
        return max(self.below, self.above) if self.cyclic else 0

    @property
    def small(self) -> bool:
        """Whether the whole matrix is handled as a dense one: shorter than its stencil."""
        return self.cyclic and self.size <= 2 * self.border + max(self.below, self.above)

    @property
    def tridiagonal(self) -> bool:
        """Whether one diagonal on each side is all there is."""
        return self.below <= 1 and self.above <= 1


def factor(shape: BandShape, table: jax.Array) -> Any:
    """What `solve` needs of matrices, from their `table` of diagonals (below + 1 + above, n, lines)."""
    lines_last = jnp.moveaxis(table, 2, 1)
    if shape.tridiagonal:
        padding = [(1 - shape.below, 1 - shape.above), (0, 0), (0, 0)]
        return tuple(jnp.pad(lines_last, padding))
    if shape.small:
        return dense(lines_last, shape.below, cyclic=True)
    if not shape.cyclic:
        return factor_band(table, shape.below)
    return _bordered(shape, table)


def solve(shape: BandShape, factors: Any, rhs: jax.Array) -> jax.Array:
    """x of all lines; `rhs` and x have the shape (n, lines)."""
    if shape.tridiagonal:
        lower, diag, upper = factors
        return tridiagonal(lower, diag, upper, rhs.T, cyclic=shape.cyclic).T
    if shape.small:
        return solve_small(factors, rhs.T[..., None])[..., 0].T
    if not shape.cyclic:
        return solve_band(factors, rhs)
    inner, columns, rows, corner = factors
    rest, width = shape.size - shape.border, shape.border
    first = solve_band(inner, rhs[:rest])
    near = jnp.concatenate([first[:width], first[rest - width :]])
    right = rhs[rest:] - jnp.einsum("bcl,cl->bl", rows, near)
    last = solve_small(jnp.moveaxis(corner, -1, 0), right.T[..., None])[..., 0].T
    return jnp.concatenate([first - jnp.sum(columns * last[:, None], axis=0), last])


def _bordered(shape: BandShape, table: jax.Array) -> tuple[BandFactors, jax.Array, jax.Array, jax.Array]:
    """[[B, F], [E, C]], B banded: its factors, B⁻¹F (border, rest, lines), E where it is not zero (border, 2 border,
    lines), at the two ends of B, and C − E B⁻¹F (border, border, lines)."""
    width, rest, lines = shape.border, shape.size - shape.border, table.shape[2]
    at, i = (found.ravel() for found in np.indices((table.shape[0], shape.size)))
    j = (i + at - shape.below) % shape.size
    values = table.reshape(-1, lines)

    def block(rows: int, columns: int, mine: np.ndarray, place: tuple[np.ndarray, np.ndarray]) -> jax.Array:
        found = jnp.zeros((rows, columns, lines), table.dtype)
        return found.at[place[0][mine], place[1][mine]].add(values[np.flatnonzero(mine)])

    columns = block(width, rest, (i < rest) & (j >= rest), (j - rest, i))
    near_end = np.where(j < width, j, j - rest + 2 * width)
    rows = block(width, 2 * width, (i >= rest) & (j < rest), (i - rest, near_end))
    corner = block(width, width, (i >= rest) & (j >= rest), (i - rest, j - rest))
    inner = factor_band(_inside(table[:, :rest], shape.below), shape.below)
    columns = jax.vmap(partial(solve_band, inner))(columns)
    near = jnp.concatenate([columns[:, :width], columns[:, rest - width :]], axis=1)
    return inner, columns, rows, corner - jnp.einsum("bcl,dcl->bdl", rows, near)


def _inside(table: jax.Array, below: int) -> jax.Array:
    """Without entries that leave the matrix."""
    width, size = table.shape[:2]
    columns = np.arange(size) + np.arange(width)[:, None] - below
    return jnp.where(((columns >= 0) & (columns < size))[..., None], table, 0)

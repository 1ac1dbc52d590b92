"""Compact (Padé) derivatives: implicit along a line, by a tridiagonal solve."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import factorial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..grid import Axis, Grid
from ..region import Layout
from ..views import AbstractOperation, AbstractView, AbstractWorld, Exact, move, operate

_REACH = 4  # the widest offset of a right-hand side, closures included
_CLOSURES = {(1, 4): 3, (1, 6): 3, (2, 4): 4, (2, 6): 5}  # points of the outermost row's right-hand side


@dataclass(frozen=True)
class Compact(AbstractOperation):
    """α f⁽ⁿ⁾ᵢ₋₁ + f⁽ⁿ⁾ᵢ + β f⁽ⁿ⁾ᵢ₊₁ = Σ aₖ fᵢ₊ₖ along an axis, exact for polynomials of the highest degree possible."""

    axis: str
    position: int
    derivative: int
    order: int

    @property
    def crosses(self) -> tuple[int, ...]:
        return (self.position,)

    def operands(self, grid: Grid, layout: Layout, signs: tuple[int, ...]) -> dict[str, Any]:
        owner, face = grid.space_axis(self.axis), self.axis in layout.faces
        bands, right = compact_matrices(owner, face, self.derivative, self.order, signs[self.position])
        found = {"bands": bands, "right": right}
        if owner.periodic:
            found["corners"] = _corners(bands)
        return found

    def apply(self, values: jax.Array, operands: Mapping[str, jax.Array]) -> jax.Array:
        lines = jnp.moveaxis(values, self.position, 0)
        shape, size = lines.shape, lines.shape[0]
        lines = lines.reshape(size, -1)
        around = ((_REACH, _REACH), (0, 0))
        padded = jnp.pad(lines, around, mode="wrap" if "corners" in operands else "constant")
        real = operands["right"]
        right = sum(
            real[:, k, None].astype(lines.dtype) * jax.lax.slice_in_dim(padded, k, k + size)
            for k in range(2 * _REACH + 1)
        )
        lower, diagonal, upper = (band.astype(lines.dtype) for band in operands["bands"])
        result = jax.lax.linalg.tridiagonal_solve(lower, diagonal, upper, jnp.asarray(right))
        if "corners" in operands:  # Sherman and Morrison (1950): the two corners as an update of rank one
            column, row = operands["corners"].astype(lines.dtype)
            along = result[0] * row[0] + result[-1] * row[-1]
            result = result - column[:, None] * along[None, :]
        return jnp.moveaxis(result.reshape(shape), 0, self.position)

    def exact(self, function: Exact, world: AbstractWorld) -> Exact:
        return world.derivative(function, self.axis, self.derivative)

    def __repr__(self) -> str:
        return f"compact {self.derivative} along {self.axis}, order {self.order},"


def compact(view: Any, axis: Any, n: Any = 1, *, order: Any = 4, at: Any = None) -> AbstractView:
    """∂ⁿu/∂axisⁿ, n = 1 or 2, by a compact (Padé) difference of order 4 or 6: a tridiagonal solve along each line.

    On uniform axes order 4 is ¼f′ᵢ₋₁ + f′ᵢ + ¼f′ᵢ₊₁ = 3/2 (fᵢ₊₁ − fᵢ₋₁)/2h and its like; on stretched axes the
    coefficients follow from the positions. The outermost rows close on points inside, of order 3 for n = 1 and one less
    than asked for n = 2: ghost values are not read, so only conditions that set values (Dirichlet) act on it. Between
    places of a staggered grid it is not defined. Source: Lele, J. Comput. Phys. 103 (1992) 16, sections 2.1, 2.2, 4.1.
    Good values: order 6 with RK4; a quarter of the points of order 2 for the same error at ten points a wavelength.
    """
    if not isinstance(view, AbstractView):
        raise DeclarationError(f"compact takes a view, got {type(view).__name__}; inside a rule write compact(u, 'x').")
    context = view.context
    if axis not in context.grid.space:
        raise DeclarationError(
            f"{context.what}: compact({view}, {axis!r}): unknown space axis; the space axes are "
            f"{', '.join(context.grid.space)}."
        )
    if (n, order) not in _CLOSURES:
        raise DeclarationError(
            f"{context.what}: compact({view}, {axis!r}, n={n!r}, order={order!r}): n is 1 or 2 and the order 4 or 6."
        )
    owner, least = context.grid.space_axis(axis), _CLOSURES[n, order] + 2
    if owner.num < least:
        raise DeclarationError(f"{context.what}: compact needs {least} points along `{axis}`, which has {owner.num}.")
    if not owner.periodic:
        asked = _CLOSURES[n, order] + 1 - n
        context.note(f"compact derivative {n} along {axis} of order {order} closes at order {asked} at the walls")
    return operate(move(view, at), Compact(axis, context.grid.space.index(axis), n, order))


def compact_matrices(
    axis: Axis, face: bool, derivative: int, order: int, sign: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The bands (lower, diagonal, upper) of the implicit side, (3, num), and the weights of the other, (num, 9).

    On a periodic axis the first lower and the last upper entry are those of the corners; values and derivatives
    repeat there with a `sign`.
    """
    size, reach = axis.size(face), order // 2 - 1
    places = axis.positions(face, -_REACH, size + _REACH)
    bands, right = np.zeros((3, size)), np.zeros((size, 2 * _REACH + 1))
    bands[1] = 1.0
    for i in range(size):
        implicit, explicit = _offsets(i, size, axis.periodic, reach, _CLOSURES[derivative, order])
        x = places[i + _REACH + np.arange(-_REACH, _REACH + 1)] - places[i + _REACH]
        near, weights = _solve_row(x[np.array(implicit) + _REACH], x[np.array(explicit) + _REACH], derivative)
        for offset, value in zip(implicit, near, strict=True):
            bands[1 + offset, i] = value
        right[i, np.array(explicit) + _REACH] = weights
    if axis.periodic:
        bands[0, 0] *= sign
        bands[2, -1] *= sign
        place = np.arange(size)[:, None] + np.arange(-_REACH, _REACH + 1)
        right[(place < 0) | (place >= size)] *= sign
    return bands, right


def _offsets(i: int, size: int, periodic: bool, reach: int, closure: int) -> tuple[list[int], list[int]]:
    """Offsets of the implicit and the explicit side of row i."""
    if periodic or reach <= i < size - reach:
        return [-1, 1], list(range(-reach, reach + 1))
    if i == 0:
        return [1], list(range(closure))
    if i == size - 1:
        return [-1], [-k for k in range(closure)]
    if closure < 5:
        return [-1, 1], [-1, 0, 1]
    return [-1, 1], [-1, 0, 1, 2] if i < size // 2 else [-2, -1, 0, 1]


def _solve_row(implicit: np.ndarray, explicit: np.ndarray, derivative: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients exact for as many powers of x as there are coefficients; distances from the row's point."""
    scale = float(np.abs(np.concatenate([implicit, explicit])).max())
    near, far = implicit / scale, explicit / scale
    count = near.size + far.size
    matrix, right = np.zeros((count, count)), np.zeros(count)
    for power in range(count):
        if power >= derivative:
            matrix[power, : near.size] = (
                -factorial(power) / factorial(power - derivative) * near ** (power - derivative)
            )
        matrix[power, near.size :] = far**power
    right[derivative] = factorial(derivative)
    found = np.linalg.solve(matrix, right)
    return found[: near.size], found[near.size :] / scale**derivative


def _corners(bands: np.ndarray) -> np.ndarray:
    """The column z/(1 + v·z) and the row v of the rank-one update that puts the corners into the tridiagonal matrix.

    Changes the first and last diagonal entries of `bands` to those of the matrix that remains.
    """
    lower, diagonal, upper = bands
    first, last = lower[0], upper[-1]  # the entries at (0, n − 1) and (n − 1, 0)
    gamma = -diagonal[0]
    u, v = np.zeros(diagonal.size), np.zeros(diagonal.size)
    u[0], u[-1] = gamma, last
    v[0], v[-1] = 1.0, first / gamma
    diagonal[0] -= gamma
    diagonal[-1] -= last * first / gamma
    z = _solve_bands(lower, diagonal, upper, u)
    return np.stack([z / (1 + v @ z), v])


def _solve_bands(lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Gauss elimination of a diagonally dominant tridiagonal system."""
    pivots, result = diagonal.copy(), right.copy()
    for i in range(1, right.size):
        factor = lower[i] / pivots[i - 1]
        pivots[i] -= factor * upper[i - 1]
        result[i] -= factor * result[i - 1]
    result[-1] /= pivots[-1]
    for i in range(right.size - 2, -1, -1):
        result[i] = (result[i] - upper[i] * result[i + 1]) / pivots[i]
    return result

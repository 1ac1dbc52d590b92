"""Diffusion problems in stencil form, written out point by point, for tests of solvers."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fdsolve.solvers import LinearSystem, MatrixLayout, Report, StencilMatrix, SystemOutline, Vector
from fdsolve.solvers import Side as Wall


@dataclass(frozen=True)
class Side:
    """The two ends of an axis, "value", "slope" or "periodic", of nodes or cells."""

    low: str
    high: str
    cells: bool


NODES, CELLS = Side("value", "value", False), Side("value", "value", True)
PERIODIC = Side("periodic", "periodic", False)


def diffusion(
    shape: tuple[int, ...],
    sides: tuple[Side, ...],
    kappa: np.ndarray | None = None,
    holes: np.ndarray | None = None,
    *,
    weights: tuple[float, ...] = (1.0, 1.0, 1.0),
    shift: complex = 0.0,
    dtype: str = "float64",
) -> LinearSystem:
    """shift·u − ∇·κ∇u with harmonic faces; holes hold zero."""
    ndim = len(shape)
    kappa = np.ones(shape) if kappa is None else kappa
    free = np.ones(shape, bool) if holes is None else ~holes
    for axis, side in enumerate(sides):
        ends = [end for end, kind in ((0, side.low), (-1, side.high)) if kind == "value" and not side.cells]
        np.moveaxis(free, axis, 0)[ends] = False
    dtype = "complex128" if isinstance(shift, complex) else dtype
    offsets = [(0,) * ndim, *(tuple(s * (a == b) for b in range(ndim)) for a in range(ndim) for s in (-1, 1))]
    entries = {o: np.zeros(shape, dtype) for o in offsets}
    for point in np.argwhere(free):
        here = tuple(point)
        entries[offsets[0]][here] += shift
        for offset in offsets[1:]:
            _add(entries, here, offset, sides, kappa, free, weights)
    wraps = tuple(side.low == "periodic" for side in sides)
    layout = MatrixLayout(("u",), (shape,), wraps, (("u", "u", tuple(offsets)),), dtype)
    matrix = StencilMatrix(layout, (jnp.asarray(np.stack(list(entries.values()))),), {"u": jnp.asarray(free)})
    return system_of(matrix)


def _add(
    entries: dict[Any, np.ndarray],
    here: Any,
    offset: Any,
    sides: Any,
    kappa: np.ndarray,
    free: np.ndarray,
    weights: Any,
) -> None:
    """What the face towards a neighbour adds to a row."""
    axis = next(a for a, o in enumerate(offset) if o)
    there = tuple(i + o for i, o in zip(here, offset, strict=True))
    centre, read, side = (0,) * len(offset), offset, sides[axis]
    if not 0 <= there[axis] < kappa.shape[axis]:
        kind = side.low if offset[axis] < 0 else side.high
        if kind == "value":
            entries[centre][here] += 2 * kappa[here] * weights[axis]
            return
        if kind == "slope" and side.cells:
            return
        if kind == "slope":
            read = tuple(-o for o in offset)
            there = tuple(i + o for i, o in zip(here, read, strict=True))
        there = tuple(i % n for i, n in zip(there, kappa.shape, strict=True))
    face = 2 * kappa[here] * kappa[there] / (kappa[here] + kappa[there]) * weights[axis]
    entries[centre][here] += face
    if free[there]:
        entries[read][here] -= face


def system_of(matrix: StencilMatrix) -> LinearSystem:
    """A system of which nothing is known but its matrix."""
    layout = matrix.layout
    wall = Wall("other", True)
    sides = ((wall, wall),) * layout.ndim
    names, kind = tuple("xyz"[: layout.ndim]), layout.dtype.startswith("complex")
    outline = SystemOutline(layout, False, names, sides, False, (True,) * layout.ndim, False, kind)
    return LinearSystem(outline, matrix.apply, matrix)


def transposed(system: LinearSystem) -> LinearSystem:
    """The system of the transposed matrix, with the same layout."""
    matrix = system.matrix
    assert matrix is not None
    turned = matrix.transpose()
    (_, _, wanted), (_, _, found) = matrix.layout.blocks[0], turned.layout.blocks[0]
    values = turned.values[0][jnp.asarray([found.index(o) for o in wanted])]
    return system_of(StencilMatrix(matrix.layout, (values,), matrix.free))


def laplacian_of_order_four(num: int) -> LinearSystem:
    """u − Δu, fourth order, on a periodic square."""
    steps = {-2: 1 / 12, -1: -4 / 3, 1: -4 / 3, 2: 1 / 12}
    offsets = ((0, 0), *((k, 0) for k in steps), *((0, k) for k in steps))
    values = jnp.stack([jnp.full((num, num), v) for v in (5.01, *steps.values(), *steps.values())])
    layout = MatrixLayout(("u",), ((num, num),), (True, True), (("u", "u", offsets),), "float64")
    return system_of(StencilMatrix(layout, (values,), {"u": jnp.ones((num, num), bool)}))


def two_fields(num: int) -> LinearSystem:
    """−Δu + v = f, −Δv − u = g between walls."""
    one = diffusion((num, num), (NODES, NODES)).matrix
    assert one is not None
    free = one.free["u"]
    couple = jnp.where(free, 1.0, 0.0)[None]
    blocks = (("u", "u", one.layout.blocks[0][2]), ("u", "v", ((0, 0),)), ("v", "u", ((0, 0),)))
    blocks = (*blocks, ("v", "v", one.layout.blocks[0][2]))
    layout = MatrixLayout(("u", "v"), ((num, num),) * 2, (False, False), blocks, "float64")
    return system_of(StencilMatrix(layout, (one.values[0], couple, -couple, one.values[0]), {"u": free, "v": free}))


def random_vector(system: LinearSystem, seed: int = 0) -> Vector:
    """Normal numbers at unknown points."""
    rng, matrix = np.random.default_rng(seed), system.matrix
    assert matrix is not None
    dtype = matrix.layout.dtype
    return {
        n: jnp.where(free, jnp.asarray(rng.standard_normal(free.shape), dtype), 0) for n, free in matrix.free.items()
    }


def dense(system: LinearSystem) -> np.ndarray:
    """The whole matrix."""
    assert system.matrix is not None
    values, rows, columns = system.matrix.entries()
    found = np.zeros((system.matrix.layout.size,) * 2, values.dtype)
    np.add.at(found, (rows, columns), np.asarray(values))
    return found


def solved(system: LinearSystem, solver: Any, right: Vector | None = None) -> tuple[Vector, Report]:
    """A compiled solve from zero."""
    right = random_vector(system) if right is None else right
    assert solver.refuse(system.outline) is None
    return _program(system.outline, solver)(system.matrix, right)


@cache
def _program(outline: SystemOutline, solver: Any) -> Any:
    """Compiled once for all matrices of a layout."""

    def run(matrix: StencilMatrix, right: Vector) -> tuple[Vector, Report]:
        own = LinearSystem(outline, matrix.apply, matrix)
        return solver.solve(own, solver.prepare(own), right, {name: jnp.zeros_like(b) for name, b in right.items()})

    return jax.jit(run)

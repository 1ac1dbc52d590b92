"""Coarse matrices R A P, in stencil form like the finer ones."""

from itertools import product

from jax import lax

from ._matrix import MatrixLayout, StencilMatrix, Vector, box_offsets, multiply, probe
from ._transfer import Coarsening, Transfer, coupled


def galerkin(matrix: StencilMatrix, transfer: Transfer) -> StencilMatrix:
    """R A P, in stencil form on the coarse grid.

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
    """The layout of R A P: boxes that reach as far as the finer stencils, one point where they reach one."""
    blocks, held = [], {(row, column): offsets for row, column, offsets in layout.blocks}
    if coupled(layout):
        held = {pair: held.get(pair, ()) for pair in product(layout.fields, layout.fields)}
    for (row, column), offsets in held.items():
        far = [max((abs(o[a]) for o in offsets), default=0) for a in range(layout.ndim)]
        reach = [(n + 2) // 2 if halved else n for n, halved in zip(far, coarsening.halved, strict=True)]
        blocks.append((row, column, box_offsets(reach)))
    shapes = (coarsening.coarse_shape,) * len(layout.fields)
    return MatrixLayout(layout.fields, shapes, layout.wraps, tuple(blocks), layout.dtype)

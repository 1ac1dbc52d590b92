"""Random linear systems in stencil form, and their dense matrices."""

from itertools import product
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from fdsolve.solvers import LinearSystem, MatrixLayout, Side, StencilMatrix, SystemOutline

VALUE, SLOPE = Side("value", True), Side("slope", True)
VALUE_HALF, SLOPE_HALF = Side("value", False), Side("slope", False)
RING, OTHER = Side("periodic", True), Side("other", True)

DTYPES = ("float32", "float64", "complex64", "complex128")


def random_values(rng, shape, dtype):
    """Normal numbers of a dtype."""
    values = rng.standard_normal(shape)
    if np.issubdtype(np.dtype(dtype), np.complexfloating):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def random_matrix(rng, fields, wraps, offsets, dtype="float64", *, held=0.0, strength=1.0):
    """A matrix of coupled fields {name: shape}, entries at all offsets for every pair, some points known.

    `strength` of the diagonal over the sum of what is beside it; 0 for no diagonal of its own.
    """
    names, shapes = tuple(fields), tuple(fields.values())
    blocks = tuple((row, column, tuple(offsets)) for row in names for column in names)
    layout = MatrixLayout(names, shapes, wraps, blocks, dtype)
    free = {name: rng.random(shape) >= held for name, shape in fields.items()}
    zero = (0,) * len(wraps)
    values = []
    for row, column, found in blocks:
        own = random_values(rng, (len(found), *fields[row]), dtype)
        if row == column and zero in found:
            own[found.index(zero)] += strength * 2 * len(found) * len(names)
        values.append(np.where(free[row], own, 0).astype(dtype))
    return in_order(
        StencilMatrix(layout, tuple(map(jnp.asarray, values)), {n: jnp.asarray(f) for n, f in free.items()})
    )


def in_order(matrix):
    """Without entries in columns of known points or outside the fields."""
    layout, values = matrix.layout, []
    free = {name: np.asarray(value) for name, value in matrix.free.items()}
    for (row, column, offsets), own in zip(layout.blocks, matrix.values, strict=True):
        kept = np.array(own)
        for at, offset in enumerate(offsets):
            for place in product(*map(range, layout.shape(row))):
                other = column_of(layout, column, place, offset)
                if other is None or not free[column][other]:
                    kept[(at, *place)] = 0
        values.append(jnp.asarray(kept))
    return StencilMatrix(layout, tuple(values), matrix.free)


def column_of(layout, column, place, offset):
    """The point of a field at an offset from a place; None outside."""
    other = []
    for i, o, size, wraps in zip(place, offset, layout.shape(column), layout.wraps, strict=True):
        at = (i + o) % size if wraps else i + o
        if not 0 <= at < size:
            return None
        other.append(at)
    return tuple(other)


def dense_of(matrix):
    """The matrix entry by entry, point by point: slow and plain."""
    layout = matrix.layout
    starts = dict(zip(layout.fields, np.cumsum([0, *map(prod, layout.shapes)]), strict=False))
    found = np.zeros((layout.size, layout.size), layout.dtype)
    for (row, column, offsets), own in zip(layout.blocks, matrix.values, strict=True):
        own = np.asarray(own)
        for at, offset in enumerate(offsets):
            for place in product(*map(range, layout.shape(row))):
                other = column_of(layout, column, place, offset)
                if other is not None:
                    i = starts[row] + np.ravel_multi_index(place, layout.shape(row))
                    j = starts[column] + np.ravel_multi_index(other, layout.shape(column))
                    found[i, j] += own[(at, *place)]
    for name, shape in zip(layout.fields, layout.shapes, strict=True):
        known = starts[name] + np.flatnonzero(~np.asarray(matrix.free[name]).reshape(prod(shape)))
        found[known, known] += 1
    return found


def random_vector(rng, matrix):
    """A vector that vanishes at known points."""
    layout = matrix.layout
    return {
        name: jnp.asarray(np.where(matrix.free[name], random_values(rng, shape, layout.dtype), 0).astype(layout.dtype))
        for name, shape in zip(layout.fields, layout.shapes, strict=True)
    }


def outline_of(layout, sides=None, unknown=False, **changes):
    """An outline of what a matrix does not say; `unknown`, without its layout."""
    count = layout.ndim
    told = dict(
        layout=None if unknown else layout,
        constant=False,
        axes=("x", "y", "z")[:count],
        sides=sides or ((OTHER, OTHER),) * count,
        holes=False,
        uniform=(True,) * count,
        may_float=False,
        complex=np.issubdtype(np.dtype(layout.dtype), np.complexfloating),
    )
    return SystemOutline(**(told | changes))


def system_of(matrix, sides=None, **changes):
    """The system of a matrix."""
    return LinearSystem(outline_of(matrix.layout, sides, **changes), matrix.apply, matrix)


def shifted(size, offset, sides):
    """The matrix that reads u(i + offset) along an axis, values beyond walls from their mirror images.

    Rows and columns of points with given values are zero.
    """
    found = np.zeros((size, size))
    low, high = sides
    given = [side.kind == "value" and side.on_point for side in sides]
    for i in range(given[0], size - given[1]):
        at, sign = i + offset, 1
        while low.kind != "periodic" and not 0 <= at < size:
            side, wall = (low, -0.5 * (not low.on_point)) if at < 0 else (high, size - 1 + 0.5 * (not high.on_point))
            at, sign = int(2 * wall - at), sign * (-1 if side.kind == "value" else 1)
        at %= size
        if not (at == 0 and given[0]) and not (at == size - 1 and given[1]):
            found[i, at] = sign
    return found


def mirrored_matrix(shape, sides, weights, dtype="float64"):
    """The matrix of a rule with constant `weights` {offset: number}, beside the walls read in mirrors."""
    total = np.zeros((prod(shape), prod(shape)), dtype)
    for offset, weight in weights.items():
        term = np.ones((1, 1))
        for size, o, side in zip(shape, offset, sides, strict=True):
            term = np.kron(term, shifted(size, o, side))
        total = total + (weight * term).astype(dtype)
    free = np.ones(shape, bool)
    for axis, (low, high) in enumerate(sides):
        moved = np.moveaxis(free, axis, 0)
        moved[0] &= not (low.kind == "value" and low.on_point)
        moved[-1] &= not (high.kind == "value" and high.on_point)
    wraps = tuple(low.kind == "periodic" for low, _ in sides)
    return from_dense(total, {"u": shape}, wraps, tuple(weights), {"u": free}, dtype)


def from_dense(total, fields, wraps, offsets, free, dtype):
    """A dense matrix in stencil form."""
    (name,), (shape,) = tuple(fields), tuple(fields.values())
    layout = MatrixLayout((name,), (shape,), wraps, ((name, name, tuple(offsets)),), dtype)
    values = np.zeros((len(offsets), *shape), dtype)
    for at, offset in enumerate(offsets):
        for place in product(*map(range, shape)):
            other = column_of(layout, name, place, offset)
            if other is not None and free[name][place] and free[name][other]:
                values[(at, *place)] = total[np.ravel_multi_index(place, shape), np.ravel_multi_index(other, shape)]
    return StencilMatrix(layout, (jnp.asarray(values),), {name: jnp.asarray(free[name])})


def flat(matrix, x):
    """A vector as one array, field after field."""
    return np.concatenate([np.asarray(x[name]).ravel() for name in matrix.layout.fields])


def apart(matrix, array):
    """The inverse of `flat`."""
    layout = matrix.layout
    ends = np.cumsum([prod(shape) for shape in layout.shapes])[:-1]
    parts = zip(layout.fields, layout.shapes, np.split(array, ends), strict=True)
    return {name: jnp.asarray(part.reshape(shape).astype(layout.dtype)) for name, shape, part in parts}


def solved(solver, matrix, rhs, sides=None, **changes):
    """What a solver makes of a system, in one program."""

    def run(matrix, rhs):
        system = system_of(matrix, sides, **changes)
        return solver.solve(system, solver.prepare(system), rhs, rhs)

    assert solver.refuse(outline_of(matrix.layout, sides, **changes)) is None
    return jax.jit(run)(matrix, rhs)


def check(solver, matrix, sides=None, **changes):
    """That a solver converges to the solution; where nothing fixes the mean, to one of them."""
    dense, limit = dense_of(matrix), 2e-4 if np.finfo(matrix.layout.dtype).eps > 1e-10 else 1e-10
    rhs = random_vector(np.random.default_rng(100), matrix)
    floats = bool(changes.get("may_float"))
    if floats:
        assert np.linalg.matrix_rank(dense) < dense.shape[0]
        rhs = apart(matrix, dense @ flat(matrix, rhs))
    x, report = solved(solver, matrix, rhs, sides, **changes)
    found, right = flat(matrix, x), flat(matrix, rhs)
    residual = np.linalg.norm(right - dense @ found) / np.linalg.norm(right)
    assert residual < limit / 20 and bool(report.converged)
    assert abs(float(report.residual) - residual) < limit / 20 and int(report.iterations) == 1
    if not floats:
        np.testing.assert_allclose(found, np.linalg.solve(dense, right), atol=limit * np.abs(found).max())
    for name, free in matrix.free.items():
        assert not np.any(np.asarray(x[name])[~np.asarray(free)])

"""Matrices in stencil form, against dense ones made entry by entry."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from fdsolve.solvers import probe
from fdsolve.solvers._matrix import axpy, box_offsets, inner, norm, shifts

from .systems import DTYPES, dense_of, flat, random_matrix, random_vector


@st.composite
def matrices(draw):
    """Random matrices: one to three axes, wrapped or not, one or two fields, one of them shorter where it may be."""
    count = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(2, 6 if count < 3 else 3)) for _ in range(count))
    wraps = tuple(draw(st.booleans()) for _ in range(count))
    offset = st.tuples(*(st.integers(-2, 2) for _ in range(count)))
    offsets = draw(st.lists(offset, min_size=1, max_size=5, unique=True))
    fields = {"u": shape}
    if draw(st.booleans()):
        fields["v"] = tuple(n if w else n + draw(st.integers(-1, 1)) for n, w in zip(shape, wraps, strict=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return random_matrix(rng, fields, wraps, offsets, draw(st.sampled_from(DTYPES)), held=0.2)


@jax.jit
def everything(matrix, x):
    """All that is asked of a matrix, in one program."""
    back, found = matrix.transpose(), probe(matrix.apply, matrix.layout, matrix.free)
    return matrix.apply(x), back, back.apply(x), matrix.diagonal(), matrix.entries()[0], found


@settings(max_examples=7)
@given(matrices())
def test_what_a_matrix_does_is_what_its_entries_say(matrix):
    dense, limit = dense_of(matrix), 1e-4 if matrix.layout.dtype in ("float32", "complex64") else 1e-11
    x = random_vector(np.random.default_rng(1), matrix)
    product, back, back_product, diagonal, values, found = everything(matrix, x)
    _, rows, columns = matrix.entries()
    summed = np.zeros_like(dense)
    np.add.at(summed, (rows, columns), np.asarray(values))
    np.testing.assert_allclose(summed, dense, atol=limit)
    np.testing.assert_allclose(flat(matrix, product), dense @ flat(matrix, x), atol=limit)
    np.testing.assert_allclose(dense_of(back), dense.T, atol=limit)
    np.testing.assert_allclose(flat(matrix, back_product), dense.T @ flat(matrix, x), atol=limit)
    np.testing.assert_allclose(flat(matrix, diagonal), diagonal_of(matrix), atol=limit)
    np.testing.assert_allclose(dense_of_distinct(found), dense_of_distinct(matrix), atol=limit)


def diagonal_of(matrix):
    """The diagonal, of entries at offset zero (round a short ring other offsets come back to the same point too)."""
    values, rows, _ = matrix.entries()
    straight = np.zeros(matrix.layout.size, np.asarray(values).dtype)
    at = 0
    for (row, column, offsets), own in zip(matrix.layout.blocks, matrix.values, strict=True):
        for offset, value in zip(offsets, own, strict=True):
            if row == column and not any(offset):
                straight[rows[at : at + value.size]] += np.asarray(value).ravel()
            at += value.size
    straight[rows[at:]] += np.asarray(values[at:])
    return straight


def dense_of_distinct(matrix):
    """The dense matrix, entries that share a place set (probing finds their sum at each of them), not added."""
    dense = np.zeros((matrix.layout.size,) * 2, matrix.layout.dtype)
    values, rows, columns = matrix.entries()
    summed = np.zeros_like(dense)
    np.add.at(summed, (rows, columns), np.asarray(values))
    seen = np.zeros(dense.shape, int)
    nonzero = np.asarray(values) != 0
    np.add.at(seen, (rows[nonzero], columns[nonzero]), 1)
    return np.where(seen == 1, summed, 0)


def test_shifts_read_round_rings_and_zeros_beyond_walls():
    array = np.arange(1.0, 7.0)
    around = shifts(jnp.asarray(array), [(-7,), (2,)], (6,), (True,))
    np.testing.assert_array_equal(around[0], np.roll(array, 7))
    np.testing.assert_array_equal(around[1], np.roll(array, -2))
    cut = shifts(jnp.asarray(array), [(-2,), (3,)], (5,), (False,))
    np.testing.assert_array_equal(cut[0], [0, 0, 1, 2, 3])
    np.testing.assert_array_equal(cut[1], [4, 5, 6, 0, 0])
    assert shifts(jnp.asarray(array), [], (6,), (True,)) == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype):
    rng = np.random.default_rng(2)
    matrix = random_matrix(rng, {"u": (3, 2), "v": (2, 2)}, (False, False), [(0, 0)], dtype, held=0.3)
    x, y = random_vector(rng, matrix), random_vector(rng, matrix)
    own, other = np.asarray(matrix.ravel(x)), np.asarray(matrix.ravel(y))
    for name, value in matrix.unravel(matrix.ravel(x)).items():
        np.testing.assert_array_equal(value, x[name])
    np.testing.assert_allclose(norm(x), np.linalg.norm(own), rtol=1e-6)
    np.testing.assert_allclose(inner(x, y), np.vdot(own, other), rtol=1e-5)
    np.testing.assert_allclose(matrix.ravel(axpy(jnp.asarray(2, dtype), x, y)), 2 * own + other, rtol=1e-6)


def test_layouts_say_how_far_rows_read():
    layout = random_matrix(np.random.default_rng(0), {"u": (4, 5)}, (True, False), box_offsets((1, 2))).layout
    assert layout.reach == (1, 2) and layout.size == 20 and len(layout.blocks[0][2]) == 15
    assert layout.transposed.transposed == layout

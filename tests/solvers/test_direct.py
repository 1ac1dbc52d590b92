"""Sparse elimination, against dense elimination; and which factors are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy.sparse import block_array, csc_matrix, eye_array, kron
from scipy.sparse.linalg import splu

from fdsolve.solvers import Direct, LinearSystem, _direct
from fdsolve.solvers._sparse import STORE, Factors, FactorStore, _factor, factors_of

from .systems import (
    RING,
    SLOPE,
    check,
    dense_of,
    from_dense,
    mirrored_matrix,
    outline_of,
    random_matrix,
    random_vector,
    solved,
)

CROSS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_coupled_fields_with_holes(dtype):
    fields = {"u": (5, 4), "v": (6, 4)}
    check(Direct(), random_matrix(np.random.default_rng(0), fields, (False, False), CROSS, dtype, held=0.2))


def test_three_axes():
    offsets = ((0, 0, 0), (-1, 0, 0), (1, 0, 1), (0, 1, 0), (0, -2, 0))
    check(Direct(), random_matrix(np.random.default_rng(1), {"u": (3, 4, 3)}, (True, False, True), offsets, held=0.2))


@pytest.mark.parametrize("turned", [False, True], ids=["", "transposed"])
def test_nothing_fixes_the_mean(turned):
    weights = {(0, 0): -6.0, (-1, 0): 1.0, (1, 0): 1.0, (0, -1): 2.0, (0, 1): 2.0}
    matrix = mirrored_matrix((5, 4), ((SLOPE, SLOPE), (RING, RING)), weights)
    check(Direct(), matrix.transpose() if turned else matrix, may_float=True)


def test_zeros_on_the_diagonal():
    matrix = random_matrix(np.random.default_rng(2), {"u": (4, 4), "p": (4, 4)}, (False, False), CROSS[1:])
    check(Direct(), matrix)


def test_the_pressure_of_a_flow_does_not_fill_the_factors():
    n = 20  # velocities on the faces of n² cells, walls left out; the pressure of one cell is known
    slope = csc_matrix(np.diff(np.eye(n), axis=0))
    faces, cells = slope @ slope.T, slope.T @ slope + 2 * eye_array(n)
    u, v = kron(faces, eye_array(n)) + kron(eye_array(n - 1), cells), kron(cells, eye_array(n - 1))
    v = v + kron(eye_array(n), faces)
    gradient = block_array([[kron(slope, eye_array(n))], [kron(eye_array(n), slope)]]).tocsc()[:, 1:]
    matrix = block_array([[block_array([[u, None], [None, v]]), gradient], [gradient.T, None]]).tocsc()
    found, by_columns = _factor(matrix), splu(matrix)
    assert found.L.nnz + found.U.nnz < 1.1 * (by_columns.L.nnz + by_columns.U.nnz)


def test_a_singular_matrix_is_reported():
    size = 6
    for total in (np.diag(np.r_[0.0, np.ones(size - 1)]), np.eye(size) - np.roll(np.eye(size), 1, axis=0)):
        matrix = from_dense(total, {"u": (size,)}, (True,), ((0,), (-1,)), {"u": np.ones(size, bool)}, "float64")
        _, report = solved(Direct(), matrix, {"u": jnp.arange(1.0, size + 1)})
        assert not bool(report.converged) and float(report.residual) > 1e-3


def test_a_march_and_its_transpose_factor_once():
    matrix = random_matrix(np.random.default_rng(3), {"u": (4, 3)}, (False, False), CROSS)
    start, before = random_vector(np.random.default_rng(4), matrix), STORE.made

    def march(matrix, x):
        system = LinearSystem(outline_of(matrix.layout), matrix.apply, matrix)

        def level(x, _):
            return Direct().solve(system, Direct().prepare(system), x, x)

        return lax.scan(level, x, length=3)

    x, reports = jax.jit(march)(matrix, start)
    exact = np.linalg.matrix_power(np.linalg.inv(dense_of(matrix)), 3) @ np.asarray(start["u"]).ravel()
    np.testing.assert_allclose(np.asarray(x["u"]).ravel(), exact, rtol=1e-9)
    assert bool(reports.converged.all()) and STORE.made == before + 1
    check(Direct(), matrix.transpose())
    assert STORE.made == before + 1


def test_several_matrices_at_once():
    matrix = random_matrix(np.random.default_rng(5), {"u": (7,)}, (False,), ((0,), (1,), (-1,)))
    rhs = random_vector(np.random.default_rng(6), matrix)

    def scaled(factor):
        own = type(matrix)(matrix.layout, tuple(factor * value for value in matrix.values), matrix.free)
        return solved(Direct(), own, rhs)

    x, report = jax.vmap(scaled)(jnp.asarray([1.0, 2.0]))
    exact = np.linalg.solve(dense_of(matrix), np.asarray(rhs["u"]))
    np.testing.assert_allclose(x["u"], np.stack([exact, exact / 2]), rtol=1e-10)
    assert bool(report.converged.all())


def test_factors_used_longest_ago_are_let_go():
    store, made = FactorStore(kept=2), [Factors(None) for _ in range(3)]
    for name, one in zip((b"a", b"b"), made, strict=False):
        store.keep(one)
        store.name(name, one, False)
    assert store.find(b"a") == (made[0], False)
    store.keep(made[2])
    store.name(b"c", made[2], True)
    assert store.find(b"b") is None and store.find(b"a") == (made[0], False) and store.find(b"c") == (made[2], True)
    store.name(b"d", made[1], False)  # let go of: no name for it is kept
    assert store.find(b"d") is None and store.made == 3


def test_factors_that_were_let_go_are_made_again():
    matrix = random_matrix(np.random.default_rng(7), {"u": (6,)}, (False,), ((0,), (1,)))

    store, dense = FactorStore(kept=1), dense_of(matrix)
    for scale in (1.0, 2.0, 1.0):
        factors, transposed = factors_of(str(scale).encode(), lambda scale=scale: csc_matrix(scale * dense), store)
        np.testing.assert_allclose(factors.solve(np.ones(6), transposed), np.linalg.solve(scale * dense, np.ones(6)))
    assert store.made == 3


def test_what_is_refused(monkeypatch):
    layout = random_matrix(np.random.default_rng(8), {"u": (3,)}, (False,), ((0,),)).layout
    assert Direct().refuse(outline_of(layout)) is None
    assert Direct().refuse(outline_of(layout, unknown=True)) == "rows read points anywhere"
    monkeypatch.setattr(_direct, "find_spec", lambda name: None)
    assert Direct().refuse(outline_of(layout)) == "scipy is not installed; write pip install 'fdsolve[implicit]'"

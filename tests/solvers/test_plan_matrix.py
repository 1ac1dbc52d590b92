"""The matrix of a plan against differences of the residual, and the names of its rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import fdsolve as fd
from fdsolve.schemes import laplacian


def coupled() -> tuple[fd.Field, fd.Field]:
    """Two fields, nodes and cells, all kinds of walls."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=5), y=fd.Axis(0.0, 1.0, num=4, cells=True))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.residual(lambda u, v, k: k * laplacian(u) - v + 1.0)
    u[dict(x=0)] = 0.0
    u[dict(x=-1)] = fd.boundary.Robin(1.0, 0.5, 0.3)
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.1)
    v[...] = fd.residual(lambda u, v: laplacian(v) + u**2)
    v[dict(x=[0, -1])] = 1.0
    v[dict(y=[0, -1])] = fd.boundary.Dirichlet(0.1)
    return u, v


def residual(u: np.ndarray, v: np.ndarray, k: float) -> tuple[np.ndarray, np.ndarray]:
    """The same, written out."""
    h, hy = 0.25, 0.25
    u, v = np.pad(u, 1), np.pad(v, 1)
    u[1] = 0.0
    u[-1, :] = u[-3, :] + 2 * h * (0.3 - u[-2, :]) / 0.5
    u[:, 0], u[:, -1] = u[:, 1] + 0.1 * hy, u[:, -2] + 0.1 * hy
    v[1] = v[-2] = 1.0
    v[:, 0], v[:, -1] = 0.2 - v[:, 1], 0.2 - v[:, -2]

    def second(w: np.ndarray) -> np.ndarray:
        along_x = (w[2:, 1:-1] - 2 * w[1:-1, 1:-1] + w[:-2, 1:-1]) / h**2
        return along_x + (w[1:-1, 2:] - 2 * w[1:-1, 1:-1] + w[1:-1, :-2]) / hy**2

    inner = (slice(1, -1), slice(1, -1))
    return k * second(u) - v[inner] + 1.0, second(v) + u[inner] ** 2


def test_against_differences_of_the_residual() -> None:
    plan, k = fd.plan(coupled(), k=1.3), 1.3
    rng = np.random.default_rng(0)
    at = dict(u=rng.random((5, 4)), v=rng.random((5, 4)))
    matrix, rows = plan.matrix(at=at), plan.unknowns()
    assert isinstance(matrix, scipy.sparse.csr_array) and matrix.shape == (len(rows), len(rows)) == (28, 28)
    point, small = rows.take(at), 1e-6

    def along(vector: np.ndarray) -> np.ndarray:
        arrays = {name: np.nan_to_num(one) for name, one in rows.put(vector).items()}
        u, v = residual(arrays["u"], arrays["v"], k)
        return rows.take(dict(u=u, v=v))

    slopes = [(along(point + unit) - along(point - unit)) / (2 * small) for unit in small * np.eye(len(rows))]
    np.testing.assert_allclose(matrix.toarray(), np.transpose(slopes), atol=1e-6)
    np.testing.assert_allclose(plan.matrix("bcoo", at=at).todense(), matrix.toarray())
    assert rows.label(0) == "u[x=1, y=0]" and rows.label(27) == "v[x=3, y=3]"
    np.testing.assert_allclose([rows.coordinates["x"][0], rows.coordinates["y"][0]], [0.25, 0.125])


def test_rates_and_what_is_solved_beside_them() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=6))
    w, q = fd.Field("w", grid), fd.Field("q", grid)
    w[...] = fd.rate(lambda w: laplacian(w) - w)
    w[0] = 1.0
    w[dict(x=0)], w[dict(x=-1)] = 0.0, fd.boundary.Neumann(0.0)
    alone = fd.plan(w).matrix().toarray()
    exact = np.diag([-51.0] * 5) + np.diag([25.0] * 4, 1) + np.diag([25.0] * 3 + [50.0], -1)
    np.testing.assert_allclose(alone, exact)
    q[...] = fd.residual(lambda w, q: laplacian(q) - w)
    q[dict(x=[0, -1])] = 0.0
    w[1:] = fd.rate(lambda w, q: laplacian(w) - w - q)
    w[dict(x=0)], w[dict(x=-1)] = 0.0, fd.boundary.Neumann(0.0)
    poisson = np.zeros((5, 5))  # q at points 1 … 5 from w there: 0 at the wall
    poisson[:4, :4] = np.linalg.inv(np.diag([-50.0] * 4) + np.diag([25.0] * 3, 1) + np.diag([25.0] * 3, -1))
    np.testing.assert_allclose(fd.plan((w, q)).matrix().toarray(), exact - poisson, atol=1e-10)


def test_what_has_no_matrix() -> None:
    plan = fd.plan(coupled(), k=1.0)
    with pytest.raises(fd.DeclarationError, match="not affine"):
        plan.matrix()
    with pytest.raises(fd.DeclarationError, match="format="):
        plan.matrix("dense")
    with pytest.raises(fd.DeclarationError, match="lacks `v`"):
        plan.matrix(at=dict(u=jnp.zeros((5, 4))))
    with pytest.raises(fd.DeclarationError, match="vector of 28"):
        plan.unknowns().put(np.zeros(3))
    with pytest.raises(fd.RunError, match="concrete"):
        jax.jit(lambda k: fd.plan(coupled(), k=k).matrix())(1.0)

"""Compact derivatives: published coefficients, exactness, spectra, transposes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import compact
from fdsolve.schemes._compact import compact_matrices

AXES = {
    "periodic": fd.Axis(0.0, 1.0, num=16, periodic=True),
    "node": fd.Axis(0.0, 1.0, num=16),
    "cell": fd.Axis(0.0, 1.0, num=16, cells=True),
    "stretched": fd.Axis.from_points(np.linspace(0, 1, 16) + 0.05 * np.sin(2 * np.pi * np.linspace(0, 1, 16))),
    "stretched periodic": fd.Axis.from_points(
        np.arange(16) / 16 + 0.01 * np.sin(2 * np.pi * np.arange(16) / 16), periodic=True, period=1.0
    ),
}


def dense(axis: fd.Axis, n: int, order: int) -> np.ndarray:
    """The derivative as a matrix, from the bands and weights."""
    bands, right = compact_matrices(axis, False, n, order)
    size = axis.num
    left, explicit = np.diag(bands[1]), np.zeros((size, size))
    for i in range(size):
        for offset in (-1, 1):
            if axis.periodic or 0 <= i + offset < size:
                left[i, (i + offset) % size] += bands[1 + offset, i]
        for k, weight in enumerate(right[i]):
            if weight:
                explicit[i, (i + k - 4) % size] += weight
    return np.linalg.solve(left, explicit)


def differentiate(axis: fd.Axis, values: jax.Array, n: int, order: int) -> jax.Array:
    """The compact derivative along the second of two axes, by a solve."""
    grid = fd.Grid(y=fd.Axis(0.0, 1.0, num=values.shape[0]), x=axis)
    f, d = fd.Field("f", grid, dtype=values.dtype), fd.Field("d", grid, dtype=values.dtype)
    f[...] = values
    d[...] = lambda f: compact(f, "x", n, order=order)
    return fd.solve((f, d))["d"]


@pytest.mark.parametrize(
    ("n", "order", "alpha", "weights"),
    [
        (1, 4, 1 / 4, {1: 3 / 4}),
        (1, 6, 1 / 3, {1: 7 / 9, 2: 1 / 36}),
        (2, 4, 1 / 10, {0: -12 / 5, 1: 6 / 5}),
        (2, 6, 2 / 11, {0: -51 / 22, 1: 12 / 11, 2: 3 / 44}),
    ],
)
def test_interior_coefficients_are_those_of_lele(n: int, order: int, alpha: float, weights: dict[int, float]) -> None:
    step = AXES["periodic"].step
    bands, right = compact_matrices(AXES["periodic"], False, n, order)
    assert np.allclose(bands[[0, 2]], alpha, atol=1e-12)
    for offset, weight in weights.items():
        assert np.allclose(right[:, 4 + offset] * step**n, weight, atol=1e-10)


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize(("n", "order"), [(1, 4), (1, 6), (2, 4), (2, 6)])
def test_the_solve_agrees_with_the_dense_matrix(kind: str, n: int, order: int) -> None:
    values = np.random.default_rng(7).normal(size=(3, 16))
    expected = values @ dense(AXES[kind], n, order).T
    found = np.asarray(differentiate(AXES[kind], jnp.asarray(values), n, order))
    assert np.abs(found - expected).max() < 1e-11 * np.abs(expected).max()
    twisted = values + 1j * values[::-1]
    found = np.asarray(differentiate(AXES[kind], jnp.asarray(twisted), n, order))
    assert np.abs(found - twisted @ dense(AXES[kind], n, order).T).max() < 1e-11 * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["node", "cell", "stretched"])
@pytest.mark.parametrize(("n", "order", "degree"), [(1, 4, 3), (1, 6, 3), (2, 4, 4), (2, 6, 5)])
def test_every_row_is_exact_for_polynomials(kind: str, n: int, order: int, degree: int) -> None:
    axis = AXES[kind]
    matrix = dense(axis, n, order)
    for power in range(degree + 1):
        exact = np.polynomial.Polynomial.basis(power).deriv(n)(axis.points)
        assert np.allclose(matrix @ axis.points**power, exact, atol=1e-9)


@pytest.mark.parametrize("num", [12, 25, 48])
@pytest.mark.parametrize("kind", ["node", "cell", "stretched"])
@pytest.mark.parametrize("order", [4, 6])
def test_spectra_are_stable(kind: str, order: int, num: int) -> None:
    """Advection with an inflow value, and u_xx with values at both ends: no eigenvalue in the right half plane."""
    points = np.linspace(0, 1, num)
    axis = {
        "node": fd.Axis(0.0, 1.0, num=num),
        "cell": fd.Axis(0.0, 1.0, num=num, cells=True),
        "stretched": fd.Axis.from_points(points + 0.05 * np.sin(2 * np.pi * points)),
    }[kind]
    advection = np.linalg.eigvals(-dense(axis, 1, order)[1:, 1:])
    assert advection.real.max() < 1e-9
    second = np.linalg.eigvals(dense(axis, 2, order)[1:-1, 1:-1])
    assert second.real.max() < 0
    if kind != "stretched":
        assert np.abs(second.imag).max() < 1e-6 * np.abs(second).max()


def test_gradient_is_the_transpose() -> None:
    generator = np.random.default_rng(3)
    u, v = (jnp.asarray(generator.normal(size=(2, 16))) for _ in range(2))
    for kind in ("node", "periodic"):
        forward = differentiate(AXES[kind], u, 1, 6)
        backward = jax.grad(lambda w, kind=kind: (differentiate(AXES[kind], w, 1, 6) * v).sum())(u)
        assert abs(float((forward * v).sum() - (u * backward).sum())) < 1e-13 * float(abs(forward * v).sum())


def test_wrong_use_is_named() -> None:
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=16))
    for rule, words in (
        (lambda u: compact(u, "z"), "unknown space axis"),
        (lambda u: compact(u, "x", 3), "n is 1 or 2"),
        (lambda u: compact(u, "x", order=8), "the order 4 or 6"),
        (lambda u: compact(u[...], "x"), "takes a view"),
    ):
        u, d = fd.Field("u", grid), fd.Field("d", grid)
        u[...] = 0.0
        d[...] = rule
        with pytest.raises(fd.FdsolveError, match=words):
            fd.plan((u, d))


def test_the_plan_tells_of_the_closure() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=16))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: -compact(u, "x", order=6))
    u[0] = 0.0
    u[dict(x=0)] = 0.0
    assert "closes at order 3 at the walls" in str(fd.plan(u))

"""Operators on views: orders of accuracy on uniform, stretched and staggered grids; weights."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import derivative, divergence, gradient, laplacian, weights


@pytest.mark.parametrize("offsets", [(-1.0, 0.0, 1.0), (-0.3, 0.1, 0.9, 1.4), (0.0, 1.0, 2.5, 4.0, 4.5)])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_weights_are_exact_for_polynomials(n, offsets):
    w = weights(n, offsets)
    x = np.asarray(offsets)
    for power in range(len(offsets)):
        exact = (
            np.prod(range(power - n + 1, power + 1)) * (0.0 ** (power - n) if power > n else 1.0) if power >= n else 0.0
        )
        assert np.dot(w, x**power) == pytest.approx(exact, abs=1e-11)


def errors(make_axis, rule, exact, sizes=(32, 64), at=None):
    """Maximum error on the middle half for grids of several sizes."""
    found = []
    for size in sizes:
        grid = fd.Grid(x=make_axis(size))
        u, d = fd.Field("u", grid), fd.Field("d", grid, at=at)
        u[...] = lambda x: jnp.sin(3 * x)
        d[...] = 0.0
        margin = size // 4
        d[margin:-margin] = rule
        points = grid.x.positions(at is not None, 0, grid.x.size(at is not None))
        got = np.asarray(fd.solve([u, d])["d"])
        found.append(np.abs(got - exact(points))[margin:-margin].max())
    return np.array(found)


def uniform(n):
    return fd.Axis(0.0, 1.0, n + 1)


def cells(n):
    return fd.Axis(0.0, 1.0, n, cells=True)


def stretched(n):
    s = np.linspace(0.0, 1.0, n + 1)
    return fd.Axis.from_points(s + 0.1 * np.sin(2 * np.pi * s))


@pytest.mark.parametrize("axis", [uniform, cells, stretched])
@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("n", [1, 2])
def test_order_of_derivatives(axis, order, n):
    exact = (lambda x: 3 * np.cos(3 * x)) if n == 1 else (lambda x: -9 * np.sin(3 * x))
    found = errors(axis, lambda u: derivative(u, "x", n, order=order), exact)
    observed = np.log2(found[:-1] / found[1:])
    assert observed[-1] > order - 0.15


@pytest.mark.parametrize("axis", [uniform, cells, stretched])
@pytest.mark.parametrize("order", [2, 4])
def test_order_from_points_to_faces(axis, order):
    found = errors(axis, lambda u: derivative(u, "x", order=order), lambda x: 3 * np.cos(3 * x), at=dict(x="face"))
    assert np.log2(found[:-1] / found[1:])[-1] > (order if axis is not stretched else order / 2) - 0.15


def test_error_constants_of_central_differences():
    h = 1 / 80
    found = errors(uniform, lambda u: derivative(u, "x"), lambda x: 3 * np.cos(3 * x), sizes=(80,))
    assert found[0] == pytest.approx(27 * np.cos(3 * 0.25) * h**2 / 6, rel=0.02)


def test_flux_form_conserves_and_takes_coefficients_from_faces():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 8, periodic=True), y=fd.Axis(0.0, 1.0, 6, periodic=True))
    generator = np.random.default_rng(3)
    kappa, values = generator.uniform(1, 2, (8, 6)), generator.normal(size=(8, 6))
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = values
    d[...] = lambda u, kappa: divergence(kappa, u)
    got = np.asarray(fd.solve([u, d], kappa=kappa)["d"])
    assert abs(got.sum()) < 1e-11 * np.abs(got).sum()
    expected = np.zeros_like(values)
    for axis, h in ((0, 1 / 8), (1, 1 / 6)):
        face = 0.5 * (kappa + np.roll(kappa, -1, axis)) * (np.roll(values, -1, axis) - values) / h
        expected += (face - np.roll(face, 1, axis)) / h
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_vector_calculus_identities_on_a_staggered_grid():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 6, cells=True, periodic=True), y=fd.Axis(0.0, 1.0, 5, cells=True, periodic=True))
    p, d, e = (fd.Field(name, grid) for name in "pde")
    vx, vy = fd.Field("vx", grid, at=dict(x="face")), fd.Field("vy", grid, at=dict(y="face"))
    p[...] = np.random.default_rng(0).normal(size=(6, 5))
    vx[...] = lambda p: gradient(p)[0]
    vy[...] = lambda p: gradient(p)[1]
    d[...] = lambda vx, vy: divergence((vx, vy))
    e[...] = lambda p: laplacian(p)
    solution = fd.solve([p, vx, vy, d, e])
    np.testing.assert_allclose(solution["d"], solution["e"], rtol=1e-12)

"""Transforms are taken only where the unknown values fill a box and their weights are the same all over it."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import divergence, laplacian

X, Y = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 7), indexing="ij")


def _declare(rule, name="u"):
    u = fd.Field(name, fd.Grid(x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=7)), dtype=float)
    u[...] = fd.residual(rule)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return u


def _laplace(u):
    """∇²u at the inner points."""
    inner = u[1:-1, 1:-1]
    along = (u[2:, 1:-1] - 2 * inner + u[:-2, 1:-1]) * 64
    return along + (u[1:-1, 2:] - 2 * inner + u[1:-1, :-2]) * 36


def test_a_line_of_values_inside() -> None:
    u = _declare(lambda u: laplacian(u) + 1.0)
    u[dict(x=4)] = 0.3
    found = np.asarray(fd.solve(u)["u"])
    rest = np.delete(_laplace(found) + 1, 3, axis=0)
    assert (found[4] == 0.3).all()
    assert abs(rest).max() < 1e-10


def test_a_wall_that_follows_from_what_is_solved_for() -> None:
    u = _declare(lambda u: laplacian(u) + 1.0)
    u[dict(x=0)] = lambda u: u["x+1"]
    found = np.asarray(fd.solve(u)["u"])
    assert abs(found[0] - found[1]).max() == 0
    assert abs(_laplace(found) + 1).max() < 1e-10


def test_walls_that_all_follow_leave_the_mean_open() -> None:
    u = _declare(lambda u, b: laplacian(u) + b[...])
    u[dict(x=0)], u[dict(x=-1)] = (lambda u: u["x+1"]), (lambda u: u["x-1"])
    u[dict(y=0)], u[dict(y=-1)] = (lambda u: u["y+1"]), (lambda u: u["y-1"])
    b = np.random.default_rng(0).standard_normal((9, 7))
    b -= b[1:-1, 1:-1].mean()
    found = np.asarray(fd.solve(u, b=b)["u"])
    assert abs(_laplace(found) + b[1:-1, 1:-1]).max() < 1e-10
    assert abs(found[1:-1, 1:-1].mean()) < 1e-12


def test_a_reaction_makes_newton_s_weights_vary() -> None:
    u = _declare(lambda u: laplacian(u)[...] - u[...] ** 3 + 1000.0)
    solution = fd.solve(u)
    found = np.asarray(solution["u"])
    assert abs(_laplace(found) - found[1:-1, 1:-1] ** 3 + 1000).max() < 1e-6
    assert int(solution.equations[0].iterations) < 10  # quadratic, not by an approximate matrix


@pytest.mark.parametrize("tilt", [0.0, 0.9])
def test_a_coefficient_that_is_a_field(tilt: float) -> None:
    u = _declare(lambda u, k: divergence(k, u) + 1.0)
    k = fd.Field("k", u.grid, dtype=float)
    k[...] = lambda x, y: 1.0 + tilt * jnp.cos(3 * x) * jnp.sin(2 * y)
    found = np.asarray(fd.solve([k, u])["u"])
    values = 1 + tilt * np.cos(3 * X) * np.sin(2 * Y)
    along = np.diff((values[1:] + values[:-1]) / 2 * np.diff(found, axis=0), axis=0)[:, 1:-1] * 64
    across = np.diff((values[:, 1:] + values[:, :-1]) / 2 * np.diff(found, axis=1), axis=1)[1:-1] * 36
    assert abs(along + across + 1).max() < 1e-10

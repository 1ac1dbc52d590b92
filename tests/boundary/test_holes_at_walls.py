"""Holes that stand on a wall of the grid: what lies behind belongs to them, and nothing of it is read or derived."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Neumann
from fdsolve.schemes import TVD, Euler, conservation, derivative, laplacian

INNER, BLOCK, WEDGE = (np.zeros((9, 8), bool) for _ in range(3))
INNER[3:6, 3:5] = BLOCK[3:6, :3] = WEDGE[5:, 0] = WEDGE[6:, 1] = True


def stored(u: Any, k: Any) -> Any:
    return derivative(fd.stored(k / u * derivative(u, "x")), "x") + derivative(fd.stored(derivative(u, "y")), "y")


def balance(u: Any, k: Any) -> Any:
    return conservation((lambda u: k / u, lambda u: k * u * u), u, reconstruction=TVD())


def order_4(u: Any, k: Any) -> Any:
    return k * laplacian(u, order=4)


def run(rule: Any, hole: np.ndarray, k: Any, beneath: int) -> Any:
    """What is left beside a hole after three steps, with as many rows `beneath` the floor, all of them hole."""
    hole = np.pad(hole, ((0, 0), (beneath, 0)), constant_values=True)
    x, y = (fd.Axis(a, b, num=n, cells=True) for a, b, n in ((0.0, 1.0, 9), (-beneath / 8, 1.0, 8 + beneath)))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.006, num=4), x=x, y=y))
    u[...] = fd.rate(rule)
    u[0] = lambda x, y: 1.0 + 0.3 * x * x + 0.2 * jnp.sin(3.0 * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = Neumann(0.0)
    u[hole] = Neumann(0.0)
    found = jnp.asarray(fd.solve(u, k=k, stepper=Euler(), save=fd.final()).final["u"])
    return jnp.where(hole, 0.0, found)[:, beneath:]


@pytest.mark.parametrize(
    ("rule", "hole"), [(stored, BLOCK), (stored, WEDGE), (order_4, BLOCK), (order_4, WEDGE), (balance, WEDGE)]
)
def test_a_wall_under_a_hole_is_as_far_as_one_looks(rule: Any, hole: np.ndarray) -> None:
    found, wanted = (np.asarray(run(rule, hole, 0.7, beneath)) for beneath in (0, 3))
    assert np.abs(found - wanted).max() < 1e-13


@pytest.mark.parametrize(("rule", "hole"), [(stored, INNER), (stored, WEDGE), (balance, BLOCK)])
def test_what_a_hole_has_no_value_for_gives_no_nan(rule: Any, hole: np.ndarray) -> None:
    weights = np.random.default_rng(0).normal(size=hole.shape)

    def loss(k: Any) -> Any:
        return jnp.sum(weights * run(rule, hole, k, 0))

    slope = jax.grad(loss)(0.7)
    assert abs(slope - (loss(0.7 + 1e-5) - loss(0.7 - 1e-5)) / 2e-5) < 1e-7 * abs(slope)


def beside_wall(rule: Any, hole: Any, value: float = 0.0, slope: float = 0.0, **options: Any) -> Any:
    """The last level of a field whose walls in x lie on points, and whose hole stands one or two before them."""
    x, y = fd.Axis(0.0, 4.0, num=9), fd.Axis(0.0, 1.0, num=5, periodic=True)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.04, num=5), x=x, y=y))
    u[...] = rule
    u[0] = lambda x, y: 1.0 + value * x
    u[dict(x=[0, -1])] = Neumann(value)
    u[hole] = Neumann(slope)
    return fd.solve(u, save=fd.final(), **options)["u"][-1]


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("row", [1, 2, 7])
def test_a_wall_with_a_hole_before_it_does_not_mirror_its_inside(row: int, order: int) -> None:
    hole = np.zeros((9, 5), bool)
    hole[row, 1:3] = True
    rule = fd.rate(lambda u: laplacian(u, order=order))
    assert np.nanmax(np.abs(beside_wall(rule, hole, kernel="slices") - 1.0)) < 1e-14


@pytest.mark.parametrize("kernel", ["slices", "native"])
@pytest.mark.parametrize("at_run_time", [False, True])
def test_ghosts_behind_a_hole_are_mirrors_of_its_wall(kernel: str, at_run_time: bool) -> None:
    hole: Any = np.zeros((9, 5), bool)
    hole[1, 2] = True
    if at_run_time:
        hole = fd.where(lambda x, y, place: (abs(x - place) < 0.1) & (abs(y - 0.4) < 0.1))
    parameters = dict(place=jnp.asarray(0.5)) if at_run_time else {}
    last = beside_wall(lambda u: u["t-1", "x-1"], hole, 0.5, 0.25, kernel=kernel, **parameters)
    # At x = 0 a step of the rule reads u(0.5) + 2 Δx ∂u/∂n; before the hole u(0) + Δx ∂u/∂n stands for u(0.5).
    u, v = 1.0 + 0.25 * np.arange(2), 1.0
    for _ in range(4):
        u, v = np.array([u[1] + 0.5, u[0]]), v + 0.5 * 0.25 + 0.5
    np.testing.assert_allclose(last[0], [u[0], u[0], v, u[0], u[0]], rtol=1e-13)

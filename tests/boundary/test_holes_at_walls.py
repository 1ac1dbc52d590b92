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

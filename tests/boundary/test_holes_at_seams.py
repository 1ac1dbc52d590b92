"""Holes at the ends of periodic axes, which are no walls: as anywhere else on the ring."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Neumann, Periodic, Robin
from fdsolve.schemes import BackwardEuler, Euler, laplacian

SHAPE = (9, 6)
START = np.random.default_rng(3).normal(size=SHAPE)
HOLES = dict(
    joined=[(0, 2), (1, 2), (2, 2), (1, 3)],
    across=[(8, 2), (0, 2), (1, 2), (1, 3), (8, 3)],
    point=[(0, 2)],
    standing=[(8, 0), (0, 0), (0, 1)],
)


def around(region: Any, condition: Any, ring: bool = True, joined_first: bool = False) -> fd.Field:
    """Heat on a ring; or between ends that a condition joins."""
    x, y = fd.Axis(0.0, 1.0, num=SHAPE[0], periodic=ring, cells=not ring), fd.Axis(0.0, 1.0, num=SHAPE[1], cells=True)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.01, num=4), x=x, y=y))
    u[...] = fd.rate(lambda u: laplacian(u))
    u[0] = lambda s: s[...]
    u[dict(y=[0, -1])] = Neumann(0.3)
    if joined_first:
        u[dict(x=[0, -1])] = Periodic()
    u[region] = condition
    if not (ring or joined_first):
        u[dict(x=[0, -1])] = Periodic()
    return u


def masked(name: str, by: int) -> np.ndarray:
    mask = np.zeros(SHAPE, bool)
    mask[tuple(np.transpose(HOLES[name]))] = True
    return np.roll(mask, by, axis=0)


@pytest.mark.parametrize("name, stepper", [*((name, Euler()) for name in HOLES), ("across", BackwardEuler())])
def test_masks(name: str, stepper: Any) -> None:
    """The same as four points further along the ring, where nothing lies at an end."""
    found, wanted = (
        fd.solve(around(masked(name, by), Robin(1.0, 0.3, 0.4)), s=np.roll(START, by, axis=0), stepper=stepper)["u"]
        for by in (0, 4)
    )
    np.testing.assert_allclose(found, np.roll(wanted, -4, axis=1), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("first", [False, True])
def test_ends_that_a_condition_joins(first: bool) -> None:
    """The points of a ring stand at other places than cells, and depend on their values alone."""
    mask, condition = masked("joined", 0), Robin(1.0, 0.3, 0.4)
    found, wanted = (
        fd.solve(around(mask, condition, ring, first and not ring), s=START, stepper=Euler())["u"]
        for ring in (False, True)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("centre, ring", [(0.9, True), (0.02, True), (0.95, False)])
def test_predicates_with_parameters(centre: float, ring: bool) -> None:
    """They hold for the points that reads across an end find there, not for places beyond it."""
    fixed = fd.where(lambda x, y: (x - centre) ** 2 + (y - 0.5) ** 2 < 0.05)
    moving = fd.where(lambda x, y, r: (x - centre) ** 2 + (y - 0.5) ** 2 < r)
    wanted = fd.solve(around(fixed, Neumann(0.2), ring), s=START, stepper=Euler())["u"]
    found = fd.solve(around(moving, Neumann(0.2), ring), s=START, r=0.05, stepper=Euler())["u"]
    assert not jnp.isnan(wanted[-1]).all() and jnp.isnan(wanted[-1]).any()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("region", [dict(x=0), dict(x=[0, -1])], ids=repr)
def test_the_whole_end_of_a_ring_is_no_wall(region: Any) -> None:
    with pytest.raises(fd.DeclarationError, match="axis `x` is periodic, it has no wall"):
        fd.plan(around(region, Neumann(0.0)), s=START)

"""The derivative by the time step, as the guide has it: rates and times by a factor, against differences."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import laplacian

START, STEP, NUM = 0.3, 0.01, 21


def grid(step: float) -> fd.Grid:
    return fd.Grid(t=fd.Time(START, START + step * (NUM - 1), num=NUM), x=fd.Axis(0.0, 1.0, num=9))


def walls(u: fd.Field, time: Callable[..., Any]) -> fd.Field:
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t, s: jnp.sin(3 * time(t, s)))
    u[dict(x=-1)] = fd.boundary.Neumann(lambda t, s: time(t, s) ** 2)
    u[0] = lambda x: jnp.cos(2 * x)
    return u


def rates(step: float, time: Callable[..., Any]) -> fd.Field:
    u = fd.Field("u", grid(step))
    u[...] = fd.rate(lambda u, t, x, s: s * (0.3 * laplacian(u) + jnp.cos(5 * time(t, s)) * x - u[...] ** 2))
    return walls(u, time)


def plain(step: float, time: Callable[..., Any]) -> fd.Field:
    u = fd.Field("u", grid(step))
    u[...] = lambda u, t, x, dt, s: u["t-1"] + s * dt * (0.3 * laplacian(u, at="t-1") + jnp.cos(5 * time(t, s)) * x)
    return walls(u, time)


@pytest.mark.parametrize("declare", [rates, plain])
def test_by_a_factor_of_rates_and_times(declare: Callable[..., fd.Field]) -> None:
    def final(step: float, s: Any, time: Callable[..., Any]) -> jax.Array:
        return fd.solve(declare(step, time), s=s, save=fd.final())["u"][-1]

    found = jax.jvp(lambda s: final(STEP, s, lambda t, s: START + s * (t - START)), (1.0,), (1.0,))[1] / STEP
    ends = [final(step, 1.0, lambda t, s: t) for step in (STEP * (1 + 1e-4), STEP * (1 - 1e-4))]
    wanted = (ends[0] - ends[1]) / (2e-4 * STEP)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    left_out = jax.jvp(lambda s: final(STEP, s, lambda t, s: t), (1.0,), (1.0,))[1] / STEP
    assert np.abs(left_out - wanted).max() > 0.1 * np.abs(wanted).max()

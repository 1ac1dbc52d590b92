"""Observed orders in time of the steppers: the step is refined at fixed points in space, or with them at a wall."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.schemes import (
    ETDRK4,
    RK4,
    SSPRK3,
    AdamsBashforth,
    CarpenterKennedy,
    Euler,
    Heun,
    Leapfrog,
    Lie,
    Midpoint,
    StormerVerlet,
    Strang,
)

from .table import Row

RING = fd.Axis(0.0, 1.0, 8, periodic=True)


def _logistic(stepper: Any) -> Callable[[int], float]:
    """u′ = cos(t) u₋ − u²/4, which splitting takes in two parts: against steps by RK4 that are much finer."""

    def solve(n: int, method: Any) -> Any:
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=n + 1), x=RING))
        u[...] = fd.rate(lambda u, t: jnp.cos(t) * u["x-1"])
        u[...] += fd.rate(lambda u: -(u[...] ** 2) / 4)
        u[0] = lambda x: 1 + jnp.sin(2 * jnp.pi * x) / 2
        return fd.solve(u, stepper=method, save=fd.final()).final["u"]

    return lambda n: float(jnp.abs(solve(n, stepper) - solve(800, RK4())).max())


def _wave(n: int) -> float:
    """u' = v, v' = u_xx against the exact solution on the same points."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=n + 1), x=RING)
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: v[...])
    v[...] = fd.rate(lambda u: fd.schemes.laplacian(u))
    u[0], v[0] = lambda x: jnp.sin(2 * jnp.pi * x), 0.0
    found = fd.solve((u, v), stepper=StormerVerlet(), save=fd.final()).final["u"]
    exact = np.sin(2 * np.pi * RING.points) * np.cos(16 * np.sin(np.pi / 8))
    return float(jnp.abs(found - exact).max())


def _stiff(n: int) -> float:
    """u' = u_xx/20 + u − u³ (Allen–Cahn) by exponential steps."""

    def solve(count: int) -> Any:
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 2.0, num=count + 1), x=RING))
        u[...] = fd.rate(lambda u: fd.schemes.laplacian(u) / 20, implicit=True)
        u[...] += fd.rate(lambda u: u[...] - u[...] ** 3)
        u[0] = lambda x: 0.3 + 0.2 * jnp.sin(2 * jnp.pi * x)
        return fd.solve(u, stepper=ETDRK4(), save=fd.final()).final["u"]

    return float(jnp.abs(solve(n) - solve(320)).max())


def _inflow(stepper: Any) -> Callable[[int], float]:
    """u_t + u_x = 0 with u(t, 0) given and Δt = Δx: against steps sixteen times as small on the same points."""

    def solve(n: int, per_point: int, method: Any) -> Any:
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=n * per_point // 2 + 1), x=fd.Axis(0.0, 1.0, n + 1)))
        h = 1.0 / n
        u[:, 2:-2] = fd.rate(lambda u: -(u["x-2"] - 8 * u["x-1"] + 8 * u["x+1"] - u["x+2"]) / (12 * h))
        u[:, 1] = fd.rate(lambda u: -(-2 * u["x-1"] - 3 * u["x+0"] + 6 * u["x+1"] - u["x+2"]) / (6 * h))
        u[:, -2] = fd.rate(lambda u: -(u["x-2"] - 6 * u["x-1"] + 3 * u["x+0"] + 2 * u["x+1"]) / (6 * h))
        u[:, -1] = fd.rate(lambda u: -(-2 * u["x-3"] + 9 * u["x-2"] - 18 * u["x-1"] + 11 * u["x+0"]) / (6 * h))
        u[:, 0] = fd.boundary.Dirichlet(lambda t: -jnp.sin(2 * jnp.pi * t))
        u[0] = lambda x: jnp.sin(2 * jnp.pi * x)
        return fd.solve(u, stepper=method, save=fd.final()).final["u"]

    return lambda n: float(jnp.abs(solve(n, 1, stepper) - solve(n, 16, RK4())).max())


def _row(stepper: Any, sizes: tuple[int, ...], why: str = "") -> Row:
    name = repr(stepper).split("(steppers")[0]
    return Row(name, "periodic", "time", stepper.order, _logistic(stepper), sizes, why=why)


ROWS: list[Row] = [
    _row(Euler(), (80, 160)),
    _row(Heun(), (40, 80)),
    _row(Midpoint(), (40, 80)),
    _row(SSPRK3(), (20, 40)),
    _row(RK4(), (10, 20)),
    _row(CarpenterKennedy(), (10, 20)),
    _row(AdamsBashforth(2), (80, 160)),
    _row(AdamsBashforth(3), (80, 160)),
    _row(AdamsBashforth(4), (80, 160)),
    _row(Leapfrog(), (80, 160)),
    _row(Leapfrog(0.1), (80, 160), "the filter is of first order"),
    _row(Lie(), (80, 160)),
    _row(Strang(), (20, 40)),
    Row("StormerVerlet", "periodic", "time", 2, _wave, (40, 80)),
    Row("ETDRK4", "periodic", "time", 4, _stiff, (20, 40)),
    Row("RK4", "Dirichlet in time", "time and nodes", 4, _inflow(RK4()), (40, 80)),
    Row("CarpenterKennedy", "Dirichlet in time", "time and nodes", 4, _inflow(CarpenterKennedy()), (40, 80)),
    Row("SSPRK3", "Dirichlet in time", "time and nodes", 3, _inflow(SSPRK3()), (40, 80)),
]

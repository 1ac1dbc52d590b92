"""Open ends: what comes back of a pulse, and of waves, that leave the grid."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Extrapolate, Orlanski, Outflow, Sponge
from fdsolve.schemes import derivative

SIGMA = 0.07


def pulse(x: Any) -> Any:
    """A pulse fourteen to twenty points wide, 20 points a wavelength at its shortest."""
    return jnp.exp(-(((x - 0.5) / SIGMA) ** 2))


def axis_of(place: str) -> fd.Axis:
    """A hundred points from 0 to 1."""
    if place == "stretched":
        index = np.linspace(0.0, 1.0, 101)
        return fd.Axis.from_points(index + 0.2 * np.sin(2 * np.pi * index) / (2 * np.pi))
    return fd.Axis(0.0, 1.0, num=101, cells=place == "cell")


def time_of(axis: fd.Axis, courant: float, stop: float) -> fd.Time:
    """Steps at a Courant number of the smallest spacing."""
    step = courant * float(np.diff(axis.points).min())
    return fd.Time(0.0, step * int(stop / step), num=int(stop / step) + 1)


def by_levels(condition: Any, place: str, order: int, courant: float = 0.5, stop: float = 1.1) -> np.ndarray:
    """u_tt = u_xx by leapfrog, a pulse that travels up; a third of the time after it has left."""
    axis = axis_of(place)
    u = fd.Field("u", fd.Grid(t=time_of(axis, courant, stop), x=axis))
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * derivative(u, "x", 2, order=order, at="t-1")
    u[0] = lambda x: pulse(x)
    u[1] = lambda x, dt: pulse(x - dt)
    u[dict(x=[0, -1])] = condition
    return np.asarray(fd.solve(u, save=fd.final())["u"][-1])


def by_rates(condition: Any, place: str, order: int, stop: float = 1.1) -> np.ndarray:
    """The same as u_t = v, v_t = u_xx under RK4."""
    axis = axis_of(place)
    grid = fd.Grid(t=time_of(axis, 0.5, stop), x=axis)
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: v)
    v[...] = fd.rate(lambda u: derivative(u, "x", 2, order=order))
    u[0] = lambda x: pulse(x)
    v[0] = lambda x: 2 * (x - 0.5) / SIGMA**2 * pulse(x)
    u[dict(x=[0, -1])] = condition
    return np.asarray(fd.solve((u, v), save=fd.final())["u"][-1])


@pytest.mark.parametrize("place, order", [("node", 2), ("node", 8), ("cell", 4), ("stretched", 4)])
@pytest.mark.parametrize("solve", [by_levels, by_rates])
def test_radiation_leaves_less_than_a_percent(solve: Any, place: str, order: int) -> None:
    left = np.abs(solve(Outflow(speed=1.0), place, order)).max()
    assert left < 2.5e-3


@pytest.mark.parametrize("place, order", [("node", 2), ("cell", 4)])
def test_a_measured_speed_leaves_a_percent(place: str, order: int) -> None:
    assert np.abs(by_levels(Orlanski(), place, order)).max() < 1.2e-2
    assert np.abs(by_rates(Orlanski(), place, order)).max() < 4.5e-2


def test_without_radiation_the_pulse_comes_back() -> None:
    assert np.abs(by_levels(Outflow(), "node", 2)).max() > 0.5


def test_radiation_is_stable_for_long() -> None:
    """Thirty crossings, order 8, plain rules at a Courant number near the limit."""
    assert np.abs(by_levels(Outflow(speed=1.0), "node", 8, courant=0.7, stop=30.0)).max() < 1e-3


def test_the_speed_may_vary() -> None:
    """A parameter, an array along the wall and a function of the coordinates give the same as the number."""
    grid = fd.Grid(t=fd.Time(0.0, 0.3, num=31), x=fd.Axis(0.0, 1.0, num=21), y=fd.Axis(0.0, 1.0, num=6))

    def solve(speed: Any, **parameters: Any) -> np.ndarray:
        u = fd.Field("u", grid)
        u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * derivative(u, "x", 2, at="t-1")
        u[:2] = lambda x, t, y: pulse(x - t - 0.3) * (1 + y)
        u[dict(x=[0, -1])] = Outflow(speed=speed)
        return np.asarray(fd.solve(u, parameters=parameters)["u"])

    wanted = solve(2.0)
    for speed, parameters in ((lambda c: c, dict(c=2.0)), (np.full(6, 2.0), {}), (lambda y: 2.0 + 0 * y, {})):
        np.testing.assert_allclose(solve(speed, **parameters), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("condition", [Outflow(), Extrapolate(2), Outflow(speed=1.0)], ids=repr)
def test_advection_leaves_through_any_open_end(condition: Any) -> None:
    axis = fd.Axis(0.0, 1.0, num=101, cells=True)
    u = fd.Field("u", fd.Grid(t=time_of(axis, 0.5, 1.2), x=axis))
    u[...] = fd.rate(lambda u: -derivative(u, "x", order=2))
    u[0] = lambda x: pulse(x)
    u[dict(x=0)] = fd.boundary.Dirichlet(0.0)
    u[dict(x=-1)] = condition
    history = np.asarray(fd.solve(u, save=fd.final())["u"][-1])
    assert np.abs(history).max() < (0.08 if repr(condition) == "Outflow()" else 0.01)


def test_a_sponge_lets_little_back() -> None:
    """σ as its docstring advises, for R = 1e-3 over 0.3: what comes back from a wall with u = 0 behind it."""
    axis = fd.Axis(0.0, 1.3, num=131)
    grid = fd.Grid(t=time_of(axis, 0.5, 2.0), x=axis)
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: -derivative(v, "x", order=4))
    v[...] = fd.rate(lambda u: -derivative(u, "x", order=4))
    u[0] = v[0] = lambda x: pulse(x)
    u[dict(x=[0, -1])] = fd.boundary.Symmetric()
    v[dict(x=[0, -1])] = fd.boundary.Antisymmetric()
    fd.together(u, v)[dict(x=-1)] = Sponge(0.3, 3 * np.log(1e3) / (2 * 0.3))
    final = np.asarray(fd.solve((u, v), save=fd.final())["u"][-1])
    assert np.abs(final[:90]).max() < 5e-3

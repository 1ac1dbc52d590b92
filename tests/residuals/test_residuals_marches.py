"""Equations inside a march: implicit steps written as residuals, constraints, orders in time and space."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Robin
from fdsolve.schemes import ARK3, laplacian


def test_an_implicit_step_as_a_residual_is_that_of_the_stepper() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=6), x=fd.Axis(0.0, 1.0, num=12))
    written, stepped = fd.Field("u", grid), fd.Field("u", grid)
    written[...] = fd.residual(lambda u, k, dt: u[...] - u["t-1"] - dt * k * laplacian(u))
    stepped[...] = fd.rate(lambda u, k: k * laplacian(u))
    for u in (written, stepped):
        u[0] = lambda x: jnp.sin(np.pi * x)
        u[dict(x=0)] = Dirichlet(lambda t: 0.2 * t)
        u[dict(x=-1)] = Robin(1.0, 0.5, 0.1)
    found = fd.solve(written, k=0.3)["u"]
    np.testing.assert_allclose(found, fd.solve(stepped, k=0.3, stepper=fd.schemes.BackwardEuler())["u"], atol=1e-11)
    assert float(jnp.abs(found[-1]).max()) < 1.0  # far beyond the explicit limit


def projection(num: int) -> list[fd.Field]:
    """One step of a projection on a staggered grid: any velocity becomes free of divergence."""
    grid = fd.Grid(
        t=fd.Time(0.0, 1.0, num=2),
        x=fd.Axis(0.0, 1.0, num=num, cells=True),
        y=fd.Axis(0.0, 1.0, num=num, cells=True),
    )
    u, v, p = fd.Field("u", grid, at=dict(x="face")), fd.Field("v", grid, at=dict(y="face")), fd.Field("p", grid)
    a, b = fd.Field("a", grid, at=dict(x="face")), fd.Field("b", grid, at=dict(y="face"))
    a[...] = lambda x, y: jnp.sin(3 * x + y)
    b[...] = lambda x, y: jnp.cos(2 * x - 3 * y)
    for one, axis in ((a, "x"), (b, "y"), (u, "x"), (v, "y")):
        one[...] = one.assignments[-1].rule if one in (a, b) else 0.0
        one[{axis: [0, -1]}] = 0.0
    u[1:, 1:-1] = lambda a, p, dx: a[...] - (p["x+1/2"] - p["x-1/2"]) / dx
    v[1:, :, 1:-1] = lambda b, p, dy: b[...] - (p["y+1/2"] - p["y-1/2"]) / dy
    p[...] = fd.residual(
        lambda p, a, b, dx, dy: laplacian(p) - (a["x+1/2"] - a["x-1/2"]) / dx - (b["y+1/2"] - b["y-1/2"]) / dy
    )
    p[dict(x=[0, -1])] = Neumann(0.0)
    p[dict(y=[0, -1])] = Neumann(0.0)
    return [u, v, p, a, b]


def test_a_projection_leaves_no_divergence() -> None:
    found = fd.solve(projection(8), save=fd.final())
    u, v = found.final["u"], found.final["v"]
    divergence = (u[1:] - u[:-1] + v[:, 1:] - v[:, :-1]) * 8
    assert float(jnp.abs(u).max()) > 0.1
    assert float(jnp.abs(divergence).max()) < 1e-11


WALLS = {
    "values": (Dirichlet, Dirichlet),
    "slopes": (Dirichlet, Neumann),
    "mixed": (Neumann, lambda g: Robin(1.0, 0.5, g)),
}


@pytest.mark.parametrize("cells", [False, True], ids=["nodes", "cells"])
@pytest.mark.parametrize("walls", WALLS)
def test_the_order_of_an_elliptic_solution(walls: str, cells: bool) -> None:
    """u = sin(2x + ½) cos(3y) on a square, with what its walls ask for."""

    def exact(x: Any, y: Any) -> Any:
        return jnp.sin(2 * x + 0.5) * jnp.cos(3 * y)

    def wall(make: Any, axis: str, upper: bool) -> Any:
        at, sign = float(upper), 1.0 if upper else -1.0
        name = {"x": lambda y: (at, y), "y": lambda x: (x, at)}[axis]

        def slope(x: Any, y: Any) -> Any:
            along = (
                2 * jnp.cos(2 * x + 0.5) * jnp.cos(3 * y) if axis == "x" else -3 * jnp.sin(2 * x + 0.5) * jnp.sin(3 * y)
            )
            return sign * along

        wanted = {
            Dirichlet: lambda *point: exact(*point),
            Neumann: lambda *point: slope(*point),
        }.get(make, lambda *point: exact(*point) + 0.5 * slope(*point))
        if axis == "x":
            return make(lambda y: wanted(*name(y)))
        return make(lambda x: wanted(*name(x)))

    errors = []
    for num in (12, 24):
        grid = fd.Grid(
            x=fd.Axis(0.0, 1.0, num=num + (not cells), cells=cells),
            y=fd.Axis(0.0, 1.0, num=num + (not cells), cells=cells),
        )
        u = fd.Field("u", grid)
        u[...] = fd.residual(lambda u, x, y: laplacian(u) + 13 * exact(x, y))
        low, high = WALLS[walls]
        for axis in ("x", "y"):
            u[{axis: 0}] = wall(low, axis, False)
            u[{axis: -1}] = wall(high, axis, True)
        x, y = np.meshgrid(grid.x.points, grid.y.points, indexing="ij")
        errors.append(float(jnp.abs(fd.solve(u)["u"] - exact(x, y)).max()))
    assert np.log2(errors[0] / errors[1]) > 1.9, errors


def constrained(num: int = 9) -> list[fd.Field]:
    """∂u/∂t = −3p with p″ − 2p + u = 0: the first mode decays by exp(−3t/(k² + 2))."""
    grid = fd.Grid(t=fd.Time(0.0, 2.0, num=num), x=fd.Axis(0.0, 1.0, num=13))
    u, p = fd.Field("u", grid), fd.Field("p", grid)
    u[...] = fd.rate(lambda p: -3 * p[...])
    u[0] = lambda x: jnp.sin(np.pi * x)
    p[...] = fd.residual(lambda p, u: laplacian(p) - 2 * p[...] + u[...])
    p[dict(x=[0, -1])] = 0.0
    return [u, p]


def test_a_constraint_holds_at_every_stage_of_a_rate() -> None:
    squared = (2 - 2 * np.cos(np.pi / 12)) * 12**2
    exact = np.exp(-3 * 2.0 / (squared + 2))
    errors = [abs(float(fd.solve(constrained(num), stepper=fd.schemes.Heun())["u"][-1, 6]) - exact) for num in (5, 9)]
    assert np.log2(errors[0] / errors[1]) > 1.9


def test_what_is_solved_for_stands_beside_a_constraint_that_other_rates_read() -> None:
    """∂u/∂t = k u″ (implicit) − 3p, p″ − 2p + u = 0: the first mode decays by exp(−(kλ + 3/(λ + 2))t)."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=17), x=fd.Axis(0.0, 1.0, num=13))
    u, p = fd.Field("u", grid), fd.Field("p", grid)
    u[...] = fd.rate(lambda u, k: k * laplacian(u), implicit=True)
    u[...] += fd.rate(lambda p: -3 * p[...])
    p[...] = fd.residual(lambda p, u: laplacian(p) - 2 * p[...] + u[...])
    u[0] = lambda x: jnp.sin(np.pi * x)
    u[dict(x=[0, -1])] = p[dict(x=[0, -1])] = 0.0
    last = lambda k: fd.solve([u, p], k=k, stepper=ARK3(), save=fd.final())["u"][-1, 6]  # noqa: E731
    value, slope = jax.value_and_grad(last)(0.5)
    squared = (2 - 2 * np.cos(np.pi / 12)) * 12**2
    exact = np.exp(-(0.5 * squared + 3 / (squared + 2)))
    assert abs(float(value) / exact - 1) < 5e-3
    assert abs(float(slope) / (-squared * exact) - 1) < 2e-3


def test_implicit_steppers_beside_a_constraint_are_refused() -> None:
    with pytest.raises(fd.PlanningError, match=r"at each of its stages p would have to be solved for too"):
        fd.solve(constrained(), stepper=fd.schemes.BackwardEuler())

"""Boundary values at the stages of a step: no order is lost at a wall whose value is known in time; holes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    RK4,
    AdamsBashforth,
    CarpenterKennedy,
    Diffrax,
    Heun,
    Leapfrog,
    Lie,
    StormerVerlet,
    Strang,
    laplacian,
)

OMEGA = 2 * np.pi


def inflow(n: int, courant: float, wall: str = "condition") -> fd.Field:
    """u_t + u_x = 0, u(t, 0) = −sin 2πt, fourth order inside, third at the closures; Δt = courant · Δx."""
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=round(n / courant / 2) + 1), x=fd.Axis(0.0, 1.0, n + 1))
    u, h = fd.Field("u", grid), 1.0 / n
    u[:, 2:-2] = fd.rate(lambda u: -(u["x-2"] - 8 * u["x-1"] + 8 * u["x+1"] - u["x+2"]) / (12 * h))
    u[:, 1] = fd.rate(lambda u: -(-2 * u["x-1"] - 3 * u["x+0"] + 6 * u["x+1"] - u["x+2"]) / (6 * h))
    u[:, -2] = fd.rate(lambda u: -(u["x-2"] - 6 * u["x-1"] + 3 * u["x+0"] + 2 * u["x+1"]) / (6 * h))
    u[:, -1] = fd.rate(lambda u: -(-2 * u["x-3"] + 9 * u["x-2"] - 18 * u["x-1"] + 11 * u["x+0"]) / (6 * h))
    if wall == "condition":
        u[:, 0] = fd.boundary.Dirichlet(lambda t: -jnp.sin(OMEGA * t))
    elif wall == "rule":
        u[:, 0] = lambda t: -jnp.sin(OMEGA * t)
    else:  # a value that looks at the state is set at the time of the stage
        u[:, 0] = lambda u, t: -jnp.sin(OMEGA * t) + 0 * u["x+1"]
    u[0] = lambda x: jnp.sin(OMEGA * x)
    return u


def error_in_time(n: int, stepper: Any, wall: str) -> float:
    """Against steps sixteen times as small on the same points."""
    exact = fd.solve(inflow(n, 1 / 16), save=fd.final()).final["u"]
    found = fd.solve(inflow(n, 1.0, wall), stepper=stepper, save=fd.final()).final["u"]
    return float(jnp.abs(found - exact).max())


@pytest.mark.parametrize("wall", ["condition", "rule"])
@pytest.mark.parametrize("stepper", [RK4(), CarpenterKennedy()], ids=repr)
def test_a_wall_that_moves_in_time_costs_no_order(stepper: Any, wall: str) -> None:
    coarse, fine = (error_in_time(n, stepper, wall) for n in (40, 80))
    assert np.log2(coarse / fine) > 3.9


def test_values_at_stage_times_alone_would_lose_order() -> None:
    coarse, fine = (error_in_time(n, RK4(), "state") for n in (40, 80))
    assert np.log2(coarse / fine) < 3.7


def test_stage_values_equal_those_of_numpy() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.3, num=2), x=fd.Axis(0.0, 1.0, 4))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: u["x-1"] - u[...])
    u[:, 0] = fd.boundary.Dirichlet(lambda t: jnp.exp(2 * t))
    u[0] = 1.0
    h, y, slopes = 0.3, np.ones(4), []
    for row in RK4().tableau.stages:
        stage = y + h * sum((a * k for a, k in zip(row, slopes, strict=True)), 0 * y)
        i = len(slopes)
        # (1, c, Ac, A²c) times the derivatives of exp 2t at the start of the step
        polynomial = [(1, 0, 0, 0), (1, 1 / 2, 0, 0), (1, 1 / 2, 1 / 4, 0), (1, 1, 1 / 2, 1 / 4)][i]
        stage[0] = sum(p * (2 * h) ** k for k, p in enumerate(polynomial))
        slopes.append(np.concatenate([[0.0], stage[:-1] - stage[1:]]))
    y = y + h * sum(b * k for b, k in zip(RK4().tableau.weights, slopes, strict=True))
    y[0] = np.exp(0.6)
    np.testing.assert_allclose(fd.solve(u).final["u"], y, rtol=0, atol=1e-14)


def test_a_wall_without_derivative_is_set_at_the_stage_time() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.4, num=5), x=fd.Axis(0.0, 1.0, 5))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: 0.1 * laplacian(u))
    u[:, 0] = fd.boundary.Dirichlet(lambda t: jnp.sqrt(t))
    u[:, -1] = fd.boundary.Dirichlet(lambda series: series[...])
    u[0] = 0.0
    found = fd.solve(u, series=fd.along(np.linspace(0, 1, 5) ** 2, "t"))["u"]
    assert jnp.isfinite(found).all()
    assert found[:, 0] == pytest.approx(np.sqrt(grid.t.points))
    assert found[:, -1] == pytest.approx(np.linspace(0, 1, 5) ** 2)


@jax.custom_vjp
def reversed_only(t: jax.Array) -> jax.Array:
    return jnp.exp(2 * t)


reversed_only.defvjp(lambda t: (jnp.exp(2 * t), t), lambda t, g: (2 * g * jnp.exp(2 * t),))


def called_back(t: jax.Array) -> jax.Array:
    shape = jax.ShapeDtypeStruct(t.shape, t.dtype)
    return jax.pure_callback(lambda one: np.exp(2 * np.asarray(one)), shape, t, vmap_method="expand_dims")


@pytest.mark.parametrize("wall", [reversed_only, called_back])
def test_a_wall_that_jax_cannot_derive_forward_is_set_at_the_stage_time(wall: Any) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.3, num=2), x=fd.Axis(0.0, 1.0, 4)))
    u[...] = fd.rate(lambda u: u["x-1"] - u[...])
    u[:, 0] = fd.boundary.Dirichlet(lambda t: wall(t))
    u[0] = 1.0
    h, stage = 0.3, np.array([np.exp(0.6), 1.0, 1.0, 1.0])
    found = fd.solve(u, stepper=Heun()).final["u"]
    np.testing.assert_allclose(found, [np.exp(0.6), *(1 + h / 2 * (stage[:-1] - stage[1:]))], rtol=0, atol=1e-14)


def cells(n: int) -> fd.Field:
    """Heat on cells, whose walls are ghosts of a value or flux in time; the exact solution is e^{−π²t/4} sin(πx/2)."""
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=n * n // 2 + 1), x=fd.Axis(0.0, 1.0, n, cells=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: laplacian(u))
    half = np.pi / 2

    def decay(t: Any) -> Any:
        return jnp.exp(-(half**2) * t)

    u[dict(x=0)] = fd.boundary.Neumann(lambda t: -half * decay(t))
    u[dict(x=-1)] = fd.boundary.Dirichlet(decay)
    u[0] = lambda x: jnp.sin(half * x)
    return u


@pytest.mark.parametrize(
    "stepper",
    [RK4(), Heun(), AdamsBashforth(2), Strang(Heun(), Heun()), fd.CFL(0.5, Heun(), max_substeps=2)],
    ids=repr,
)
def test_ghosts_in_time_beside_every_stepper(stepper: Any) -> None:
    errors = []
    for n in (10, 20):
        u = cells(n)
        if isinstance(stepper, Strang):
            u[...] += fd.rate(lambda u: 0.0 * u[...])
        found = fd.solve(u, stepper=stepper, save=fd.final()).final["u"]
        x = (np.arange(n) + 0.5) / n
        errors.append(float(np.abs(found - np.exp(-(np.pi**2) / 4 * 0.1) * np.sin(np.pi / 2 * x)).max()))
    assert np.log2(errors[0] / errors[1]) > 1.7


@pytest.mark.parametrize(
    "stepper", [CarpenterKennedy(), AdamsBashforth(3), Lie(), StormerVerlet(), Leapfrog()], ids=repr
)
def test_holes_walls_and_plain_rules_beside_every_stepper(stepper: Any) -> None:
    """At small steps every stepper tends to the same numbers as RK4."""
    grid = fd.Grid(t=fd.Time(0.0, 0.02, num=41), x=fd.Axis(0.0, 1.0, 7), y=fd.Axis(0.0, 1.0, 6, cells=True))
    u, v, w = (fd.Field(name, grid) for name in "uvw")
    for field, other in ((u, w), (v, u)):
        rule = (lambda w: 2.0 * w) if other is w else (lambda u: 0.5 * laplacian(u))
        field[...] = fd.rate(rule)
        field[...] += fd.rate(lambda t: jnp.cos(t))
        field[dict(x=0)] = fd.boundary.Dirichlet(lambda t, y: y * jnp.sin(3 * t))
        field[dict(x=-1)] = fd.boundary.Neumann(lambda t: t)
        field[dict(y=[0, -1])] = fd.boundary.Robin(1.0, 2.0, lambda t: 0.1 * t)
        field[:, 3, 2:4] = fd.boundary.Neumann(0.0)
        field[0] = lambda x, y: x * jnp.sin(2 * x + y)
    w[...] = lambda v: 0.5 * v[...]
    w[:, 3, 2:4] = 0.0
    found = fd.solve((u, v, w), stepper=stepper, save=fd.final()).final
    wanted = fd.solve((u, v, w), save=fd.final()).final
    for name in "uvw":
        assert np.isnan(np.asarray(found[name])).sum() == (0 if name == "w" else 2)
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=2e-3 if stepper.order == 1 else 2e-5)


def test_rates_that_change_their_points_go_on_with_one_step_methods() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 1.0, 6))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: -u[...])
    u[5, 2] = 7.0
    u[0] = 1.0
    found = fd.solve(u, stepper=CarpenterKennedy())["u"]
    assert found[5, 2] == 7.0
    assert float(found[-1, 2]) == pytest.approx(7 * np.exp(-0.5), rel=1e-6)
    assert float(found[-1, 1]) == pytest.approx(np.exp(-1.0), rel=1e-6)


@pytest.mark.parametrize("save", [fd.every(3), fd.at([0.13, 0.5, 0.77, 1.0]), fd.every(1)], ids=repr)
def test_saves_of_steppers_with_memory(save: Any) -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=31), x=fd.Axis(0.0, 1.0, 4))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, t: jnp.cos(t) * u[...])
    u[0] = lambda x: 1 + x
    found = fd.solve(u, stepper=AdamsBashforth(4), save=save)
    exact = np.exp(np.sin(found.times))[:, None] * (1 + grid.x.points)
    assert np.asarray(found["u"]) == pytest.approx(exact, abs=1e-3 if "At" in repr(save) else 1e-5)


def test_the_slope_of_a_wall_value_has_a_gradient() -> None:
    u = inflow(10, 1.0)
    u[:, 0] = fd.boundary.Dirichlet(lambda t, a: jnp.sin(a * t))

    def run(a: Any) -> Any:
        return (fd.solve(u, save=fd.final(), a=a).final["u"] ** 2).sum()

    h = 1e-5
    assert float(jax.grad(run)(1.5)) == pytest.approx(float(run(1.5 + h) - run(1.5 - h)) / (2 * h), rel=1e-7)


def test_adaptive_steps_see_the_wall_at_their_own_times() -> None:
    import diffrax

    u = inflow(20, 0.25)
    exact = fd.solve(inflow(20, 1 / 32), save=fd.final()).final["u"]
    found = fd.solve(u, stepper=Diffrax(diffrax.Tsit5(), rtol=1e-8, atol=1e-8), save=fd.final()).final["u"]
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6)

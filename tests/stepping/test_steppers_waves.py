"""Steppers for waves and stiff problems: energy of Störmer–Verlet, exponential steps, sub-steps to a CFL number."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import ETDRK4, RK4, Diffrax, Heun, Leapfrog, StormerVerlet, derivative, laplacian, upwind

RING = fd.Axis(0.0, 1.0, 16, periodic=True)


def wave(num_steps: int, stop: float, force: float = 0.0) -> tuple[fd.Field, fd.Field]:
    """u' = v, v' = u_xx (+ a force in time)."""
    grid = fd.Grid(t=fd.Time(0.0, stop, num=num_steps + 1), x=RING)
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: v[...])
    v[...] = fd.rate(lambda u, t: laplacian(u) + force * jnp.cos(t))
    u[0] = lambda x: jnp.sin(2 * jnp.pi * x)
    v[0] = lambda x: jnp.cos(4 * jnp.pi * x)
    return u, v


def modes_of_wave(stop: float) -> np.ndarray:
    """The exact solution of the semi-discrete wave equation without force."""
    x = np.arange(16) / 16
    first, second = (2 * 16 * np.sin(np.pi * m / 16) for m in (1, 2))
    return np.sin(2 * np.pi * x) * np.cos(first * stop) + np.cos(4 * np.pi * x) * np.sin(second * stop) / second


def test_verlet_equals_numpy() -> None:
    found = fd.solve(wave(6, 0.2, force=0.3), stepper=StormerVerlet(), save=fd.final())
    x, h = np.arange(16) / 16, 0.2 / 6
    u, v = np.sin(2 * np.pi * x), np.cos(4 * np.pi * x)

    def kick(t: float) -> np.ndarray:
        return (np.roll(u, 1) - 2 * u + np.roll(u, -1)) * 256 + 0.3 * np.cos(t)

    for n in range(6):
        v = v + h / 2 * kick(n * h)
        u = u + h * v
        v = v + h / 2 * kick(n * h + h)
    np.testing.assert_allclose(found.final["u"], u, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.final["v"], v, rtol=0, atol=1e-12)


def test_order_of_verlet() -> None:
    coarse, fine = (
        np.abs(fd.solve(wave(n, 0.5), stepper=StormerVerlet(), save=fd.final()).final["u"] - modes_of_wave(0.5)).max()
        for n in (60, 120)
    )
    assert np.log2(coarse / fine) > 1.9


def energy(solution: Any) -> np.ndarray:
    """∫ v² + u_x² dx on compact differences, at every saved level."""
    u, v = np.asarray(solution["u"]), np.asarray(solution["v"])
    return (v**2).mean(axis=1) + (((np.roll(u, -1, axis=1) - u) * 16) ** 2).mean(axis=1)


def test_energy_of_verlet_does_not_drift() -> None:
    saved = fd.solve(wave(4000, 160.0), stepper=StormerVerlet(), save=fd.every(4))
    found = energy(saved)
    early, late = found[:200], found[-200:]
    assert np.ptp(found) < 0.2 * found[0]
    assert late.mean() == pytest.approx(early.mean(), rel=5e-3)


def test_verlet_takes_staggered_fields_and_damping_is_refused() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=41), x=fd.Axis(0.0, 1.0, 16, cells=True))
    p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
    p[...] = fd.rate(lambda v, dx: -(v["x+1/2"] - v["x-1/2"]) / dx)
    v[:, 1:-1] = fd.rate(lambda p, dx: -(p["x+1/2"] - p["x-1/2"]) / dx)
    v[:, 0] = v[:, -1] = 0.0
    p[0], v[0] = lambda x: jnp.cos(jnp.pi * x), 0.0
    plan = fd.plan((p, v), stepper=StormerVerlet())
    assert "drifting=('p',), kicked=('v',)" in str(plan)
    assert plan.stability.largest == pytest.approx(1 / 16, rel=1e-4)
    found = fd.solve((p, v), stepper=StormerVerlet(), save=fd.final()).final["p"]
    omega = 32 * np.sin(np.pi / 32)
    assert found == pytest.approx(np.cos(np.pi * grid.x.points) * np.cos(omega * 0.5), abs=2e-4)
    v[:, 1:-1] += fd.rate(lambda v: -v[...])
    with pytest.raises(fd.PlanningError, match=r"gives the rate of `v` and reads `v` itself"):
        fd.plan((p, v), stepper=StormerVerlet())


@pytest.mark.parametrize("stepper", [StormerVerlet(), Leapfrog()], ids=repr)
def test_two_level_rules_run_as_they_stand(stepper: Any) -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=21), x=RING)
    u = fd.Field("u", grid)
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * laplacian(u, at="t-1")
    u[:2] = lambda x: jnp.sin(2 * jnp.pi * x)
    assert "a two-level scheme already; it runs as it stands" in str(fd.plan(u, stepper=stepper))
    assert (fd.solve(u, stepper=stepper)["u"] == fd.solve(u)["u"]).all()
    u[2:] = lambda u: u["t-1"]
    with pytest.raises(fd.PlanningError, match=r"plain rules that read t-1 and t-2; .* reads t-1"):
        fd.plan(u, stepper=stepper)


def kuramoto(num_steps: int, marked: bool) -> fd.Field:
    """u_t = −u_xx − u_xxxx − (u²/2)_x, and a source."""
    grid = fd.Grid(t=fd.Time(0.0, 2.0, num=num_steps + 1), x=fd.Axis(0.0, 32 * np.pi, 32, periodic=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: -derivative(u, "x", 2) - derivative(u, "x", 4), implicit=marked)
    u[...] += fd.rate(lambda u: -derivative(u * u, "x") / 2)
    u[...] += fd.rate(lambda t, x: 0.1 * jnp.cos(t) * jnp.sin(x / 8))
    u[0] = lambda x: jnp.cos(x / 16) * (1 + jnp.sin(x / 16))
    return u


@pytest.mark.parametrize("marked", [True, False])
def test_order_of_exponential_steps(marked: bool) -> None:
    exact = fd.solve(kuramoto(1000, marked), stepper=RK4(), save=fd.final()).final["u"]
    coarse, fine = (
        np.abs(fd.solve(kuramoto(n, marked), stepper=ETDRK4(), save=fd.final()).final["u"] - exact).max()
        for n in (10, 20)
    )
    assert np.log2(coarse / fine) > 3.9


def test_exponential_steps_are_exact_for_linear_rates_whatever_the_step() -> None:
    found = fd.solve(wave(2, 3.0), stepper=ETDRK4(), save=fd.final()).final["u"]
    assert found == pytest.approx(modes_of_wave(3.0), abs=1e-11)
    assert fd.plan(wave(2, 3.0), stepper=ETDRK4()).stability.largest == np.inf


def test_exponential_steps_of_coupled_fields_call_no_library() -> None:
    """Batches of factors and solves that LAPACK does at once wait for each other's threads on few processors."""

    def loss(force: Any) -> Any:
        return jnp.sum(fd.solve(wave(2, 3.0, force), stepper=ETDRK4(), save=fd.final()).final["u"] ** 2)

    assert "lapack" not in jax.jit(jax.value_and_grad(loss)).lower(1.0).as_text()


def test_exponential_steps_treat_complex_fields_and_two_axes() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.3, num=13), x=RING, y=fd.Axis(0.0, 1.0, 6, periodic=True))
    psi = fd.Field("psi", grid, dtype=complex)
    psi[...] = fd.rate(lambda psi: 0.05j * laplacian(psi))
    psi[...] += fd.rate(lambda psi: -1j * psi[...] * jnp.conj(psi[...]) * psi[...])
    psi[0] = lambda x, y: 1.5 * jnp.exp(2j * jnp.pi * (x + y))
    found = fd.solve(psi, stepper=ETDRK4(), save=fd.final()).final["psi"]
    rate = -0.05 * ((32 * np.sin(np.pi / 16)) ** 2 + (12 * np.sin(np.pi / 6)) ** 2)
    x, y = np.meshgrid(np.arange(16) / 16, np.arange(6) / 6, indexing="ij")
    assert np.asarray(found) == pytest.approx(1.5 * np.exp(2j * np.pi * (x + y) + 1j * (rate - 2.25) * 0.3), abs=1e-5)


def burgers(num_steps: int, stop: float = 0.5) -> fd.Field:
    """u_t + u u_x = 0, upwind, with speeds between 0.5 and 2.5."""
    grid = fd.Grid(t=fd.Time(0.0, stop, num=num_steps + 1), x=RING)
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, dx: -(u[...] ** 2 - u["x-1"] ** 2) / (2 * dx))
    u[0] = lambda x: 1.5 + jnp.sin(2 * jnp.pi * x)
    return u


@pytest.mark.parametrize("speed", [lambda u: jnp.abs(u[...]), None], ids=["declared", "estimated"])
def test_sub_steps_follow_the_speed(speed: Any) -> None:
    # 4 levels of 1/8 at a speed of 2.5 on 1/16: Courant number 5.
    found = fd.solve(burgers(4), stepper=fd.CFL(0.5, Heun(), speed=speed)).final["u"]
    u, h = 1.5 + np.sin(2 * np.pi * np.arange(16) / 16), 1 / 8

    def rate(u: np.ndarray) -> np.ndarray:
        return -(u**2 - np.roll(u, 1) ** 2) * 8

    for _ in range(4):
        moment = np.maximum(np.roll(u, 1), 0 * u).max() if speed is None else np.abs(u).max()
        count = int(np.ceil(moment * 16 * h / 0.5))
        for _ in range(count):
            slope = rate(u)
            u = u + h / count / 2 * (slope + rate(u + h / count * slope))
    np.testing.assert_allclose(found, u, rtol=0, atol=1e-12)


def test_too_many_sub_steps_name_the_level() -> None:
    with pytest.raises(fd.RunError, match=r"more than max_substeps=4 sub-steps to reach level 1, t = 0.125"):
        fd.solve(burgers(4), stepper=fd.CFL(0.5, max_substeps=4))


def test_speeds_by_axis_add_up() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=2), x=RING, y=fd.Axis(0.0, 1.0, 8, periodic=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: -derivative(u, "x") - 3 * derivative(u, "y"))
    u[0] = lambda x, y: jnp.sin(2 * jnp.pi * (x + y))
    # 0.1 (16 + 24) = 4: eight sub-steps of one half.
    by_hand = u
    fine = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=9), x=grid.x, y=grid.y))
    fine[...] = fd.rate(lambda u: -derivative(u, "x") - 3 * derivative(u, "y"))
    fine[0] = lambda x, y: jnp.sin(2 * jnp.pi * (x + y))
    wanted = fd.solve(fine, stepper=RK4(), save=fd.final()).final["u"]
    for speed in (None, dict(x=1.0, y=lambda c: c)):
        given = {} if speed is None else dict(c=3.0)
        found = fd.solve(by_hand, stepper=fd.CFL(0.5, RK4(), speed=speed), save=fd.final(), **given).final["u"]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)
    with pytest.raises(fd.DeclarationError, match=r"names the axis `z`; the space axes are x, y"):
        fd.plan(u, stepper=fd.CFL(0.5, speed=dict(z=1.0)))


def test_rows_near_walls_do_not_add_to_the_speed() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=3), x=fd.Axis(0.0, 1.0, 11))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: -upwind(2.0, u, order=3))  # narrower at both ends
    u[...] += fd.rate(lambda u: -derivative(u, "x"))
    u[0], u[dict(x=0)] = lambda x: x, 0.0
    # 3 · 0.1 · 10 = 3: six sub-steps of one half do, five do not.
    fd.solve(u, stepper=fd.CFL(0.5, max_substeps=6))
    with pytest.raises(fd.RunError, match="max_substeps=5"):
        fd.solve(u, stepper=fd.CFL(0.5, max_substeps=5))


def test_wave_speeds_of_systems_are_estimated_between_their_fields() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=3), x=fd.Axis(0.0, 1.0, 10, periodic=True, cells=True))
    p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
    p[...] = fd.rate(lambda v, dx: -9.0 * (v["x+1/2"] - v["x-1/2"]) / dx)
    v[...] = fd.rate(lambda p, dx: -(p["x+1/2"] - p["x-1/2"]) / dx)
    p[0], v[0] = lambda x: jnp.sin(2 * jnp.pi * x), 0.0
    # c Δt/Δx = 3 · 0.05 · 10 = 1.5: three sub-steps of one half do, two do not.
    fd.solve((p, v), stepper=fd.CFL(0.5, max_substeps=3))
    with pytest.raises(fd.RunError, match="max_substeps=2"):
        fd.solve((p, v), stepper=fd.CFL(0.5, max_substeps=2))


def test_diffrax_takes_stiff_problems_with_walls() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, 9))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: 50 * laplacian(u))
    u[:, 0] = fd.boundary.Dirichlet(lambda t: t)
    u[dict(x=-1)] = fd.boundary.Dirichlet(1.0)
    u[0] = lambda x: x
    found = fd.solve(u, stepper=Diffrax(diffrax.Kvaerno5()), save=fd.final()).final["u"]
    x = grid.x.points
    lag = (x**3 / 6 - x**2 / 2 + x / 3) / 50  # u = t(1 − x) + x − lag, once transients are gone
    assert found == pytest.approx(1.0 - lag, abs=1e-6)


def test_diffrax_that_gives_up_names_the_level() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 2.0, num=5), x=fd.Axis(0.0, 1.0, 3))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: u[...] ** 2)
    u[0] = 1.2
    with pytest.raises(fd.RunError, match=r"could not reach level 2, t = 1"):
        fd.solve(u, stepper=Diffrax(diffrax.Tsit5(), max_steps=200))

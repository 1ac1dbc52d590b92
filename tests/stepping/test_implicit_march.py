"""Implicit steppers through the march: walls that move in time, gradients, what the plan tells, messages."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    ADI,
    ARK3,
    BDF2,
    RK4,
    SBDF2,
    SDIRK2,
    SDIRK3,
    BackwardEuler,
    CrankNicolson,
    Lie,
    Strang,
    Theta,
    laplacian,
)

OMEGA = 4.0


def bar(num_steps: int) -> fd.Field:
    """u_t = u_xx + s with u = cos ωt (x² + x + 1), which second differences reproduce: errors are those in time."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=num_steps + 1), x=fd.Axis(0.0, 1.0, 9))
    u = fd.Field("u", grid)

    def rate(u: Any, x: Any, t: Any) -> Any:
        return laplacian(u) - OMEGA * jnp.sin(OMEGA * t) * (x**2 + x + 1) - 2 * jnp.cos(OMEGA * t)

    u[...] = fd.rate(rate, implicit=True)
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t: jnp.cos(OMEGA * t))
    u[dict(x=-1)] = fd.boundary.Neumann(lambda t: 3 * jnp.cos(OMEGA * t))
    u[0] = lambda x: x**2 + x + 1
    return u


@pytest.mark.parametrize("stepper", [SDIRK3(), ARK3()], ids=repr)
def test_walls_in_time_cost_no_order(stepper: Any) -> None:
    """For SDIRK3 values at the times of the stages would leave an order of 2.2."""
    x, errors = np.linspace(0.0, 1.0, 9), []
    for steps in (40, 80):
        found = fd.solve(bar(steps), stepper=stepper, save=fd.final()).final["u"]
        errors.append(np.abs(np.asarray(found) - np.cos(OMEGA) * (x**2 + x + 1)).max())
    assert np.log2(errors[0] / errors[1]) > stepper.order - 0.1


def plate(n: int) -> fd.Field:
    """The same in the plane with Δt = Δx, between walls that move in time and differ from point to point."""
    axis = fd.Axis(0.0, 1.0, n + 1)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=n + 1), x=axis, y=axis))

    def shape(x: Any, y: Any) -> Any:
        return (x**2 + x + 1) * (y**2 + 0.5 * y + 1)

    def rate(u: Any, x: Any, y: Any, t: Any) -> Any:
        source = OMEGA * jnp.sin(OMEGA * t) * shape(x, y)
        return laplacian(u) - source - jnp.cos(OMEGA * t) * 2 * (x**2 + x + y**2 + 0.5 * y + 2)

    u[...] = fd.rate(rate)
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(lambda x, y, t: jnp.cos(OMEGA * t) * shape(x, y))
    u[dict(y=0)] = fd.boundary.Dirichlet(lambda x, t: jnp.cos(OMEGA * t) * (x**2 + x + 1))
    u[dict(y=-1)] = fd.boundary.Neumann(lambda x, t: 2.5 * jnp.cos(OMEGA * t) * (x**2 + x + 1))
    u[0] = shape
    return u


@pytest.mark.parametrize("stepper", [ADI(), ADI("PeacemanRachford")], ids=repr)
def test_alternating_directions_between_moving_walls(stepper: Any) -> None:
    errors = []
    for n in (16, 32):
        x = np.linspace(0.0, 1.0, n + 1)
        exact = np.cos(OMEGA) * np.outer(x**2 + x + 1, x**2 + 0.5 * x + 1)
        errors.append(np.abs(np.asarray(fd.solve(plate(n), stepper=stepper, save=fd.final()).final["u"]) - exact).max())
    assert errors[1] < 0.01
    assert np.log2(errors[0] / errors[1]) > 1.9


def reacting() -> tuple[fd.Field, fd.Field, fd.Field]:
    """Diffusion of u, marked as stiff, and a reaction with a field that has no stiff rate and a plain rule beside."""
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=5), x=fd.Axis(0.0, 1.0, 6))
    u, v, w = (fd.Field(name, grid) for name in "uvw")
    u[...] = fd.rate(lambda u, a: a * laplacian(u), implicit=True)
    u[...] += fd.rate(lambda u, w: -w[...] * u[...] ** 2)
    v[...] = fd.rate(lambda u, v: u[...] - 0.5 * v[...])
    w[...] = lambda v: 1 + v[...] ** 2
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t: jnp.sin(t))
    u[dict(x=-1)] = fd.boundary.Neumann(0.0)
    u[0], v[0] = lambda start: start, 0.3
    return u, v, w


def final(stepper: Any, a: Any, start: Any) -> Any:
    """The last level of u and v."""
    u, v, w = reacting()
    u[0] = start
    found = fd.solve((u, v, w), stepper=stepper, save=fd.final(), a=a)
    return jnp.stack([found.final["u"], found.final["v"]])


@pytest.mark.parametrize("stepper", [SBDF2(), CrankNicolson()], ids=repr)
def test_taylor_remainder_and_dot_product(stepper: Any) -> None:
    random = np.random.default_rng(4)
    point = (jnp.asarray(0.8), jnp.asarray(random.uniform(0.5, 1.5, 6)))
    direction = (jnp.asarray(0.4), jnp.asarray(random.normal(size=6)))
    cotangent = jnp.asarray(random.normal(size=(2, 6)))
    run = jax.jit(lambda *given: final(stepper, *given))
    tangent = jax.jvp(run, point, direction)[1]
    pulled = jax.vjp(run, *point)[1](cotangent)
    backward = sum(jnp.vdot(p, d) for p, d in zip(pulled, direction, strict=True))
    slope = jnp.vdot(cotangent, tangent)
    assert float(backward) == pytest.approx(float(slope), rel=1e-8)

    def value(h: float) -> Any:
        return jnp.vdot(cotangent, run(*(p + h * d for p, d in zip(point, direction, strict=True))))

    remainders = [float(abs(value(h) - value(0.0) - h * slope)) for h in (1e-2, 5e-3)]
    assert np.log2(remainders[0] / remainders[1]) == pytest.approx(2.0, abs=0.1)


def ring(num_axes: int = 1) -> fd.Field:
    """Diffusion on periodic points at 25 times the largest explicit step."""
    axes = {name: fd.Axis(0.0, 1.0, 16, periodic=True) for name in "xyz"[:num_axes]}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.2, num=5), **axes))
    u[...] = fd.rate(lambda u: laplacian(u))
    u[0] = lambda x: jnp.sin(2 * jnp.pi * x)
    return u


@pytest.mark.parametrize(
    ("stepper", "axes"),
    [(BackwardEuler(), 1), (CrankNicolson(), 1), (SDIRK2(), 1), (Theta(0.6), 1), (ADI(), 2), (ADI(), 3)],
    ids=repr,
)
def test_the_plan_knows_that_every_step_is_stable(stepper: Any, axes: int) -> None:
    found: Any = fd.plan(ring(axes), stepper=stepper).stability
    assert found.stable and found.largest == np.inf
    assert found.factor == pytest.approx(1.0, abs=1e-12)


def test_one_wave_grows_as_the_stability_function_says() -> None:
    symbol = -4 * 16**2 * np.sin(np.pi / 16) ** 2 * 0.05
    for stepper in (BackwardEuler(), SDIRK2(), ADI()):
        start, end = (fd.solve(ring(2 if stepper == ADI() else 1), stepper=stepper)["u"][n] for n in (0, 1))
        along = () if stepper != ADI() else (np.array([[symbol]]), np.zeros((1, 1)))
        modes = fd.schemes.Modes(("u",), {(0, True, False): np.array([[symbol + 0j]])}, np.zeros(()), along)
        np.testing.assert_allclose(
            end, float(np.ravel(np.asarray(stepper.amplify(modes)))[0].real) * start, rtol=0, atol=1e-12
        )


def test_splitting_takes_implicit_steppers() -> None:
    u = ring()
    u[...] += fd.rate(lambda u: u[...] * (1 - u[...]))
    found, fine = (fd.solve(u, stepper=Strang(SDIRK2(), RK4()), save=fd.final()).final["u"] for _ in range(2))
    whole = fd.solve(u, stepper=CrankNicolson(), save=fd.final()).final["u"]
    np.testing.assert_array_equal(found, fine)
    np.testing.assert_allclose(found, whole, rtol=0, atol=0.05)


def test_messages() -> None:
    with pytest.raises(fd.DeclarationError, match=r"above 0 and at most 1; got 0"):
        Theta(0)
    with pytest.raises(fd.DeclarationError, match=r'"Douglas" or "PeacemanRachford", got \'Lie\''):
        ADI("Lie")
    with pytest.raises(fd.DeclarationError, match=r"two halves of a step"):
        ADI("PeacemanRachford", theta=1.0)
    with pytest.raises(fd.DeclarationError, match=r"got the class int, write it with parentheses"):
        BDF2(solver=int)
    with pytest.raises(fd.DeclarationError, match=r"cannot be a part of a compiled program"):
        ARK3(solver=[])
    with pytest.raises(fd.DeclarationError, match=r"got 'direct'"):
        CrankNicolson(solver="direct")
    with pytest.raises(fd.DeclarationError, match=r"held down by stability"):
        fd.CFL(0.5, BackwardEuler())
    with pytest.raises(fd.PlanningError, match=r"none is marked as stiff .*implicit=True"):
        fd.plan(ring(), stepper=SBDF2())
    with pytest.raises(fd.PlanningError, match=r'the grid has 1 \(x\). Take ADI\("Douglas"\)'):
        fd.plan(ring(), stepper=ADI("PeacemanRachford"))
    u = ring()
    u[...] += fd.rate(lambda u: -u[...])
    with pytest.raises(fd.PlanningError, match=r"different solvers"):
        fd.plan(u, stepper=Lie(SDIRK2(solver=frozenset("a")), SDIRK2(solver=frozenset("b"))))


def test_alternating_directions_refuse_points_of_different_lines() -> None:
    """Along y there are six lines through cells, and five through faces along x."""
    axes = {name: fd.Axis(0.0, 5.0, num=6) for name in "xy"}
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=6), **axes)
    p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
    p[...] = fd.rate(lambda p, v: -fd.schemes.derivative(v, "x")[...] + fd.schemes.laplacian(p)[...])
    v[...] = fd.rate(lambda p: -fd.schemes.derivative(p, "x")[...])
    p[0], v[0] = 1.0, 0.0
    p[dict(x=[0, -1])] = p[dict(y=[0, -1])] = 0.0
    with pytest.raises(fd.PlanningError, match=r"along lines that all fields share, .*p at 6 × 6, v at 5 × 6.*Crank"):
        fd.solve([p, v], stepper=ADI(), save=fd.final())

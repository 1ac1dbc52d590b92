"""Derivatives through equations: Taylor slopes, forward against reverse, memory that does not grow."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Neumann, Robin
from fdsolve.schemes import divergence, laplacian


def darcy() -> fd.Field:
    """Flow through a field of permeabilities, round a hole."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=11), y=fd.Axis(0.0, 1.0, num=10)))
    u[...] = fd.residual(lambda u, k: divergence(k, u) + 1.0)
    u[dict(x=0)] = 1.0
    u[dict(x=-1)] = Robin(1.0, 0.5, 0.0)
    u[dict(y=[0, -1])] = Neumann(0.1)
    u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.02)] = Neumann(0.0)
    return u


def floating() -> fd.Field:
    """All walls Neumann, on nodes: the matrix is singular and not symmetric."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=8, cells=True)))
    u[...] = fd.residual(lambda u, x, k: divergence(k, u) - jnp.cos(np.pi * x))
    u[dict(x=[0, -1])] = Neumann(0.0)
    u[dict(y=[0, -1])] = Neumann(0.0)
    return u


def nonlinear() -> fd.Field:
    """A steady state that depends on its coefficients nonlinearly."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=11), y=fd.Axis(0.0, 1.0, num=10, periodic=True)))
    u[...] = fd.residual(lambda u, k: laplacian(u) - k[...] * u[...] ** 3 + 2.0)
    u[dict(x=0)] = 0.0
    u[dict(x=-1)] = Robin(1.0, 1.0, 0.3)
    return u


CASES = {"linear, a hole": darcy, "floating": floating, "nonlinear": nonlinear}


@pytest.mark.filterwarnings("ignore:The data of the equations")
@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_a_misfit(case: str) -> None:
    u, rng = CASES[case](), np.random.default_rng(5)
    shape = u.grid.shape
    k, direction = jnp.asarray(rng.uniform(0.5, 2.0, shape)), jnp.asarray(rng.standard_normal(shape))
    weights = jnp.asarray(rng.standard_normal(shape))

    @jax.jit
    def state(k: Any) -> Any:
        return jnp.nan_to_num(fd.solve(u, k=k)["u"])

    def misfit(k: Any) -> Any:
        return jnp.sum(jnp.sin(weights * state(k)))

    value, gradient = jax.value_and_grad(misfit)(k)
    steps = 0.02 * 0.5 ** np.arange(5)
    rest = [abs(float(misfit(k + h * direction) - value - h * jnp.sum(gradient * direction))) for h in steps]
    slopes = np.log2(np.array(rest[:-1]) / np.array(rest[1:]))
    assert abs(slopes[-1] - 2.0) < 0.05, slopes

    _, push = jax.jvp(state, (k,), (direction,))
    (pulled,) = jax.vjp(state, k)[1](weights)
    scale = float(jnp.linalg.norm(push) * jnp.linalg.norm(weights))
    assert abs(float(jnp.sum(push * weights) - jnp.sum(direction * pulled))) < 1e-10 * scale


def test_derivatives_twice() -> None:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=9)))
    u[...] = fd.residual(lambda u, a: laplacian(u) - a * jnp.exp(u[...]) + 3.0)
    u[dict(x=[0, -1])] = 0.0

    def loss(a: Any) -> Any:
        return jnp.sum(fd.solve(u, a=a)["u"] ** 2)

    h = 1e-4
    slope = jax.jit(jax.grad(loss))
    assert float(jax.hessian(loss)(1.0)) == pytest.approx(float((slope(1 + h) - slope(1 - h)) / (2 * h)), rel=1e-6)


def test_the_memory_of_a_gradient_does_not_grow_with_iterations() -> None:
    u = nonlinear()

    def temporary(most: int) -> int:
        solver = fd.solvers.Newton(max_steps=most, linear=fd.solvers.GMRES(max_iterations=most))
        loss = jax.jit(jax.grad(lambda k: jnp.sum(fd.solve(u, k=k, solver=solver)["u"] ** 2)))
        found = loss.lower(jnp.ones(u.grid.shape)).compile().memory_analysis()
        assert found is not None
        return int(found.temp_size_in_bytes)

    assert temporary(400) <= 1.1 * temporary(20)


def test_gradients_pass_through_equations_at_every_level() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=6), x=fd.Axis(0.0, 1.0, num=8))
    u, p = fd.Field("u", grid), fd.Field("p", grid)
    p[...] = fd.residual(lambda p, u, c: laplacian(p) - c * p[...] + u[...])
    p[:, 0], p[:, -1] = 0.0, 0.0
    u[...] = lambda u, p, dt: u["t-1"] - dt * p["t-1"]
    u[0] = lambda x: jnp.sin(np.pi * x)

    @jax.jit
    def last(c: Any) -> Any:
        return fd.solve((u, p), c=c)["u"][-1]

    h = 1e-5
    expected = (last(2.0 + h) - last(2.0 - h)) / (2 * h)
    np.testing.assert_allclose(jax.jacfwd(last)(2.0), expected, rtol=1e-7, atol=1e-11)
    np.testing.assert_allclose(jax.jacrev(last)(2.0), expected, rtol=1e-7, atol=1e-11)

"""Derivatives of derivatives through equations, reverse over reverse: against forward over reverse and differences."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import ADI, BDF2, CrankNicolson, IMEXEuler, laplacian

LINE = fd.Axis(0.0, 1.0, num=6)


def linear(q: Any) -> Any:
    u = fd.Field("u", fd.Grid(x=LINE))
    u[...] = fd.residual(lambda u, q: laplacian(u) - q * u[...] + 1)
    u[dict(x=[0, -1])] = 0.0
    return fd.solve(u, q=q)["u"]


def only_data(q: Any) -> Any:
    """The matrix does not depend on the parameter, the right-hand side does."""
    u = fd.Field("u", fd.Grid(x=LINE))
    u[...] = fd.residual(lambda u, q: laplacian(u) - u[...] + q**2)
    u[dict(x=[0, -1])] = 0.0
    return fd.solve(u, q=q)["u"]


def only_matrix(q: Any) -> Any:
    """The right-hand side does not depend on the parameter."""
    u = fd.Field("u", fd.Grid(x=LINE))
    u[...] = fd.residual(lambda u, q: laplacian(u) - q * u[...])
    u[dict(x=0)] = 1.0
    u[dict(x=-1)] = 0.0
    return fd.solve(u, q=q)["u"]


def nonlinear(q: Any) -> Any:
    u = fd.Field("u", fd.Grid(x=LINE))
    u[...] = fd.residual(lambda u, q: laplacian(u) - q * u[...] ** 3 + 1)
    u[dict(x=[0, -1])] = 0.0
    return fd.solve(u, q=q)["u"]


def two_fields(q: Any) -> Any:
    u, v = (fd.Field(name, fd.Grid(x=LINE)) for name in "uv")
    u[...] = fd.residual(lambda u, v, q: laplacian(u) - v[...] + 1)
    v[...] = fd.residual(lambda u, v, q: laplacian(v) + q * u[...])
    u[dict(x=[0, -1])], v[dict(x=[0, -1])] = 0.0, 0.0
    return fd.solve((u, v), q=q)["v"]


def iterative(q: Any) -> Any:
    u = fd.Field("u", fd.Grid(x=LINE))
    u[...] = fd.residual(lambda u, q: laplacian(u) - q * u[...] + 1)
    u[dict(x=[0, -1])] = 0.0
    return fd.solve(u, q=q, solver=fd.solvers.GMRES(tolerance=1e-12))["u"]


def floating(q: Any) -> Any:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=6, periodic=True)))
    u[...] = fd.residual(lambda u, x, q: q * laplacian(u) - jnp.cos(2 * np.pi * x))
    return fd.solve(u, q=q)["u"]


def march(stepper: Any, nonlinear: bool) -> Any:
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=5), x=fd.Axis(0.0, 6.0, num=6, periodic=True))

    def run(q: Any) -> Any:
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u, q: laplacian(u) - q * u[...] ** (3 if nonlinear else 1) + q)
        u[0] = lambda x: 1 + 0.5 * jnp.sin(x)
        return fd.solve(u, q=q, stepper=stepper, save=fd.final())["u"]

    return run


def imex(q: Any) -> Any:
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=5), x=fd.Axis(0.0, 6.0, num=6, periodic=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, q: q * laplacian(u), implicit=True)
    u[...] += fd.rate(lambda u, q: -q * u[...] ** 3)
    u[0] = lambda x: 1 + 0.5 * jnp.sin(x)
    return fd.solve(u, q=q, stepper=IMEXEuler(), save=fd.final())["u"]


CASES = {
    "linear": linear,
    "only the data": only_data,
    "only the matrix": only_matrix,
    "nonlinear": nonlinear,
    "two fields": two_fields,
    "iterative": iterative,
    "floating": floating,
    "a linear march": march(CrankNicolson(), False),
    "a nonlinear march": march(CrankNicolson(), True),
    "two levels": march(BDF2(), True),
    "IMEX": imex,
    "alternating directions": march(ADI(), True),
}


@pytest.mark.parametrize("case", CASES)
def test_reverse_over_reverse(case: str) -> None:
    def loss(q: Any) -> Any:
        return jnp.sum(jnp.sin(CASES[case](q)) ** 2)

    first = jax.jit(jax.grad(loss))
    at, step = 0.7, 1e-4
    found = jax.jit(jax.grad(jax.grad(loss)))(at)
    differences = (first(at + step) - first(at - step)) / (2 * step)
    np.testing.assert_allclose(found, differences, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found, jax.jit(lambda q: jax.jvp(first, (q,), (1.0,))[1])(at), rtol=1e-8, atol=1e-12)


def test_three_times_in_reverse() -> None:
    def loss(q: Any) -> Any:
        return jnp.sum(nonlinear(q) ** 2)

    second = jax.jit(jax.grad(jax.grad(loss)))
    third = jax.jit(jax.grad(jax.grad(jax.grad(loss))))(0.7)
    np.testing.assert_allclose(third, (second(0.7 + 1e-4) - second(0.7 - 1e-4)) / 2e-4, rtol=1e-5)


def test_hessian_over_a_batch() -> None:
    def loss(q: Any) -> Any:
        return jnp.sum(linear(q) ** 2)

    at = jnp.asarray([0.3, 0.9])
    found = jax.vmap(jax.grad(jax.grad(loss)))(at)
    np.testing.assert_allclose(found, [jax.grad(jax.grad(loss))(one) for one in at], rtol=1e-10)

"""Gradients by coefficients through implicit steps whose systems sparse elimination solves, factored once a march."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import BDF2, SDIRK2, BackwardEuler, CrankNicolson, divergence, laplacian


def last(u: fd.Field, k: Any, **options: Any) -> Any:
    return jnp.sum(fd.solve(u, k=k, **options)["u"][-1] ** 2)


@pytest.mark.parametrize("stepper", [BackwardEuler(), CrankNicolson(), SDIRK2(), BDF2()], ids=repr)
@pytest.mark.parametrize("adjoint", [None, fd.adjoint.Full(), fd.adjoint.Forward()], ids=repr)
def test_a_number(stepper: Any, adjoint: Any) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.01, num=6), x=fd.Axis(0.0, 1.0, num=9)))
    u[...] = fd.rate(lambda u, k: k * laplacian(u))
    u[0] = lambda x: jnp.sin(3 * x)
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)

    def gradient(solver: Any, adjoint: Any = None) -> Any:
        return jax.grad(lambda k: last(u, k, stepper=stepper, solver=solver, adjoint=adjoint))(1.3)

    wanted = gradient(fd.solvers.Dense())
    np.testing.assert_allclose(gradient(fd.solvers.Direct(), adjoint), wanted, rtol=1e-12)
    moved = jax.jvp(lambda k: last(u, k, stepper=stepper, solver=fd.solvers.Direct()), (1.3,), (1.0,))[1]
    np.testing.assert_allclose(moved, wanted, rtol=1e-12)


def test_a_field_by_the_solver_that_is_chosen() -> None:
    axis = fd.Axis(0.0, 1.0, num=24)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.01, num=3), x=axis, y=axis))
    u[...] = fd.rate(lambda u, k: divergence(k, u))
    u[0] = lambda x, y: jnp.sin(3 * x) * y
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    start, direction = jnp.ones((24, 24)), np.random.default_rng(0).normal(size=(24, 24))
    loss = jax.jit(lambda k: last(u, k, stepper=BackwardEuler()))
    found = jnp.sum(jax.grad(loss)(start) * direction)
    step = 1e-4
    difference = (loss(start + step * direction) - loss(start - step * direction)) / (2 * step)
    np.testing.assert_allclose(found, difference, rtol=1e-7)

"""Continuation in a parameter: where plain Newton fails, with the derivatives of the last solution; its messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import laplacian

STEPS = fd.solvers.Continuation("b", start=0.0, steps=8)


def pendulum(num: int = 33) -> fd.Field:
    """u'' + b sin(b u) + b = 0 between walls of zero."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=num)))
    u[...] = fd.residual(lambda u, b: laplacian(u) + b * jnp.sin(b * u[...]) + b)
    u[dict(x=[0, -1])] = 0.0
    return u


def test_it_arrives_where_newton_fails() -> None:
    u = pendulum()
    with pytest.raises(fd.RunError, match=r"Continuation"):
        fd.solve(u, b=4.0)
    solution = fd.solve(u, solver=STEPS, b=4.0)
    found = np.asarray(solution["u"])
    left = (found[2:] - 2 * found[1:-1] + found[:-2]) * 32**2 + 4 * np.sin(4 * found[1:-1]) + 4
    assert np.abs(left).max() < 1e-7
    (report,) = solution.equations
    assert bool(report.converged) and int(report.iterations) > 8  # those on the way are counted


def test_values_on_the_way_lead_to_the_same_solution() -> None:
    u = pendulum()
    listed = fd.solvers.Continuation("b", values=(1, 2.0, 3.0), newton=fd.solvers.Newton(tolerance=1e-8))
    found = fd.solve(u, solver=listed, b=4)["u"]  # a whole number is a number like others
    np.testing.assert_allclose(found, fd.solve(u, solver=STEPS, b=4.0)["u"], atol=1e-7)


def test_derivatives_are_those_of_the_last_solution() -> None:
    u = pendulum()

    def energy(b: jax.Array) -> jax.Array:
        return jnp.sum(fd.solve(u, solver=STEPS, b=b)["u"] ** 2)

    b, small = jnp.asarray(4.0), 1e-4
    slope = (energy(b + small) - energy(b - small)) / (2 * small)
    np.testing.assert_allclose(jax.grad(energy)(b), slope, rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(energy, (b,), (jnp.ones_like(b),))[1], slope, rtol=1e-6)


def test_a_fold_is_told_as_a_failure() -> None:
    """Bratu's problem u'' + λ eᵘ = 0 has no solution above λ = 3.5138."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=33)))
    u[...] = fd.residual(lambda u, strength: laplacian(u) + strength * jnp.exp(u[...]))
    u[dict(x=[0, -1])] = 0.0
    steps = fd.solvers.Continuation("strength", start=0.0, steps=5)
    top = float(fd.solve(u, solver=steps, strength=3.5)["u"].max())
    assert 1.0 < top < 1.187  # 1.1868 at the fold
    with pytest.raises(fd.RunError, match="were not solved"):
        fd.solve(u, solver=steps, strength=3.7)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: fd.solvers.Continuation(3, values=(1.0,)), "name of a parameter"),
        (lambda: fd.solvers.Continuation("b"), "give one of them"),
        (lambda: fd.solvers.Continuation("b", values=(1.0,), start=0.0, steps=2), "give one of them"),
        (lambda: fd.solvers.Continuation("b", values=("1",)), "tuple of numbers"),
        (lambda: fd.solvers.Continuation("b", start=0.0, steps=0), "whole number from 1"),
        (lambda: fd.solvers.Continuation("b", start=0.0), "whole number from 1"),
        (lambda: fd.solvers.Continuation("b", start=0.0, steps=2, newton=STEPS), "Newton"),
    ],
)
def test_wrong_arguments(make, match) -> None:
    with pytest.raises(fd.DeclarationError, match=match):
        make()


def test_a_parameter_that_is_no_number_of_the_rules() -> None:
    with pytest.raises(fd.DeclarationError, match="not given as a real number"):
        fd.solve(pendulum(), solver=fd.solvers.Continuation("Re", start=0.0, steps=2), b=4.0)

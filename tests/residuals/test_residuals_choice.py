"""The solver that is chosen by itself solves the system: what transforms cannot take apart they are not asked to."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import AntiPeriodic, Dirichlet, Neumann, Robin, Symmetric
from fdsolve.schemes import derivative, laplacian, upwind

AXIS, RING, CELLS = fd.Axis(0.0, 1.0, num=9), fd.Axis(0.0, 1.0, num=8, periodic=True), fd.Axis(0.0, 1.0, 8, cells=True)


def problem(rule: Any, x: Any, y: Any, second: Any = AXIS) -> fd.Field:
    u = fd.Field("u", fd.Grid(x=CELLS if second is CELLS else AXIS, y=second))
    u[...] = fd.residual(rule)
    u[dict(x=[0, -1])] = x
    if y is not None:
        u[dict(y=[0, -1])] = y
    return u


def wind(u: Any) -> Any:
    return laplacian(u) - 3.0 * derivative(u, "x") + 1.0


def mixed(u: Any) -> Any:
    return laplacian(u) + 0.5 * derivative(u, dict(x=1, y=1)) + 1.0


def wide(u: Any) -> Any:
    return laplacian(u, order=4) + 1.0


OTHERS = {
    "convection between values": (wind, 0.0, 0.0),
    "convection between slopes": (wind, Dirichlet(0.0), Neumann(0.0)),
    "convection against the wind": (lambda u: laplacian(u) - upwind((3.0, 0.0), u, order=1) + 1.0, 0.0, 0.0),
    "a mixed derivative": (mixed, Dirichlet(0.0), Dirichlet(0.0)),
    "a mixed derivative beside a ring": (mixed, Dirichlet(0.0), None, RING),
    "values of order 4": (wide, Dirichlet(0.0, order=4), Dirichlet(0.0, order=4)),
    "slopes of order 4": (wide, Neumann(0.0, order=4), Dirichlet(0.0, order=4)),
    "symmetry beside values of order 4": (wide, Symmetric(), Dirichlet(0.0, order=4)),
    "a ring that turns the sign": (lambda u: laplacian(u) + 1.0, Dirichlet(0.0), AntiPeriodic(), RING),
    "a wall whose weights vary": (lambda u: laplacian(u) + 1.0, Dirichlet(0.0), Robin(lambda x: 1 + x, 1.0, 0.0)),
}
MIRRORS = {
    "values": (lambda u: laplacian(u) + 1.0, 0.0, 0.0),
    "slopes and values": (lambda u: laplacian(u) + 1.0, Neumann(0.2), Dirichlet(0.3)),
    "values beside a ring": (wide, Dirichlet(0.0), None, RING),
    "cells": (lambda u: laplacian(u) - 2.0 * u[...] + 1.0, Dirichlet(0.1), Neumann(0.3), CELLS),
    "wind along a ring": (lambda u: laplacian(u) - 3.0 * derivative(u, "y") + 1.0, Dirichlet(0.0), None, RING),
    "wind along one axis": (wind, Dirichlet(0.0), Neumann(0.0)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_no_mirror_fits_is_solved_all_the_same(case: str) -> None:
    u = problem(*OTHERS[case])
    found, wanted = fd.solve(u)["u"], fd.solve(u, solver=fd.solvers.Direct())["u"]
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("case", MIRRORS)
def test_transforms_are_taken_where_they_serve(case: str) -> None:
    u = problem(*MIRRORS[case])
    assert "Transform(axis=None) (" in str(fd.plan(u))
    found, wanted = fd.solve(u)["u"], fd.solve(u, solver=fd.solvers.Direct())["u"]
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


def test_weights_that_are_parameters_count_as_any_numbers() -> None:
    u = problem(lambda u, a, b: a * laplacian(u) - b * derivative(u, "x") + 1.0, 0.0, 0.0)
    for b in (0.0, 3.0):
        wanted = fd.solve(u, a=2.0, b=b, solver=fd.solvers.Direct())["u"]
        np.testing.assert_allclose(fd.solve(u, a=2.0, b=b)["u"], wanted, rtol=1e-10, atol=1e-13)
    with pytest.raises(fd.PlanningError, match=r"weights vary|not symmetric beside walls"):
        fd.solve(problem(mixed, Dirichlet(0.0), Dirichlet(0.0)), solver=fd.solvers.Transform())


SWITCHED: dict[str, tuple[Any, Any]] = {
    "a phase": (0.2 + 0.5j, lambda c: (c, jnp.conj(c))),
    "a sign": (-0.5, lambda c: (c, jnp.abs(c))),
    "a root of a square": (-0.5, lambda c: (c, jnp.sqrt(c**2))),
    "a large number": (7.0, lambda c: (0.5, jnp.where(c > 5.0, 0.2, 0.5))),
    "a switch": (False, lambda c: (0.5 * c.astype(float), 0.5)),
    "a whole number": (3, lambda c: (0.1 * c.astype(float), 0.1 * (c**2).astype(float))),
}


@pytest.mark.parametrize("case", SWITCHED)
def test_weights_are_looked_at_for_parameters_of_all_kinds(case: str) -> None:
    value, weigh = SWITCHED[case]
    dtype = complex if isinstance(value, complex) else float
    u = fd.Field("u", fd.Grid(x=AXIS, y=RING), dtype=dtype)

    def rule(u: Any, c: Any) -> Any:
        first, second = weigh(c)
        return first * u["x+1"] + second * u["x-1"] + 0.3 * (u["y+1"] + u["y-1"]) - 3.0 * u[...] + 1.0

    u[...] = fd.residual(rule)
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    c = jnp.asarray(value)
    np.testing.assert_allclose(fd.solve(u, c=c)["u"], fd.solve(u, c=c, solver=fd.solvers.Direct())["u"], atol=1e-12)


def test_rules_may_close_over_traced_numbers() -> None:
    def total(a: Any) -> Any:
        u = problem(lambda u: a * laplacian(u) - 3.0 * a * derivative(u, "x") + 1.0, 0.0, a)
        return jnp.sum(fd.solve(u)["u"])

    np.testing.assert_allclose(jax.jit(total)(2.0), total(2.0), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(total)(2.0), (total(2.001) - total(1.999)) / 0.002, rtol=1e-6)


def test_implicit_steps_with_wind_between_walls() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=4), x=AXIS, y=AXIS))
    u[...] = fd.rate(lambda u: laplacian(u) - 3.0 * derivative(u, "x"))
    u[0] = lambda x, y: jnp.cos(x) + y
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    u[dict(y=[0, -1])] = Neumann(0.0)
    stepper = fd.schemes.CrankNicolson()
    found, wanted = (fd.solve(u, stepper=stepper, solver=s)["u"] for s in (None, fd.solvers.Dense()))
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-14)


SOLVERS = [None, fd.solvers.GMRES(), fd.solvers.BiCGStab(), fd.solvers.GMRES(preconditioner=fd.solvers.Multigrid())]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_singular_matrix_without_a_solution_is_told(solver: Any) -> None:
    """At an eigenvalue of the Laplacian: a solution as large as one over rounding explains no residual of any size."""
    value = 2 * (2 - 2 * np.cos(np.pi / 8)) * 64
    u = problem(lambda u: laplacian(u) + value * u[...] + 1.0, 0.0, 0.0)
    with pytest.raises(fd.RunError, match="were not solved"):
        fd.solve(u, solver=solver)

"""Implicit steppers on every kind of problem: the same as their step written out as a residual."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Robin
from fdsolve.schemes import divergence, laplacian

TIME = fd.Time(0.0, 0.3, num=4)


def plate(**options: Any) -> fd.Grid:
    """A small plate."""
    return fd.Grid(t=TIME, x=fd.Axis(0.0, 1.0, num=8), y=fd.Axis(0.0, 1.0, num=7, **options))


def walls(u: fd.Field) -> None:
    """Conditions of every kind, one of them moving."""
    u[dict(x=0)] = Dirichlet(lambda t: 1.0 + t)
    u[dict(x=-1)] = Robin(1.0, 0.5, 0.3)
    if not u.grid.y.periodic:
        u[dict(y=[0, -1])] = Neumann(0.2)


def with_a_hole(u: fd.Field) -> Any:
    walls(u)
    u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.02)] = Neumann(0.1)
    return lambda u, k: divergence(k, u)


def plain(u: fd.Field) -> Any:
    walls(u)
    return lambda u, k: laplacian(u) - k[...] * u[...] + u["x+1"] - u["x-1"]


def nonlinear(u: fd.Field) -> Any:
    walls(u)
    return lambda u, k: laplacian(u) - k[...] * u[...] ** 3


CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "a hole": (with_a_hole, {}, None),
    "cells": (plain, dict(cells=True), None),
    "periodic": (plain, dict(periodic=True), None),
    "complex": (plain, {}, complex),
    "nonlinear": (nonlinear, {}, None),
    "single precision": (nonlinear, dict(cells=True), jnp.float32),
}


@pytest.mark.parametrize("case", CASES)
def test_backward_euler_is_its_equation(case: str) -> None:
    make, axis, dtype = CASES[case]
    grid = plate(**axis)
    stepped, written = (fd.Field("u", grid, dtype=dtype) for _ in range(2))
    k = jnp.asarray(
        np.random.default_rng(1).uniform(0.5, 2.0, grid.shape[1:]), jnp.float32 if dtype is jnp.float32 else float
    )
    for u in (stepped, written):
        u[...] = 0.0
        rule = make(u)
        above = u.assignments[1:]
        del u.assignments[:]
        if u is stepped:
            u[...] = fd.rate(rule)
        else:
            u[...] = fd.residual(lambda u, k, dt, rule=rule: u[...] - u["t-1"] - dt * rule(u, k)[...])
        u.assignments.extend(above)
        u[0] = lambda x, y: jnp.sin(2 * x) * jnp.cos(3 * y)
    found = fd.solve(stepped, k=k, stepper=fd.schemes.BackwardEuler())["u"]
    expected = fd.solve(written, k=k)["u"]
    tolerance = 1e-4 if dtype is jnp.float32 else 1e-9
    np.testing.assert_array_equal(jnp.isnan(found), jnp.isnan(expected))
    np.testing.assert_allclose(jnp.nan_to_num(found), jnp.nan_to_num(expected), atol=tolerance)


def explosive() -> fd.Field:
    """u′ = u²: a backward step beyond Δt = 1/(4u) has no solution."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 2.0, num=5), x=fd.Axis(0.0, 1.0, num=4)))
    u[...] = fd.rate(lambda u: u[...] ** 2)
    u[0] = 0.45
    return u


def test_a_step_that_has_no_solution_says_at_which_level() -> None:
    with pytest.raises(fd.RunError, match=r"could not reach level 2, t = 1: a system of equations of this step"):
        fd.solve(explosive(), stepper=fd.schemes.BackwardEuler())


def test_and_gives_nan_where_nothing_can_be_raised() -> None:
    u = explosive()
    u[0] = lambda start: start
    found = jax.jit(lambda start: fd.solve(u, start=start, stepper=fd.schemes.BackwardEuler())["u"])(0.45)
    assert bool(jnp.isfinite(found[1]).all())
    assert bool(jnp.isnan(found[2:]).all())

"""What is said of equations that cannot be solved, or are none."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Neumann
from fdsolve.schemes import laplacian


def line(num: int = 12, **options: Any) -> fd.Field:
    """A field on a line, without rules."""
    return fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=num)), **options)


def no_boundary() -> None:
    u = line()
    u[...] = fd.residual(lambda u: laplacian(u) - 1.0)
    fd.solve(u)


def does_not_balance() -> None:
    u = line()
    u[...] = fd.residual(lambda u: laplacian(u) - 1.0)
    u[dict(x=[0, -1])] = Neumann(0.0)
    fd.solve(u)


def idle() -> None:
    u = line()
    u[...] = fd.residual(lambda x: x - 1.0)
    fd.solve(u)


def whole_numbers() -> None:
    u = line(dtype=int)
    u[...] = fd.residual(lambda u: u[...] - 1)
    fd.solve(u)


def indefinite(solver: Any = None) -> fd.Solution:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=24), y=fd.Axis(0.0, 1.0, num=24)))
    u[...] = fd.residual(lambda u, x: -laplacian(u) - 400.0 * u[...] + jnp.exp(x))
    u[dict(x=[0, -1])] = 0.0
    u[dict(y=[0, -1])] = 0.0
    return fd.solve(u, solver=solver)


def singular() -> None:
    """k² is an eigenvalue of the discrete operator, and the source is its mode."""
    u, num = line(11), 10
    eigenvalue = (2 - 2 * np.cos(np.pi / num)) * num**2
    u[...] = fd.residual(lambda u, x: laplacian(u) + eigenvalue * u[...] + jnp.sin(np.pi * x))
    u[dict(x=[0, -1])] = 0.0
    fd.solve(u)


def no_solution() -> None:
    u = line(21)
    u[...] = fd.residual(lambda u: laplacian(u) + 10.0 * jnp.exp(u[...]))
    u[dict(x=[0, -1])] = 0.0
    fd.solve(u)


def at_a_level() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=6)))
    u[...] = fd.residual(lambda u, t: u[...] ** 2 + t - 0.6, guess=1.0)
    fd.solve(u)


def adds_to_values() -> None:
    u = line()
    u[...] = 1.0
    u[2:5] += fd.residual(lambda u: u[...])
    fd.solve(u)


def wrong_solver() -> None:
    u = line()
    u[...] = fd.residual(lambda u: u[...] - 1.0)
    fd.solve(u, solver=fd.solvers.Newton)


def does_not_serve() -> None:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=9)))
    u[...] = fd.residual(lambda u: laplacian(u) - 1.0)
    u[dict(x=[0, -1])] = 0.0
    u[dict(y=[0, -1])] = 0.0
    fd.solve(u, solver=fd.solvers.Banded())


def of_a_rate() -> None:
    fd.residual(fd.rate(lambda u: u[...]))


def steps_used_up() -> None:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, 9)))
    u[...] = fd.residual(lambda u: fd.schemes.laplacian(u) - 30.0 * u**3 + 900.0)
    u[dict(x=[0, -1])] = 0.0
    fd.solve(u, solver=fd.solvers.Newton(max_steps=2))


def singular_in_one():
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 4.0, 4, cells=True)))
    u[...] = fd.residual(lambda u: fd.schemes.laplacian(u))
    u[dict(x=0)] = fd.boundary.Dirichlet(-1.0)
    u[dict(x=-1)] = fd.boundary.Extrapolate(2)  # u″ = 0 in the last cell, whatever u is
    fd.solve(u, solver=fd.solvers.Dense())


CASES: dict[str, tuple[Any, type[Exception], str]] = {
    "no boundary": (
        no_boundary,
        fd.PlanningError,
        r'reads `u\["x.1"\]`, one point outside .* Assign a boundary condition',
    ),
    "does not balance": (
        does_not_balance,
        fd.RunError,
        r"have no solution: nothing fixes the mean, and the data do not balance",
    ),
    "idle": (idle, fd.PlanningError, r"does not depend on `u`, so that it determines nothing"),
    "whole numbers": (
        whole_numbers,
        fd.PlanningError,
        r"equations are solved for real or complex numbers.*dtype=float",
    ),
    "indefinite for CG": (
        lambda: indefinite(fd.solvers.CG(max_iterations=200)),
        fd.RunError,
        r"were not solved: after \d+ iterations? of CG.*relative residual",
    ),
    "cycles used up": (
        lambda: indefinite(fd.solvers.Multigrid(max_cycles=1)),
        fd.RunError,
        r"after 1 iteration of Multigrid.* after 1 of its cycles, wanted 1e-10\. Raise max_cycles if it still fell",
    ),
    "no better by cycles": (
        lambda: indefinite(fd.solvers.Multigrid()),
        fd.RunError,
        r"Multigrid did not converge: .* of its cycles, wanted 1e-10\. It fell no further",
    ),
    "singular": (
        singular,
        fd.RunError,
        r"were not solved: after 1 iteration of .* relative residual .* may be singular",
    ),
    "singular in one": (
        singular_in_one,
        fd.RunError,
        r"after 1 iteration of Dense.*The matrix is singular: look whether a boundary condition is missing, or take "
        r"solver=fd.solvers.GMRES\(\); or what the equations read is not finite",
    ),
    "no solution": (no_solution, fd.RunError, r"were not solved: after \d+ iterations of Newton.*Start nearer"),
    "steps used up": (
        steps_used_up,
        fd.RunError,
        r"after 2 iterations of Newton.* It used up max_steps=2: allow more if the residual falls\. Start nearer",
    ),
    "at a level": (at_a_level, fd.RunError, r"were not solved at level 3, t = 0.75: after"),
    "adds to values": (adds_to_values, fd.PlanningError, r"`\+=` adds to an equation where the rule below is a value"),
    "a class": (wrong_solver, fd.DeclarationError, r"solver= takes a solver such as .* got the class Newton"),
    "does not serve": (
        does_not_serve,
        fd.PlanningError,
        r"is not served by Banded.*coupled along x and y.*Leave the choice",
    ),
    "of a rate": (of_a_rate, fd.DeclarationError, r"`fd.residual` takes a function, a number or an array, got a rate"),
}


@pytest.mark.parametrize("case", CASES)
def test_messages(case: str) -> None:
    program, kind, pattern = CASES[case]
    with pytest.raises(kind) as caught:
        program()
    assert re.search(pattern, str(caught.value)), str(caught.value)


def test_an_indefinite_system_is_solved_by_default() -> None:
    (solved,) = indefinite().equations
    assert solved.converged
    assert solved.residual < 1e-8


def test_the_plan_says_how_equations_are_solved() -> None:
    u = line()
    u[...] = fd.residual(lambda u: laplacian(u) - 1.0)
    u[dict(x=[0, -1])] = 0.0
    shown = str(fd.plan(u))
    assert "Equations for u (linear, 12 points): Banded" in shown
    assert "solved together" in shown

"""Adjoints are exact: dot products, Taylor remainders, and all of them the same, over rules, boundaries and kernels."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Periodic, Robin
from fdsolve.schemes import laplacian

NUM, STEPS = 8, 7
Problem = tuple[list[fd.Field], Any, str]
"""Fields, stepper, kernel."""


def fields(*names: str, cells: bool = False) -> list[fd.Field]:
    """Fields on a line."""
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=STEPS + 1), x=fd.Axis(0.0, 1.0, num=NUM, cells=cells))
    return [fd.Field(name, grid) for name in names]


def begin(*made: fd.Field) -> None:
    """They start from the parameter f, and from half of its square."""
    made[0][0] = lambda f: f[...]
    for other in made[1:]:
        other[0] = lambda f: 0.5 * f[...] ** 2


def plain() -> Problem:
    (u,) = fields("u", cells=True)
    u[...] = lambda u, k: u["t-1"] + 0.1 * k[...] * (u["t-1", "x+1"] - 2.0 * u["t-1"] + u["t-1", "x-1"])
    begin(u)
    u[dict(x=[0, -1])] = Periodic()
    return [u], None, "native"


def rate() -> Problem:
    (u,) = fields("u")
    u[...] = fd.rate(lambda u, k: 0.05 * k[...] * laplacian(u))
    begin(u)
    u[dict(x=0)] = Dirichlet(lambda t: 0.3 * t)
    u[dict(x=-1)] = Neumann(0.3)
    return [u], fd.schemes.RK4(), "slices"


def residual() -> Problem:
    (u,) = fields("u")
    u[...] = fd.residual(lambda u, k, dt: u[...] - u["t-1"] - dt * 0.3 * k[...] * laplacian(u))
    begin(u)
    u[dict(x=0)] = Dirichlet(0.1)
    u[dict(x=-1)] = Robin(1.0, 0.5, 0.1)
    return [u], None, "auto"


def sweep() -> Problem:
    (u,) = fields("u")
    u[...] = lambda u, k: u["t-1"] + 0.2 * k[...] * (jnp.sin(u["x-1"]) - u["t-1"])
    begin(u)
    u[dict(x=0)] = lambda t: 0.3 * t
    return [u], None, "auto"


def two_fields() -> Problem:
    p, v = fields("p", "v")
    p[...] = lambda p, v, k: p["t-1"] - 0.2 * k[...] * (v["t-1", "x+1"] - v["t-1"])
    v[...] = lambda p, v, k: v["t-1"] - 0.2 * k[...] * (p["x"] - p["x-1"])
    begin(p, v)
    for one in (p, v):
        one[dict(x=[0, -1])] = 0.0
    return [p, v], None, "native"


def variable() -> Problem:
    (u,) = fields("u")
    u[...] = lambda u, k: (
        u["t-1"]
        + 0.1
        * ((k[...] + k["x+1"]) * (u["t-1", "x+1"] - u["t-1"]) - (k[...] + k["x-1"]) * (u["t-1"] - u["t-1", "x-1"]))
    )
    begin(u)
    u[dict(x=[0, -1])] = 0.2
    return [u], None, "native"


def nonlinear() -> Problem:
    (u,) = fields("u")
    u[...] = lambda u, k: (
        u["t-1"] + 0.1 * k[...] * jnp.tanh(u["t-1", "x+1"] - u["t-1"]) - 0.1 * u["t-1"] * u["t-1", "x-1"]
    )
    begin(u)
    u[dict(x=[0, -1])] = Neumann(0.0)
    return [u], None, "slices"


def norm(tree: Any) -> float:
    return float(jnp.sqrt(inner(tree, tree)))


def inner(one: Any, other: Any) -> Any:
    return sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def both_ways(problem: Problem, adjoint: Any) -> Callable[..., Any]:
    """(p, v, w) ↦ u(p), J v, Jᵀ w, compiled."""
    made, stepper, kernel = problem

    def run(p: Any) -> Any:
        solution = fd.solve(made, stepper=stepper, save=fd.final(), adjoint=adjoint, kernel=kernel, parameters=p)
        return {one.name: solution[one.name][-1] for one in made}

    def every(p: Any, v: Any, w: Any) -> Any:
        u, along = jax.jvp(run, (p,), (v,))
        return u, along, jax.vjp(run, p)[1](w)[0]

    return jax.jit(every)


def plus(p: Any, v: Any, h: float) -> Any:
    return jax.tree.map(lambda a, b: a + h * b, p, v)


@pytest.mark.parametrize("make", [plain, rate, residual, sweep, two_fields, variable, nonlinear])
def test_adjoints_are_exact_and_the_same(make: Callable[[], Problem]) -> None:
    problem, random = make(), np.random.default_rng(5)
    draw = lambda: jnp.asarray(random.uniform(0.5, 1.0, NUM))  # noqa: E731
    p, v = dict(f=draw(), k=draw()), dict(f=draw() - 0.7, k=draw() - 0.7)
    w = {one.name: draw() for one in problem[0]}
    tolerance = 1e-11 if make is residual else 1e-13
    found = []
    for adjoint in (fd.adjoint.Full(), fd.adjoint.Checkpointed(snapshots=3)):
        run = both_ways(problem, adjoint)
        u, along, back = run(p, v, w)
        assert norm(along) > 0.01
        assert norm(back) > 0.01
        assert abs(inner(along, w) - inner(v, back)) <= tolerance * norm(along) * norm(w)
        ends = [run(plus(p, v, h), v, w)[0] for h in (2e-3, 1e-3)]
        rest = [norm(plus(plus(end, u, -1.0), along, -h)) for end, h in zip(ends, (2e-3, 1e-3), strict=True)]
        assert abs(np.log2(rest[0] / rest[1]) - 2) <= 0.05
        found.append(back)
    for name in p:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-10, atol=1e-10)

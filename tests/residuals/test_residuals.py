"""Residuals: what they determine, against rates that stand still, exact discrete solutions and plain elimination."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Robin
from fdsolve.schemes import divergence, laplacian


def random_axis(rng: np.random.Generator, num: int, kind: str) -> fd.Axis:
    """An axis of one of the kinds."""
    if kind == "stretched":
        return fd.Axis.from_points(np.cumsum(rng.uniform(0.05, 0.12, num)))
    return fd.Axis(0.0, 1.0, num=num, periodic=kind == "periodic", cells=kind == "cells")


def random_wall(rng: np.random.Generator) -> Any:
    """A condition with numbers in it."""
    a, b, g = rng.uniform(0.5, 2.0, 3)
    return [Dirichlet(float(g)), Neumann(float(g)), Robin(float(a), float(b), float(g))][rng.integers(3)]


def assign(u: fd.Field, rule: Any, seed: int, hole: bool) -> None:
    """A rule everywhere, random conditions at all walls, at least one with a value, and perhaps a hole."""
    rng = np.random.default_rng(seed)
    u[...] = rule
    for number, axis in enumerate(u.grid.space):
        if u.grid.space_axis(axis).periodic:
            continue
        u[{axis: 0}] = random_wall(rng) if number else Dirichlet(0.7)
        u[{axis: -1}] = random_wall(rng)
    if hole:
        u[fd.where(lambda x, y: (x - 0.45) ** 2 + (y - 0.55) ** 2 < 0.03)] = Neumann(0.2)


CASES = [
    ("nodes", ("nodes", "nodes"), float, False),
    ("cells", ("cells", "nodes"), float, False),
    ("periodic", ("nodes", "periodic"), float, False),
    ("stretched", ("stretched", "cells"), float, False),
    ("a hole", ("nodes", "nodes"), float, True),
    ("complex", ("nodes", "cells"), complex, False),
]


@pytest.mark.parametrize(("kinds", "dtype", "hole"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_a_residual_determines_stands_still_as_a_rate(kinds: tuple[str, str], dtype: Any, hole: bool) -> None:
    seed = len("".join(kinds)) + hole
    rng = np.random.default_rng(seed)
    space = {"x": random_axis(rng, 9, kinds[0]), "y": random_axis(rng, 8, kinds[1])}
    shape = tuple(axis.num for axis in space.values())
    k, f = rng.uniform(0.5, 2.0, shape), rng.standard_normal(shape)
    reaction = 3.0 + (2.0j if dtype is complex else 0.0)

    def equation(u: Any, k: Any, f: Any) -> Any:
        return divergence(k, u) - reaction * u[...] + f[...] + 0.3 * (u["x+1"] - u["x-1"])

    steady = fd.Field("u", fd.Grid(**space), dtype=dtype)
    assign(steady, fd.residual(equation), seed, hole)
    found = fd.solve(steady, k=k, f=f)
    solution = found["u"]
    assert bool(found.equations[0].converged)

    moving = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=2), **space), dtype=dtype)
    assign(moving, fd.rate(equation), seed, hole)
    moving[0] = jnp.nan_to_num(solution)
    change = fd.solve(moving, k=k, f=f, stepper=fd.schemes.Euler())["u"]
    inside = np.isfinite(np.asarray(solution))
    assert inside.sum() > 40
    assert float(jnp.abs(jnp.where(inside, change[1] - solution, 0.0)).max()) < 1e-9 * float(
        jnp.nanmax(jnp.abs(solution))
    )


def test_a_line_against_plain_elimination() -> None:
    num, rng = 12, np.random.default_rng(3)
    a, b, c, f = rng.standard_normal((4, num))
    b = b + 5.0
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=num)))
    u[...] = fd.residual(lambda u, a, b, c, f: a[...] * u["x-1"] + b[...] * u[...] + c[...] * u["x+1"] - f[...])
    u[0], u[-1] = 2.0, -1.0
    matrix = np.diag(b) + np.diag(a[1:], -1) + np.diag(c[:-1], 1)
    matrix[[0, -1]] = np.eye(num)[[0, -1]]
    expected = np.linalg.solve(matrix, np.concatenate([[2.0], f[1:-1], [-1.0]]))
    np.testing.assert_allclose(fd.solve(u, a=a, b=b, c=c, f=f)["u"], expected, rtol=1e-12)


def coupled() -> list[fd.Field]:
    """Two fields, the one on faces, that determine each other: σ = k ∂u/∂x, ∂σ/∂x = −f."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=16, cells=True))
    u, s = fd.Field("u", grid), fd.Field("s", grid, at=dict(x="face"))
    u[...] = fd.residual(lambda s, dx, x: (s["x+1/2"] - s["x-1/2"]) / dx + jnp.exp(x))
    s[...] = fd.residual(lambda s, u, dx: s[...] - 2.0 * (u["x+1/2"] - u["x-1/2"]) / dx)
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    return [u, s]


def test_staggered_fields_determine_each_other() -> None:
    found = fd.solve(coupled())
    u = fd.Field("u", found.plan.problem.scope.grid)
    u[...] = fd.residual(lambda u, x: 2.0 * laplacian(u) + jnp.exp(x))
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    np.testing.assert_allclose(found["u"], fd.solve(u)["u"], rtol=1e-10, atol=1e-13)
    assert len(found.equations) == 1
    assert sorted(found.equations[0].fields) == ["s", "u"]


def bratu(guess: Any = None) -> fd.Field:
    """u'' + λ eᵘ = 0 between walls at zero."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=41)))
    u[...] = fd.residual(lambda u, strength: laplacian(u) + strength * jnp.exp(u[...]), guess=guess)
    u[dict(x=[0, -1])] = 0.0
    return u


def test_both_branches_of_bratus_problem() -> None:
    """The exact solutions are −2 ln(cosh((x − ½)θ/2)/cosh(θ/4)) with θ = √(2λ) cosh(θ/4)."""
    for theta_range, guess in (((0.0, 4.0), None), ((6.0, 14.0), lambda x: 16.0 * x * (1 - x))):
        low, high = theta_range
        for _ in range(60):
            middle = 0.5 * (low + high)
            value = middle - np.sqrt(2.0) * np.cosh(middle / 4)
            low, high = (middle, high) if (value < 0) == (guess is None) else (low, middle)
        x = np.linspace(0.0, 1.0, 41)
        exact = -2 * np.log(np.cosh((x - 0.5) * low / 2) / np.cosh(low / 4))
        found = fd.solve(bratu(guess), strength=1.0)["u"]
        assert float(jnp.abs(found - exact).max()) < 6e-3 * exact.max()


def test_chords_get_where_newton_gets() -> None:
    newton = fd.solve(bratu(), strength=1.0, solver=fd.solvers.Newton(linear=fd.solvers.Direct()))
    chord = fd.solve(bratu(), strength=1.0, solver=fd.solvers.Picard())
    np.testing.assert_allclose(chord["u"], newton["u"], rtol=1e-8)
    assert int(newton.equations[0].iterations) < int(chord.equations[0].iterations)


def test_an_equation_without_a_mean() -> None:
    """All walls Neumann: the data balance, and the mean is zero, whichever solver it is."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=17), y=fd.Axis(0.0, 1.0, num=9, cells=True)))
    u[...] = fd.residual(lambda u, x, y: laplacian(u) - jnp.cos(np.pi * x) * (1 + jnp.cos(np.pi * y)))
    u[dict(x=[0, -1])] = Neumann(0.0)
    u[dict(y=[0, -1])] = Neumann(0.0)
    for solver in (None, fd.solvers.Direct(), fd.solvers.GMRES()):
        found = fd.solve(u, solver=solver)["u"]
        weights = np.ones((17, 1))
        weights[[0, -1]] = 0.5
        assert abs(float((weights * found).sum())) < 1e-10
        if solver is None:
            first = found
        np.testing.assert_allclose(found, first, atol=1e-8)


class Counted(fd.solvers.AbstractLinearSolver):
    """`Dense()`, and how often it was asked to prepare."""

    def __init__(self) -> None:
        self.inner, self.prepared = fd.solvers.Dense(), 0

    def refuse(self, outline: Any) -> str | None:
        return self.inner.refuse(outline)

    def prepare(self, system: Any) -> Any:
        self.prepared += 1
        return self.inner.prepare(system)

    def solve(self, system: Any, prepared: Any, rhs: Any, guess: Any) -> Any:
        return self.inner.solve(system, prepared, rhs, guess)


def test_means_of_several_fields_are_found_by_one_program() -> None:
    """Each field of a ring floats, on a node axis that weighs its ends half; one search serves any number of them."""

    def row(own: Any, other: Any, x: Any) -> Any:
        return laplacian(own) - 0.5 * laplacian(other) - jnp.cos(np.pi * x)

    def ring(**rules: Any) -> list[fd.Field]:
        fields = [fd.Field(name, fd.Grid(x=fd.Axis(0.0, 1.0, num=9))) for name in rules]
        for u in fields:
            u[...] = fd.residual(rules[u.name])
            u[dict(x=[0, -1])] = Neumann(0.0)
        return fields

    two = ring(a=lambda a, b, x: row(a, b, x), b=lambda a, b, x: row(b, a, x))
    three = ring(a=lambda a, b, x: row(a, b, x), b=lambda b, c, x: row(b, c, x), c=lambda a, c, x: row(c, a, x))
    solvers = Counted(), Counted()
    solution = fd.solve(two, solver=solvers[0])
    jax.make_jaxpr(lambda: fd.solve(three, solver=solvers[1])["c"])()
    assert solvers[0].prepared == solvers[1].prepared

    symbol = (2 * np.cos(np.pi / 8) - 2) * 64
    for name in "ab":
        np.testing.assert_allclose(solution[name], 2 * np.cos(np.pi * np.linspace(0, 1, 9)) / symbol, atol=1e-12)


def test_under_vmap_and_jit_and_in_single_precision() -> None:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=12)))
    u[...] = fd.residual(lambda u, k: k * laplacian(u) - u[...] + 1.0)
    u[0], u[-1] = 0.0, Robin(1.0, 0.5, 2.0)

    def solve(k: Any) -> Any:
        return fd.solve(u, k=k)["u"]

    many = jax.jit(jax.vmap(solve))(jnp.array([0.5, 2.0]))
    np.testing.assert_allclose(many, [solve(0.5), solve(2.0)], rtol=1e-12)

    single = fd.Field("u", u.grid, dtype=jnp.float32)
    single[...] = fd.residual(lambda u, k: k * laplacian(u) - u[...] + 1.0)
    single[0], single[-1] = 0.0, Robin(1.0, 0.5, 2.0)
    found = fd.solve(single, k=2.0)["u"]
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, many[1], rtol=2e-5)


@pytest.mark.parametrize("num", [9, 17])
def test_a_plate_in_single_precision(num: int) -> None:
    """Dense elimination and transforms: what rounding leaves counts as solved."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=num), y=fd.Axis(0.0, 1.0, num=num)), dtype=jnp.float32)
    u[...] = fd.residual(lambda u, k: divergence(k, u) + 1.0)
    u[dict(x=[0, -1])] = 0.0
    u[dict(y=[0, -1])] = Robin(1.0, 0.5, 0.0)
    k = jnp.linspace(1.0, 2.0, num * num, dtype=jnp.float32).reshape(num, num)
    found = [fd.solve(u, k=k, solver=solver)["u"] for solver in (fd.solvers.Dense(), fd.solvers.Direct(), None)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    np.testing.assert_allclose(found[2], found[1], rtol=1e-4)


def test_what_is_not_solved_is_nan_where_nothing_can_be_raised() -> None:
    def solve(strength: Any) -> Any:
        return fd.solve(bratu(), strength=strength)["u"]

    found = jax.jit(solve)(5.0)  # beyond the fold at 3.51: there is no solution
    assert bool(jnp.isnan(found[1:-1]).all())

"""Derived views: stored ones change nothing, reductions see the whole level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import derivative, divergence


def declare(wall: str, plain: bool, keep) -> fd.Field:
    """A nonlinear diffusion of a product, with or without storing what is differenced."""
    periodic = wall == "periodic"
    grid = fd.Grid(
        t=fd.Time(0.0, 0.02, num=6),
        x=fd.Axis(0.0, 1.0, num=11, periodic=periodic, cells=wall == "cells"),
        y=fd.Axis(0.0, 2.0, num=9, periodic=True),
    )
    u = fd.Field("u", grid)

    def rate(u, k, at=None):
        inner = keep(derivative(u * u, "x"))
        other = keep(derivative(fd.apply(jnp.sin, u), "y"))
        return k * derivative(inner, "x") + derivative(keep(other * 2.0), "y")

    if plain:
        u[...] = lambda u, k, dt: u["t-1"] + dt * rate(u, k)["t-1"]
    else:
        u[...] = fd.rate(rate)
    u[0] = lambda x, y: jnp.sin(6.0 * x) * jnp.cos(3.0 * y) + 2.0
    if not periodic:
        u[dict(x=0)] = fd.boundary.Robin(1.0, 2.0, 3.0)
        u[dict(x=-1)] = fd.boundary.Neumann(0.3)
    return u


@pytest.mark.parametrize("wall", ["periodic", "nodes", "cells"])
@pytest.mark.parametrize("plain", [True, False])
def test_storing_changes_nothing(wall: str, plain: bool) -> None:
    lazy = fd.solve(declare(wall, plain, lambda view: view), k=0.01)["u"]
    plan = fd.plan(declare(wall, plain, fd.stored), k=0.01)
    assert sum(one.hidden for one in plan.structure.arrays) == 3
    stored = fd.solve(declare(wall, plain, fd.stored), k=0.01)["u"]
    assert np.abs(np.asarray(lazy - stored)).max() < 1e-13 * np.abs(np.asarray(lazy)).max()


def test_storing_changes_no_gradient() -> None:
    def loss(k, keep):
        return (fd.solve(declare("cells", False, keep), k=k)["u"][-1] ** 2).sum()

    lazy, stored = (jax.grad(loss)(0.01, keep) for keep in (lambda view: view, fd.stored))
    assert abs(float(lazy - stored)) < 1e-11 * abs(float(lazy))


def test_what_rates_alone_read_is_no_part_of_the_state() -> None:
    structure = fd.plan(declare("cells", False, fd.stored), k=0.01).structure
    assert [one.name for one in structure.arrays if one.hidden] and [one.name for one in structure.carried] == ["u"]


def test_a_view_of_a_rate_takes_the_time_of_its_stage() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.02, num=6), x=fd.Axis(0.0, 1.0, num=12, periodic=True))

    def solve(keep, stepper, kernel, c):
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u, t, c: c * derivative(keep((1.0 + 50.0 * t) * derivative(u * u, "x")), "x"))
        u[0] = lambda x: jnp.sin(2 * jnp.pi * x) + 2.0
        return np.asarray(fd.solve(u, stepper=stepper, kernel=kernel, c=c)["u"])

    for stepper in (fd.schemes.Euler(), fd.schemes.RK4(), fd.schemes.Heun()):
        for kernel, c in (("slices", fd.along(np.linspace(0.005, 0.02, 6), "t")), ("native", 0.02)):
            lazy, stored = solve(lambda view: view, stepper, "slices", c), solve(fd.stored, stepper, kernel, c)
            assert np.abs(lazy - stored).max() < 1e-13 * np.abs(lazy).max()


def test_storing_beside_a_hole_and_on_staggered_places() -> None:
    grid = fd.Grid(
        t=fd.Time(0.0, 0.01, num=5), x=fd.Axis(0.0, 1.0, num=12, cells=True), y=fd.Axis(0.0, 1.0, num=12, cells=True)
    )

    def solve(keep):
        u = fd.Field("u", grid)
        u[...] = fd.rate(
            lambda u: derivative(keep(derivative(u, "x")), "x") + derivative(keep(derivative(u, "y")), "y")
        )
        u[0] = lambda x, y: x * y**2
        for axis in "xy":
            u[{axis: [0, -1]}] = fd.boundary.Neumann(0.0)
        u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.02)] = fd.boundary.Neumann(0.0)
        return np.asarray(fd.solve(u)["u"])

    lazy, stored = solve(lambda view: view), solve(fd.stored)
    assert np.array_equal(np.isnan(lazy), np.isnan(stored))
    assert np.nanmax(np.abs(lazy - stored)) < 1e-13


def test_the_components_of_fields_set_together_share_what_is_stored() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.01, num=3), x=fd.Axis(0.0, 1.0, num=12, periodic=True))
    a, b = fd.Field("a", grid), fd.Field("b", grid)

    def rates(a, b):
        product = fd.stored(a * b)
        return derivative(product, "x"), -derivative(product, "x")

    fd.together(a, b)[...] = fd.rate(rates)
    a[0] = lambda x: 1.0 + 0.1 * jnp.sin(6.28 * x)
    b[0] = 2.0
    plan = fd.plan((a, b))
    assert sum(one.hidden for one in plan.structure.arrays) == 1
    solution = fd.solve((a, b))
    assert np.allclose(solution["a"][-1].sum() + solution["b"][-1].sum(), 36.0)


@pytest.mark.parametrize(
    ("function", "axis"), [(jnp.max, None), (jnp.sum, "x"), (jnp.mean, ["x", "y"]), (jnp.min, "y")]
)
def test_a_reduction_sees_the_level_it_reads(function, axis) -> None:
    generator = np.random.default_rng(5)
    start = generator.normal(size=(5, 4))
    grid = fd.Grid(t=fd.Time(0.0, 3.0, num=4), x=fd.Axis(0.0, 1.0, num=5), y=fd.Axis(0.0, 1.0, num=4))
    u = fd.Field("u", grid)
    u[...] = lambda u: u["t-1"] - 0.5 * fd.reduce(function, u, axis)["t-1"]
    u[0] = start
    expected, now = [start], start
    axes = {None: (0, 1), "x": (0,), "y": (1,)}.get(axis if isinstance(axis, str | None) else "", (0, 1))
    for _ in range(3):
        now = now - 0.5 * np.asarray(function(jnp.asarray(now), axis=axes, keepdims=True))
        expected.append(now)
    assert np.allclose(fd.solve(u)["u"], expected, atol=1e-14)


def test_a_reduction_in_a_rate_and_its_gradient() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 1.0, num=6))

    def final(k):
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u, k: k * (fd.reduce(jnp.mean, u) - u))
        u[0] = lambda x: x
        return fd.solve(u, k=k)["u"][-1]

    exact = 0.5 + (np.linspace(0, 1, 6) - 0.5) * np.exp(-0.7)
    assert np.allclose(final(0.7), exact, atol=1e-6)
    assert np.allclose(jax.jacfwd(final)(0.7), -(exact - 0.5), atol=1e-5)


def test_wrong_uses_are_named() -> None:
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=8))
    timed = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=8))

    def one(grid, rule, *more):
        u = fd.Field("u", grid)
        u[...] = rule
        if "t" in grid:
            u[0] = 1.0
        for region, condition in more:
            u[region] = condition
        return fd.plan(u)

    with pytest.raises(fd.FdsolveError, match="take a view"):
        one(timed, lambda u: fd.stored(u["t-1"]))
    with pytest.raises(fd.FdsolveError, match="takes names of space axes"):
        one(timed, lambda u: fd.reduce(jnp.max, u, "z")["t-1"])
    with pytest.raises(fd.FdsolveError, match="takes a function such as"):
        one(timed, lambda u: fd.reduce(3, u)["t-1"])
    with pytest.raises(fd.FdsolveError, match="`fft` does not"):
        one(timed, lambda u: fd.reduce(jnp.fft.fft, u)["t-1"])
    with pytest.raises(fd.FdsolveError, match="still computing"):
        one(timed, lambda u: 0.5 * u["t-1"] + fd.reduce(jnp.max, u)[...])
    with pytest.raises(fd.FdsolveError, match="has a hole"):
        one(timed, fd.rate(lambda u: -fd.reduce(jnp.max, u)), (dict(x=slice(3, 5)), fd.boundary.Neumann(0.0)))
    with pytest.raises(fd.FdsolveError, match="beyond an end of axis"):
        one(timed, fd.rate(lambda u: fd.reduce(jnp.max, u)["x+1"]))
    with pytest.raises(fd.FdsolveError, match="coefficients of conditions"):
        one(
            timed,
            fd.rate(lambda u: divergence(1.0, u)),
            ({"x": [0, -1]}, fd.boundary.Neumann(lambda u: fd.reduce(jnp.max, u))),
        )
    assert grid.space == ("x",)

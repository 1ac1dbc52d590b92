"""Many levels at once by transforms, against levels one by one, exact symbols, and what is refused."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.schemes import AdamsBashforth, CarpenterKennedy, StormerVerlet, Strang, derivative, laplacian

from .march_cases import WALLS, box, call_of, difference, dot_products

B = fd.boundary
CASES = [
    (("ring",), ("even", "even"), 1),
    (("nodes",), ("dirichlet", "neumann"), 1),
    (("cells",), ("neumann", "dirichlet"), 2),
    (("nodes",), ("zero", "even"), 2),
    (("ring", "nodes"), ("neumann", "dirichlet"), 2),
    (("cells", "nodes"), ("dirichlet", "neumann", "neumann", "neumann"), 1),
    (("nodes", "ring", "cells"), ("dirichlet", "neumann"), 1),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: "-".join((*CASES[n][0], *CASES[n][1])))
def test_the_same_levels_as_one_by_one(number: int) -> None:
    kinds, walls, radius = CASES[number]
    for dtype, bound in ((jnp.float64, 1e-13), (jnp.float32, 2e-5))[: 2 if len(kinds) < 3 else 1]:
        call, arrays = call_of(box(kinds, walls, number, dtype, radius), 37, r=0.9)
        assert difference("fft", call, arrays) < bound


def ring(num: int = 12, levels: int = 101) -> fd.Grid:
    return fd.Grid(t=fd.Time(0.0, 0.1, num=levels), x=fd.Axis(0.0, 1.0, num=num, periodic=True))


def coupled() -> tuple[fd.Field, fd.Field]:
    u, v = fd.Field("u", ring()), fd.Field("v", ring())
    u[...] = fd.rate(lambda v: derivative(v, "x"))
    v[...] = fd.rate(lambda u: derivative(u, "x") - u[...])
    u[0] = v[0] = 0.0
    return u, v


@pytest.mark.parametrize("stepper", [CarpenterKennedy(), StormerVerlet()], ids=repr)
def test_coupled_rates_by_one_step_methods(stepper: Any) -> None:
    call, arrays = call_of(coupled(), 23, stepper=stepper)
    assert difference("fft", call, arrays) < 1e-13


def test_groups_of_rates_and_sources_in_space_beside_walls() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=101), x=fd.Axis(0.0, 1.0, num=9)))
    u[...] = fd.rate(lambda u: 0.1 * derivative(u, "x", 2))
    u[...] += fd.rate(lambda u, x: x**2 - u[...])
    u[0], u[dict(x=0)], u[dict(x=-1)] = 0.0, B.Dirichlet(2.0), B.Neumann(1.0)
    call, arrays = call_of(u, 30, stepper=Strang())
    assert difference("fft", call, arrays) < 1e-13


def test_waves_keep_two_levels() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=8)))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + (c * dt) ** 2 * laplacian(u, at="t-1")
    u[0] = u[1] = 0.0
    u[dict(x=[0, -1])], u[dict(y=[0, -1])] = 0.0, B.Symmetric()
    call, arrays = call_of(u, 21, c=0.7)
    assert difference("fft", call, arrays) < 1e-12


def test_a_field_that_reads_the_new_values_of_another() -> None:
    p, v = fd.Field("p", ring()), fd.Field("v", ring())
    p[...] = lambda p, v, r: p["t-1"] - r * (v["t-1", "x+1"] - v["t-1"])
    v[...] = lambda p, v, r: v["t-1"] - r * (p["t-0"] - p["t-0", "x-1"])
    p[0] = v[0] = 0.0
    call, arrays = call_of((p, v), 40, r=0.4)
    assert difference("fft", call, arrays) < 1e-13


@pytest.mark.parametrize("walls", [None, B.Neumann(0.0), B.Dirichlet(0.0)], ids=["ring", "even", "odd"])
@pytest.mark.parametrize("kernel", ["fft", "powers"])
def test_a_field_that_is_read_at_its_own_points_alone(kernel: str, walls: Any) -> None:
    """It continues beyond the ends as the field does that moves it."""
    axis = fd.Axis(0.0, 1.0, num=9, periodic=walls is None, cells=True)
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=axis)
    v, u = fd.Field("v", grid), fd.Field("u", grid)
    u[...] = lambda u, v, dt: u["t-1"] + dt * v["t-1"]
    v[...] = lambda u, v, dt: v["t-1"] + dt * laplacian(u)[...]
    u[0] = v[0] = 0.0
    if walls is not None:
        u[dict(x=[0, -1])] = walls
    call, arrays = call_of((u, v), 20)
    assert difference(kernel, call, arrays) < 1e-12


@pytest.mark.parametrize("walls", [None, WALLS["zero"]], ids=["ring", "walls"])
def test_complex_fields(walls: Any) -> None:
    axis = fd.Axis(0.0, 1.0, num=9, periodic=walls is None)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=101), x=axis), dtype=complex)
    u[...] = fd.rate(lambda u: 0.02j * derivative(u, "x", 2))
    u[0] = 0.0
    if walls is not None:
        u[dict(x=[0, -1])] = walls
    call, arrays = call_of(u, 30)
    assert difference("fft", call, arrays) < 1e-13


@pytest.mark.parametrize("dtype, bound", [(jnp.float64, 1e-10), (jnp.float32, 1.2e-2)])
def test_a_heat_mode_decays_by_its_symbol_for_a_hundred_thousand_steps(dtype: Any, bound: float) -> None:
    n, steps, r = 64, 100_000, 0.002
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=steps + 1), x=fd.Axis(0.0, 1.0, num=n + 1)), dtype=dtype)
    u[...] = lambda u, r: u["t-1"] + r * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = lambda x: jnp.sin(jnp.pi * x)
    u[dict(x=[0, -1])] = 0.0
    found = fd.solve(u, r=r, save=fd.final(), kernel="fft").final["u"]
    factor = 1 - 4 * r * np.sin(np.pi / (2 * n)) ** 2
    exact = factor**steps * np.sin(np.pi * np.arange(n + 1) / n)
    assert np.abs(np.asarray(found) - exact).max() < bound * factor**steps


def test_gradients_are_those_of_levels_one_by_one() -> None:
    u = box(("cells", "nodes"), ("dirichlet", "neumann", "neumann", "zero"), 2)
    slopes = []
    for backend in ("fft", "slices"):

        def cost(r: Any, a: Any, backend: str = backend) -> Any:
            u[0] = lambda x, y, a: jnp.sin(a * x) + x * y
            return (fd.solve(u, r=r, a=a, save=fd.final(), kernel=backend).final["u"] ** 2).sum()

        slopes.append(jax.jit(jax.grad(cost, (0, 1)))(0.8, 5.0))
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-11)


def test_transposes_pass_the_dot_product_test() -> None:
    call, arrays = call_of(box(("nodes",), ("dirichlet", "neumann"), 4), 20, r=0.9)
    forward, backward = dot_products("fft", call, arrays)
    assert abs(forward - backward) < 1e-13 * max(1.0, abs(forward))


def test_the_plan_takes_it_where_only_late_levels_are_saved_and_says_so() -> None:
    u = fd.Field("u", ring(levels=9001))
    u[...] = lambda u, r: u["t-1"] + r * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = 0.0
    assert "Kernel for march: fft" in str(fd.plan(u, r=0.1, save=fd.final()))
    assert "Kernel for march: fft" not in str(fd.plan(u, r=0.1, save=fd.every(10)))


def refused(rule: Any, *walls: Any, **options: Any) -> str:
    """Why the kernel does not serve a march on eleven nodes."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=41), x=fd.Axis(0.0, 1.0, num=11)))
    u[...], u[0] = rule, 0.0
    for side, wall in zip((0, -1)[: len(walls)], walls, strict=True):
        u[dict(x=side)] = wall
    call, _ = call_of(u, 9, **options)
    return get("march", "fft").refusal(call) or "served"


def test_it_says_what_it_does_not_serve() -> None:
    zero, heat = B.Dirichlet(0.0), fd.rate(lambda u: 0.1 * derivative(u, "x", 2))
    assert refused(heat, zero, zero) == "served"
    assert "is no mirror" in refused(heat, zero, B.Robin(1.0, 1.0, 0.0))
    assert "depends on time" in refused(heat, zero, B.Dirichlet(lambda t: t))
    assert "depends on time" in refused(fd.rate(lambda u, t: 0.1 * derivative(u, "x", 2) + t), zero, zero)
    assert "vary in space" in refused(fd.rate(lambda u, x: x * derivative(u, "x", 2)), zero, zero)
    assert "not affine" in refused(fd.rate(lambda u: -(u[...] ** 2)), zero, zero)
    tilted = fd.rate(lambda u, c: 0.1 * derivative(u, "x", 2) - c * derivative(u, "x"))
    assert "not symmetric" in refused(tilted, zero, zero, c=0.0)

    def upwind(u: Any, r: Any) -> Any:
        return u["t-1"] - r * (u["t-1"] - u["t-1", "x-1"])

    assert "not symmetric" in refused(upwind, zero, zero, r=0.1)
    assert "one end" in refused(upwind, zero, r=0.1)
    assert "one-step" in refused(heat, zero, zero, stepper=AdamsBashforth(2))


def test_half_precision_is_left_to_others() -> None:
    u = fd.Field("u", ring(levels=2001), dtype=jnp.float16)
    u[...], u[0] = lambda u: 0.5 * (u["t-1", "x+1"] + u["t-1", "x-1"]), 1.0
    text = str(fd.plan(u, save=fd.final()))
    assert "refused fft: transforms take no float16" in text and "march: fft" not in text


def test_weights_that_branch_are_symmetric_for_some_parameters_only() -> None:
    def rule(u: Any, c: Any) -> Any:
        left = jnp.where(c > 5.0, 0.2, 0.1)
        return u["t-1"] + left * (u["t-1", "x-1"] - u["t-1"]) + 0.1 * (u["t-1", "x+1"] - u["t-1"])

    assert "branch" in refused(rule, B.Dirichlet(0.0), B.Dirichlet(0.0), c=1.0)


CHANCES: dict[str, tuple[Any, Any, bool]] = {
    "a phase": (0.2 + 0.1j, lambda u, c: c * u["t-1", "x+1"] + jnp.conj(c) * u["t-1", "x-1"], False),
    "a phase between walls": (0.2 + 0.1j, lambda u, c: c * u["t-1", "x+1"] + jnp.conj(c) * u["t-1", "x-1"], True),
    "an imaginary part": (0.2 + 0.1j, lambda u, c: 0.5 * u["t-1"] + c - jnp.conj(c), False),
    "a root of a square": (-0.2, lambda u, c: c * u["t-1", "x+1"] + jnp.sqrt(c * c) * u["t-1", "x-1"], True),
    "a switch": (False, lambda u, c: 0.3 * (c.astype(float) * u["t-1", "x+1"] + u["t-1", "x-1"]), True),
    "a whole number": (
        2,
        lambda u, c: 0.1 * (c.astype(float) * u["t-1", "x+1"] + (c**2).astype(float) * u["t-1", "x-1"]),
        True,
    ),
}


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("kernel", ["fft", "powers"])
def test_what_holds_of_some_parameters_only_is_not_taken_for_granted(chance: str, kernel: str) -> None:
    value, rule, walls = CHANCES[chance]
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=9), x=fd.Axis(0.0, 1.0, num=9, periodic=not walls))
    u = fd.Field("u", grid, dtype=complex if isinstance(value, complex) else float)
    u[...], u[0] = rule, lambda x: jnp.sin(5 * x) + x
    if walls:
        u[dict(x=[0, -1])] = B.Dirichlet(0.0)
        with pytest.raises(fd.PlanningError, match=r"not symmetric|that branch"):
            fd.plan(u, c=jnp.asarray(value), kernel=kernel)
        return
    found, wanted = (fd.solve(u, c=value, save=fd.final(), kernel=one).final["u"] for one in (kernel, "slices"))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def test_a_wall_of_two_kinds_is_refused() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=41), x=fd.Axis(0.0, 1.0, num=30), y=fd.Axis(0.0, 1.0, num=30, cells=True))
    u = fd.Field("u", grid)
    u[...], u[0] = fd.rate(lambda u: 0.01 * laplacian(u)), 0.0
    u[dict(x=[0, -1])], u[dict(y=[0, -1])] = B.Dirichlet(0.0), B.Neumann(0.0)
    u[dict(y=0, x=slice(5, 15))] = B.Dirichlet(1.0)
    call, _ = call_of(u, 9)
    assert "ends within the domain" in (get("march", "fft").refusal(call) or "")


def wave(kernel: str, levels: int, dtype: Any, rule: Any) -> Any:
    axes = dict(x=fd.Axis(0.0, 1.0, num=33), y=fd.Axis(0.0, 1.0, num=32, periodic=True))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=levels), **axes), dtype=dtype)
    u[...] = rule
    u[[0, 1, 2]] = lambda x, y: jnp.sin(np.pi * x) * (1 + jnp.cos(2 * np.pi * y))
    u[dict(x=[0, -1])] = 0.0
    return np.asarray(fd.solve(u, kernel=kernel, save=fd.final()).final["u"], np.float64)


def test_long_waves_keep_their_digits_where_older_levels_are_read() -> None:
    def rule(u: Any) -> Any:
        around = u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"]
        return 2 * u["t-1"] - u["t-2"] + 0.011 * (around - 4 * u["t-1"])

    exact = wave("slices", 4001, jnp.float64, rule)
    scale = np.abs(exact).max()
    assert np.abs(wave("fft", 4001, jnp.float64, rule) - exact).max() < 1e-10 * scale
    # Levels one by one round as much: 4000 times 6e-8. In a basis of levels themselves it would be 1e-2.
    assert np.abs(wave("fft", 4001, jnp.float32, rule) - exact).max() < 2.4e-4 * scale


def test_three_levels_are_read() -> None:
    def rule(u: Any) -> Any:
        along = u["t-2", "x-1"] + u["t-2", "x+1"] - 2 * u["t-2"]
        return 0.9 * u["t-1"] - 0.2 * u["t-2"] + 0.25 * u["t-3"] + 0.1 * along - 0.02 * u["t-3", "y-1"]

    exact = wave("slices", 41, jnp.float64, rule)
    assert np.abs(exact).max() > 1e-3
    assert np.abs(wave("fft", 41, jnp.float64, rule) - exact).max() < 1e-12 * np.abs(exact).max()

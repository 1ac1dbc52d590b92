"""Machine code inside jit, loops, vmap and derivatives, and what is said where there is none."""

import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fdsolve as fd
from fdsolve.kernels.native import _kernel
from fdsolve.kernels.native._march import refusal
from fdsolve.schemes import RK4, AdamsBashforth

from .native_cases import case_of


def heat(start: Any, m: Any, wall: Any, kernel: str) -> Any:
    """The last level of heat in a medium between a wall of given value and an insulated one, and a periodic axis."""
    g = fd.Grid(t=fd.Time(0.0, 1.0, num=7), x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=6, periodic=True))
    u = fd.Field("u", g, dtype=start.dtype)
    u[...] = lambda u, m: (
        u["t-1"] + m[...] * (u["t-1", "x+1"] + u["t-1", "x-1"] + u["t-1", "y+1"] + u["t-1", "y-1"] - 4 * u["t-1"])
    )
    u[0] = start
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda w, t: w * (1 + t))
    u[dict(x=-1)] = fd.boundary.Neumann(0.1)
    return fd.solve(u, m=m, w=wall, save=fd.final(), kernel=kernel).final["u"]


def start_of(seed: int = 0) -> tuple[jax.Array, jax.Array, float]:
    """A start, a medium, and what the wall holds."""
    random = np.random.default_rng(seed)
    return jnp.asarray(random.normal(size=(9, 6))), jnp.asarray(random.uniform(0.05, 0.2, (9, 6))), 0.4


def both(function: Callable[[str], Any], tolerance: float = 1e-13) -> None:
    """A function of the kernel has one answer."""
    found, wanted = function("native"), function("slices")
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance), found, wanted)
    assert jax.tree.leaves(found)


def test_under_jit_with_parameters_traced() -> None:
    both(lambda kernel: jax.jit(lambda *given: heat(given[0], given[1], given[2], kernel))(*start_of()))


def test_inside_loops() -> None:
    start, m, _ = start_of()

    def scanned(kernel: str) -> Any:
        return lax.scan(lambda u, w: (heat(u, m, w, kernel), jnp.sum(u)), start, jnp.array([0.1, 0.2, 0.3]))

    def repeated(kernel: str) -> Any:
        return lax.while_loop(lambda u: jnp.max(jnp.abs(u)) > 0.8, lambda u: heat(u, m, 0.3, kernel), start)

    both(jax.jit(scanned, static_argnums=0))
    both(jax.jit(repeated, static_argnums=0))


def test_under_vmap() -> None:
    many = [start_of(seed) for seed in range(3)]
    starts, media = jnp.stack([s for s, _, _ in many]), jnp.stack([m for _, m, _ in many])
    walls = jnp.array([0.1, 0.2, 0.3])
    both(
        lambda kernel: jax.jit(jax.vmap(lambda *given: heat(given[0], given[1], given[2], kernel)))(
            starts, media, walls
        )
    )
    both(lambda kernel: jax.jit(jax.vmap(lambda s: heat(s, media[0], 0.1, kernel)))(starts))


def test_tangents_and_gradients_with_respect_to_everything() -> None:
    given = start_of()
    moved = jax.tree.map(lambda x: jnp.cos(3.0 * jnp.asarray(x)), given)

    def tangent(kernel: str) -> Any:
        return jax.jit(lambda p, t: jax.jvp(lambda a, b, c: heat(a, b, c, kernel), p, t))(given, moved)

    def gradient(kernel: str) -> Any:
        return jax.jit(jax.grad(lambda a, b, c: jnp.sum(heat(a, b, c, kernel) ** 2), argnums=(0, 1, 2)))(*given)

    both(tangent)
    both(gradient)


def test_gradients_of_the_start_reach_its_edges() -> None:
    start, m, wall = start_of()

    def gradient(kernel: str) -> Any:
        return jax.jit(jax.grad(lambda s: jnp.sum(jnp.sin(heat(s, m, wall, kernel)))))(start)

    both(gradient)
    assert np.all(np.asarray(gradient("native")) != 0)


def test_gradients_of_a_nonlinear_march() -> None:
    def total(start: Any, a: Any, kernel: str) -> Any:
        g = fd.Grid(t=fd.Time(0.0, 0.1, num=6), x=fd.Axis(0.0, 1.0, num=8, periodic=True), y=fd.Axis(0.0, 1.0, num=5))
        u = fd.Field("u", g)
        u[...] = fd.rate(lambda u, a: -u[...] * (u["x+1"] - u["x-1"]) + a * u["y-1"])
        u[0] = start
        u[dict(y=[0, -1])] = fd.boundary.Robin(1.0, 2.0, 0.1)
        return jnp.sum(fd.solve(u, a=a, stepper=RK4(), save=fd.final(), kernel=kernel).final["u"] ** 2)

    start = jnp.asarray(np.random.default_rng(1).normal(size=(8, 5)))
    both(lambda kernel: jax.jit(jax.value_and_grad(lambda s, a: total(s, a, kernel), argnums=(0, 1)))(start, 0.3))


def test_in_single_precision_without_the_other() -> None:
    with jax.enable_x64(False):
        start, m, wall = (jnp.asarray(one, jnp.float32) for one in start_of())
        both(lambda kernel: heat(start, m, wall, kernel), tolerance=3e-6)


def test_saved_levels_are_those_of_the_portable_kernel() -> None:
    def saved(kernel: str) -> Any:
        g = fd.Grid(t=fd.Time(0.0, 1.0, num=14), x=fd.Axis(0.0, 1.0, num=7), y=fd.Axis(0.0, 1.0, num=5, periodic=True))
        u = fd.Field("u", g)
        u[...] = lambda u, t: 0.5 * u["t-1", "x-1"] + 0.4 * u["t-1", "y+1"] + 0.1 * t
        u[0] = lambda x, y: x - y
        u[dict(x=0)] = 0.3
        return [fd.solve(u, save=save, kernel=kernel)["u"] for save in (fd.every(4), None)]

    both(saved)


def unserved(name: str) -> Any:
    """A march that there is no machine code for."""
    g = fd.Grid(t=fd.Time(0.0, 0.1, num=8), x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=8))
    u = fd.Field("u", g, dtype=complex if name == "complex" else float)
    stepper: Any = None
    parameters: dict[str, Any] = {}
    if name == "complex":
        u[...] = lambda u: 0.5 * u["t-1"]
    elif name == "sweep":
        u[1:, 1:] = lambda u: 0.5 * u["x-1"]
        u[1:, 0] = 0.1
    elif name == "equation":
        u[1:] = fd.residual(lambda u, dt: u[...] - u["t-1"] + dt * u[...])
    elif name == "primitive":
        u[...] = lambda u: jnp.nextafter(u["t-1"], 1.0)
    elif name == "reduction":
        u[...] = lambda u: u["t-1"] / (1.0 + fd.reduce(jnp.max, u)["t-1"])
    elif name == "whole":
        u[...] = lambda u, a: u["t-1"] * jnp.sum(a)
        parameters = {"a": fd.whole(jnp.arange(4.0))}
    else:
        u[...], stepper = fd.rate(lambda u: -u[...]), AdamsBashforth(2)
    u[0] = 0.3
    return case_of(u, stepper=stepper, **parameters)


REASONS = {
    "complex": "`u` has dtype complex128",
    "sweep": "points of one level read each other (a sweep)",
    "equation": "equations are solved at each level",
    "primitive": "a rule of `u`: it uses `nextafter`",
    "reduction": "a derived field is an operation on a whole line",
    "whole": "computes with an array of shape (4,)",
    "multistep": "the stepper AdamsBashforth(order=2) is no explicit Runge–Kutta method",
}


@pytest.mark.parametrize("name", REASONS)
def test_what_is_not_served_is_refused_with_the_reason(name: str) -> None:
    assert REASONS[name] in str(refusal(unserved(name).call))


def test_without_llvm_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(_kernel, "find_spec", lambda name: None if name == "llvmlite" else find(name))
    _kernel.why_not.cache_clear()
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=9), x=fd.Axis(0.0, 1.0, num=6)))
    u[...], u[0] = lambda u: 0.5 * u["t-1"], 1.0
    try:
        assert "refused native: llvmlite is not installed" in str(fd.plan(u, save=fd.final()))
        with pytest.raises(fd.PlanningError, match="llvmlite is not installed"):
            fd.plan(u, save=fd.final(), kernel="native")
    finally:
        _kernel.why_not.cache_clear()

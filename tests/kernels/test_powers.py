"""Several levels composed into one stencil, against levels one by one."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.schemes import Midpoint, derivative, laplacian

from .march_cases import box, call_of, difference, dot_products

B = fd.boundary
CASES = [
    (("cells",), ("neumann", "dirichlet"), 2),
    (("nodes", "cells"), ("dirichlet", "neumann", "zero", "dirichlet"), 1),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: "-".join((*CASES[n][0], *CASES[n][1])))
def test_the_same_levels_as_one_by_one(number: int) -> None:
    kinds, walls, radius = CASES[number]
    for dtype, bound in ((jnp.float64, 1e-13), (jnp.float32, 1e-5)):
        call, arrays = call_of(box(kinds, walls, number, dtype, radius), 14, r=0.9)
        assert difference("powers", call, arrays) < bound


def test_two_levels_of_five_points_read_thirteen() -> None:
    from fdsolve.kernels._affine_march import affine_march
    from fdsolve.kernels._powers import support

    call, _ = call_of(box(("nodes", "nodes"), ("dirichlet",) * 4, 1), 9, r=0.9)
    march = affine_march(call)
    assert not isinstance(march, str)
    (taps,) = support(call.structure, march, 2).values()
    assert set(taps) == {o for o in product(range(-2, 3), repeat=2) if abs(o[0]) + abs(o[1]) <= 2}


def test_waves_and_their_older_level() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=fd.Axis(0.0, 1.0, num=12), y=fd.Axis(0.0, 1.0, num=11)))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + (c * dt) ** 2 * laplacian(u, at="t-1")
    u[0] = u[1] = 0.0
    u[dict(x=[0, -1])], u[dict(y=[0, -1])] = 0.0, B.Symmetric()
    call, arrays = call_of(u, 15, c=0.7)
    assert difference("powers", call, arrays) < 1e-12


def test_coupled_rates_by_a_method_of_two_stages() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=101), x=fd.Axis(0.0, 1.0, num=14, periodic=True))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: derivative(v, "x"))
    v[...] = fd.rate(lambda u, x: derivative(u, "x") + jnp.cos(x))
    u[0] = v[0] = 0.0
    call, arrays = call_of((u, v), 13, stepper=Midpoint())
    assert difference("powers", call, arrays) < 1e-13


def test_upwind_advection_around_a_ring() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=fd.Axis(0.0, 1.0, num=15, periodic=True)))
    u[...] = lambda u, r: u["t-1"] - r * (u["t-1"] - u["t-1", "x-1"])
    u[0] = 0.0
    call, arrays = call_of(u, 22, r=0.4)
    assert difference("powers", call, arrays) < 1e-13


def test_gradients_are_those_of_levels_one_by_one() -> None:
    u = box(("cells",), ("dirichlet", "neumann"), 2)
    slopes = []
    for backend in ("powers", "slices"):

        def cost(r: Any, a: Any, backend: str = backend) -> Any:
            u[0] = lambda x, a: jnp.sin(a * x) + x
            return (fd.solve(u, r=r, a=a, save=fd.final(), kernel=backend).final["u"] ** 2).sum()

        slopes.append(jax.jit(jax.grad(cost, (0, 1)))(0.8, 5.0))
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-11)


def test_transposes_pass_the_dot_product_test() -> None:
    call, arrays = call_of(box(("nodes",), ("dirichlet", "neumann"), 4), 12, r=0.9)
    forward, backward = dot_products("powers", call, arrays)
    assert abs(forward - backward) < 1e-13 * max(1.0, abs(forward))


def test_a_domain_narrower_than_the_stencil_is_refused() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=fd.Axis(0.0, 1.0, num=2, periodic=True)))
    u[...] = lambda u, r: u["t-1"] + r * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = 0.0
    call, _ = call_of(u, 9, r=0.4)
    assert "wider than the domain" in (get("march", "powers").refusal(call) or "")


@pytest.mark.parametrize("axes", [1, 2])
def test_long_waves_keep_their_digits(axes: int) -> None:
    def last(kernel: str, dtype: Any) -> Any:
        names = "xy"[:axes]
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=1501), **{n: fd.Axis(0.0, 1.0, num=48, periodic=True) for n in names})
        u = fd.Field("u", grid, dtype=dtype)
        u[...] = lambda u: (
            2 * u["t-1"] - u["t-2"] + 0.13 * sum(u["t-1", f"{n}-1"] + u["t-1", f"{n}+1"] - 2 * u["t-1"] for n in names)
        )
        u[[0, 1]] = lambda x: 1 + 0.1 * jnp.sin(2 * np.pi * x)
        return np.asarray(fd.solve(u, save=fd.final(), kernel=kernel).final["u"], np.float64)

    # In float32; weights whose sum rounds would make the mean drift by 1e-7 n²/2 in n steps.
    assert np.abs(last("powers", jnp.float32) - last("slices", jnp.float64)).max() < 2e-3

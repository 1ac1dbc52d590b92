"""Levels one by one by generated code, where receivers listen at each, against slices."""

from dataclasses import replace
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native._derivative import why_not
from fdsolve.kernels.native._march import is_single

from .march_cases import call_of, random_levels

B = fd.boundary
NUM = 17, 13


def grid(levels: int, periodic: bool = False) -> fd.Grid:
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name, num in zip("xy", NUM, strict=True)}
    return fd.Grid(t=fd.Time(0.0, 1.0, num=levels), **axes | dict(x=fd.Axis(0.0, 1.0, num=NUM[0], periodic=periodic)))


def around(u: Any, back: int) -> Any:
    near = ("x-1", "x+1", "y-1", "y+1")
    return sum(u[f"t-{back}", one] for one in near) - 4 * u[f"t-{back}"]


def heat(u: Any, c: Any) -> Any:
    return u["t-1"] + 0.2 * c[...] * around(u, 1)


def wave(u: Any, c: Any) -> Any:
    return 2 * u["t-1"] - u["t-2"] + 0.2 * c[...] * around(u, 1)


def three(u: Any, c: Any) -> Any:
    """Every level kept, neighbours of the oldest too, and a product."""
    return 0.5 * u["t-1"] + 0.2 * u["t-2"] - 0.1 * u["t-3", "x+1"] + c[...] * around(u, 2) + 0.1 * u["t-1"] * u["t-3"]


RULES = dict(heat=(heat, 1), wave=(wave, 2), three=(three, 3))


def problem(name: str, levels: int = 14, periodic: bool = False) -> fd.Field:
    rule, kept = RULES[name]
    u = fd.Field("u", grid(levels, periodic))
    u[...] = rule
    u[list(range(kept))] = lambda x, y: jnp.sin(3 * x) * jnp.cos(5 * y)
    if not periodic:
        u[dict(x=0)], u[dict(x=-1)] = B.Neumann(0.1), B.Dirichlet(0.3)
    u[dict(y=[0, -1])] = 0.0
    u[fd.point(x=0.31, y=0.47)] += lambda t, q: q * jnp.sin(5 * t)
    return u


C = 0.1 + 0.1 * np.random.default_rng(0).random(NUM)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_levels_one_by_one(name: str, periodic: bool) -> None:
    call, arrays = call_of(problem(name, periodic=periodic), 1, c=C, q=0.5)
    assert why_not(call) is None and is_single(call) == (name != "heat")
    levels = random_levels(call, 1)
    for _ in range(4):  # ghost points are then what the walls make of the others
        levels = get("march", "slices")(call, arrays, levels, 3)
    expected, found = levels, levels
    for number in range(4, 8):
        expected = get("march", "slices")(call, arrays, expected, number)
        found = get("march", "native")(call, arrays, found, number)
    inner = tuple(slice(1, -1) for _ in NUM)  # nobody reads the corners of ghost points
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a[inner], b[inner], rtol=1e-13, atol=1e-14)


ADJOINTS = (
    None,
    fd.adjoint.Full(),
    fd.adjoint.Checkpointed(snapshots=3),
    fd.adjoint.Checkpointed(levels=2),
)
PAIRS = [*product(RULES, ADJOINTS), ("wave", fd.adjoint.Reversible())]  # the others lose something at every step


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("name", "adjoint"), PAIRS, ids=repr)
def test_records_and_their_gradients(name: str, adjoint: Any, every: int) -> None:
    u = problem(name, 25)
    places = fd.receivers(dict(x=[0.2, 0.93], y=[0.6, 0.11]), every=every)

    def run(kernel: str) -> Any:
        def loss(parameters: Any) -> Any:
            found = fd.solve(u, parameters=parameters, save=places, kernel=kernel, adjoint=adjoint)["u"]
            return jnp.sum(jnp.sin(3 * found)), found

        return jax.jit(jax.value_and_grad(loss, has_aux=True))(dict(c=jnp.asarray(C), q=jnp.asarray(0.5)))

    found, expected = run("native"), run("slices")
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_shots_under_vmap() -> None:
    u, places = problem("wave", 12), fd.receivers(dict(x=[0.2], y=[0.6]))

    def of(kernel: str) -> Any:
        def records(c: Any, q: Any) -> Any:
            return fd.solve(u, c=c, q=q, save=places, kernel=kernel)["u"]

        def loss(c: Any) -> Any:
            return jnp.sum(jax.vmap(records, (None, 0))(c, jnp.asarray([0.5, 0.7, -0.2])) ** 3)

        return jax.jit(jax.value_and_grad(loss))(jnp.asarray(C))

    for a, b in zip(of("native"), of("slices"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)


def test_a_state_is_kept_for_each_step() -> None:
    """Once, whether or not the steps can be counted in pairs, as they stand in the program."""
    places = fd.receivers(dict(x=[0.2], y=[0.6]))

    def taken(steps: int) -> int:
        def loss(c: Any) -> Any:
            u = problem("wave", steps + 2)
            found = fd.solve(u, c=c, q=0.5, save=places, kernel="native", adjoint=fd.adjoint.Full())
            return jnp.sum(found["u"] ** 2)

        found = jax.jit(jax.grad(loss)).lower(jnp.asarray(C)).compile().memory_analysis()
        assert found is not None
        return int(found.temp_size_in_bytes)

    state = 2 * (NUM[0] + 1) * NUM[1] * C.itemsize  # two levels, a row of ghost points at the one wall
    assert taken(121) - taken(61) < 1.2 * 60 * state


def test_the_plan_takes_it_where_levels_are_long() -> None:
    """Of itself it leaves small levels to slices, which have no call to make for each."""

    def shown(kernel: str, num: int) -> str:
        axes = {name: fd.Axis(0.0, 1.0, num=num) for name in "xy"}
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=90), **axes))
        u[...] = lambda u: 2 * u["t-1"] - u["t-2"] + 0.2 * around(u, 1)
        u[:2] = u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
        return str(fd.plan(u, save=fd.receivers(dict(x=[0.5], y=[0.5])), kernel=kernel))

    assert "Kernel for march: native" in shown("native", 20)
    assert "Kernel for march: slices" in shown("auto", 20)
    assert "Kernel for march: native" in shown("auto", 100)


def test_many_levels_are_refused_where_receivers_listen() -> None:
    u = problem("wave")
    structure = fd.plan(u, c=C, q=0.5, save=fd.receivers(dict(x=[0.5], y=[0.5]))).structure
    call = replace(call_of(u, 4, c=C, q=0.5)[0], structure=structure)
    assert why_not(call) == "receivers listen at every level"
    assert why_not(replace(call, steps=1)) is None
    assert "single" in str(why_not(replace(call, steps=1, block=1)))

"""Marches by slices that are gone back through from states alone, new levels written where old ones lay."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import fdsolve as fd
from fdsolve.adjoint import _block

NUM = 130
"""Points on an axis such that marches are unrolled over their arrays."""


def _grid(levels: int) -> fd.Grid:
    axis = fd.Axis(0.0, 1.0, num=NUM)
    return fd.Grid(t=fd.Time(0.0, 0.1, num=levels), x=axis, y=axis)


def _around(u: Any) -> Any:
    return u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"]


def heat(levels: int) -> tuple[fd.Field, ...]:
    """A coefficient in space and a number beside it; a wall that moves and one that insulates."""
    u = fd.Field("u", _grid(levels))
    u[...] = lambda u, k, m: u["t-1"] + k * m[...] * _around(u) - k**2 * u["t-1"] ** 3
    u[0] = lambda x, y, a: a * jnp.sin(3 * x) * jnp.cos(5 * y)
    u[dict(x=0)] = lambda t, k: k * jnp.sin(40 * t)
    u[dict(x=-1)] = 0.0
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.1)
    return (u,)


def wave(levels: int) -> tuple[fd.Field, ...]:
    """Two levels before, and a source."""
    u = fd.Field("u", _grid(levels))
    u[...] = lambda u, k, m: 2 * u["t-1"] - u["t-2"] + k * m[...] * _around(u)
    u[[0, 1]] = lambda x, y, a: a * jnp.sin(3 * x) * jnp.cos(5 * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    u[fd.point(x=0.3, y=0.6)] += lambda k, t: k * jnp.cos(30 * t)
    return (u,)


def carried(levels: int) -> tuple[fd.Field, ...]:
    """Two fields, periodic along one axis."""
    axes = dict(x=fd.Axis(0.0, 1.0, num=NUM), y=fd.Axis(0.0, 1.0, num=NUM, periodic=True))
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=levels), **axes)
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = lambda u, v, k, m: u["t-1"] - v["t-1"] * (u["t-1"] - u["t-1", "x-1"]) + k * m[...] * _around(u)
    v[...] = lambda u, v, k: v["t-1"] - 0.3 * u["t-1"] * (v["t-1"] - v["t-1", "y-1"]) + k * _around(v)
    u[0] = lambda x, y, a: a * jnp.sin(3 * x) * jnp.cos(2 * jnp.pi * y)
    v[0] = lambda x, y: 0.1 * jnp.cos(4 * x)
    for one in (u, v):
        one[dict(x=[0, -1])] = 0.0
    return u, v


POINT = dict(a=0.7, k=0.2, m=np.random.default_rng(0).uniform(0.5, 1.0, (NUM, NUM)))


def loss(make: Any, levels: int, adjoint: Any, save: Any = None) -> Any:
    """A scalar of amplitude, number and field."""
    fields = make(levels)

    def of(given: dict[str, Any]) -> Any:
        solution = fd.solve(fields, adjoint=adjoint, save=save or fd.final(), kernel="slices", **given)
        return sum(jnp.sum(jnp.sin(3 * solution[one.name])) for one in fields)

    return of


@pytest.fixture
def marched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The turns of the marches whose states were kept."""
    turns: list[int] = []
    keeping = _block._march_keeping

    def spy(step: Any, rooms: Any, *given: Any) -> Any:
        turns.append(rooms.turn)
        return keeping(step, rooms, *given)

    monkeypatch.setattr(_block, "_march_keeping", spy)
    return turns


POINT = {name: jnp.asarray(value, jnp.float64) for name, value in POINT.items()}


@pytest.mark.parametrize("make", [heat, wave, carried])
@pytest.mark.parametrize("levels", [24, 25, 26])
def test_gradients_from_states_are_those_that_keep_all(make: Any, levels: int, marched: list[int]) -> None:
    found = jax.jit(jax.grad(loss(make, levels, fd.adjoint.Checkpointed(snapshots=8))))(POINT)
    assert marched and min(marched) > 1
    expected = jax.jit(jax.grad(loss(make, levels, fd.adjoint.Full())))(POINT)
    for name in POINT:
        assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-12 * np.abs(expected[name]).max())


@pytest.mark.parametrize("make", [heat, wave])
def test_between_saves_and_in_both_modes_at_once(make: Any, marched: list[int]) -> None:
    one, other = (
        loss(make, 49, adjoint, fd.every(24)) for adjoint in (fd.adjoint.Checkpointed(snapshots=8), fd.adjoint.Full())
    )
    along = jax.tree.map(lambda x: jnp.cos(3 * x), POINT)
    found, expected = (jax.jit(lambda p, f=f: jax.jvp(jax.grad(f), (p,), (along,)))(POINT) for f in (one, other))
    assert marched
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-11 * np.abs(b).max())


def test_shots_beside_each_other(marched: list[int]) -> None:
    of = loss(heat, 13, fd.adjoint.Checkpointed(snapshots=6))
    shots = jnp.asarray([0.7, 0.4, -0.2])
    found = jax.jit(jax.vmap(lambda a: jax.grad(of)({**POINT, "a": a})))(shots)
    assert marched
    for k, a in enumerate(shots):
        expected = jax.grad(loss(heat, 13, fd.adjoint.Full()))({**POINT, "a": a})
        for name in POINT:
            assert_allclose(found[name][k], expected[name], rtol=1e-11, atol=1e-12 * np.abs(expected[name]).max())


def test_the_default_goes_back_by_states_where_jax_would_keep_many_times_as_much(marched: list[int]) -> None:
    found = jax.jit(jax.grad(loss(carried, 65, None)))(POINT)
    assert marched
    expected = jax.jit(jax.grad(loss(carried, 65, fd.adjoint.Full())))(POINT)
    for name in POINT:
        assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-11 * np.abs(expected[name]).max())

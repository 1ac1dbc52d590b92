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
def gone_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How blocks were gone back through."""
    ways: list[str] = []
    keeping, unrolled = _block._march_keeping, _block.Block.unrolled

    def spy(step: Any, rooms: Any, *given: Any) -> Any:
        assert rooms.turn > 1
        ways.append("looped")
        return keeping(step, rooms, *given)

    def spy_unrolled(block: Any, size: int) -> Any:
        ways.append("unrolled")
        return unrolled(block, size)

    monkeypatch.setattr(_block, "_march_keeping", spy)
    monkeypatch.setattr(_block.Block, "unrolled", spy_unrolled)
    return ways


POINT = {name: jnp.asarray(value, jnp.float64) for name, value in POINT.items()}


NUMBERS = ("a", "k")
MOVING = {"looped": tuple(POINT), "unrolled": NUMBERS}
"""Parameters as large as states are gone back to by loops, numbers by steps that stand one after the other."""


def by(names: tuple[str, ...], function: Any) -> Any:
    """The function of some entries of the point, the others as they are."""
    return lambda given: function({**POINT, **{name: given[name] for name in names}})


def agree(found: Any, expected: Any, digits: int = 11) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_allclose(a, b, rtol=10.0**-digits, atol=10.0 ** -(digits + 1) * np.abs(b).max())


@pytest.mark.parametrize("way", MOVING)
@pytest.mark.parametrize("make", [heat, wave, carried])
@pytest.mark.parametrize("levels", [24, 25, 26])
@pytest.mark.parametrize("snapshots", [2, 8])
def test_gradients_from_states_are_those_that_keep_all(
    way: str, make: Any, levels: int, snapshots: int, gone_back: list[str]
) -> None:
    point = {name: POINT[name] for name in MOVING[way]}
    one, other = (
        loss(make, levels, adjoint) for adjoint in (fd.adjoint.Checkpointed(snapshots=snapshots), fd.adjoint.Full())
    )
    found = jax.jit(jax.grad(by(MOVING[way], one)))(point)
    assert set(gone_back) <= {way} and (gone_back or snapshots == 2)
    agree(found, jax.jit(jax.grad(by(MOVING[way], other)))(point))


@pytest.mark.parametrize("way", MOVING)
@pytest.mark.parametrize("make", [heat, wave])
def test_between_saves_and_in_both_modes_at_once(way: str, make: Any, gone_back: list[str]) -> None:
    one, other = (
        by(MOVING[way], loss(make, 49, adjoint, fd.every(24)))
        for adjoint in (fd.adjoint.Checkpointed(snapshots=8), fd.adjoint.Full())
    )
    point = {name: POINT[name] for name in MOVING[way]}
    along = jax.tree.map(lambda x: jnp.cos(3 * x), point)
    found, expected = (jax.jit(lambda p, f=f: jax.jvp(jax.grad(f), (p,), (along,)))(point) for f in (one, other))
    assert way in gone_back
    agree(found, expected, 10)


@pytest.mark.parametrize("way", MOVING)
def test_reverse_over_reverse(way: str, gone_back: list[str]) -> None:
    point = {name: POINT[name] for name in MOVING[way]}
    found, expected = (
        jax.jit(jax.grad(lambda p, f=f: jnp.vdot(jax.grad(f)(p)["k"], 0.3)))(point)
        for f in (
            by(MOVING[way], loss(wave, 24, adjoint))
            for adjoint in (fd.adjoint.Checkpointed(snapshots=8), fd.adjoint.Full())
        )
    )
    assert way in gone_back
    agree(found, expected, 10)


@pytest.mark.parametrize(("way", "make"), [("looped", heat), ("unrolled", heat), ("unrolled", wave)])
def test_shots_beside_each_other(way: str, make: Any, gone_back: list[str]) -> None:
    one, other = (
        jax.grad(by(MOVING[way], loss(make, 13, adjoint)))
        for adjoint in (fd.adjoint.Checkpointed(snapshots=6), fd.adjoint.Full())
    )
    point = {name: POINT[name] for name in MOVING[way]}
    shots = jnp.asarray([0.7, 0.4, -0.2])
    found = jax.jit(jax.vmap(lambda a: one({**point, "a": a})))(shots)
    assert gone_back and set(gone_back) == {way}
    for k, a in enumerate(shots):
        agree({name: value[k] for name, value in found.items()}, other({**point, "a": a}))


@pytest.mark.parametrize("way", MOVING)
@pytest.mark.parametrize("storage", ["float16", fd.adjoint.Host()])
def test_states_between_blocks_elsewhere(way: str, storage: Any, gone_back: list[str]) -> None:
    point = {name: POINT[name] for name in MOVING[way]}
    one, other = (
        by(MOVING[way], loss(heat, 26, adjoint))
        for adjoint in (fd.adjoint.Checkpointed(snapshots=6, storage=storage), fd.adjoint.Full())
    )
    found = jax.jit(jax.grad(one))(point)
    assert gone_back and set(gone_back) == {way}
    expected = jax.jit(jax.grad(other))(point)
    if storage == "float16":
        for name in point:
            assert 0 < np.linalg.norm(found[name] - expected[name]) <= 1e-2 * np.linalg.norm(expected[name])
    else:
        agree(found, expected)


def test_the_default_goes_back_by_states_where_jax_would_keep_many_times_as_much(gone_back: list[str]) -> None:
    found = jax.jit(jax.grad(loss(carried, 65, None)))(POINT)
    assert set(gone_back) == {"looped"}
    agree(found, jax.jit(jax.grad(loss(carried, 65, fd.adjoint.Full())))(POINT), 10)


def test_the_default_unrolls_blocks_where_numbers_move(gone_back: list[str]) -> None:
    point = {name: POINT[name] for name in NUMBERS}
    found = jax.jit(jax.grad(by(NUMBERS, loss(carried, 65, None))))(point)
    assert set(gone_back) == {"unrolled"}
    agree(found, jax.jit(jax.grad(by(NUMBERS, loss(carried, 65, fd.adjoint.Full()))))(point), 10)


def test_long_rules_are_not_unrolled(gone_back: list[str]) -> None:
    """Compiling ten steps of them would take minutes."""

    def long(levels: int) -> tuple[fd.Field, ...]:
        u, v = carried(levels)
        u[1:, 1:-1] = lambda u, v, k: u["t-1"] + k * sum(jnp.sin(j * _around(u) - v["t-1"]) for j in range(20))
        return u, v

    point = {name: POINT[name] for name in NUMBERS}
    jax.jit(jax.grad(by(NUMBERS, loss(long, 65, None)))).lower(point)
    assert set(gone_back) == {"looped"}

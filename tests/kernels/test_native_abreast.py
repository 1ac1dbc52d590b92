"""Threads that go through all planes abreast, each with its part of the second axis, and wait for each other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native import _launch, _nested, _slabs
from fdsolve.kernels.native._derivative import march, why_not
from fdsolve.kernels.native._march import layout_of, pulled_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._schedule import find_edges, make_schedule
from fdsolve.schemes import laplacian

from .native_cases import Case, case_of
from .test_native_adjoints import axis, gradient_of, grid

STEPS = 14


def _begin(x: Any, y: Any, z: Any) -> Any:
    return jnp.sin(3 * x) * jnp.cos(2 * y) * jnp.exp(-z)


def _wave(order: int = 2, sizes: tuple[int, int, int] = (17, 16, 12)) -> Case:
    """By c²(x, y, z) and a number, between walls; not linear."""
    u = fd.Field("u", grid(STEPS, 0.01, **{name: axis(num) for name, num in zip("xyz", sizes, strict=True)}))
    u[...] = lambda u, c, a, dt: (
        2 * u["t-1"] - u["t-2"] + dt**2 * (c[...] * laplacian(u, order=order, at="t-1") + a * u["t-1"] ** 2)
    )
    u[[0, 1]] = _begin
    for name in "xyz":
        u[{name: [0, -1]}] = 0.1
    medium = np.random.default_rng(0).uniform(0.5, 1.5, sizes)
    return case_of(u, c=jnp.asarray(medium), a=jnp.float64(0.7))


def _around() -> Case:
    """Heat around the second and third axis, with a flux through walls of the first."""
    u = fd.Field("u", grid(STEPS, 1e-4, x=axis(18), y=axis(13, periodic=True), z=axis(11, periodic=True)))
    u[...] = lambda u, c, dt: u["t-1"] + dt * c[...] * laplacian(u, at="t-1")
    u[0] = _begin
    u[dict(x=[0, -1])] = fd.boundary.Robin(1.0, 0.4, 0.1)
    return case_of(u, c=jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, (18, 13, 11))))


def _one_by_the_other() -> Case:
    """v is computed from neighbours of u at its own level, so the same turn cannot do both."""
    sizes = grid(STEPS, 1e-4, x=axis(19), y=axis(12, periodic=True), z=axis(9, periodic=True))
    u, v = fd.Field("u", sizes), fd.Field("v", sizes)
    u[...] = lambda u, v, c, dt: u["t-1"] + dt * (c[...] * laplacian(u, at="t-1") + v["t-1"] * u["t-1"])
    v[...] = lambda u, v, a, dt: v["t-1"] + dt * (a * laplacian(u, at="t") - u["t"] * v["t-1"])
    for one in (u, v):
        one[0] = _begin
        one[dict(x=[0, -1])] = 0.1
    return case_of([u, v], c=jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, (19, 12, 9))), a=jnp.float64(0.7))


CASES: dict[str, Callable[[], Case]] = {
    "wave": _wave,
    "wave of order 4": lambda: _wave(4),
    "heat around": _around,
    "one field by the other": _one_by_the_other,
}


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[Any]]:
    """Has small problems gone through by so many threads abreast; the slabs that are cut then."""

    def ask(threads: int) -> list[Any]:
        cut, made = _slabs.cut_slabs, []

        def noted(*given: Any) -> Any:
            made.append(found := cut(*given))
            return found

        for module in (_slabs, _launch):
            monkeypatch.setattr(module, "num_threads", lambda: threads)
        monkeypatch.setattr(_slabs, "shared_cache", lambda: 2**28)
        monkeypatch.setattr(_slabs, "SMALL", 1)
        monkeypatch.setattr(_slabs, "LEAST_PART", 1)
        monkeypatch.setattr(_nested, "cut_slabs", noted)
        return made

    return ask


@pytest.mark.parametrize(("name", "threads"), [*((name, 2) for name in CASES), ("wave", 12)])
def test_gradients_agree_with_the_portable_kernel(
    name: str, threads: int, asked_for: Callable[[int], list[Any]]
) -> None:
    """Also where the pool has fewer threads than asked for, and the crew is those that come."""
    made, case = asked_for(threads), CASES[name]()
    call = replace(case.call, block=4)
    assert why_not(call) is None

    def ours(arrays: Any, levels: Any) -> Any:
        return march(call, arrays, levels, case.start)

    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(case.call, arrays, levels, case.start))
    found = gradient_of(case, ours)
    assert made and all(slabs.abreast == threads and slabs.parts == 1 for slabs in made)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * np.abs(other).max())


def test_the_same_run_gives_the_same_bits(asked_for: Callable[[int], list[Any]]) -> None:
    """However many threads come, and whoever is first."""
    asked_for(3)
    case = _wave()
    call = replace(case.call, block=4)
    levels = jax.jit(case.begin)(case.arrays)

    def total(held: Any, medium: Any) -> Any:
        arrays = replace(case.arrays, profiles={**case.arrays.profiles, **medium})
        return sum(jnp.sum(one**2) for one in march(call, arrays, held, case.start)["u"])

    medium = {name: one for name, one in case.arrays.profiles.items() if jnp.issubdtype(one.dtype, jnp.inexact)}
    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))
    first = jax.tree.leaves(gradient(levels, medium))
    for _ in range(30):
        for one, other in zip(first, jax.tree.leaves(gradient(levels, medium)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_shots_share_out_the_threads(asked_for: Callable[[int], list[Any]]) -> None:
    made, case = asked_for(3), _wave()
    call = replace(case.call, block=4)
    levels = jax.jit(case.begin)(case.arrays)

    def total(scale: Any, run: Callable[..., Any]) -> Any:
        held = {name: tuple(scale * one for one in held) for name, held in levels.items()}
        return sum(jnp.sum(jnp.sin(one)) for one in run(case.arrays, held)["u"])

    scales = jnp.linspace(0.5, 1.5, 4)
    runs = (
        lambda arrays, held: march(call, arrays, held, case.start),
        lambda arrays, held: get("march", "slices")(case.call, arrays, held, case.start),
    )
    ours, theirs = (jax.jit(jax.vmap(jax.grad(lambda s, run=run: total(s, run))))(scales) for run in runs)
    assert made and made[0].abreast == 3
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_what_neighbours_on_the_second_axis_read_is_a_turn_apart(name: str) -> None:
    """Written a turn before, and held in its ring, or where the state stands, until a turn after."""
    call = CASES[name]().call
    made = pulled_of(call, Pull(("parameter c",), beside=True))
    for program in (made.forth, made.program):
        schedule, crossing = make_schedule(program, abreast=True), 0
        writing = {
            one.name: min((d for d, op in zip(schedule.delays, program.operations, strict=True)
                           if op.array == one.name), default=0)
            for one in program.arrays
        }  # fmt: skip
        for edge in find_edges(program):
            read = schedule.delays[edge.reader] + schedule.skew * edge.lag - edge.offset[0]
            apart, array = read - schedule.delays[edge.writer], program.operations[edge.writer].array
            assert apart >= (edge.offset[1] != 0)
            assert schedule.rings[array] > read - writing[array]
            crossing += edge.offset[1] != 0
        assert crossing


def test_a_plane_and_a_short_second_axis_are_cut_into_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_slabs, "num_threads", lambda: 2)
    for num, abreast in ((2 * _slabs.LEAST_PART, 2), (2 * _slabs.LEAST_PART - 1, 1)):
        call = replace(_wave(sizes=(120, num, 12)).call, steps=4)
        assert layout_of(call).rank == 3
        slabs = _slabs.cut_slabs(call, Pull(("parameter c",)))
        assert slabs is not None and (slabs.abreast, slabs.parts) == ((2, 1) if abreast == 2 else (1, 2))


def test_blocks_are_long_where_their_rings_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_slabs, "SMALL", 1)
    monkeypatch.setattr(_slabs, "num_threads", lambda: 2)
    call = _wave().call

    def lengths(cache: int) -> list[int]:
        """Those of all lengths that are not too long, where threads share so many bytes of cache."""
        monkeypatch.setattr(_slabs, "shared_cache", lambda: cache)
        return [one for one in range(3, STEPS) if not _slabs.is_too_long(replace(call, steps=one, block=0))]

    assert lengths(2**30) == list(range(3, STEPS))
    assert lengths(1) == list(range(3, _slabs.MOST_ABREAST + 1))

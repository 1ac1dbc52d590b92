"""Several results of a scalar function at all points of a box, by one generated loop: against JAX at every point."""

from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import _long
from fdsolve.kernels._level import vectorise_function
from fdsolve.kernels._window import Window, whole

points = pytest.importorskip("fdsolve.kernels.native._points")

SHAPES = [(5,), (16,), (9001,), (3, 17), (40, 3), (2, 3, 33), (4, 1, 2, 21)]


def rule(held: Any, count: Any, a: Any, b: Any, c: Any) -> list[Any]:
    """Three results, one of them whole numbers, with choices, quotients and functions of the C library."""
    part = jnp.where(held, a * b, jnp.maximum(a, b) / (1 + c**2))
    return [jnp.tanh(part) + jnp.arctan(a) * count.astype(a.dtype), part - jnp.sqrt(jnp.abs(c)), count * 2 + 1]


def arrays_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> tuple[list[Any], list[Window]]:
    """A truth value at each point, whole numbers along the last axis, an array read at two offsets, and a number."""
    room = tuple(n + int(k) for n, k in zip(shape, rng.integers(1, 4, len(shape)), strict=True))
    flags, last = (True,) * len(shape), (*(False,) * (len(shape) - 1), True)
    arrays = [
        rng.random(shape) < 0.5,
        rng.integers(-3, 4, shape[-1]).astype(np.int32),
        rng.normal(size=room).astype(dtype),
        np.asarray(rng.normal(), dtype),
    ]
    starts = [tuple(int(rng.integers(0, m - n + 1)) for n, m in zip(shape, room, strict=True)) for _ in range(2)]
    windows = [whole(0, flags), whole(1, last), *(Window(2, flags, one) for one in starts)]
    windows.append(whole(3, (False,) * len(shape)))
    return [jnp.asarray(one) for one in arrays], windows


def closed_of(arrays: list[Any], windows: list[Window]) -> jex.ClosedJaxpr:
    return jax.make_jaxpr(rule)(*(jnp.zeros((), arrays[one.place].dtype) for one in windows))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loop_gives_what_jax_gives_at_every_point(shape: tuple[int, ...], dtype: Any) -> None:
    arrays, windows = arrays_of(np.random.default_rng(len(shape)), shape, dtype)
    closed = closed_of(arrays, windows)
    assert points.serves(closed, arrays, shape)
    found = jax.jit(lambda *some: points.evaluate_points(closed, some, tuple(windows), shape))(*arrays)
    values, flags = [one.of(arrays, shape) for one in windows], [one.flags for one in windows]
    bound = 1e-5 if dtype == np.float32 else 1e-13
    for one, other in zip(found, vectorise_function(rule, values, flags, shape), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound)


@pytest.mark.parametrize("moving", [(0, 1, 2, 3), (2,), (3,), (0, 1)])
def test_a_loop_for_all_shots(moving: tuple[int, ...]) -> None:
    """Whichever arrays each shot has of its own; along an axis that need not be the first."""
    shape, rng = (3, 18), np.random.default_rng(7)
    arrays, windows = arrays_of(rng, shape, np.float64)
    closed, many = closed_of(arrays, windows), list(arrays)
    for k in moving:
        others = [arrays[k], *(arrays_of(rng, shape, np.float64)[0][k] for _ in range(2))]
        many[k] = jnp.stack([jnp.resize(one, arrays[k].shape) for one in others], axis=-1)
    axes = [arrays[k].ndim if k in moving else None for k in range(len(arrays))]

    def run(*some: Any) -> Any:
        return points.evaluate_points(closed, some, tuple(windows), shape)

    found = jax.jit(jax.vmap(run, in_axes=axes))(*many)
    for shot in range(3):
        own = [one[..., shot] if k in moving else one for k, one in enumerate(many)]
        for one, other in zip(found, run(*own), strict=True):
            np.testing.assert_allclose(one[shot], other, rtol=1e-13, atol=1e-13)


def test_whom_it_serves() -> None:
    plain = jax.make_jaxpr(lambda a: [a, a + 1])(1.0)
    assert points.serves(plain, [jnp.ones(3)], (3,))
    assert not points.serves(plain, [jnp.ones(())], ()), "a box without axes"
    assert not points.serves(plain, [jnp.ones(0)], (0,)), "no points"
    unknown = jax.make_jaxpr(lambda a: [jax.lax.lgamma(a), a])(1.0)
    assert not points.serves(unknown, [jnp.ones(3)], (3,)), "no code for it"


def carried(num: int, levels: int, **options: Any) -> Any:
    """The last level of a velocity that carries itself, of the first one: a long rule of several reads."""
    x = fd.Axis(0.0, 1.0, num=num, periodic=True)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1e-4 * (levels - 1), num=levels), x=x))
    u[...] = fd.rate(lambda u: -fd.schemes.convection(u, u))
    u[0] = lambda a: a[...]
    return lambda a: fd.solve(u, a=a, stepper=fd.schemes.Heun(), save=fd.final(), kernel="slices", **options).final["u"]


def test_marches_by_slices_use_it_and_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = carried(20, 4)
    at, along = jnp.asarray(1.0 + 0.3 * np.random.default_rng(0).random((2, 20)))

    def both(a: Any) -> Any:
        """The gradient of a loss, and the derivative of the gradient along a direction."""
        return jax.jvp(jax.grad(lambda a: jnp.sum(solve(a) ** 3)), (a,), (along,))

    def compiled() -> tuple[Any, int]:
        jax.clear_caches()
        program = jax.jit(both).lower(at)
        return program.compile()(at), program.as_text().count("@fdsolve_")

    found, calls = compiled()
    monkeypatch.setattr(_long, "_loops", lambda: None)
    expected, none = compiled()
    assert calls > 0
    assert none == 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_what_a_long_rule_reads_is_kept_once() -> None:
    """Not at each offset where it is read: five reads of a flow that carries itself, and the stages of a step."""

    def kept(levels: int) -> int:
        solve = carried(400, levels, adjoint=fd.adjoint.Full())
        gradient = jax.jit(jax.grad(lambda a: jnp.sum(solve(a) ** 2)))
        about: Any = gradient.lower(jnp.ones(400)).compile().memory_analysis()
        return about.temp_size_in_bytes

    a_step = (kept(101) - kept(51)) / 50 / (400 * 8)
    assert a_step < 3.5


def test_a_rule_that_reads_a_part_of_an_array_keeps_that() -> None:
    """At a wall, of an array that others have written over meanwhile: not all of it for each of them."""
    closed = jax.make_jaxpr(lambda a, b: [jnp.sin(a) * b, jnp.cos(b) * a])(0.0, 0.0)
    array, rule, flags = jnp.arange(60.0).reshape(6, 10), _long.LongRule(closed), [(True, True)] * 2

    def kept(width: int) -> set[tuple[int, ...]]:
        starts = [(0, 0), (1, 1)]

        def run(a: Any) -> Any:
            values = [a[i : i + 5, j : j + width] for i, j in starts]
            sources = [(a, one) for one in starts]
            return sum(map(jnp.sum, _long.evaluate_long(rule, None, values, flags, (5, width), sources)))

        return {one.shape for one in jax.tree.leaves(jax.vjp(run, array)[1]) if one.ndim}

    assert kept(9) == {(6, 10)}
    assert kept(2) == {(5, 2)}

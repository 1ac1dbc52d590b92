"""One declaration under every transformation: jit, vmap, gradients, tangents, and every way to save."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

from .agreement import assert_close
from .strategies import arrays

SHAPE, LEVELS = (5, 4), 6
START, SOURCE = arrays(SHAPE, 1), arrays(SHAPE, 2)
SERIES, EDGE = arrays((LEVELS,), 3), 0.3 * arrays((SHAPE[1],), 4)
KINDS = ["update", "rate", "sweep", "hole"]


def make_grid() -> fd.Grid:
    x, y = fd.Axis(0.0, 1.0, SHAPE[0]), fd.Axis(0.0, 1.0, SHAPE[1], cells=True)
    return fd.Grid(t=fd.Time(0.0, 0.3, num=LEVELS), x=x, y=y)


def make_field(kind: str, start: Any = START, edge: Any = EDGE) -> fd.Field:
    """A field whose rule reads a scalar, a field and a series, between walls of three kinds."""
    u = fd.Field("u", make_grid())
    if kind == "rate":
        u[...] = fd.rate(lambda u, q, s, c: 0.02 * fd.schemes.divergence(q * q, u) - c * u[...] ** 3 + s[...])
        u[fd.point(x=0.33, y=0.4)] += fd.rate(lambda t, c: c * t)
    else:
        u[...] = lambda u, q, s, c: (
            0.4 * u["t-1"] + c * jnp.sin(u["t-1", "x-1"]) * q["y+1"] + 0.2 * u["t-1", "y+1"] + 0.1 * s[...]
        )
    if kind == "sweep":
        u[1:, 1:, 1:] = lambda u, q, s, c: 0.3 * u["x-1"] + c * u["y-1"] * q[...] + 0.3 * u["t-1"] + 0.1 * s[...]
    u[1:, 2:4, ::2] = lambda x, t, c: c * x - t
    u[dict(x=0)] = fd.boundary.Dirichlet(edge)
    u[dict(x=-1)] = fd.boundary.Neumann(lambda c, t: c * t)
    u[dict(y=[0, -1])] = fd.boundary.Robin(1.0, 2.0, lambda c, x: c * x)
    if kind == "hole":
        u[:, 3, 2] = fd.boundary.Robin(1.0, 2.0, lambda c: c)
    u[0] = start
    return u


STEPPER = fd.schemes.Heun()


def run(kind: str, c: Any = 0.3, q: Any = SOURCE, s: Any = SERIES, start: Any = START, edge: Any = EDGE) -> jax.Array:
    """The history, zero inside holes, as a function of everything that is a number."""
    return jnp.nan_to_num(fd.solve(make_field(kind, start, edge), stepper=STEPPER, c=c, q=q, s=fd.along(s, "t"))["u"])


def total(kind: str, *values: Any) -> jax.Array:
    """A scalar that depends on every point, none alike."""
    history = run(kind, *values)
    return (jnp.asarray(arrays(history.shape, 9)) * history).sum()


INPUTS = (jnp.asarray(0.3), jnp.asarray(SOURCE), jnp.asarray(SERIES), jnp.asarray(START), jnp.asarray(EDGE))


@pytest.mark.parametrize("kind", ["rate", "sweep"])
def test_jit_equals_a_plain_call_and_a_second_call_the_first(kind: str) -> None:
    first, second = np.asarray(run(kind, *INPUTS)), np.asarray(run(kind, *INPUTS))
    np.testing.assert_array_equal(first, second)
    assert_close(jax.jit(lambda *v: run(kind, *v))(*INPUTS), first, 1e-14)


def test_every_operation_by_itself_gives_the_same() -> None:
    compiled = jax.jit(lambda *v: run("update", *v))(*INPUTS)
    with jax.disable_jit():
        assert_close(run("update", *INPUTS), np.asarray(compiled), 1e-14)


def test_a_solve_takes_a_snapshot_of_the_declaration() -> None:
    u, values = make_field("update"), dict(c=0.3, q=SOURCE, s=fd.along(SERIES, "t"))
    first = np.asarray(fd.solve(u, **values)["u"])
    u[3, 1, 1] = 5.0
    assert fd.solve(u, **values)["u"][3, 1, 1] == 5.0
    np.testing.assert_array_equal(np.asarray(fd.solve(make_field("update"), **values)["u"]), first)


@pytest.mark.parametrize("kind", ["update", "hole"])
def test_vmap_equals_a_loop(kind: str) -> None:
    cs, edges = jnp.asarray([0.1, 0.2, 0.35]), jnp.asarray(0.3 * arrays((3, SHAPE[1]), 5))
    one = jax.jit(lambda c, edge: run(kind, c, edge=edge))
    many = jax.jit(jax.vmap(one))(cs, edges)
    for k in range(3):
        assert_close(many[k], np.asarray(one(cs[k], edges[k])), 1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_central_differences_and_tangents(kind: str) -> None:
    """With respect to a scalar, a field, a series, the initial state and a boundary value, along random directions."""
    both: Callable[..., Any] = jax.jit(jax.value_and_grad(lambda *v: total(kind, *v), argnums=tuple(range(5))))
    gradient = both(*INPUTS)[1]
    directions = tuple(jnp.asarray(arrays(found.shape, 20 + k)) for k, found in enumerate(gradient))
    slopes = [float(jnp.sum(found * direction)) for found, direction in zip(gradient, directions, strict=True)]
    for k, got in enumerate(slopes):
        ends = [both(*INPUTS[:k], INPUTS[k] + h * directions[k], *INPUTS[k + 1 :])[0] for h in (1e-4, -1e-4)]
        wanted = float(ends[0] - ends[1]) / 2e-4
        assert abs(wanted) > 1e-4, "a direction that changes nothing tells nothing"
        assert got == pytest.approx(wanted, rel=1e-6, abs=1e-7)
    _, pushed = jax.jit(lambda: jax.jvp(lambda *v: total(kind, *v), INPUTS, directions))()
    scale = sum(map(abs, slopes))
    assert float(pushed) == pytest.approx(sum(slopes), rel=0, abs=1e-13 * scale)


def saved(save: Any) -> tuple[jax.Array, jax.Array, np.ndarray]:
    """The saved history, the last level and the saved times of the rate."""
    times = []

    def solve(c: Any) -> tuple[jax.Array, jax.Array]:
        values = dict(c=c, q=SOURCE, s=fd.along(SERIES, "t"))
        solution = fd.solve(make_field("rate"), stepper=fd.schemes.Euler(), save=save, **values)
        times.append(solution.times)
        return solution["u"], solution.final["u"]

    history, last = jax.jit(solve)(0.3)
    return history, last, times[0]


def test_what_is_saved_is_part_of_the_whole_history() -> None:
    whole, times = np.asarray(saved(None)[0]), np.linspace(0.0, 0.3, LEVELS)
    at = [0.0, 0.01, 0.1, 0.1234, 0.26, 0.3]
    between = np.stack([np.apply_along_axis(lambda h, t=t: np.interp(t, times, h), 0, whole) for t in at])
    for save, wanted, when in (
        (fd.every(4), whole[::4], times[::4]),
        (fd.final(), whole[-1:], times[-1:]),
        (fd.at(at), between, at),
    ):
        history, last, kept = saved(save)
        assert_close(history, wanted, 1e-13)
        assert_close(last, whole[-1], 1e-13)
        np.testing.assert_allclose(kept, when, atol=1e-15)


def test_levels_saved_out_of_step_are_the_right_ones() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 39.0, num=40), x=fd.Axis(0.0, 1.0, 3, periodic=True))
    u = fd.Field("u", grid)
    u[...] = lambda u, t: 0.5 * u["t-1", "x+1"] + t
    u[0] = np.arange(3.0)
    whole, levels = fd.solve(u)["u"], [0, 1, 3, 4, 8, 9, 13, 14, 20, 23, 24, 31, 33, 38]
    some = fd.solve(u, save=fd.at([float(n) for n in levels]))
    np.testing.assert_array_equal(np.asarray(some["u"]), np.asarray(whole)[levels])

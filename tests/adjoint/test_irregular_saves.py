"""Saves at levels anywhere: each adjoint serves them, and the derivatives are those of kept steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd

from .test_reversible import WALL, at, make_loss, string

LEVELS = [1, 6, 7, 9, 12, 13, 15, 18, 19]  # nine gaps of 1, 2, 3 and 5 levels, then a rest
STEPS = 21


def save(steps: int, last: float, levels: list[int] = LEVELS) -> Any:
    return fd.at(np.linspace(0.0, last, steps + 1)[levels])


def test_every_adjoint_serves_them() -> None:
    def declare() -> fd.Field:
        return string(WALL, num=13, steps=STEPS)

    adjoints = [fd.adjoint.Full(), fd.adjoint.Checkpointed(snapshots=2), fd.adjoint.Reversible()]
    losses = [make_loss(declare, one, save=save(STEPS, 0.9)) for one in adjoints]
    found = jax.jit(lambda p: [jax.value_and_grad(one)(p) for one in losses])(at((13,)))
    (value, expected), *others = found
    for again, gradient in others:
        np.testing.assert_allclose(again, value, rtol=1e-13)
        for key in expected:
            size = float(jnp.max(jnp.abs(expected[key])))
            assert size > 1e-3
            np.testing.assert_allclose(gradient[key], expected[key], rtol=0, atol=1e-12 * size)


def test_memory_is_that_of_the_saved_levels_and_of_one_gap() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=201), x=fd.Axis(0.0, 1.0, num=2000)))
    u[...] = lambda u, k: u["t-1"] + k * jnp.sin(u["t-1", "x+1"] - u["t-1", "x-1"])
    u[0] = lambda x: jnp.sin(x)
    u[dict(x=[0, -1])] = 0.0
    levels = [15 * k + k % 2 for k in range(1, 13)]

    def temporary(adjoint: Any) -> int:
        def loss(k: Any) -> Any:
            options = dict(adjoint=adjoint, save=save(200, 1.0, levels), kernel="slices")
            return jnp.sum(fd.solve(u, k=k, **options)["u"] ** 2)

        found = jax.jit(jax.grad(loss)).lower(0.1).compile().memory_analysis()
        assert found is not None
        return int(found.temp_size_in_bytes)

    assert temporary(fd.adjoint.Checkpointed(snapshots=4)) < 70 * 2000 * 8, "not 200 states"

"""Saves against the full history: regular, irregular, between levels, across segments."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

NUM = 60


def problem():
    grid = fd.Grid(t=fd.Time(0.0, 5.9, num=NUM), x=fd.Axis(0.0, 1.0, 5, periodic=True))
    u = fd.Field("u", grid)
    u[...] = lambda u, c: 0.5 * (u["t-1"] + u["t-1", "x-1"]) + c
    u[0] = lambda x: jnp.sin(6.0 * x)
    u[20:23] = lambda u: u["t-1", "x+1"]
    return u


FULL = np.asarray(fd.solve(problem(), c=0.01)["u"])


@pytest.mark.parametrize("n", [1, 2, 7, 59])
def test_every(n):
    solution = fd.solve(problem(), c=0.01, save=fd.every(n))
    np.testing.assert_allclose(solution["u"], FULL[::n], rtol=1e-14)
    np.testing.assert_allclose(solution.times, 0.1 * np.arange(NUM)[::n])
    np.testing.assert_allclose(solution.final["u"], FULL[-1], rtol=1e-14)


@pytest.mark.parametrize("n", [60, 100])
@pytest.mark.parametrize("derive", [lambda save: save, lambda save: save.mean("x")])
def test_every_so_many_that_only_the_first_level_is_kept_is_told(n, derive):
    with pytest.warns(fd.FdsolveWarning, match=rf"fd.every\({n}\) keeps level 0 alone of 60 levels. Take fd.final"):
        solution = fd.solve(problem(), c=0.01, save=derive(fd.every(n)))
    assert len(solution.times) == 1
    np.testing.assert_allclose(solution.final["u"], FULL[-1], rtol=1e-14)


@pytest.mark.parametrize(
    "times",
    [
        [5.9],
        [0.0, 0.05, 5.9],
        [3.3, 0.7],
        list(np.cumsum(0.1 + 0.037 * np.arange(14))),
        [0.1 * k * k for k in range(7)],
    ],
)
def test_at_interpolates_linearly(times):
    solution = fd.solve(problem(), c=0.01, save=fd.at(times))
    position = np.asarray(times) / 0.1
    left = np.minimum(np.floor(position + 1e-9).astype(int), NUM - 2)
    share = (position - left)[:, None]
    np.testing.assert_allclose(solution["u"], FULL[left] * (1 - share) + FULL[left + 1] * share, rtol=1e-9, atol=1e-12)


def test_final():
    solution = fd.solve(problem(), c=0.01, save=fd.final())
    assert solution["u"].shape == (1, 5)
    np.testing.assert_allclose(solution["u"][0], FULL[-1], rtol=1e-14)


def test_levels_with_many_structures_share_one_scan():
    u = problem()
    for start in range(1, NUM, 3):
        u[start] = lambda u: 0.9 * u["t-1"]
    plan = fd.plan(u, c=0.01)
    assert len(plan.structure.segments) == 2
    level = np.sin(6.0 * np.arange(5) / 5)
    for n in range(1, NUM):
        shifted = np.roll(level, -1) if 20 <= n < 23 else 0.5 * (level + np.roll(level, 1)) + 0.01
        level = 0.9 * level if n % 3 == 1 else shifted
        if n == 30:
            kept = level
    solution = fd.solve(u, c=0.01, save=fd.every(30))
    np.testing.assert_allclose(solution["u"][1], kept, rtol=1e-12)
    np.testing.assert_allclose(solution.final["u"], level, rtol=1e-12)

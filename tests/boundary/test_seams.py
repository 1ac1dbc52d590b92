"""Anti-periodic axes: all that reaches across their ends changes its sign there."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import xarray as xr

import fdsolve as fd
from fdsolve.boundary import AntiPeriodic
from fdsolve.monitors import Probe
from fdsolve.schemes import ETDRK4, RK4, compact, derivative, laplacian

NUM = 12
RING = fd.Axis(0.0, 1.5, num=NUM, periodic=True)
VALUES = np.random.default_rng(7).normal(size=NUM)


def shifts(num: int, sign: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """The matrices that move values one point down and up a ring."""
    up = np.eye(num, k=1)
    up[-1, 0] = sign
    return up, up.T


def lele(n: int, order: int, num: int, step: float, sign: int = -1) -> np.ndarray:
    """Compact derivatives as a matrix: Lele (1992), sections 2.1 and 2.2."""
    up, down = shifts(num, sign)
    one = np.eye(num)
    alpha, a, b = {(1, 4): (1 / 4, 3 / 2, 0.0), (1, 6): (1 / 3, 14 / 9, 1 / 9),
                   (2, 4): (1 / 10, 6 / 5, 0.0), (2, 6): (2 / 11, 12 / 11, 3 / 11)}[n, order]  # fmt: skip
    if n == 1:
        right = a * (up - down) / (2 * step) + b * (up @ up - down @ down) / (4 * step)
    else:
        right = a * (up + down - 2 * one) / step**2 + b * (up @ up + down @ down - 2 * one) / (4 * step**2)
    return np.linalg.solve(one + alpha * (up + down), right)


def derived(rule: Any, values: Any = VALUES, axis: fd.Axis = RING) -> Any:
    """A rule of an anti-periodic field with given values."""
    grid = fd.Grid(x=axis)
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = lambda start: start
    u[dict(x=[0, -1])] = AntiPeriodic()
    d[...] = rule
    return fd.solve((u, d), start=fd.along(values, "x"))["d"]


@pytest.mark.parametrize("order", [4, 6])
@pytest.mark.parametrize("n", [1, 2])
def test_compact_derivatives(n: int, order: int) -> None:
    matrix = lele(n, order, NUM, RING.step)

    def found(values: Any) -> Any:
        return derived(lambda u: compact(u, "x", n, order=order), values)

    np.testing.assert_allclose(found(VALUES), matrix @ VALUES, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(jax.jacobian(found)(VALUES), matrix, rtol=1e-10, atol=1e-10)


def test_what_the_plan_says_of_whole_lines() -> None:
    """No rule reads a ghost here, and yet the condition acts."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=3), x=RING))
    u[...] = fd.rate(lambda u: compact(u, "x", 2))
    u[0], u[dict(x=[0, -1])] = VALUES, AntiPeriodic()
    assert not any("no effect" in note for note in fd.plan(u).notes)


def test_compact_derivatives_on_a_stretched_axis() -> None:
    """Where u changes its sign the axis is half of a periodic one."""
    points = np.sort(np.random.default_rng(2).uniform(0, 0.2, NUM)) + 0.3 * np.arange(NUM)
    half = fd.Axis.from_points(points, period=3.6, periodic=True)
    whole = fd.Axis.from_points(np.concatenate([points, points + 3.6]), period=7.2, periodic=True)
    v, d = (fd.Field(name, fd.Grid(x=whole)) for name in "vd")
    v[...] = np.concatenate([VALUES, -VALUES])
    d[...] = lambda v: compact(v, "x", order=6)
    wanted = fd.solve((v, d))["d"][:NUM]
    np.testing.assert_allclose(derived(lambda u: compact(u, "x", order=6), axis=half), wanted, rtol=1e-10)


def test_what_is_even_in_an_anti_periodic_field_is_periodic() -> None:
    even, odd = lele(1, 4, NUM, RING.step, 1), lele(1, 4, NUM, RING.step)
    np.testing.assert_allclose(derived(lambda u: compact(u * u, "x")), even @ VALUES**2, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(derived(lambda u: compact(u**3, "x")), odd @ VALUES**3, rtol=1e-9, atol=1e-9)
    with pytest.raises(fd.PlanningError, match=r"compact 1 along x.*across the ends of axis `x`.*neither sign"):
        derived(lambda u: compact(u + 1.0, "x"))
    with pytest.raises(fd.PlanningError, match="neither sign"):
        derived(lambda u: compact(fd.apply(lambda a: jnp.where(a > 5.0, a * a, a), u), "x"))


def _rated(rule: Any) -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=3), x=RING))
    u[...] = fd.rate(rule)
    u[0], u[dict(x=[0, -1])] = VALUES, AntiPeriodic()
    return u


@pytest.mark.parametrize("c", [7.0, -7.0, np.int64(1)])
def test_a_parity_that_depends_on_a_parameter_is_refused(c: Any) -> None:
    def even_or_odd(u: Any, c: Any) -> Any:
        return compact(fd.apply(lambda a: jnp.where(jnp.abs(c) > 5, a * a, a), u), "x")

    with pytest.raises(fd.PlanningError, match="neither sign"):
        fd.plan(_rated(even_or_odd), c=c)
    fd.plan(_rated(lambda u, c: compact(jnp.sqrt(c) * u, "x")), c=abs(c))


def test_results_of_operations_are_read_across_the_ends() -> None:
    up, down = shifts(NUM)
    matrix = (up - down) / (2 * RING.step) @ lele(1, 4, NUM, RING.step)
    found = derived(lambda u: derivative(compact(u, "x"), "x"))
    np.testing.assert_allclose(found, matrix @ VALUES, rtol=1e-9, atol=1e-9)
    twice = lele(1, 6, NUM, RING.step) @ lele(1, 6, NUM, RING.step)
    found = derived(lambda u: compact(compact(u, "x", order=6), "x", order=6))
    np.testing.assert_allclose(found, twice @ VALUES, rtol=1e-9, atol=1e-8)


def test_sums_along_one_axis_keep_the_sign_along_another() -> None:
    grid = fd.Grid(x=RING, y=fd.Axis(0.0, 1.0, num=3))
    values = np.random.default_rng(4).normal(size=grid.shape)
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = values
    u[dict(x=[0, -1])] = AntiPeriodic()
    d[...] = lambda u: fd.reduce(jnp.sum, u, "y")["x+1"]
    sums = values.sum(axis=1)
    wanted = np.append(sums[1:], -sums[0])[:, None] * np.ones(3)
    np.testing.assert_allclose(fd.solve((u, d))["d"], wanted, rtol=1e-12)
    d[...] = lambda u: fd.reduce(jnp.max, u, "y")["x+1"]
    with pytest.raises(fd.PlanningError, match=r"reduce max.*across the ends of axis `x`"):
        fd.plan((u, d))


def diffusing(rule: Any, start: Any = VALUES, dtype: Any = None, steps: int = 10) -> fd.Field:
    """A field on an anti-periodic ring, and along y on a periodic one where there are two axes."""
    axes = dict(x=RING) if np.ndim(start) == 1 else dict(x=RING, y=fd.Axis(0.0, 1.0, num=5, periodic=True))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.2, num=steps + 1), **axes), dtype=dtype)
    u[...] = rule
    u[0] = start
    u[dict(x=[0, -1])] = AntiPeriodic()
    return u


def ended(u: Any, stepper: Any = ETDRK4()) -> Any:  # noqa: B008
    return np.asarray(fd.solve(u, stepper=stepper, save=fd.final())["u"][-1])


@pytest.mark.parametrize("dtype", [None, complex])
def test_exponential_steps_are_exact(dtype: Any) -> None:
    factor = 0.3 if dtype is None else 0.3 + 0.5j
    start = VALUES if dtype is None else VALUES + 1j * VALUES[::-1]
    up, down = shifts(NUM)
    matrix = (up + down - 2 * np.eye(NUM)) / RING.step**2 * factor - 2.0 * (up - down) / (2 * RING.step)
    u = diffusing(fd.rate(lambda u: factor * laplacian(u) - 2.0 * derivative(u, "x")), start, dtype)
    np.testing.assert_allclose(ended(u), scipy.linalg.expm(0.2 * matrix) @ start, rtol=1e-9, atol=1e-11)


def test_exponential_steps_are_exact_beside_a_periodic_axis() -> None:
    start = np.random.default_rng(8).normal(size=(NUM, 5))
    one, other = (sum(shifts(n, sign)) - 2 * np.eye(n) for n, sign in ((NUM, -1), (5, 1)))
    u = diffusing(fd.rate(lambda u: 0.3 * laplacian(u)), start)
    wanted = scipy.linalg.expm(0.06 / RING.step**2 * one) @ start @ scipy.linalg.expm(0.06 * 25 * other)
    np.testing.assert_allclose(ended(u), wanted, rtol=1e-9, atol=1e-11)


def test_exponential_steps_with_a_rest() -> None:
    """Of order 4, beside the method of Runge and Kutta with many steps; and their derivatives."""

    def made(steps: int, start: Any = VALUES) -> fd.Field:
        u = diffusing(fd.rate(lambda u: 0.3 * laplacian(u), implicit=True), start, steps=steps)
        u[...] += fd.rate(lambda u: u[...] - u[...] ** 3)
        return u

    exact = ended(made(2000), RK4())
    errors = [np.abs(ended(made(n)) - exact).max() for n in (16, 32)]
    assert errors[1] < 1e-6 and np.log2(errors[0] / errors[1]) > 3.7

    def total(scale: Any) -> Any:
        return jnp.sum(fd.solve(made(8, scale * VALUES), stepper=ETDRK4(), save=fd.final())["u"][-1] ** 2)

    slope = (total(1.0 + 1e-5) - total(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(total)(1.0), slope, rtol=1e-7)


def test_exponential_steps_refuse_different_signs() -> None:
    u = diffusing(fd.rate(lambda u: laplacian(u)))
    v = fd.Field("v", u.grid)
    v[...], v[0] = fd.rate(lambda v: laplacian(v)), VALUES
    with pytest.raises(fd.PlanningError, match="`u` and `v` repeat with different signs along axis `x`"):
        fd.plan((u, v), stepper=ETDRK4())
    v[dict(x=[0, -1])] = AntiPeriodic()
    assert np.isfinite(fd.solve((u, v), stepper=ETDRK4())["v"]).all()


def hats(places: Any) -> np.ndarray:
    """Linear weights of the points at places, a row each, on a ring that changes the sign at each turn."""
    found = np.zeros((len(places), NUM))
    for row, at in zip(found, np.asarray(places) / RING.step, strict=True):
        below = int(np.floor(at))
        for point, weight in ((below, below + 1 - at), (below + 1, at - below)):
            row[point % NUM] += weight * (-1) ** (point // NUM)
    return found


PLACES = np.array([0.4, 1.45, 1.499, 1.6, 3.3, -0.05])


def standing() -> fd.Field:
    u = diffusing(lambda u: u["t-1"])
    return u


def test_receivers_between_the_ends() -> None:
    found = fd.solve(standing(), save=fd.receivers(dict(x=PLACES)))["u"][-1]
    np.testing.assert_allclose(found, hats(PLACES) @ VALUES, rtol=1e-12)
    wave = diffusing(lambda u: u["t-1"], np.sin(np.pi * RING.points / 1.5 + 0.4))
    found = fd.solve(wave, save=fd.receivers(dict(x=PLACES), interpolation="sinc"))["u"][-1]
    np.testing.assert_allclose(found, np.sin(np.pi * PLACES / 1.5 + 0.4), atol=1e-3)

    def at(place: Any) -> Any:
        return fd.solve(standing(), save=fd.receivers([fd.point(x=place)]))["u"][-1, 0]

    slope = (-VALUES[0] - VALUES[-1]) / RING.step
    np.testing.assert_allclose(jax.jit(jax.value_and_grad(at))(1.45), ((hats([1.45]) @ VALUES)[0], slope), rtol=1e-10)


@pytest.mark.parametrize("place", PLACES)
def test_sources_between_the_ends(place: float) -> None:
    v = fd.Field("v", fd.Grid(x=RING))
    v[...] = 0.0
    v[dict(x=[0, -1])] = AntiPeriodic()
    v[fd.point(x=place)] += 1.0
    np.testing.assert_allclose(fd.solve(v)["v"], hats([place])[0], atol=1e-12)


def test_probes_between_the_ends() -> None:
    probe = Probe(x=1.45, every=5)
    log = fd.solve(standing(), monitors=[probe]).monitors[probe.title]
    np.testing.assert_allclose(log.u, (hats([1.45]) @ VALUES)[0], rtol=1e-12)


def test_observations_between_the_ends() -> None:
    observed = xr.DataArray(
        hats(PLACES) @ VALUES, dims="place", coords=dict(x=("place", PLACES), t=("place", [0.2] * 6))
    )
    assert np.abs(fd.misfit(fd.solve(standing()), observed.rename("u"))).max() < 1e-12


def test_rules_that_take_the_condition_away_at_some_levels_are_refused() -> None:
    u = diffusing(lambda u: u["t-1"] + 0.005 * laplacian(u, at="t-1"))
    before = fd.solve(u)["u"]
    u[1] = lambda u: u["t-1"] + 0.005 * laplacian(u, at="t-1")
    with pytest.raises(fd.PlanningError, match=r"Rules read `u` across the ends of axis `x`, where .* at some levels"):
        fd.plan(u)
    u[dict(x=[0, -1])] = AntiPeriodic()
    np.testing.assert_allclose(fd.solve(u)["u"], before, rtol=1e-12)

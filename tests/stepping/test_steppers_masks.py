"""Rates under run-time predicates: they take the place of others in every method that takes rates in parts."""

from typing import Any

import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import ARK4, ARS222, ETDRK4, RK4, SBDF2, Lie, Strang, laplacian

STEPS = 64
START = np.random.default_rng(11).normal(size=12)


def declare(kind: str, steps: int) -> fd.Field:
    """Rates of two kinds on a ring, one in the place of the other where x > x0."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=steps + 1), x=fd.Axis(0.0, 1.0, num=12, periodic=True)))
    above = fd.where(lambda x, x0: x > x0)
    stiff, square = fd.rate(lambda u: laplacian(u), implicit=True), fd.rate(lambda u: -(u[...] ** 2))
    if kind == "the explicit one above":
        u[...], u[above] = stiff, square
    elif kind == "the implicit one above":
        u[...], u[above] = square, stiff
    else:
        u[...] = stiff
        u[...] += square
        u[above] = fd.rate(lambda u: -3.0 * u[...])
    u[0] = START
    return u


def reference(kind: str) -> np.ndarray:
    """The state at the end, by many steps of the method of Runge in NumPy."""
    above, step, u = np.arange(12) / 12 > 0.4, 0.1 / 3000, START.copy()

    def rate(u: np.ndarray) -> np.ndarray:
        stiff, square = 144 * (np.roll(u, 1) + np.roll(u, -1) - 2 * u), -(u**2)
        if kind == "the explicit one above":
            return np.where(above, square, stiff)
        return np.where(above, stiff, square) if "implicit" in kind else np.where(above, -3.0 * u, stiff + square)

    for _ in range(3000):
        u = u + step * rate(u + step / 2 * rate(u))
    return u


CASES: list[tuple[str, Any, float]] = [
    ("the explicit one above", ARK4(), 1e-6),
    ("the implicit one above", ARK4(), 1e-6),
    ("the explicit one above", SBDF2(), 5e-3),
    ("the implicit one above", ARS222(), 5e-3),
    ("in the place of two", ARK4(), 1e-6),
    ("in the place of two", Lie(RK4(), RK4()), 2e-2),
    ("in the place of two", Strang(RK4(), RK4()), 1e-3),
]


@pytest.mark.parametrize(("kind", "stepper", "error"), CASES, ids=lambda one: str(one).partition("(")[0])
def test_rates_under_predicates_take_the_place_of_others(kind: str, stepper: Any, error: float) -> None:
    found = fd.solve(declare(kind, STEPS), stepper=stepper, save=fd.final(), x0=0.4)["u"][-1]
    np.testing.assert_allclose(found, reference(kind), atol=error)


@pytest.mark.parametrize("kind", ["the explicit one above", "in the place of two"])
def test_exponential_steps_refuse_a_linear_part_that_others_replace(kind: str) -> None:
    with pytest.raises(fd.PlanningError, match="as its linear part, and that acts on a part of the points"):
        fd.plan(declare(kind, STEPS), stepper=ETDRK4(), x0=0.4)


def test_exponential_steps_refuse_values_under_a_predicate() -> None:
    u = declare("", STEPS)
    del u.assignments[-2]
    fd.plan(u, stepper=ETDRK4())
    u[fd.where(lambda x, x0: x > x0)] = 1.0
    with pytest.raises(fd.PlanningError, match="`u` has points without a rate"):
        fd.plan(u, stepper=ETDRK4(), x0=0.4)


def test_implicit_parts_beside_a_rate_that_moves() -> None:
    """The matrix of a part changes with the points that rates of another part take from it."""
    u = declare("the explicit one above", STEPS)
    u[fd.where(lambda x, t: x > 0.9 - 8 * t)] = fd.rate(lambda u: 0.0 * u[...])
    steppers = ARK4(), RK4()
    found = [np.asarray(fd.solve(u, stepper=s, save=fd.final(), x0=1.0)["u"][-1]) for s in steppers]
    assert np.abs(found[0] - START).max() > 0.1
    np.testing.assert_allclose(found[0], found[1], atol=2e-2)

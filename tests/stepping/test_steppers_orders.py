"""Every stepper reaches its order in time, and what a plain NumPy implementation of it gives."""

from collections.abc import Callable
from typing import Any

import diffrax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fdsolve as fd
from fdsolve.schemes import (
    RK4,
    SSPRK3,
    AdamsBashforth,
    CarpenterKennedy,
    Diffrax,
    Euler,
    Heun,
    Leapfrog,
    Lie,
    LowStorage,
    Midpoint,
    RungeKutta,
    Strang,
)

from .ode import NUM_POINTS, Problem

WILLIAMSON = LowStorage((0.0, -5 / 9, -153 / 128), (1 / 3, 15 / 16, 8 / 15), order=3)
KUTTA_38 = RungeKutta(
    ((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8), (0.0, 1 / 3, 2 / 3, 1.0), order=4
)
ONE_STEP = [Euler(), Heun(), Midpoint(), SSPRK3(), RK4(), KUTTA_38, WILLIAMSON, CarpenterKennedy()]
MULTI_STEP = [AdamsBashforth(2), AdamsBashforth(3), AdamsBashforth(4), Leapfrog()]
SPLIT = [Lie(), Strang(), Lie(Euler(), RK4()), Strang(Midpoint(), SSPRK3())]


def exact(problem: Problem) -> np.ndarray:
    """The solution at t = 1 to twelve digits."""

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        return problem.both(t, y.reshape(2, -1)).ravel()

    found = solve_ivp(rates, (0.0, 1.0), problem.start.ravel(), method="DOP853", rtol=1e-13, atol=1e-13)
    return found.y[:, -1].reshape(2, NUM_POINTS)


@pytest.mark.parametrize("stepper", [*ONE_STEP, *MULTI_STEP, *SPLIT, fd.CFL(0.5)], ids=repr)
def test_order_in_time(stepper: Any) -> None:
    problem = Problem(1)
    split = stepper in SPLIT
    coarse, fine = (
        np.abs(problem.solve(stepper, n, split=split) - exact(problem)).max()
        for n in ((24, 48) if stepper in ONE_STEP and stepper.order == 4 else (90, 180))
    )
    assert np.log2(coarse / fine) > stepper.order - 0.1


def test_the_filter_of_leapfrog_costs_one_order() -> None:
    problem = Problem(1)
    coarse, fine = (np.abs(problem.solve(Leapfrog(0.1), n) - exact(problem)).max() for n in (80, 160))
    assert 0.9 < np.log2(coarse / fine) < 1.2


Rates = Callable[[float, np.ndarray], np.ndarray]


def runge_kutta(tableau: Any, f: Rates, t: float, y: np.ndarray, h: float) -> np.ndarray:
    """One step from Butcher's table."""
    slopes: list[np.ndarray] = []
    for row, c in zip(tableau.stages, tableau.times, strict=True):
        slopes.append(f(t + c * h, y + h * sum((a * k for a, k in zip(row, slopes, strict=True)), 0 * y)))
    return y + h * sum((b * k for b, k in zip(tableau.weights, slopes, strict=True)), 0 * y)


def two_registers(stepper: Any, f: Rates, t: float, y: np.ndarray, h: float) -> np.ndarray:
    """One step in Williamson's form."""
    register, times = 0 * y, stepper.tableau.times
    for a, b, c in zip(stepper.a, stepper.b, times, strict=True):
        register = a * register + h * f(t + c * h, y)
        y = y + b * register
    return y


@pytest.mark.parametrize("stepper", ONE_STEP, ids=repr)
def test_one_step_methods_equal_numpy(stepper: Any) -> None:
    problem, steps = Problem(2), 7
    y, h = problem.start, 1.0 / steps
    step = two_registers if hasattr(stepper, "a") else lambda s, *rest: runge_kutta(s.tableau, *rest)
    for n in range(steps):
        y = step(stepper, problem.both, n * h, y, h)
    np.testing.assert_allclose(problem.solve(stepper, steps), y, rtol=0, atol=1e-13)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_adams_bashforth_equals_numpy(order: int) -> None:
    problem, steps = Problem(3), 9
    weights = {2: [1.5, -0.5], 3: [23 / 12, -4 / 3, 5 / 12], 4: [55 / 24, -59 / 24, 37 / 24, -3 / 8]}[order]
    y, h, slopes = problem.start, 1.0 / steps, []
    for n in range(steps):
        slopes = [problem.both(n * h, y), *slopes]
        if n < order - 1:
            y = runge_kutta(RK4().tableau, problem.both, n * h, y, h)
        else:
            y = y + h * sum(w * k for w, k in zip(weights, slopes, strict=False))
    np.testing.assert_allclose(problem.solve(AdamsBashforth(order), steps), y, rtol=0, atol=1e-13)


@pytest.mark.parametrize("gamma", [0.0, 0.15])
def test_leapfrog_equals_numpy(gamma: float) -> None:
    problem, steps = Problem(4), 9
    h = 1.0 / steps
    old, y = problem.start, runge_kutta(RK4().tableau, problem.both, 0.0, problem.start, h)
    for n in range(1, steps):
        new = old + 2 * h * problem.both(n * h, y)
        old, y = y + gamma * (old - 2 * y + new), new
    np.testing.assert_allclose(problem.solve(Leapfrog(gamma), steps), y, rtol=0, atol=1e-13)


def test_splitting_equals_numpy() -> None:
    problem, steps = Problem(5), 6
    lie = strang = problem.start
    h, heun, rk4 = 1.0 / steps, Heun().tableau, RK4().tableau
    for n in range(steps):
        t = n * h
        lie = runge_kutta(rk4, problem.second, t, runge_kutta(heun, problem.first, t, lie, h), h)
        strang = runge_kutta(heun, problem.first, t, strang, h / 2)
        strang = runge_kutta(rk4, problem.second, t, strang, h)
        strang = runge_kutta(heun, problem.first, t + h / 2, strang, h / 2)
    np.testing.assert_allclose(problem.solve(Lie(Heun(), RK4()), steps, split=True), lie, rtol=0, atol=1e-13)
    np.testing.assert_allclose(problem.solve(Strang(Heun(), RK4()), steps, split=True), strang, rtol=0, atol=1e-13)


@pytest.mark.parametrize("solver", [diffrax.Tsit5(), diffrax.Kvaerno5()], ids=repr)
def test_diffrax_keeps_its_tolerance(solver: Any) -> None:
    problem = Problem(6)
    loose, tight = (
        np.abs(problem.solve(Diffrax(solver, rtol=tol, atol=tol), 3) - exact(problem)).max() for tol in (1e-4, 1e-8)
    )
    assert tight < 1e-7 < loose < 1e-2

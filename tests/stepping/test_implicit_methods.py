"""Implicit, IMEX and alternating-direction methods by themselves: orders, growth, damping, conservation, failure."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fdsolve.schemes import (
    ADI,
    ARK3,
    ARK4,
    ARS222,
    ARS343,
    BDF2,
    SBDF2,
    SBDF3,
    SDIRK2,
    SDIRK3,
    AdditiveTableau,
    BackwardEuler,
    CrankNicolson,
    IMEXEuler,
    Lie,
    Modes,
    NoGrowth,
    Strang,
    Theta,
)

from .semidiscrete import DenseSystem, Equation, march

IMPLICIT = [BackwardEuler(), CrankNicolson(), Theta(0.7), SDIRK2(), SDIRK3()]
IMEX = [IMEXEuler(), ARS222(), ARS343(), ARK3(), ARK4()]
MULTI_STEP = [BDF2(), SBDF2(), SBDF3()]
ADIS = [ADI(axes=("x", "y")), ADI("PeacemanRachford", axes=("x", "y")), ADI(theta=0.8, axes=("x", "y"))]
RANDOM = np.random.default_rng(1)
MATRIX = RANDOM.normal(size=(4, 4)) - 3 * np.eye(4)
OTHER = RANDOM.normal(size=(4, 4))
START = RANDOM.normal(size=4)


def nonlinear() -> Equation:
    """y' = My − y³/10 + cos 3t (stiff) + sin y + cos t · (y moved by one)."""
    moved = np.roll(np.eye(4), 1, axis=0)
    return Equation(
        lambda t, y: MATRIX @ y - 0.1 * y**3 + np.cos(3 * t),
        lambda t, y: MATRIX - np.diag(0.3 * y**2),
        lambda t, y: np.sin(y) + np.cos(t) * (moved @ y),
        lambda t, y: np.diag(np.cos(y)) + np.cos(t) * moved,
    )


def linear(stiff: np.ndarray, rest: np.ndarray, along: tuple[np.ndarray, ...] = ()) -> Equation:
    """y' = (stiff + rest) y."""
    return Equation(lambda t, y: stiff @ y, lambda t, y: stiff, lambda t, y: rest @ y, lambda t, y: rest, along)


def exact(equation: Equation, stop: float) -> np.ndarray:
    """The solution to twelve digits."""

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        return equation.stiff(t, y) + equation.rest(t, y)

    return solve_ivp(rates, (0.0, stop), START, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]


@pytest.mark.parametrize("stepper", [*IMPLICIT, *IMEX, *MULTI_STEP], ids=repr)
def test_order_in_time(stepper: Any) -> None:
    equation = nonlinear()
    coarse, fine = (np.abs(march(stepper, equation, START, 1.0, n)[0] - exact(equation, 1.0)).max() for n in (80, 160))
    assert np.log2(coarse / fine) > stepper.order - 0.1


@pytest.mark.parametrize("stepper", ADIS, ids=repr)
def test_order_of_alternating_directions(stepper: Any) -> None:
    """Directions that do not commute, a source in time, and a nonlinear part in each direction."""
    one, two = MATRIX - np.eye(4), OTHER - 4 * np.eye(4)

    class Frozen(DenseSystem):
        """The Jacobian at the start of each step, split evenly where it is not linear."""

        def axis_solve(self, axis: str, factor: Any, rhs: Any, fraction: Any) -> Any:
            (box,), (y,) = rhs["u"], self.start["u"]
            part = (one if axis == "x" else two) - np.diag(0.15 * y**2)
            return {"u": (np.linalg.solve(np.eye(4) - factor * self.size * part, box),)}

    equation = Equation(
        lambda t, y: (one + two) @ y - 0.1 * y**3 + np.cos(3 * t),
        lambda t, y: one + two - np.diag(0.3 * y**2),
    )
    errors = []
    for steps in (40, 80):
        values, size = {"u": (START,)}, 1.0 / steps
        for n in range(steps):
            values, _ = stepper.step(Frozen(equation, n * size, size, n + 1, values), None, None)
        errors.append(np.abs(values["u"][0] - exact(equation, 1.0)).max())
    assert np.log2(errors[0] / errors[1]) > stepper.order - 0.1


def trees(order: int) -> Iterator[tuple[Any, ...]]:
    """The rooted trees with so many vertices, as tuples of the trees at the root."""

    def forests(count: int, largest: tuple[int, int]) -> Iterator[tuple[Any, ...]]:
        if count == 0:
            yield ()
        for size in range(min(count, largest[0]), 0, -1):
            for number, tree in enumerate(trees(size)):
                if (size, -number) <= largest:
                    for rest in forests(count - size, (size, -number)):
                        yield (tree, *rest)

    yield from forests(order - 1, (order, 0))


def size_of(tree: tuple[Any, ...]) -> int:
    return 1 + sum(map(size_of, tree))


def density(tree: tuple[Any, ...]) -> int:
    return size_of(tree) * int(np.prod([density(one) for one in tree]))


def stage_weights(tree: tuple[Any, ...], colours: list[int], matrices: Any) -> np.ndarray:
    """The elementary weights of a tree at each stage, its inner vertices coloured in order."""
    result = np.ones(len(matrices[0]))
    for one in tree:
        matrix = matrices[colours.pop(0)]
        result = result * (matrix @ stage_weights(one, colours, matrices))
    return result


def test_the_trees_are_all_there() -> None:
    assert [len(list(trees(order))) for order in (1, 2, 3, 4)] == [1, 1, 2, 4]


def full(tableau: AdditiveTableau) -> tuple[Any, Any]:
    """The matrices and weights of the implicit and the explicit method."""
    count = len(tableau.implicit)
    rows = [[*row, *[0.0] * (count - len(row))] for row in (*tableau.implicit, *tableau.explicit)]
    matrices = [np.array(rows[:count])] + ([np.array(rows[count:])] if tableau.explicit else [])
    return matrices, [matrices[0][-1], np.array(tableau.weights)][: len(matrices)]


@pytest.mark.parametrize("stepper", [*IMPLICIT, *IMEX], ids=repr)
def test_order_conditions_with_all_couplings(stepper: Any) -> None:
    """Every tree up to the order, with every way to colour its vertices by the two methods."""
    matrices, weights = full(stepper.tableau)
    for matrix in matrices[1:]:
        np.testing.assert_allclose(matrix.sum(axis=1), matrices[0].sum(axis=1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(matrices[0].sum(axis=1), stepper.tableau.times, rtol=0, atol=1e-14)
    for order in range(1, stepper.order + 1):
        for tree in trees(order):
            for root, *colours in product(range(len(matrices)), repeat=order):
                found = weights[root] @ stage_weights(tree, list(colours), matrices)
                assert found == pytest.approx(1 / density(tree), abs=1e-14)


def modes_of(stiff: np.ndarray, rest: np.ndarray, along: tuple[np.ndarray, ...] = ()) -> Modes:
    names = tuple("abcdefgh"[: len(stiff)])
    parts = {(0, False, True): stiff[None].astype(complex), (1, False, False): rest[None].astype(complex)}
    return Modes(names, parts, np.ones(1), tuple(one[None].astype(complex) for one in along))


@pytest.mark.parametrize("stepper", [*IMPLICIT, *IMEX, *ADIS, Strang(SDIRK2(), ARK3())], ids=repr)
def test_growth_equals_a_measured_step(stepper: Any) -> None:
    size, parts = 0.3, (MATRIX, OTHER)
    equation = linear(*parts, along=parts)
    columns = [march(stepper, equation, column, size, 1)[0] for column in np.eye(4)]
    measured = np.linalg.eigvals(np.stack(columns, axis=1))
    found = np.ravel(stepper.amplify(modes_of(size * MATRIX, size * OTHER, tuple(size * one for one in parts))))
    # As sets: by the polynomials of which they are the roots.
    np.testing.assert_allclose(np.poly(found), np.poly(measured), rtol=0, atol=1e-12)


@pytest.mark.parametrize("stepper", MULTI_STEP, ids=repr)
def test_growth_of_multistep_methods_is_that_of_the_march(stepper: Any) -> None:
    """After many steps the ratio of two levels is the largest root."""
    decay, push = np.diag([-2.0]), np.diag([2.6])
    equation, size = linear(decay, push), 0.25
    before, after = (march(stepper, equation, np.ones(1), n * size, n)[0] for n in (60, 61))
    roots = np.ravel(stepper.amplify(modes_of(size * decay, size * push)))
    assert float(after[0] / before[0]) == pytest.approx(np.abs(roots).max(), rel=1e-10)
    assert len(roots) == stepper.order


@pytest.mark.parametrize("stepper", [BackwardEuler(), SDIRK2(), SDIRK3(), BDF2(), *IMEX, SBDF2(), SBDF3()], ids=repr)
def test_stiff_decay_is_damped(stepper: Any) -> None:
    """L-stability: the growth factor falls like 1/|λΔt|, and a march at λΔt = −1e6 forgets its start."""
    factors = [np.abs(stepper.amplify(modes_of(np.array([[z]]), np.zeros((1, 1))))).max() for z in (-1e4, -1e6, -1e8)]
    power = 1 / 2 if stepper in (BDF2(), SBDF2()) else 1 / 3 if stepper == SBDF3() else 1.0
    assert factors[2] < 1.2e-7**power
    assert factors[1] / factors[2] == pytest.approx(100**power, rel=0.1)
    last, _ = march(stepper, linear(np.array([[-1e6]]), np.zeros((1, 1))), np.ones(1), 6.0, 6)
    assert abs(last[0]) < 1e-6


@pytest.mark.parametrize(
    ("stepper", "limit"), [(CrankNicolson(), -1.0), (Theta(0.8), -0.25), (ADI(axes=("x", "y")), 1.0)], ids=repr
)
def test_stiff_decay_of_methods_that_are_only_a_stable(stepper: Any, limit: float) -> None:
    z = np.array([[-1e8]])
    assert np.ravel(np.asarray(stepper.amplify(modes_of(z, 0 * z, (z / 2, z / 2)))))[0] == pytest.approx(
        limit, abs=1e-6
    )


@pytest.mark.parametrize("stepper", [*IMPLICIT[:2], *IMPLICIT[3:], BDF2()], ids=repr)
def test_a_stability(stepper: Any) -> None:
    random = np.random.default_rng(5)
    z = -(10 ** random.uniform(-3, 6, 400)) + 1j * random.choice([-1, 1], 400) * 10 ** random.uniform(-3, 6, 400)
    growth = stepper.amplify(Modes(("u",), {(0, True, False): z[:, None, None]}, np.abs(z)))
    assert np.abs(growth).max() <= 1 + 1e-12


@pytest.mark.parametrize("stepper", [*IMPLICIT, *IMEX, *MULTI_STEP, *ADIS], ids=repr)
def test_what_the_rates_conserve_is_conserved(stepper: Any) -> None:
    """Columns of all matrices add up to zero, so that the sum of the values stays."""
    one, two = (a - a.mean(axis=0) for a in (30 * MATRIX, OTHER))
    last, _ = march(stepper, linear(one, two, (one, two)), START, 1.0, 12)
    assert last.sum() == pytest.approx(START.sum(), abs=1e-12 * max(1.0, np.abs(last).max()))


@pytest.mark.parametrize("stepper", [BackwardEuler(), ARK4(), BDF2(), SBDF3(), Lie(CrankNicolson(), ARK3())], ids=repr)
def test_the_first_failure_is_remembered(stepper: Any) -> None:
    equation = nonlinear()
    good, bad = (stepper.report(march(stepper, equation, START, 1.0, 5, tries)[1]) for tries in (5, 1))
    assert (int(good), int(bad)) == (-1, 1)
    explained = stepper.explain(3, 0.6)
    assert repr(stepper) in explained
    assert "level 3, t = 0.6" in explained and "more time levels" in explained


def test_directions_that_do_not_split_have_no_growth() -> None:
    assert isinstance(ADI().amplify(modes_of(MATRIX, OTHER)), NoGrowth)

"""Coefficients of steppers: orders, growth on test equations, published limits of stability, wrong tables."""

from typing import Any

import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    ETDRK4,
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
    Modes,
    NoGrowth,
    RungeKutta,
    StormerVerlet,
    Strang,
)
from fdsolve.schemes._tableau import order_conditions

RUNGE_KUTTA = [Euler(), Heun(), Midpoint(), SSPRK3(), RK4(), CarpenterKennedy()]


def modes(z: Any, linear: bool = True) -> Modes:
    """Modes of one field with λΔt = z."""
    values = np.atleast_1d(np.asarray(z, complex))
    return Modes(("u",), {(0, linear): values[..., None, None]}, np.abs(values))


@pytest.mark.parametrize("stepper", RUNGE_KUTTA, ids=repr)
def test_tableaux_meet_their_conditions_and_no_more(stepper: Any) -> None:
    tableau = stepper.tableau
    found = order_conditions(tableau.matrix, np.array(tableau.weights), np.array(tableau.times))
    for order, conditions in found.items():
        missed = max(abs(gap) for _, gap in conditions)
        assert missed < 1e-13 if order <= stepper.order else missed > 1e-3
    assert tableau.matrix.sum(axis=1) == pytest.approx(tableau.times, abs=1e-14)


@pytest.mark.parametrize("stepper", [*RUNGE_KUTTA, AdamsBashforth(3), AdamsBashforth(4), Leapfrog()], ids=repr)
def test_growth_matches_the_exact_one_to_the_order(stepper: Any) -> None:
    direction = np.exp(0.7j)
    errors = [abs(stepper.amplify(modes(h * direction))[0, 0, 0] - np.exp(h * direction)) for h in (0.02, 0.01)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(stepper.order + 1, abs=0.1)


@pytest.mark.parametrize(
    ("stepper", "limit"),
    [
        (Euler(), 2.0),
        (Heun(), 2.0),
        (SSPRK3(), 2.5127),
        (RK4(), 2.7853),
        (CarpenterKennedy(), 4.65),
        (AdamsBashforth(2), 1.0),
        (AdamsBashforth(3), 6 / 11),
        (AdamsBashforth(4), 0.3),
    ],
    ids=repr,
)
def test_limits_on_the_negative_real_axis(stepper: Any, limit: float) -> None:
    inside, outside = (np.abs(stepper.amplify(modes(-limit * f))).max() for f in (0.99, 1.01))
    assert inside < 1 < outside


@pytest.mark.parametrize(
    ("stepper", "limit"),
    [(SSPRK3(), 3**0.5), (RK4(), 8**0.5), (CarpenterKennedy(), 3.34), (AdamsBashforth(3), 0.7236), (Leapfrog(), 1.0)],
    ids=repr,
)
def test_limits_on_the_imaginary_axis(stepper: Any, limit: float) -> None:
    inside, outside = (np.abs(stepper.amplify(modes(1j * limit * f))).max() for f in (0.99, 1.01))
    assert inside < 1 + 1e-12 < outside


def test_verlet_is_neutral_up_to_two() -> None:
    def growth(omega: float) -> float:
        block = np.array([[0, omega], [-omega, 0]], complex)
        found = StormerVerlet(("q",), ("p",)).amplify(Modes(("q", "p"), {(0, True): block[None]}, np.ones(1)))
        assert not isinstance(found, NoGrowth)
        return float(np.abs(found).max())

    assert growth(1.99) == pytest.approx(1.0, abs=1e-12)
    assert growth(2.01) > 1.1


def test_splitting_multiplies_the_growth_of_its_groups() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 2, 2)) * 0.3
    both = Modes(("u", "v"), {(0, True): a[None].astype(complex), (1, False): b[None].astype(complex)}, np.ones(1))

    def step(z: np.ndarray) -> np.ndarray:
        return np.eye(2) + z + z @ z / 2

    lie = np.linalg.eigvals(step(b) @ step(a))
    strang = np.linalg.eigvals(step(a / 2) @ step(b) @ step(a / 2))
    assert np.sort(np.abs(Lie(Heun(), Heun()).amplify(both)[0])) == pytest.approx(np.sort(np.abs(lie)))
    assert np.sort(np.abs(Strang(Heun(), Heun()).amplify(both)[0])) == pytest.approx(np.sort(np.abs(strang)))


def test_exponential_weights_of_one_and_of_two_fields_agree() -> None:
    z = np.array([-30.0, -1.0, -1e-3, 0.0, 0.1 + 0.3j])
    linear, rest = z[:, None, None], np.full((5, 1, 1), 0.1j)
    one = ETDRK4().amplify(Modes(("u",), {(0, True): linear, (1, False): rest}, np.ones(5)))
    eye = np.eye(2)
    two = ETDRK4().amplify(Modes(("u", "v"), {(0, True): linear * eye, (1, False): rest * eye}, np.ones(5)))
    assert two[:, 0] == pytest.approx(one[:, 0], abs=1e-12)
    assert one[:, 0] == pytest.approx(np.exp(z + 0.1j), abs=1e-4)


def test_sub_steps_grow_as_their_power() -> None:
    z = np.array([-3.0 + 0.5j])
    found = fd.CFL(1.0).amplify(modes(z))
    assert found.ravel() == pytest.approx(RK4().tableau.growth(z / 4) ** 4)


def test_diffrax_has_no_growth() -> None:
    import diffrax

    assert isinstance(Diffrax(diffrax.Tsit5()).amplify(modes(1.0)), NoGrowth)


WRONG = {
    "rows of lengths": (lambda: RungeKutta(((0.5,),), (1.0,)), "of lengths 0, 1, 2"),
    "counts": (lambda: RungeKutta(((), (0.5,)), (1.0,)), "2 stages want as many weights"),
    "times": (lambda: RungeKutta(((), (0.5,)), (0.0, 1.0), (0.0, 0.4)), "each time is the sum of its row"),
    "weights": (lambda: RungeKutta(((), (0.5,)), (0.0, 0.9)), "wants Σb = 1, which is missed by -0.1"),
    "order": (lambda: RungeKutta(((), (0.5,)), (0.5, 0.5), order=2), "order=2 wants Σbc = 1/2.*Give order=1"),
    "order of stages": (lambda: RungeKutta(((),), (1.0,), order=2), "number of stages, 1; got 2"),
    "numbers": (lambda: RungeKutta(((), ("a",)), (0.0, 1.0)), "are finite numbers"),
    "stages": (lambda: RungeKutta(0.5, (1.0,)), "rows of A"),
    "registers": (lambda: LowStorage((0.1, 0.2), (0.5, 0.5)), "a begins with 0"),
    "order of registers": (lambda: LowStorage((0.0, 0.0), (0.5, 0.5), order=2), "wants Σbc = 1/2"),
    "adams": (lambda: AdamsBashforth(5), "order of 2, 3 or 4, got 5"),
    "filter": (lambda: Leapfrog(1.5), "from 0 to below 1, got 1.5"),
    "nodes": (lambda: ETDRK4(4), "at least 8, got 4"),
    "courant": (lambda: fd.CFL(0.0), "above 0, got 0.0"),
    "substeps": (lambda: fd.CFL(1.0, max_substeps=0), "max_substeps= is a whole number"),
    "inner": (lambda: fd.CFL(1.0, AdamsBashforth(2)), "one-step method"),
    "speed": (lambda: fd.CFL(1.0, speed="fast"), "a rule or a number"),
    "solver": (lambda: Diffrax("Tsit5"), "solver such as diffrax.Tsit5"),
    "split": (lambda: Lie(RK4(), Leapfrog()), "Lie takes one-step methods"),
    "split class": (lambda: Strang(RK4), "the class RK4; write RK4\\(\\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_say_what_to_write(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(fd.DeclarationError, match=message):
        make()

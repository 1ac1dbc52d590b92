"""Spectra of differences with every condition, order and kind of axis: what is not stable is capped."""

import numpy as np
import pytest

from fdsolve.boundary import Antisymmetric, Dirichlet, Extrapolate, Neumann, Robin, Symmetric
from fdsolve.field import AbstractCondition, Use

from .lines import AXES, closed, unknowns

ORDERS = (2, 4, 6, 8)
SIZES = (21, 34)


def make(kind: str, order: int) -> AbstractCondition:
    """A condition of an order by name."""
    if kind == "Robin":
        return Robin(1.0, 0.5, 0.0, order=order)
    return Dirichlet(0.0, order=order) if kind == "Dirichlet" else Neumann(0.0, order=order)


def eigenvalues(ends, axis, derivative, order, use):
    """Eigenvalues of a difference on the points that no condition gives, times Δx^derivative."""
    free = unknowns(axis, ends)
    matrix = closed(axis, ends, derivative, order, use)[np.ix_(free, free)]
    return np.linalg.eigvals(matrix) * np.diff(axis.points).min() ** derivative


@pytest.mark.parametrize("place", AXES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["Dirichlet", "Neumann", "Robin"])
def test_heat_decays_at_full_order(kind: str, order: int, place: str) -> None:
    condition = make(kind, order)
    assert condition.stable_order(Use.DIFFUSION, place.endswith("node")) == order
    for n in SIZES:
        found = eigenvalues((condition, condition), AXES[place](n), 2, order, Use.DIFFUSION)
        assert found.real.max() < 1e-10
        assert found.real.min() > -13  # the interior scheme: 4 to 6.5


@pytest.mark.parametrize("place", AXES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["Dirichlet", "Neumann", "Robin"])
def test_waves_keep_real_frequencies(kind: str, order: int, place: str) -> None:
    condition = make(kind, order)
    for n in SIZES:
        found = eigenvalues((condition, condition), AXES[place](n), 2, order, Use.WAVE)
        assert found.real.max() < 1e-10
        # Double eigenvalues (Neumann at both ends) split by the square root of rounding.
        assert np.abs(found.imag).max() < 1e-9


@pytest.mark.parametrize(
    "kind, place, lowered", [("Dirichlet", "node", 6), ("Dirichlet", "cell", 7), ("Neumann", "cell", 6)]
)
def test_waves_of_order_eight_need_the_cap(kind: str, place: str, lowered: int) -> None:
    condition = make(kind, 8)
    assert condition.stable_order(Use.WAVE, place == "node") == lowered
    uncapped = eigenvalues((condition, condition), AXES[place](34), 2, 8, Use.DIFFUSION)
    assert np.abs(uncapped.imag).max() > 1e-2


@pytest.mark.parametrize("place", ["node", "cell"])
@pytest.mark.parametrize("order", ORDERS)
def test_advection_from_an_inflow_does_not_grow(order: int, place: str) -> None:
    ends = (Dirichlet(0.0, order=order), Extrapolate(order))
    for n in (21, 34, 55):
        found = eigenvalues(ends, AXES[place](n), 1, order, Use.ADVECTION)
        assert (-found).real.max() < 1e-12


@pytest.mark.parametrize("place", ["stretched node", "stretched cell"])
@pytest.mark.parametrize("order", ORDERS)
def test_advection_on_stretched_axes_hardly_grows(order: int, place: str) -> None:
    ends = (Dirichlet(0.0, order=order), Extrapolate(order))
    for n in (21, 34, 55):
        found = eigenvalues(ends, AXES[place](n), 1, order, Use.ADVECTION)
        assert (-found).real.max() < 1e-3


@pytest.mark.parametrize("place, order", [("node", 6), ("node", 8), ("cell", 6), ("cell", 8)])
def test_advection_of_high_order_needs_the_cap(order: int, place: str) -> None:
    condition = Dirichlet(0.0, order=order)
    assert condition.stable_order(Use.ADVECTION, place == "node") == 4
    found = eigenvalues((condition, Extrapolate(order)), AXES[place](55), 1, order, Use.DIFFUSION)
    assert (-found).real.max() > 1e-3


@pytest.mark.parametrize("place", AXES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("condition", [Symmetric(), Antisymmetric()], ids=repr)
def test_mirrors_keep_waves_real_to_every_order(condition: AbstractCondition, order: int, place: str) -> None:
    for n in SIZES:
        found = eigenvalues((condition, condition), AXES[place](n), 2, order, Use.WAVE)
        assert found.real.max() < 1e-10
        assert np.abs(found.imag).max() < 1e-9


@pytest.mark.parametrize("place", ["node", "cell", "stretched node", "stretched cell"])
@pytest.mark.parametrize("order", ORDERS)
def test_staggered_waves_keep_real_frequencies(order: int, place: str) -> None:
    """p_t = −v_x, v_t = −p_x between points and faces: velocity 0 on the walls, pressure slope 0."""
    for n in SIZES:
        axis = AXES[place](n)
        pressure, velocity = (Neumann(0.0, order=order),) * 2, (Dirichlet(0.0, order=order),) * 2
        free = unknowns(axis, velocity, face=True)
        to_points = closed(axis, velocity, 1, order, Use.WAVE, (True, False))[:, free]
        to_faces = closed(axis, pressure, 1, order, Use.WAVE, (False, True))[free]
        found = np.linalg.eigvals(to_points @ to_faces) * np.diff(axis.points).min() ** 2
        assert found.real.max() < 1e-10
        assert np.abs(found.imag).max() < 1e-9

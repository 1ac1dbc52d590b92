"""Alternating directions: systems along one axis at a time."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import DeclarationError, PlanningError
from ._additive import add, moved, solve_matrix
from ._steppers import ALL, AbstractStepper, AbstractSystem, Modes, NoGrowth, Outline, Values
from ._steppers_implicit import check_theta


@dataclass(frozen=True)
class ADI(AbstractStepper):
    """Implicit steps by systems along one axis at a time: A = Σ Aₐ, split by the axis along which its entries reach.

    "Douglas": δ₀ = Δt f(uⁿ, tⁿ⁺θ), δₐ = (I − θΔtAₐ)⁻¹ (δₐ₋₁ + θΔt bₐ), uⁿ⁺¹ = uⁿ + δ_d; bₐ is what the walls at the
    ends of axis a gain in the step (f has them at tⁿ); order 2 for θ = 1/2, else 1. "PeacemanRachford", for two axes:
    u* = uⁿ + (I − Δt/2 A₁)⁻¹ Δt/2 f(uⁿ, tⁿ⁺½), uⁿ⁺¹ = u* + (I − Δt/2 A₂)⁻¹ Δt/2 f(u*, tⁿ⁺½), walls likewise;
    order 2. A is the Jacobian of the rates at uⁿ: what is not linear is solved to the order of the
    method, without iteration. Stable for decay at every step (θ ≥ 1/2); stiff decay is not damped (the factor tends to
    1), so that data should be smooth. Sources: Douglas, Numer. Math. 4 (1962) 41; Peaceman & Rachford, J. SIAM 3 (1955)
    28; Hundsdorfer & Verwer, Numerical Solution of Time-Dependent Advection-Diffusion-Reaction Equations (2003),
    section IV.3. Good values: "Douglas" with θ = 1/2, steps of a few times the largest explicit one and more.

    Raises DeclarationError for another method or share, PlanningError for "PeacemanRachford" on other than two axes.
    """

    method: str = "Douglas"
    theta: float | int = 0.5
    axes: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise DeclarationError(f'ADI: method= is "Douglas" or "PeacemanRachford", got {self.method!r}.')
        check_theta("ADI", self.theta)
        if self.method == "PeacemanRachford" and self.theta != 0.5:
            raise DeclarationError(
                f'ADI("PeacemanRachford") takes two halves of a step; got theta={self.theta!r}. Leave theta= out, or '
                f'take method="Douglas".'
            )

    @property
    def order(self) -> int:
        return 2 if self.theta == 0.5 else 1

    @property
    def evaluations(self) -> int:
        return 1 if self.method == "Douglas" else 2

    @property
    def solves(self) -> bool:
        return True

    def bind(self, outline: Outline) -> "ADI":
        if self.method == "PeacemanRachford" and len(outline.axes) != 2:
            raise PlanningError(
                f'ADI("PeacemanRachford") takes two axes of space; the grid has {len(outline.axes)} '
                f'({", ".join(outline.axes)}). Take ADI("Douglas"), for any number of axes.'
            )
        return replace(self, axes=outline.axes)

    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        take, _ = _METHODS[self.method]
        return take(self, system), memory

    def amplify(self, modes: Modes) -> np.ndarray | NoGrowth:
        if not modes.along:
            return NoGrowth("the rates do not split into parts along single axes")
        _, growth = _METHODS[self.method]
        return np.linalg.eigvals(growth(self, modes.along))


def _douglas(stepper: ADI, system: AbstractSystem) -> Values:
    # Sources at the time of the stage, walls as at the start; these move with the axis that they end.
    increment = moved(system, system.start, stepper.theta, 1.0, ALL)
    for axis in stepper.axes:
        walls = scaled(system, system.axis_change(axis, 1.0))
        increment = system.axis_solve(axis, stepper.theta, add(increment, [(stepper.theta, walls)]), 1.0)
    return add(system.start, [(1.0, increment)])


def _peaceman_rachford(stepper: ADI, system: AbstractSystem) -> Values:
    # Each half has the walls of its implicit axis at its own end and those of the other at its beginning.
    first, second = stepper.axes
    half, end = (scaled(system, system.axis_change(axis, at)) for axis, at in ((first, 0.5), (second, 1.0)))
    middle = scaled(system, system.axis_change(second, 0.5))
    rhs = add(moved(system, system.start, 0.5, 0.5, ALL), [(0.5, half)])
    values = add(system.start, [(1.0, system.axis_solve(first, 0.5, rhs, 0.5))])
    rhs = add(moved(system, values, 0.5, 0.5, ALL), [(0.5, end), (-0.5, middle)])
    return add(values, [(1.0, system.axis_solve(second, 0.5, rhs, 1.0))])


def scaled(system: AbstractSystem, slopes: Values) -> Values:
    """Δt times slopes."""
    return {name: tuple(system.step.astype(box.dtype) * box for box in boxes) for name, boxes in slopes.items()}


def _douglas_growth(stepper: ADI, along: tuple[np.ndarray, ...]) -> np.ndarray:
    one, increment = np.eye(along[0].shape[-1]), sum(along, 0 * along[0])
    for z in along:
        increment = solve_matrix(one - stepper.theta * z, increment)
    return one + increment


def _peaceman_rachford_growth(stepper: ADI, along: tuple[np.ndarray, ...]) -> np.ndarray:
    one, total = np.eye(along[0].shape[-1]), sum(along, 0 * along[0])
    values = one + 0 * total
    for z in along:
        values = values + solve_matrix(one - z / 2, total @ values / 2)
    return values


_METHODS = {
    "Douglas": (_douglas, _douglas_growth),
    "PeacemanRachford": (_peaceman_rachford, _peaceman_rachford_growth),
}

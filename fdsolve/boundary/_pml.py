"""Perfectly matched layers: waves enter them without reflection and die out."""

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..field import AbstractAbsorber, AbstractWall, Dimension
from ..units import is_quantity, magnitude
from ._show import mirror


@dataclass(frozen=True, eq=False)
class PML(AbstractAbsorber):
    """A layer of `cells` steps inside the wall that absorbs waves: `u[dict(x=[0, -1])] = fd.boundary.PML(20)`.

    Each ∂/∂x that the rules of all coupled fields take there by an operator becomes (1/s) ∂/∂x, with
    s = κ + σ/(α + iω): ∂u/κ + ψ, and ψ a memory variable at that derivative's own points, ψⁿ = bψⁿ⁻¹ + a∂u in plain
    rules, dψ/dt = −(σ/κ + α)ψ − (σ/κ²)∂u under steppers. A second derivative takes two. It is one for every linear wave
    system of first or second order in straight axes and isotropic media. σ = σ₀ depthᵐ with σ₀ = (m + 1) c ln(1/R)/2L.
    On the wall behind the layer the fields are zero; staggered partners, which have no point there, are mirrored.
    Sources: Chew & Weedon (1994) for the stretching; Roden & Gedney, Microw. Opt. Technol. Lett. 27 (2000) 334,
    equations 15 to 22, for the recursion; Collino & Tsogka, Geophysics 66 (2001) 294, for σ₀.

    Arguments:
        cells: thickness in steps of the axis, all inside the grid.
        order: m, the power by which σ grows with depth; also that of κ − 1.
        reflection: R, what theory leaves of a wave at normal incidence, amplitude.
        kappa: κ on the wall, at least 1; more bends evanescent waves.
        alpha: α at the inner edge, one over time, falling to 0 on the wall; for waves that graze for long.
        speed: c, the fastest wave in the layer, length over time; by default found from the rules there.
        wavenumber: for Schrödinger equations, i ∂u/∂t = …: s = 1 + e^{iπ/4}σ without memory, tuned to this
            wavenumber (one over length). Source: Nissen & Kreiss, Commun. Comput. Phys. 9 (2011) 147.

    Alpha, speed and wavenumber are in the units of the axis and of time, or quantities.

    Good values: 10 to 20 cells, cubic; κ = 1; α = 0, or π times the main frequency for waves at grazing incidence.
    Schrödinger: the wavenumber of the fastest packet, twenty cells or more than a wavelength.
    Raises: DeclarationError for what is out of range.
    """

    numbers = MappingProxyType(
        {"speed": Dimension(length=1, time=-1), "alpha": Dimension(time=-1), "wavenumber": Dimension(length=-1)}
    )

    cells: int
    order: float = 3
    reflection: float = 1e-6
    kappa: float = 1.0
    alpha: float = 0.0
    speed: Any = None
    wavenumber: float | None = None

    def __init__(
        self,
        cells: Any,
        *,
        order: Any = 3,
        reflection: Any = 1e-6,
        kappa: Any = 1.0,
        alpha: Any = 0.0,
        speed: Any = None,
        wavenumber: Any = None,
    ) -> None:
        if isinstance(cells, bool) or not isinstance(cells, int | np.integer) or cells < 1:
            raise DeclarationError(f"PML: the thickness is a whole number of cells, at least 1; got {cells!r}.")
        object.__setattr__(self, "cells", int(cells))
        numbers = dict(order=(order, 0), reflection=(reflection, 0), kappa=(kappa, 1), alpha=(alpha, 0))
        for name, (value, least) in numbers.items():
            object.__setattr__(self, name, _checked(name, value, least))
        if not 0 < self.reflection < 1:
            raise DeclarationError(f"PML: reflection= lies between 0 and 1, got {reflection!r}; 1e-6 is a good value.")
        found = _to_speed(_bare("speed", speed))
        object.__setattr__(self, "speed", speed if is_quantity(speed) else found)
        if wavenumber is not None and _bare("wavenumber", _checked("wavenumber", wavenumber, 0)) == 0:
            raise DeclarationError(f"PML: wavenumber= is positive, got {wavenumber!r}.")
        object.__setattr__(self, "wavenumber", None if wavenumber is None else _checked("wavenumber", wavenumber, 0))
        if wavenumber is not None and (speed is not None or self.kappa != 1 or _bare("alpha", self.alpha) != 0):
            raise DeclarationError(
                "PML: with wavenumber= the coordinate is stretched the same for all times: leave speed, kappa and "
                "alpha out."
            )

    @property
    def sets_value_on_points(self) -> bool:
        return True

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (0.0,)

    @property
    def options(self) -> tuple[Any, ...]:
        own = self.speed if isinstance(self.speed, float | None) else id(self.speed)
        return self.cells, self.order, self.reflection, self.kappa, self.alpha, own, self.wavenumber

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        inside = wall.interior(mirror(wall))
        return inside if wall.paired else -inside

    def strength(self, thickness: float, speed: Any) -> Any:
        """σ₀ = (m + 1) c ln(1/R)/(2L), so that exp(−2∫σ/c) = R; with e^{iπ/4} for a wavenumber k, (…)√2/(2kL)."""
        largest = (self.order + 1) * math.log(1 / self.reflection) / (2 * thickness)
        return largest * speed if self.wavenumber is None else largest * math.sqrt(2) / self.wavenumber

    def profiles(self, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        growth = np.where(depth > 0, np.maximum(depth, 0.0) ** self.order, 0.0)
        return growth, 1 + (self.kappa - 1) * growth, np.where(depth > 0, self.alpha * (1 - depth), 0.0)

    def __repr__(self) -> str:
        return f"PML({self.cells})"


def _to_number(name: str, value: Any, least: int) -> float:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least:
        raise DeclarationError(f"PML: {name}= is a number of at least {least}, got {value!r}.")
    return float(value)


def _bare(name: str, value: Any) -> Any:
    """The number of what may be a quantity."""
    return magnitude(value) if name in PML.numbers and is_quantity(value) else value


def _checked(name: str, value: Any, least: int) -> Any:
    """A number as a float, a quantity as it is: its units are those of the grid, which is not known yet."""
    number = _to_number(name, _bare(name, value), least)
    return value if is_quantity(value) else number


def _to_speed(speed: Any) -> Any:
    """The wave speed as a number, or as the traced scalar it is."""
    if speed is None or (
        isinstance(speed, jax.Array) and speed.shape == () and jnp.issubdtype(speed.dtype, jnp.floating)
    ):
        return speed
    if _to_number("speed", speed, 0) == 0:
        raise DeclarationError("PML: speed= is positive, got 0. Leave it out to have it found from the rules.")
    return float(speed)

"""Fluxes through faces as views, and the rate at a point as their difference."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift
from ._divergence import CellBalance
from ._measured import is_curved, scaled
from ._reconstruction import HALF, along, times
from ._values import choose


@dataclass(frozen=True, eq=False, repr=False)
class FaceDifference(AbstractView):
    """(F[+1/2] − F[−1/2])/Δx along an axis, of a flux read at the faces about a point."""

    flux: AbstractView
    axis: str

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.flux.context

    def value(self, shift: Shift) -> jax.Array:
        # The two weights differ in sign alone, on stretched axes as well.
        weight = self.context.read_weight(self.axis, 1, (-0.5, 0.5), 1, shift)
        lower, upper = (self.flux.value(along(self.context, shift, self.axis, side * HALF)) for side in (-1, 1))
        return times(weight, upper - lower)

    def exact(self, world: AbstractWorld) -> Exact:
        return world.derivative(self.flux.exact(world), self.axis)

    def parity(self, axis: str) -> int | None:
        own = self.flux.parity(axis)
        return 1 - own if axis == self.axis and own is not None else own

    def __repr__(self) -> str:
        return f"difference({self.flux}, {self.axis})"


@dataclass(frozen=True, eq=False, repr=False)
class FluxDifference(AbstractView):
    """∇·F: with one flux an axis, read at the faces about a point of `view`, Σ over axes of what leaves its cell.

    Both neighbours of a face read the same flux, so what leaves one point enters the next; on curvilinear axes times
    the area of the face, over the volume of the cell.
    """

    view: AbstractView
    axes: tuple[str, ...]
    fluxes: tuple[AbstractView, ...]
    parts: tuple[AbstractView, ...] = field(init=False)

    def __post_init__(self) -> None:
        parts = tuple(self._part(axis, flux) for axis, flux in zip(self.axes, self.fluxes, strict=True))
        object.__setattr__(self, "parts", parts)

    def _part(self, axis: str, flux: AbstractView) -> AbstractView:
        balance = CellBalance if is_curved(self.view, axis) else FaceDifference
        return scaled(balance(flux, axis), axis, "transverse 1")

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        total: Any = None
        for part in self.parts:
            term = part.value(shift)
            total = term if total is None else total + term
        return total

    def exact(self, world: AbstractWorld) -> Exact:
        parts = [part.exact(world) for part in self.parts]
        return lambda point: sum(part(point) for part in parts)

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        return f"convection of {self.view}"


def face_velocity(velocity: Any, view: AbstractView, axis: str, face: Shift) -> Any:
    """A velocity at a face: itself if it is a number, read there, or the mean of the points about it."""
    if isinstance(velocity, AbstractView):
        return at_place(velocity, face)
    if any(face):
        view.context.note_shifted_constant(velocity)
    return velocity


def at_place(view: AbstractView, shift: Shift) -> Any:
    """A view at a place where its field may have no points: the mean over the halves along each axis that differs."""
    context = view.context
    for axis in context.grid.space:
        own = view.parity(axis)
        if own is not None and own != context.parity(axis, shift):
            lower, upper = (at_place(view, along(context, shift, axis, side * HALF)) for side in (-1, 1))
            return 0.5 * (lower + upper)
    return view.value(shift)


def pick_upwind(velocity: Any, lower: Any, upper: Any) -> Any:
    """What comes from upwind: the lower side where the velocity is positive, the upper where it is negative.

    Where it is zero their mean, so that a mirrored problem has the mirrored answer.
    """
    if lower is upper:
        return lower
    return choose(velocity > 0, lower, choose(velocity < 0, upper, 0.5 * (lower + upper)))


def known_sign(velocity: Any) -> int | None:
    """1 or −1 for a number known while planning, else None."""
    if isinstance(velocity, AbstractView | Tracer) or jnp.ndim(velocity) or jnp.iscomplexobj(velocity):
        return None
    return 1 if velocity > 0 else -1 if velocity < 0 else None

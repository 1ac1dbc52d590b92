"""Fluxes through faces as views, and the rate at a point as their difference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax.core import Tracer

from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift
from ._reconstruction import HALF, along, times
from ._values import choose


@dataclass(frozen=True, eq=False, repr=False)
class FluxDifference(AbstractView):
    """Σ over axes of (F[+1/2] − F[−1/2])/Δx, with one flux an axis, read at the faces about a point of `view`.

    Both neighbours of a face read the same flux, so what leaves one point enters the next.
    """

    view: AbstractView
    axes: tuple[str, ...]
    fluxes: tuple[AbstractView, ...]

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        total: Any = None
        for axis, flux in zip(self.axes, self.fluxes, strict=True):
            # The two weights differ in sign alone, on stretched axes as well.
            weight = self.context.read_weight(axis, 1, (-0.5, 0.5), 1, shift)
            lower, upper = (flux.value(along(self.context, shift, axis, side * HALF)) for side in (-1, 1))
            term = times(weight, upper - lower)
            total = term if total is None else total + term
        return total

    def exact(self, world: AbstractWorld) -> Exact:
        parts = [world.derivative(f.exact(world), axis) for axis, f in zip(self.axes, self.fluxes, strict=True)]
        return lambda point: sum(part(point) for part in parts)

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        return f"convection of {self.view}"


@dataclass(eq=False)
class Memo:
    """Values by place, so that what both faces of a point need is recorded once while a rule is traced."""

    known: dict[Shift, list[tuple[Any, Any]]] = field(default_factory=dict)

    def take(self, shift: Shift, make: Callable[[], Any]) -> Any:
        """The value at a place: the one made before within the same trace of JAX, or a new one."""
        state = jex.get_opaque_trace_state()
        entries = self.known.setdefault(shift, [])
        for other, value in entries:
            if other == state:
                return value
        value = make()
        entries.append((state, value))
        return value


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

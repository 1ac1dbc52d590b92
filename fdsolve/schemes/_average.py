"""Interpolation of views between points and faces, and means of coefficients beside a face."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift, add_shifts, move
from ._common import along, check_order, differs, times, to_view
from ._weights import weights as finite_difference_weights


class AbstractMean(ABC):
    """How the values beside a face make the one on it."""

    @abstractmethod
    def of(self, weights: Sequence[Any], values: Sequence[Any]) -> Any:
        """The mean of `values`, scalars, with `weights` that add up to 1."""


@dataclass(frozen=True)
class Arithmetic(AbstractMean):
    """Σ w k: for coefficients that vary smoothly. Order: that of the weights."""

    def of(self, weights: Sequence[Any], values: Sequence[Any]) -> Any:
        return _sum([times(w, v) for w, v in zip(weights, values, strict=True)])


@dataclass(frozen=True)
class Harmonic(AbstractMean):
    """1/Σ(w/k): for coefficients that jump between points; the flux through layers in series is exact.

    0 where one of the values is 0. Source: Patankar, Numerical Heat Transfer and Fluid Flow (1980), section 4.2.
    """

    def of(self, weights: Sequence[Any], values: Sequence[Any]) -> Any:
        product = _product([value == 0 for value in values])
        # The inner where keeps gradients finite: 1/0 is never formed, not even in the branch that is left out.
        parts = [times(w, 1 / jnp.where(product, 1.0, v)) for w, v in zip(weights, values, strict=True)]
        return jnp.where(product, 0.0, 1 / _sum(parts))


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _product(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total | part
    return total


@dataclass(frozen=True, eq=False, repr=False)
class Average(AbstractView):
    """A view at any place: read where it has a point, interpolated along the axes on which it lies half-way."""

    view: AbstractView
    order: int
    mean: AbstractMean

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        for axis in self.context.grid.space:
            if differs(self.view, axis, shift):
                with self.context.within():
                    return self._along(axis, shift)
        return self.view.value(shift)

    def _along(self, axis: str, shift: Shift) -> Any:
        owner = self.context.grid.space_axis(axis)
        offsets, halves = self._offsets(axis, shift)
        if halves is None or owner.uniform:
            read = self.context.read_weight
            weights: list[Any] = [read(axis, 0, offsets, i, shift) for i in range(len(offsets))]
        else:
            places = np.array([owner.position(halves + round(2 * o)) for o in offsets]) - owner.position(halves)
            weights = [float(w) for w in finite_difference_weights(0, places)]
        values = [self.value(add_shifts(shift, along(self.context, axis, offset))) for offset in offsets]
        return self.mean.of(weights, values)

    def _offsets(self, axis: str, shift: Shift) -> tuple[tuple[float, ...], int | None]:
        """Half steps to the points read: all around, or near an open wall the outermost ones."""
        reach = self.order // 2
        below, above = self.context.room(self.view, axis, shift)
        owner = self.context.grid.space_axis(axis)
        if below is None and above is None:
            return tuple(k + 0.5 for k in range(-reach, reach)), None
        halves = below if below is not None else owner.num_halves - (above or 0)
        count = owner.size(owner.shift(True) != halves % 2)
        left = (halves + 1) // 2
        if self.order == 2 and (halves < 0 or left > count):  # else such places, too, from the outermost points
            return tuple(k + 0.5 for k in range(-reach, reach)), None
        first, stop = left - reach, left + reach
        if below is not None and first < 0:
            first, stop = 0, min(self.order, count)
        if above is not None and stop > count:
            first, stop = max(0, count - self.order) if below is not None else count - self.order, count
        return tuple(k - left + 0.5 for k in range(first, stop)), halves

    def exact(self, world: AbstractWorld) -> Exact:
        return self.view.exact(world)

    def parity(self, axis: str) -> int | None:
        return None

    def __repr__(self) -> str:
        return f"average({self.view})"


def average(view: Any, *, order: Any = 2, at: Any = None, mean: AbstractMean | None = None) -> AbstractView:
    """A view wherever it is asked for: interpolated, at even `order`, along the axes on which it lies half-way.

    `average(v)` in the rule of a field on other places is v there; `derivative(average(u), "x")` differences it.
    Near a wall beyond which nothing can be read it interpolates from the outermost points at the same order.
    `mean` is `Arithmetic()`, the default, or `Harmonic()` for coefficients that jump. Leading error h²/8 ∂²u for order
    2. Good values: the order of the scheme around it. Raises: DeclarationError.
    """
    view = to_view(view, "average")
    check_order(view, order, f"average({view}, order={order!r})")
    return Average(move(view, at), order, mean or Arithmetic())


def half(context: AbstractContext, axis: str, side: int) -> Shift:
    """Half a step along an axis, up for side 1, down for −1."""
    return along(context, axis, Fraction(side, 2))

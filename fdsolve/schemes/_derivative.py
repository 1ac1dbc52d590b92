"""Derivatives of views along an axis, by central differences that close at walls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..errors import DeclarationError
from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift, add_shifts, move
from ._closures import Closure, apart_rows, central_offsets, close
from ._common import along, check_axis, differs, times, to_view
from ._stencil import derivative_by_weights, root_stencil
from ._weights import weights as finite_difference_weights


@dataclass(frozen=True, eq=False, repr=False)
class Derivative(AbstractView):
    """∂ⁿ/∂axisⁿ of a view by central differences of even order, between like places or from faces to points.

    Near a wall where the view cannot be read beyond, a closure takes over: see `fdsolve.schemes._closures`. As part of
    a `flux` form it always takes half steps, and closes nowhere where all points lie on one side; `margin` is how many
    half steps next to a wall the view has no values in (1 for a flux, which wants points on both its sides).
    """

    view: AbstractView
    axis: str
    derivative: int
    order: int
    flux: bool = False
    margin: int = 0
    number: int | None = None

    def __post_init__(self) -> None:
        if self.number is None:
            object.__setattr__(self, "number", self.context.enroll(self))

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        stretched = self.context.stretched(self, shift)
        return self.plain(shift) if stretched is None else stretched

    def plain(self, shift: Shift) -> jax.Array:
        """The difference in the grid's own coordinate, also where a layer stretches it."""
        staggered = self.flux or differs(self.view, self.axis, shift)
        closure, halves = self._closure(shift, staggered)
        if closure is None:
            offsets = central_offsets(self.derivative, self.order, staggered)
            read = self.context.read_weight
            values = [read(self.axis, self.derivative, offsets, i, shift) for i in range(len(offsets))]
        else:
            offsets, values = closure.offsets, self._closing_weights(closure, halves)
        total: Any = None
        for weight, offset in zip(values, offsets, strict=True):
            if isinstance(weight, float) and weight == 0.0:
                continue
            term = times(weight, self.view.value(add_shifts(shift, along(self.context, self.axis, offset))))
            total = term if total is None else total + term
        return total

    def _closure(self, shift: Shift, staggered: bool) -> tuple[Closure | None, int]:
        """The closing row at a place if it wants one, and how many half steps the place lies above the lower wall."""
        owner = self.context.grid.space_axis(self.axis)
        rows = apart_rows(self.derivative, self.order, staggered)
        room = self.context.room(self.view, self.axis, shift, rows)
        if room == (None, None):
            return None, 0
        below, above = room
        halves = below if below is not None else owner.num_halves - (above or 0)
        place = owner.shift(True) == halves % 2
        count = owner.size(place != staggered)
        known = tuple(None if end is None else end - self.margin for end in room)
        found = close(self.derivative, self.order, staggered, known, count - self.margin, not self.flux)
        if found is not None and found.order < self.order:
            nearer_upper = below is None or (above is not None and above < below)
            self.context.note(
                f"{self} of order {self.order} closes at order {found.order} at the "
                f"{'upper' if nearer_upper else 'lower'} wall of {self.axis}"
            )
        return found, halves

    def _closing_weights(self, closure: Closure, halves: int) -> list[float]:
        """The weights of a row over the units of the axis to the n; on a stretched axis by the points' positions."""
        owner = self.context.grid.space_axis(self.axis)
        if owner.uniform:
            own = closure.weights or finite_difference_weights(self.derivative, closure.offsets)
            return [float(w) / owner.step**self.derivative for w in own]
        places = np.array([owner.position(halves + round(2 * offset)) for offset in closure.offsets])
        if closure.weights is None:
            return [float(w) for w in finite_difference_weights(self.derivative, places - owner.position(halves))]
        # The chain rule with the same operator, ∂u/∂x = D u / D x, keeps the operator's norm: it becomes h D x.
        return [float(w) for w in np.array(closure.weights) / np.dot(closure.weights, places)]

    def slope(self, view: AbstractView) -> Any:
        """The first derivative of a view half-way between its points: a second derivative's root (see `_root`).

        On a stretched axis the one of the order below, which lies below it too.
        """
        owner = self.context.grid.space_axis(self.axis)
        if not owner.uniform:
            return Derivative(view, self.axis, 1, max(2, self.order - 2), True, -1)
        own = finite_difference_weights(2, central_offsets(2, self.order, False))
        return root_stencil(view, self.axis, tuple(float(w) for w in own))

    def exact(self, world: AbstractWorld) -> Exact:
        return world.derivative(self.view.exact(world), self.axis, self.derivative)

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        power = "" if self.derivative == 1 else f", {self.derivative}"
        return f"derivative({self.view}, {self.axis}{power})"


def derivative(
    view: Any, axis: Any, n: Any = 1, *, order: Any = None, weights: Any = None, at: Any = None
) -> AbstractView:
    """∂ⁿu/∂axisⁿ by central differences of even `order` (default 2), on uniform and stretched axes.

    From a place to the same place it uses whole steps; from faces to points and back, half steps. `axis` may be a
    dict of powers by axis for a mixed derivative, `derivative(u, dict(x=1, y=1))`. `weights` are your own, by offset
    in steps, `{-1.5: 1/24, -0.5: -9/8, 0.5: 9/8, 1.5: -1/24}`: for a unit step, on a uniform axis; they must give the
    n-th derivative. `at` reads another level or place, for example `at="t-1"`. Units: those of the view over those of
    the axis to the n. On a stretched axis the order of the even derivatives drops by one where the spacing changes.

    Near a wall beyond which no condition supplies values, first derivatives close by summation by parts (order/2 at
    the wall), those between points and faces and second ones at order 4; the plan names the loss of order.
    Good values: order 4 for smooth fields on ten or more points a wavelength, 8 for waves on five. Source: Fornberg
    (1988); closures: Strand (1994). Raises: DeclarationError.
    """
    view = to_view(view, "derivative")
    if isinstance(axis, Mapping):
        return _mixed(view, axis, n, order, weights, at)
    check_axis(view, axis, f"derivative({view}, {axis!r})")
    order = 2 if order is None and weights is None else order
    whole = isinstance(n, int) and not isinstance(n, bool) and n >= 1
    if weights is not None:
        if not whole or order is not None:
            raise DeclarationError(
                f"{view.context.what}: derivative({view}, {axis!r}, n={n!r}, order={order!r}): with weights of your "
                f"own n is a whole number of at least 1, and the order theirs: leave `order` out."
            )
        return derivative_by_weights(move(view, at), axis, n, weights, Derivative)
    if not whole or not isinstance(order, int) or order < 2 or order % 2:
        raise DeclarationError(
            f"{view.context.what}: derivative({view}, {axis!r}, n={n!r}, order={order!r}): n is a whole number of "
            f"at least 1, and the order an even one of at least 2."
        )
    return Derivative(move(view, at), axis, n, order)


def _mixed(view: AbstractView, powers: Mapping[Any, Any], n: Any, order: Any, weights: Any, at: Any) -> AbstractView:
    if n != 1 or weights is not None or not powers:
        raise DeclarationError(
            f"{view.context.what}: derivative({view}, {dict(powers)!r}): a mixed derivative takes its powers by axis, "
            f"as in derivative(u, dict(x=1, y=2)), and neither n nor weights."
        )
    found = move(view, at)
    for axis, power in powers.items():
        found = derivative(found, axis, power, order=order)
    return found

"""Differential operators on views, by axis name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax

from ..errors import DeclarationError
from ..views import AbstractContext, AbstractView, Shift, add_shifts, move


@dataclass(frozen=True, eq=False, repr=False)
class Derivative(AbstractView):
    """∂ⁿ/∂axisⁿ of a view by central differences of even order, between points or from faces to points."""

    view: AbstractView
    axis: str
    derivative: int
    order: int

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        own = self.view.parity(self.axis)
        staggered = own is not None and own != self.context.parity(self.axis, shift)
        offsets = central_offsets(self.derivative, self.order, staggered)
        total: Any = None
        for index, offset in enumerate(offsets):
            weight = self.context.read_weight(self.axis, self.derivative, offsets, index, shift)
            if isinstance(weight, float) and weight == 0.0:
                continue
            term = _times(weight, self.view.value(add_shifts(shift, self._along(offset))))
            total = term if total is None else total + term
        return total

    def _along(self, offset: float) -> Shift:
        return tuple(Fraction(offset if name == self.axis else 0) for name in self.context.grid.names)

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        power = "" if self.derivative == 1 else f", {self.derivative}"
        return f"derivative({self.view}, {self.axis}{power})"


@dataclass(frozen=True, eq=False, repr=False)
class FluxDivergence(AbstractView):
    """∂/∂axis (k ∂u/∂axis) in flux form: k half-way between the points of u, read there or averaged."""

    coefficient: AbstractView
    view: AbstractView
    axis: str

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        flux = [self._flux(add_shifts(shift, self._along(Fraction(side, 2)))) for side in (-1, 1)]
        offsets = (-0.5, 0.5)
        lower, upper = (self.context.read_weight(self.axis, 1, offsets, i, shift) for i in (0, 1))
        return _times(lower, flux[0]) + _times(upper, flux[1])

    def _flux(self, shift: Shift) -> jax.Array:
        context, offsets, halves = self.context, (-0.5, 0.5), (Fraction(-1, 2), Fraction(1, 2))
        weights = [context.read_weight(self.axis, 1, offsets, i, shift) for i in (0, 1)]
        ends = [self.view.value(add_shifts(shift, self._along(half))) for half in halves]
        slope = _times(weights[0], ends[0]) + _times(weights[1], ends[1])
        own = self.coefficient.parity(self.axis)
        if own is None or own == context.parity(self.axis, shift):
            return _times(self.coefficient.value(shift), slope)
        ends = [self.coefficient.value(add_shifts(shift, self._along(half))) for half in halves]
        return _times(0.5 * (ends[0] + ends[1]), slope)

    def _along(self, offset: Fraction) -> Shift:
        return tuple(offset if name == self.axis else Fraction(0) for name in self.context.grid.names)

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        return f"divergence({self.coefficient}, {self.view})"


def _times(a: Any, b: Any) -> Any:
    """A product in the wider dtype: weights and coefficients are real where a field may be complex."""
    with jax.numpy_dtype_promotion("standard"):
        return a * b


def central_offsets(derivative: int, order: int, staggered: bool) -> tuple[float, ...]:
    """Offsets in steps of the central difference of a derivative: whole steps, or halves from a staggered place.

    >>> central_offsets(1, 4, False)
    (-2.0, -1.0, 0.0, 1.0, 2.0)
    >>> central_offsets(1, 2, True)
    (-0.5, 0.5)
    """
    if staggered:
        reach = (derivative + derivative % 2) // 2 + order // 2 - (derivative % 2)
        return tuple(k + 0.5 for k in range(-reach, reach)) if reach else ()
    reach = (derivative + 1) // 2 + order // 2 - 1
    return tuple(float(k) for k in range(-reach, reach + 1))


def derivative(view: Any, axis: Any, n: Any = 1, *, order: Any = 2, at: Any = None) -> AbstractView:
    """∂ⁿu/∂axisⁿ by central differences of even `order`, on uniform and stretched axes.

    From a place to the same place it uses whole steps; from faces to points and back, half steps. `at` reads another
    level or place, for example `at="t-1"`. Units: those of the view over those of the axis to the n. On a stretched
    axis the order of the even derivatives drops by one where the spacing changes. Source: Fornberg (1988).
    """
    view = _checked(view, "derivative")
    if axis not in view.context.grid.space:
        raise DeclarationError(
            f"{view.context.what}: derivative({view}, {axis!r}): unknown space axis; "
            f"the space axes are {', '.join(view.context.grid.space)}."
        )
    if not isinstance(n, int) or not isinstance(order, int) or n < 1 or order < 2 or order % 2:
        raise DeclarationError(
            f"{view.context.what}: derivative({view}, {axis!r}, n={n!r}, order={order!r}): n is a whole number of "
            f"at least 1, and the order an even one of at least 2."
        )
    return Derivative(move(view, at), axis, n, order)


def laplacian(view: Any, *, order: Any = 2, at: Any = None) -> AbstractView:
    """∇²u, the sum of the second derivatives along all space axes, of even `order`.

    `laplacian(u)` is of the level the rule defines (in a rate: of the stage); `laplacian(u, at="t-1")` of an older one.
    Leading error h²/12 ∂⁴u for order 2. Units: those of u over length².
    """
    view = _checked(view, "laplacian")
    terms = [derivative(view, axis, 2, order=order, at=at) for axis in view.context.grid.space]
    return sum(terms[1:], terms[0])


def gradient(view: Any, *, order: Any = 2, at: Any = None) -> tuple[AbstractView, ...]:
    """The first derivatives along the space axes, in grid order; each can be read at points or at faces.

    Leading error h²/6 ∂³u between points, h²/24 ∂³u from faces to points, for order 2.
    """
    view = _checked(view, "gradient")
    return tuple(derivative(view, axis, order=order, at=at) for axis in view.context.grid.space)


def divergence(first: Any, second: Any = None, *, order: Any = 2, at: Any = None) -> AbstractView:
    """∇·v of a vector, or ∇·(k ∇u) of a coefficient and a view in conservative flux form.

    `divergence((v, w))` or `divergence(dict(x=v, y=w))` takes one component a space axis, in grid order.
    `divergence(k, u)` takes k from the faces between the points of u if it lies there, else averages it
    arithmetically; k may be a number. The flux form is of second order.
    """
    if second is not None:
        view = move(_checked(second, "divergence"), at)
        if order != 2:
            raise DeclarationError(f"{view.context.what}: divergence(k, u) is of order 2, got order={order}.")
        coefficient = first if isinstance(first, AbstractView) else None
        if coefficient is None:  # a plain value is taken out of the divergence: it must be the same at every point
            view.context.note_shifted_constant(first)
        parts = [
            derivative(view, axis, 2) if coefficient is None else FluxDivergence(move(coefficient, at), view, axis)
            for axis in view.context.grid.space
        ]
        total = sum(parts[1:], parts[0])
        return total if coefficient is not None else first * total
    components = list(first.values()) if isinstance(first, Mapping) else first
    if not isinstance(components, Sequence) or not components:
        raise DeclarationError("divergence takes a vector as a tuple or dict of views, or a coefficient and a view.")
    context = _checked(components[0], "divergence").context
    space = context.grid.space
    names = tuple(first) if isinstance(first, Mapping) else space
    if set(names) != set(space) or len(components) != len(names):
        got = ", ".join(map(str, names)) if isinstance(first, Mapping) else str(len(components))
        raise DeclarationError(
            f"{context.what}: divergence takes a component for each space axis, {', '.join(space)}; got {got}."
        )
    parts = [derivative(part, axis, order=order, at=at) for part, axis in zip(components, names, strict=True)]
    return sum(parts[1:], parts[0])


def _checked(view: Any, operator: str) -> AbstractView:
    if not isinstance(view, AbstractView):
        got = "a value, as `u[...]` is" if isinstance(view, jax.Array | int | float | complex) else type(view).__name__
        raise DeclarationError(
            f"{operator} takes a view (a field's name among the rule's arguments, or arithmetic on such), got {got}. "
            f"Inside a rule write {operator}(u)."
        )
    return view

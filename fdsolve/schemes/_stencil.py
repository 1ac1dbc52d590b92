"""Differences with weights of the user's own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import factorial
from typing import Any

import jax
import numpy as np

from ..errors import DeclarationError
from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift, add_shifts, move
from ._common import along, check_axis, differs, times, to_view
from ._root import root_weights


@dataclass(frozen=True, eq=False, repr=False)
class Stencil(AbstractView):
    """Σ w_k u(x + o_k Δx): a view's values at `offsets` steps along an axis, with `weights`.

    Where a value beyond an open wall would be read, `near` takes over, if there is one.
    """

    view: AbstractView
    axis: str
    offsets: tuple[float, ...]
    weights: tuple[Any, ...]
    near: Any = None
    number: int = -1

    def __post_init__(self) -> None:
        if self.near is not None:
            object.__setattr__(self, "number", self.context.enroll(self))

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        stretched = None if self.near is None else self.context.stretched(self, shift)
        return self.plain(shift) if stretched is None else stretched

    @property
    def derivative(self) -> int:
        """Which derivative it stands for."""
        return self.near.derivative

    def slope(self, view: AbstractView) -> AbstractView:
        """The first derivative of a view half-way between its points: a second derivative's root."""
        reach = int(max(abs(offset) for offset in self.offsets))
        squared = self.context.grid.space_axis(self.axis).step ** 2
        by_offset = {offset: weight * squared for offset, weight in zip(self.offsets, self.weights, strict=True)}
        own = tuple(by_offset.get(float(k), 0.0) for k in range(-reach, reach + 1))
        return root_stencil(view, self.axis, own) if own == own[::-1] else self.near.slope(view)

    def plain(self, shift: Shift) -> jax.Array:
        """The sum in the grid's own coordinate, also where a layer stretches it."""
        if self.near is not None and differs(self.view, self.axis, shift) != bool(self.offsets[0] % 1):
            raise DeclarationError(
                f"{self.context.what}: {self} is taken where its offsets do not lead to points of `{self.view}`. Give "
                f"whole offsets between like places, and halves between points and faces."
            )
        if self.near is not None and self._leaves(self.context.room(self.view, self.axis, shift)):
            return self.near.plain(shift)
        total: Any = None
        for weight, offset in zip(self.weights, self.offsets, strict=True):
            own = weight.value(shift) if isinstance(weight, AbstractView) else weight
            term = times(own, self.view.value(add_shifts(shift, along(self.context, self.axis, offset))))
            total = term if total is None else total + term
        return total

    def _leaves(self, room: tuple[int | None, int | None]) -> bool:
        below, above = room
        beyond_lower = below is not None and below + 2 * min(self.offsets) < 0
        return beyond_lower or (above is not None and above - 2 * max(self.offsets) < 0)

    def exact(self, world: AbstractWorld) -> Exact:
        if self.near is None:
            return super().exact(world)
        return world.derivative(self.view.exact(world), self.axis, self.derivative)

    def parity(self, axis: str) -> int | None:
        own = self.view.parity(axis)
        if own is None or axis != self.axis or self.near is not None:
            return own
        return int(own + 2 * self.offsets[0]) % 2

    def __repr__(self) -> str:
        return f"stencil({self.view}, {self.axis}, {len(self.offsets)} weights)"


def stencil(view: Any, axis: Any, weights: Any, *, at: Any = None) -> AbstractView:
    """Σ w u(x + o Δx) over your own `weights` by offset in steps, as they are: `stencil(u, "x", {-1: .25, 1: .75})`.

    Offsets are whole or half steps, all of one kind; weights are numbers, parameters of the solve, or views: of a
    coefficient that varies in space its value where the sum is taken. Units: those of the view times those of the
    weights. For a derivative, `derivative(u, "x", weights=...)` divides by the step and checks what the weights give.
    Raises: DeclarationError.
    """
    view = to_view(view, "stencil")
    check_axis(view, axis, f"stencil({view}, {axis!r})")
    offsets, values = _checked(view, axis, weights, f"stencil({view}, {axis!r})")
    weights = tuple(move(value, at) if isinstance(value, AbstractView) else value for value in values)
    return Stencil(move(view, at), axis, offsets, weights)


def root_stencil(view: AbstractView, axis: str, second: tuple[float, ...]) -> Stencil:
    """The half-step difference of a view on a uniform axis that belongs to the weights of a second derivative."""
    offsets, weights = root_weights(second)
    step = view.context.grid.space_axis(axis).step
    return Stencil(view, axis, offsets, tuple(weight / step for weight in weights))


def derivative_by_weights(
    view: AbstractView, axis: str, n: int, weights: Any, standard: Callable[..., AbstractView]
) -> AbstractView:
    """∂ⁿ/∂axisⁿ by the user's weights, for a unit step; `standard(view, axis, n, order)` near open walls."""
    call = f"derivative({view}, {axis!r}, {n}, weights=...)"
    offsets, values = _checked(view, axis, weights, call)
    owner = view.context.grid.space_axis(axis)
    if not owner.uniform:
        raise DeclarationError(f"{view.context.what}: {call}: axis `{axis}` is stretched; weights want even steps.")
    try:
        numbers = np.array([float(w) for w in values])
    except TypeError:  # traced
        raise DeclarationError(
            f"{view.context.what}: {call}: these weights must be numbers, to be checked for what they give; with "
            f"parameters as weights write stencil(u, {axis!r}, weights)."
        ) from None
    order = _order_of(n, np.array(offsets), numbers)
    if order < 1:
        got = np.dot(numbers, np.array(offsets) ** n) / factorial(n)
        raise DeclarationError(
            f"{view.context.what}: {call}: the weights do not give the derivative: Σ w oᵏ must be 0 for k < {n} and "
            f"{factorial(n)} for k = {n}; they give {got:.6g} of it. Scale them for a step of 1."
        )
    near = standard(view, axis, n, max(2, order - order % 2))
    return Stencil(view, axis, offsets, tuple(float(w) / owner.step**n for w in numbers), near)


def _checked(view: AbstractView, axis: str, weights: Any, call: str) -> tuple[tuple[float, ...], tuple[Any, ...]]:
    if not isinstance(weights, Mapping) or not weights:
        raise DeclarationError(
            f"{view.context.what}: {call}: weights come as a dict by offset in steps, as {{-1: 0.25, 1: 0.75}}; got "
            f"{type(weights).__name__}."
        )
    for offset in weights:
        if isinstance(offset, bool) or not isinstance(offset, int | float) or not float(2 * offset).is_integer():
            raise DeclarationError(
                f"{view.context.what}: {call}: the offset {offset!r} is neither a whole number of steps nor a half."
            )
    offsets = tuple(sorted(float(offset) for offset in weights))
    if len({offset % 1 for offset in offsets}) > 1:
        raise DeclarationError(
            f"{view.context.what}: {call}: offsets are all whole steps, or all halves; got "
            f"{', '.join(f'{offset:g}' for offset in offsets)}."
        )
    return offsets, tuple(weights[key] for key in sorted(weights, key=float))


def _order_of(n: int, offsets: np.ndarray, weights: np.ndarray) -> int:
    """The order of accuracy of weights for the n-th derivative; 0 where they give another quantity."""
    size = np.abs(weights) @ np.maximum(np.abs(offsets), 1.0) ** n
    for power in range(64):
        wanted = float(factorial(n)) if power == n else 0.0
        scale = size * max(1.0, float(np.max(np.abs(offsets)))) ** max(power - n, 0)
        if abs(weights @ offsets**power - wanted) > 1e-9 * scale:
            return max(power - n, 0)
    return 64

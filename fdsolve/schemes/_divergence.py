"""Divergences of vectors and of fluxes, in conservative form, on straight and curvilinear axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from ..errors import DeclarationError
from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift, add_shifts, exact_part, move
from ._average import AbstractMean, Arithmetic, Average, half
from ._common import check_order, differs, times, to_view
from ._derivative import Derivative, derivative
from ._measured import Measured, is_curved, scaled

ARITHMETIC = Arithmetic()


@dataclass(frozen=True, eq=False, repr=False)
class Flux(AbstractView):
    """k ∂u/∂axis half-way between the points of u, k read there or averaged; k = 1 if there is none."""

    coefficient: AbstractView | None
    view: AbstractView
    axis: str
    order: int
    mean: AbstractMean
    slope: AbstractView = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", Derivative(self.view, self.axis, 1, self.order, flux=True))

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        if self.coefficient is None:
            return self.slope.value(shift)
        side = self._beyond(self.coefficient, shift)
        return self._plain(shift) if not side else self._mirrored(self.coefficient, shift, side)

    def _plain(self, shift: Shift) -> jax.Array:
        assert self.coefficient is not None
        return times(Average(self.coefficient, self.order, self.mean).value(shift), self.slope.value(shift))

    def _beyond(self, coefficient: AbstractView, shift: Shift) -> int:
        """−1 or 1 half a step beyond a lower or upper wall with a node, for a coefficient without values there."""
        below, above = self.context.room(coefficient, self.axis, shift)
        if self.order != 2:
            return 0
        return -1 if below == -1 else 1 if above == -1 else 0

    def _mirrored(self, coefficient: AbstractView, shift: Shift, side: int) -> jax.Array:
        """The flux beyond a wall whose mean with the one before it is that through the wall, k ∂u/∂axis there.

        So the half cell at the wall takes up exactly what flows in, to second order also where k varies.
        """
        wall = add_shifts(shift, half(self.context, self.axis, -side))
        inside = add_shifts(wall, half(self.context, self.axis, -side))
        through = times(
            Average(coefficient, self.order, self.mean).value(wall), Derivative(self.view, self.axis, 1, 2).value(wall)
        )
        return 2 * through - self._plain(inside)

    def exact(self, world: AbstractWorld) -> Exact:
        slope, coefficient = world.derivative(self.view.exact(world), self.axis), exact_part(self.coefficient, world)
        return slope if self.coefficient is None else lambda point: times(coefficient(point), slope(point))

    def parity(self, axis: str) -> int | None:
        own = self.view.parity(axis)
        return 1 - own if own is not None and axis == self.axis else own

    def __repr__(self) -> str:
        of = self.view if self.coefficient is None else f"{self.coefficient}, {self.view}"
        return f"flux({of}, {self.axis})"


@dataclass(frozen=True, eq=False, repr=False)
class CellBalance(AbstractView):
    """(A₊F₊ − A₋F₋)/V along a curvilinear axis: a flux through the faces of a cell over its volume, exact ones.

    F is read half a step away, or averaged there. Second order; its sum times V telescopes to the flux at the walls.
    """

    flux: AbstractView
    axis: str

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.flux.context

    def value(self, shift: Shift) -> jax.Array:
        through = []
        for side, area in ((-1, "area below"), (1, "area above")):
            face = add_shifts(shift, half(self.context, self.axis, side))
            through.append(times(self._measure(area, shift), self._at(face)))
        return times(1 / self._measure("content", shift), through[1] - through[0])

    def _measure(self, name: str, shift: Shift) -> Any:
        return self.context.read_measure(self.axis, name, shift, self.flux)

    def _at(self, face: Shift) -> Any:
        if differs(self.flux, self.axis, face):
            return Average(self.flux, 2, ARITHMETIC).value(face)
        return self.flux.value(face)

    def exact(self, world: AbstractWorld) -> Exact:
        density, inner = world.measure(self.axis, "density"), self.flux.exact(world)
        through = world.derivative(lambda point: times(density(point), inner(point)), self.axis)
        return lambda point: times(through(point), 1 / density(point))

    def parity(self, axis: str) -> int | None:
        own = self.flux.parity(axis)
        if axis == self.axis and isinstance(self.flux, Flux):
            return self.flux.view.parity(axis)
        return own

    def __repr__(self) -> str:
        return f"balance({self.flux}, {self.axis})"


@dataclass(frozen=True, eq=False, repr=False)
class FluxDivergence(AbstractView):
    """∂/∂axis (k ∂u/∂axis) in flux form, over the scale factors; on a curvilinear axis with its areas and volumes."""

    coefficient: AbstractView | None
    view: AbstractView
    axis: str
    order: int = 2
    mean: AbstractMean = ARITHMETIC
    form: AbstractView = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", self._form())

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        if self.coefficient is not None:  # one row at a wall is apart: see Flux
            self.context.room(self.coefficient, self.axis, shift, 1)
        return self.form.value(shift)

    def _form(self) -> AbstractView:
        flux = Flux(self.coefficient, self.view, self.axis, self.order, self.mean)
        if not is_curved(self.view, self.axis):
            plain = Derivative(flux, self.axis, 1, self.order, flux=True, margin=1)
            return scaled(plain, self.axis, "transverse 2" if self.order == 2 else "inverse square scale")
        if self.order == 2:
            return scaled(CellBalance(flux, self.axis), self.axis, "transverse 2")
        # 1/f ∂(f k ∂u); where f = 0 its limit, the dimension times ∂(k ∂u).
        total = Measured(
            Derivative(Measured(flux, self.axis, "density"), self.axis, 1, self.order, flux=True, margin=1),
            self.axis,
            "inverse density",
        )
        if not self.context.grid.space_axis(self.axis).cells:
            bare = Derivative(flux, self.axis, 1, self.order, flux=True, margin=1)
            total = total + Measured(bare, self.axis, "pole")
        return scaled(total, self.axis, "inverse square scale")

    def exact(self, world: AbstractWorld) -> Exact:
        return self.form.exact(world)

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        return f"divergence({self.coefficient}, {self.view})"


def divergence(
    first: Any, second: Any = None, *, order: Any = 2, at: Any = None, mean: AbstractMean | None = None
) -> AbstractView:
    """∇·v of a vector, or ∇·(k ∇u) of a coefficient and a view in conservative flux form, of even `order`.

    `divergence((v, w))` or `divergence(dict(x=v, y=w))` takes one component a space axis, in grid order (physical
    components on curvilinear axes). `divergence(k, u)` takes k from the faces between the points of u if it lies there,
    else it takes the `mean` there, `Arithmetic()` or for coefficients that jump `Harmonic()`; k may be a number. The
    flux form of order p is D½(k D½ u) with half-step differences of order p. On curvilinear axes order 2 balances the
    fluxes through the faces of exact cells: ∇·v = 1/J Σ ∂(J/hᵢ vᵢ).
    Good values: order 2 for coefficients that jump, 4 for smooth ones. Raises: DeclarationError.
    """
    if second is not None:
        view = move(to_view(second, "divergence"), at)
        check_order(view, order, f"divergence(k, {view}, order={order!r})")
        return _of_gradient(first, view, order, at, mean or ARITHMETIC)
    if mean is not None:
        raise DeclarationError("divergence: `mean` belongs to divergence(k, u); a vector has no coefficient.")
    components = to_components(first, "divergence")
    view = next(iter(components.values()))
    check_order(view, order, f"divergence({view}, order={order!r})")
    parts = [_component(move(part, at), axis, order) for axis, part in components.items()]
    return sum(parts[1:], parts[0])


def _of_gradient(first: Any, view: AbstractView, order: int, at: Any, mean: AbstractMean) -> AbstractView:
    coefficient = first if isinstance(first, AbstractView) else None
    if coefficient is None:  # a plain value is taken out of the divergence: it must be the same at every point
        view.context.note_shifted_constant(first)
        return first * laplacian_of(view, order)
    parts = [FluxDivergence(move(coefficient, at), view, axis, order, mean) for axis in view.context.grid.space]
    return sum(parts[1:], parts[0])


def laplacian_of(view: AbstractView, order: int) -> AbstractView:
    """∇²u: second derivatives on straight axes, cell balances or the expanded form on curvilinear ones."""
    parts = [_second(view, axis, order) for axis in view.context.grid.space]
    return sum(parts[1:], parts[0])


def _second(view: AbstractView, axis: str, order: int) -> AbstractView:
    if not is_curved(view, axis):
        return scaled(
            derivative(view, axis, 2, order=order), axis, "transverse 2" if order == 2 else "inverse square scale"
        )
    if order == 2:
        return FluxDivergence(None, view, axis)
    # u″ + f′/f u′; at a pole, where u′ = 0, f′/f u′ is another u″ or two.
    second = Measured(derivative(view, axis, 2, order=order), axis, "limit")
    return scaled(second + Measured(derivative(view, axis, order=order), axis, "slope"), axis, "inverse square scale")


def _component(view: AbstractView, axis: str, order: int) -> AbstractView:
    if not is_curved(view, axis):
        return scaled(derivative(view, axis, order=order), axis, "transverse 1" if order == 2 else "inverse scale")
    if order == 2:
        return scaled(CellBalance(view, axis), axis, "transverse 1")
    return scaled(
        derivative(view, axis, order=order) + Measured(Average(view, order, ARITHMETIC), axis, "slope"),
        axis,
        "inverse scale",
    )


def to_components(vector: Any, operator: str) -> dict[str, AbstractView]:
    """The components of a vector by axis, in grid order; refused unless there is one for each space axis."""
    components = list(vector.values()) if isinstance(vector, Mapping) else vector
    if not isinstance(components, Sequence) or isinstance(components, str) or not components:
        alternative = ", or a coefficient and a view" if operator == "divergence" else ""
        raise DeclarationError(f"{operator} takes a vector as a tuple or dict of views{alternative}.")
    context = to_view(components[0], operator).context
    space = context.grid.space
    names = tuple(vector) if isinstance(vector, Mapping) else space
    if set(names) != set(space) or len(components) != len(names):
        got = ", ".join(map(str, names)) if isinstance(vector, Mapping) else str(len(components))
        raise DeclarationError(
            f"{context.what}: {operator} takes a component for each space axis, {', '.join(space)}; got {got}."
        )
    by_name = dict(zip(names, components, strict=True))
    return {axis: to_view(by_name[axis], operator) for axis in space}

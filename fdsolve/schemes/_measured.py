"""Views times a geometric quantity of a curvilinear axis."""

from dataclasses import dataclass

import jax

from ..grid import scaling_axes
from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift
from ._common import times


@dataclass(frozen=True, eq=False, repr=False)
class Measured(AbstractView):
    """A view times a measure of an axis (`Axis.measure`) at the same place."""

    view: AbstractView
    axis: str
    measure: str

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        return times(self.context.read_measure(self.axis, self.measure, shift, self.view), self.view.value(shift))

    def exact(self, world: AbstractWorld) -> Exact:
        measure, inner = world.measure(self.axis, self.measure), self.view.exact(world)
        return lambda point: times(measure(point), inner(point))

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        return f"{self.measure} of {self.axis} * {self.view}"


def is_curved(view: AbstractView, axis: str) -> bool:
    """Whether an axis has a density other than 1: a radius, or a colatitude."""
    return view.context.grid.space_axis(axis).metric in ("radius", "spherical radius", "colatitude")


def scaled(view: AbstractView, axis: str, measure: str) -> AbstractView:
    """The view times a measure of each axis that scales `axis`: "inverse scale" makes ∂/∂θ a derivative by length."""
    for other in scaling_axes(view.context.grid.axes, axis):
        view = Measured(view, other, measure)
    return view

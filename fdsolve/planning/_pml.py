"""Absorbing layers: where they lie, and how derivatives are taken along the stretched coordinate in them."""

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError, PlanningError
from ..field import AbstractAbsorber
from ..region import Box, Layout, Points
from ..stencil import RuleContext
from ..views import AbstractView, Shift, show_shift
from ._phases import Phase
from ._problem import Problem
from ._store import Builder, Profile
from ._walls import Side, claim_walls


@dataclass(frozen=True, eq=False)
class Stretch:
    """One absorbing layer: the wall behind it, on which fields, and its condition. `sigma` is σ on the wall."""

    side: Side
    rule: AbstractAbsorber
    axis: str
    owner: Any
    fields: tuple[str, ...]
    label: str
    sigma: list[Any] = field(default_factory=list)

    @property
    def memorises(self) -> bool:
        """Whether s depends on frequency, so that derivatives in the layer have memory variables."""
        return self.rule.wavenumber is None

    @property
    def thickness(self) -> float:
        """How thick it is, in the units of the axis."""
        halves = 2 * self.rule.cells
        if self.side.upper:
            return self.owner.upper - self.owner.position(self.owner.num_halves - halves)
        return self.owner.position(halves) - self.owner.lower

    def depth(self, places: np.ndarray) -> np.ndarray:
        """How deep places lie in the layer; beyond the wall mirrored, before the layer negative."""
        wall = self.owner.upper if self.side.upper else self.owner.lower
        return 1 - np.abs(places - wall) / self.thickness

    def name(self, quantity: str) -> str:
        """The name of a profile of the layer."""
        return f"pml {self.axis} {self.side.word} {quantity}"

    def box(self, layout: Layout, more: int = 0) -> Box:
        """The points of a field in the layer and `more` before it."""
        whole, size = Box.of_shape(layout.space_shape), layout.space_shape[self.side.axis]
        places = self.owner.positions(self.axis in layout.faces, 0, size)
        count = min(size, int(np.count_nonzero(self.depth(places) > 1e-9)) + more)
        start, stop = (size - count, size) if self.side.upper else (0, count)
        return whole.with_range(self.side.axis, start, stop)

    def clip(self, box: Box, layout: Layout, more: int = 0) -> Box:
        """The part of a box that lies in the layer, at the `more` points before it, or beyond the wall behind it."""
        own = self.box(layout, more)
        start, stop = own.start[self.side.axis], own.stop[self.side.axis]
        low, high = box.start[self.side.axis], box.stop[self.side.axis]
        low, high = (max(low, start), high) if self.side.upper else (low, min(high, stop))
        return box.with_range(self.side.axis, low, high)


def find_stretches(problem: Problem, last: Phase) -> tuple[Stretch, ...]:
    """The absorbing layers of a problem: those whose walls no later assignment took over."""
    found: dict[Side, Stretch] = {}
    for name in problem.names:
        layout = problem.scope.layouts[name]
        for assignment in problem.assignments[name]:
            if isinstance(assignment.rule, AbstractAbsorber):
                _check_region(assignment, layout, name)
        for span in last.fields[name].walls:
            rule, label = span.assignment.rule, span.assignment.describe(name)
            if not isinstance(rule, AbstractAbsorber):
                continue
            at = span.side.index(layout.space_shape)
            wall = Box.of_shape(layout.space_shape).with_range(span.side.axis, at, at + 1)
            if not Points.of_box(wall).subtract(span.points).empty:
                raise PlanningError(
                    f"{label}: an absorbing layer lies along the whole of a wall, and other rules or conditions hold "
                    f"on a part of this one. Assign them before it, or elsewhere."
                )
            axis = layout.space[span.side.axis]
            before = found.get(span.side)
            if before is not None and before.rule.options != rule.options:
                raise DeclarationError(
                    f"{label}: the {span.side.word} wall of axis `{axis}` has another absorbing layer, {before.label}. "
                    f"Coupled fields share one: fd.together(...)[...] = {rule!r}."
                )
            names = (name,) if before is None else (*before.fields, name)
            found[span.side] = Stretch(span.side, rule, axis, layout.grid.space_axis(axis), names, label)
    for one in found.values():
        _check_room(problem, one, found)
    return tuple(found[side] for side in sorted(found))


def _check_region(assignment: Any, layout: Layout, name: str) -> None:
    for term in assignment.terms.terms:
        claims = claim_walls(term.points, layout)
        if term.predicate is not None or not claims.inner.empty:
            raise DeclarationError(
                f"{assignment.describe(name)}: an absorbing layer lies along walls, as in "
                f"{name}[dict({layout.space[0]}=[0, -1])] = {assignment.rule!r}; its thickness is its argument."
            )


def _check_room(problem: Problem, one: Stretch, found: dict[Side, Stretch]) -> None:
    if problem.scope.grid.time is None:
        raise PlanningError(f"{one.label}: an absorbing layer acts on waves in time, and the grid has no time axis.")
    if one.owner.metric is not None:
        raise PlanningError(
            f"{one.label}: axis `{one.axis}` is curvilinear; absorbing layers stretch straight axes. Take "
            f"fd.boundary.Sponge or fd.boundary.Outflow there."
        )
    across = found.get(Side(one.side.axis, not one.side.upper))
    both = one.rule.cells + (across.rule.cells if across is not None else 0)
    if 2 * both >= one.owner.num_halves:
        layers = "layers at both ends are" if across is not None else "layer is"
        raise PlanningError(
            f"{one.label}: the {layers} {both} cells thick, and axis `{one.axis}` has {one.owner.num_halves // 2}. "
            f"Give the axis more points: the layer lies inside the grid."
        )


def find_pairs(problem: Problem, stretches: tuple[Stretch, ...]) -> set[tuple[str, Side]]:
    """The fields without a point on a wall that share its layer with one that has: they are mirrored there."""
    layouts, pairs = problem.scope.layouts, set()
    for one in stretches:
        off = [name for name in one.fields if layouts[name].shift(one.axis)]
        if len(off) < len(one.fields):
            pairs |= {(name, one.side) for name in off}
    return pairs


def add_profiles(problem: Problem, stretch: Stretch) -> None:
    """Stores what a layer's rules read along its axis: β = σ/κ + α, σ/κ², 1/κ, a and b; or 1/s."""
    rule, grid = stretch.rule, problem.scope.grid
    assert grid.time is not None
    step = grid.time.step

    def quantities(places: np.ndarray) -> dict[str, Any]:
        growth, kappa, alpha = rule.profiles(stretch.depth(places))
        sigma = stretch.sigma[0] * jnp.asarray(growth, problem.scope.real)
        if not stretch.memorises:
            return {"inverse": 1 / (1 + np.exp(0.25j * np.pi) * sigma)}
        beta, gain = sigma / kappa + alpha, sigma / kappa**2
        return {
            "inverse": jnp.asarray(1 / kappa),
            "beta": beta,
            "gain": gain,
            "b": jnp.exp(-beta * step),
            "a": -gain * step * decay_share(beta * step),
        }

    for face in (False, True):
        for quantity in ("inverse", "beta", "gain", "a", "b"):

            def build(start: Any, stop: Any, face: bool = face, quantity: str = quantity) -> Any:
                with jax.numpy_dtype_promotion("standard"):  # NumPy's profiles meet the precision of the problem
                    value = quantities(stretch.owner.positions(face, start[0], stop[0]))[quantity]
                return value.astype(_precision(problem, value))

            builder: Builder = build
            key = stretch.name(quantity) + (" face" if face else "")
            problem.store.profiles[key] = Profile((stretch.axis,), builder)


def _precision(problem: Problem, value: jax.Array) -> Any:
    return _complex(problem.scope.real) if jnp.iscomplexobj(value) else problem.scope.real


def _complex(real: np.dtype) -> np.dtype:
    return np.result_type(real, np.complex64)


def decay_share(exponent: Any) -> Any:
    """(1 − e^{−x})/x, 1 at 0: the mean of a decay over a step."""
    safe = jnp.where(exponent == 0, jnp.ones_like(exponent), exponent)
    return jnp.where(exponent == 0, jnp.ones_like(exponent), -jnp.expm1(-safe) / safe)


@dataclass(frozen=True, eq=False)
class Stretcher:
    """Differences along an axis as a rule takes them in some layers: (1/s)∂ in place of ∂."""

    book: Any
    owner: str
    function: Any
    evaluate: Any
    what: str
    stage: bool
    layers: tuple[Stretch, ...]

    def __call__(self, context: RuleContext, view: Any, shift: Shift) -> Any:
        self._check_place(context, str(view), shift)
        if not any(layer.axis == view.axis for layer in self.layers):
            with context.within():
                return view.plain(shift)
        with context.within():
            if view.derivative == 1:
                return self.divided(context, view, 0, view.plain(shift), shift)
            return self.divided(context, view, 1, self.second(context, view, shift), shift)

    def source(self, context: RuleContext, view: Any, part: int, shift: Shift) -> Any:
        """What the memory variable of a part of a difference is driven by, at its own place."""
        with context.within():
            if view.derivative == 1:
                return view.plain(shift)
            return self.second(context, view, shift) if part else view.slope(view.view).plain(shift)

    def second(self, context: RuleContext, view: Any, shift: Shift) -> Any:
        """∂((1/s)∂u) as ∂²u + ∂χ with χ = (1/s − 1)∂u half-way between: where χ is 0 it is the rule's own ∂²u."""
        if view.derivative > 2:
            raise PlanningError(
                f"{self.what} takes {view} in the absorbing layer {self.layers[0].label}; layers serve equations of "
                f"first and second order in space. Nest operators, or start the region outside the layer."
            )
        own = view.view.parity(view.axis)
        if own is not None and own != context.parity(view.axis, shift):
            raise PlanningError(
                f"{self.what} takes {view} half-way between the points of `{view.view}` in an absorbing layer; take it "
                f"at the points, or as two first derivatives."
            )
        return view.plain(shift) + view.slope(Correction(self, view)).plain(shift)

    def divided(self, context: RuleContext, view: Any, part: int, value: Any, shift: Shift) -> Any:
        """(1/s) times a value that a part of a difference has at a place: value/κ + ψ."""
        scaled = self._scaled(context, view, value, shift)
        return reduce(add, self._memories(context, view, part, shift, scaled.dtype), scaled)

    def correction(self, context: RuleContext, view: Any, shift: Shift) -> Any:
        """(1/s − 1) times the slope of a second difference at a place: (1/κ − 1) slope + ψ, which is ψ where κ is 1."""
        slope = view.slope(view.view).plain(shift)
        scaled = self._scaled(context, view, slope, shift)
        memories = self._memories(context, view, 0, shift, scaled.dtype)
        return reduce(add, memories if scaled is slope and memories else [scaled - slope, *memories])

    def _scaled(self, context: RuleContext, view: Any, value: Any, shift: Shift) -> Any:
        """A value over κ, or over s where that has no memory; the value itself where κ is 1."""
        for layer in self._along(view):
            if layer.rule.profiles(np.ones(1))[1] != 1 or not layer.memorises:
                with jax.numpy_dtype_promotion("standard"):
                    value = value * self._inverse(context, layer, shift)
        return value

    def _memories(self, context: RuleContext, view: Any, part: int, shift: Shift, dtype: Any) -> list[Any]:
        layers = (layer for layer in self._along(view) if layer.memorises)
        return [self._memory(context, view, part, layer, shift, dtype) for layer in layers]

    def _along(self, view: Any) -> list[Stretch]:
        return [layer for layer in self.layers if layer.axis == view.axis]

    def _inverse(self, context: RuleContext, layer: Stretch, shift: Shift) -> Any:
        dtype = context.scope.real if layer.memorises else _complex(context.scope.real)
        return context.read_profile(layer.name("inverse"), layer.axis, shift, dtype)

    def _memory(self, context: RuleContext, view: Any, part: int, layer: Stretch, shift: Shift, dtype: Any) -> Any:
        grid = context.grid
        faces = frozenset(a for a in grid.space if context.parity(a, shift) == grid.space_axis(a).shift(True) % 2)
        layout, level = Layout(grid, faces), context.level_of(shift)
        name = self.book.memories.find(self, context.target, view, part, layer, layout, level, dtype)
        return context.read_hidden(name, layout, shift)

    def check_read(self, context: RuleContext, name: str, shift: Shift) -> None:
        self._check_place(context, f"`{name}`", shift)

    def _check_place(self, context: RuleContext, what: str, shift: Shift) -> None:
        """Refuses what the rule itself reads at an offset along a stretched axis."""
        names = context.grid.names
        if context.depth or not any(shift[names.index(layer.axis)] for layer in self.layers):
            return
        layer = next(layer for layer in self.layers if shift[names.index(layer.axis)])
        raise PlanningError(
            f"{self.what} reads {what} at an offset written by hand, [{show_shift(shift, names)}], in the absorbing "
            f"layer {layer.label}, which stretches derivatives taken by operators. Write it with derivative, "
            f"laplacian, gradient, divergence or curl of fdsolve.schemes."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Correction(AbstractView):
    """χ = (1/s − 1)∂u half-way between the points of u: what the layer adds to the first of two derivatives."""

    stretcher: Stretcher
    second: Any

    @property
    def context(self) -> Any:  # type: ignore[override]
        return self.second.context

    def value(self, shift: Shift) -> jax.Array:
        return self.stretcher.correction(self.context, self.second, shift)

    def parity(self, axis: str) -> int | None:
        own = self.second.view.parity(axis)
        return 1 - own if own is not None and axis == self.second.axis else own

    def __repr__(self) -> str:
        return f"the layer's part of {self.second}"

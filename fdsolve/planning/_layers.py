"""Damping layers along walls: added to rates, and a factor on the values that plain rules give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import PlanningError
from ..field import AbstractBoundary, AbstractLayer, Rate
from ..region import Points
from ..stencil import Reader, RuleContext, WholeRead, take_value, trace
from ._phases import FieldPhase, LayerSpan, Span, is_initial
from ._pml import Stretch
from ._walls import Side


@dataclass(frozen=True, eq=False)
class Standing:
    """What else decides how a rule is traced: the wall its points lie on, where that counts, and the layers there."""

    side: Side | None = None
    layers: tuple[LayerSpan, ...] = ()
    stretches: tuple[Stretch, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for what is traced alike."""
        damped = tuple((layer.index, layer.side) for layer in self.layers)
        return self.side, damped, tuple(stretch.side for stretch in self.stretches)

    def normal(self, ndim: int) -> tuple[int, ...] | None:
        """The outward direction of the wall."""
        return None if self.side is None else self.side.normal(ndim)


@dataclass(frozen=True, eq=False)
class Damper:
    """One layer as a rule calls it. Made before tracing: an array made while tracing belongs to the trace."""

    layer: LayerSpan
    evaluators: tuple[Any, ...]

    @classmethod
    def of(cls, book: Any, name: str, layer: LayerSpan) -> "Damper":
        rule, what = layer.assignment.rule, layer.assignment.describe(name)
        if book.problem.scope.grid.time is None:
            raise PlanningError(f"{what}: a sponge damps in time, and the grid has no time axis; declare one first.")
        return cls(
            layer,
            tuple(
                book.evaluator(name, layer.index, layer.assignment, one, what, part)
                for part, one in enumerate(rule.coefficients)
            ),
        )

    def strength(self, context: RuleContext) -> tuple[Any, Any]:
        """σ and the target at the rule's point."""
        side, rule = self.layer.side, self.layer.assignment.rule
        assert isinstance(rule, AbstractLayer)
        axis = context.grid.space[side.axis]
        owner = context.grid.space_axis(axis)
        place = context.read_coordinate(axis, context.zero_shift())
        inside = owner.upper - place if side.upper else place - owner.lower
        found = [take_value(evaluate(context)) for evaluate in self.evaluators]
        return rule.damping(jnp.maximum(1 - inside / rule.width, 0), *found), rule.target(*found)

    def damped(self, context: RuleContext, value: Any, adds: bool) -> Any:
        """A new value v as target + (v − target) e^(−σΔt); what is added to it, times e^(−σΔt)."""
        with jax.numpy_dtype_promotion("standard"):  # a real σ meets a complex field
            sigma, target = self.strength(context)
            factor = jnp.exp(-sigma * context.reader(WholeRead("dt"), (), context.scope.real))
            return value * factor if adds else target + (value - target) * factor


def split_by_layers(one: FieldPhase, span: Span, points: Points, levels: np.ndarray) -> list[tuple[Points, Standing]]:
    """The points of a plain rule in groups that lie in the same layers."""
    groups = [(points, Standing(span.side))]
    terms = span.assignment.terms.terms
    first = is_initial(np.logical_or.reduce([term.levels for term in terms]))
    rule = span.assignment.rule
    if span.kind == "rate" or first or levels[0] == 0 or isinstance(rule, AbstractBoundary) or not callable(rule):
        return groups
    for layer in one.layers:
        divided = []
        for group, standing in groups:
            inside, outside = group.intersect(layer.points), group.subtract(layer.points)
            if not outside.empty:
                divided.append((outside, standing))
            if not inside.empty:
                divided.append((inside, Standing(standing.side, (*standing.layers, layer))))
        groups = divided
    return groups


def layer_rule(book: Any, name: str, layer: LayerSpan) -> int:
    """The rate −σ (u − target) of a layer."""
    scope, what = book.problem.scope, layer.assignment.describe(name)
    damper = Damper.of(book, name, layer)

    def call(reader: Reader) -> tuple[Any, list[Any]]:
        context = RuleContext(scope, scope.layouts[name], reader, what, stage=True)
        with jax.numpy_dtype_promotion("standard"):
            sigma, target = damper.strength(context)
            value = context.read_field(name, context.zero_shift())
            return -sigma * (value - target), context.shifted_constants

    return book.number(("layer", name, layer.index, layer.side), lambda: trace(call, what, scope.dtypes[name]))


def note_idle_layers(name: str, phases: Sequence[FieldPhase]) -> list[str]:
    """Layers that damp nothing at any level: no rate and no rule that gives a new value lies in them."""
    found: dict[tuple[int, Side], tuple[LayerSpan, bool]] = {}
    for one in phases:
        for layer in one.layers:
            acts = not one.rates.intersect(layer.points).empty or any(
                callable(span.assignment.rule) and not isinstance(span.assignment.rule, Rate) for span in one.spans
            )
            _, before = found.get((layer.index, layer.side), (layer, False))
            found[layer.index, layer.side] = (layer, before or acts)
    return [
        f"{layer.assignment.describe(name)} has no effect: no rate and no rule gives the values in it"
        for layer, acts in found.values()
        if not acts
    ]

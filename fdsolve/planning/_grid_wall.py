"""The walls at the ends of the grid as boundary conditions see them, and the rules of ghost points beyond them."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import jax

from ..errors import PlanningError
from ..field import AbstractCondition, AbstractEvolving, AbstractWall, Rate, Use
from ..grid import scaling_axes
from ..region import Layout
from ..stencil import Reader, RuleContext, StateRead, Traced, WholeRead, take_value, trace
from ._arcs import coefficients_in_coordinate
from ._beside import NearHoles, holes_key
from ._holes import HoleResolver
from ._phases import FieldPhase, WallSpan
from ._pieces import RuleBook
from ._walls import Side

Evaluator = Callable[[RuleContext], Any]


@dataclass(frozen=True, eq=False)
class Beyond:
    """The ghost points of one layer beyond a wall, and what decides about them."""

    name: str
    span: WallSpan
    layer: int
    use: Use
    remembers: bool


@dataclass(eq=False)
class GridWall(AbstractWall):
    """The wall at an end of the grid, seen from the ghost point in `layer`; reads are offsets from that point."""

    context: RuleContext
    beyond: Beyond
    what: str
    rates: tuple[Evaluator, ...] = ()
    resolver: HoleResolver | None = None

    def __post_init__(self) -> None:
        self.layer, self.use = self.beyond.layer, self.beyond.use
        self.side, self.layout = self.beyond.span.side, self.context.scope.layouts[self.beyond.name]
        self.on_point = self.layout.shift(self._axis_name) == 0
        self.straight = not scaling_axes(self.context.grid.axes, self._axis_name)

    @property
    def _axis_name(self) -> str:
        return self.context.grid.space[self.side.axis]

    def _offset(self, index: int) -> tuple[int, ...]:
        """Index offset from the ghost point to interior point `index`."""
        offset = [0] * len(self.context.grid.space)
        offset[self.side.axis] = -self.side.outward * (self.layer + index)
        return tuple(offset)

    def interior(self, index: int, back: int = 0) -> jax.Array:
        read = self.context.read_state if self.resolver is None else partial(self.resolver, self.context)
        return read(self.beyond.name, -back, self._offset(index))

    def distance(self, index: int) -> Any:
        grid, axis = self.context.grid, self._axis_name
        if grid.space_axis(axis).uniform:
            return float((self.layer + index) * grid.space_axis(axis).step)
        ends = []
        for offset in (0, self._offset(index)[self.side.axis]):
            shift = [Fraction(0)] * len(grid.names)
            shift[grid.names.index(axis)] = Fraction(offset)
            ends.append(self.context.read_coordinate(axis, tuple(shift)))
        return self.side.outward * (ends[0] - ends[1])

    def depths(self, start: int, stop: int) -> tuple[float, ...]:
        axis, face = self.context.grid.space_axis(self._axis_name), self._axis_name in self.layout.faces
        size = axis.size(face)
        if stop > size:
            raise PlanningError(
                f"{self.what} goes through {stop} points behind the wall of axis `{self._axis_name}`, which has "
                f"{size}. Give the axis more points, or the condition a lower order."
            )
        if self.side.upper:
            places = axis.positions(face, size - stop, size - start)[::-1]
            return tuple(float(axis.upper - place) for place in places)
        return tuple(float(place - axis.lower) for place in axis.positions(face, start, stop))

    @property
    def period(self) -> int:
        return self.context.grid.space_axis(self._axis_name).num

    @property
    def remembers(self) -> bool:
        return self.beyond.remembers

    def time_step(self) -> jax.Array:
        return self.context.reader(WholeRead("dt"), (), self.context.scope.real)

    def rate(self, index: int) -> jax.Array:
        if not self.rates:
            raise PlanningError(
                f"{self.what} needs the rate of `{self.beyond.name}` at the wall, and no `fd.rate` is assigned there. "
                f"Give it one, or take Outflow(speed=...)."
            )
        context = self.context
        local = RuleContext(
            context.scope, context.target, context.reader, self.what, stage=True, base=self._offset(index)
        )
        values = [take_value(evaluate(local)) for evaluate in self.rates]
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total


def ghost_rule(book: RuleBook, one: FieldPhase, beyond: Beyond, rate: bool = False, holes: NearHoles = ()) -> int:
    """The rule that gives the ghost points of a layer, or with `rate` their du/dt, from the points behind the wall.

    What of these lies in one of the `holes` is as it is seen from the outermost point.
    """
    name, span = beyond.name, beyond.span
    assignment, side = span.assignment, span.side
    condition = assignment.rule
    assert isinstance(condition, AbstractCondition)
    scope = book.problem.scope
    layout = scope.layouts[name]
    axis = layout.space[side.axis]
    what = f"{assignment.describe(name)} at the {side.word} wall of `{axis}`"
    base, wall_shift = _base(layout, side, beyond.layer)
    # Made before tracing: an array that is made while tracing belongs to the trace.
    evaluators = [
        book.evaluator(name, span.index, assignment, coefficient, what, part)
        for part, coefficient in enumerate(condition.coefficients)
    ]
    own_rates = _own_rates(book, one, beyond, what) if rate else ()
    resolver = HoleResolver(book, holes, what, name, base) if holes else None

    def call(reader: Reader) -> tuple[Any, list[Any]]:
        at_wall = RuleContext(
            scope, layout, reader, what, stage=rate, base=base, wall=wall_shift, normal=side.normal(len(base))
        )
        coefficients = [take_value(evaluate(at_wall)) for evaluate in evaluators]
        wall = GridWall(RuleContext(scope, layout, reader, what, stage=rate), beyond, what, own_rates, resolver)
        wall.paired = (name, side) in book.paired
        with jax.numpy_dtype_promotion("standard"):  # real coefficients and distances meet complex fields
            coefficients = coefficients_in_coordinate(at_wall, axis, condition, coefficients)
            if rate:
                assert isinstance(condition, AbstractEvolving)
                return condition.ghost_rate(wall, *coefficients), at_wall.shifted_constants
            return condition.ghost(wall, *coefficients), at_wall.shifted_constants

    key = ("ghost", name, span.index, side, beyond.layer, beyond.use, beyond.remembers, rate)
    key = (*key, tuple(id(evaluate) for evaluate in own_rates), holes_key(holes))
    return book.number(key, lambda: trace(call, what, scope.dtypes[name]))


def _base(layout: Layout, side: Side, layer: int) -> tuple[tuple[int, ...], dict[str, Fraction]]:
    """Where coefficients are evaluated, seen from a ghost point: the outermost point, moved onto the wall."""
    axis = layout.space[side.axis]
    base = tuple(-side.outward * layer if a == side.axis else 0 for a in range(len(layout.space)))
    return base, {} if layout.shift(axis) == 0 else {axis: Fraction(side.outward, 2)}


def _own_rates(book: RuleBook, one: FieldPhase, beyond: Beyond, what: str) -> tuple[Evaluator, ...]:
    """The rates of a field at a wall: the last one assigned, and what is added to it."""
    found: list[Evaluator] = []
    for span in one.spans:
        if span.kind != "rate" or span.predicate is not None or not isinstance(span.assignment.rule, Rate):
            continue
        if span.points.intersect(beyond.span.points).empty:
            continue
        found = found if span.adds else []
        found.append(book.evaluator(beyond.name, span.index, span.assignment, span.assignment.rule.function, what))
    return tuple(found)


def periodic_rule(book: RuleBook, name: str, side: Side, sign: int) -> int:
    """The rule that copies a ghost point from the other end of a periodic axis, with a sign."""
    scope = book.problem.scope
    layout = scope.layouts[name]
    size = layout.space_shape[side.axis]
    offset = tuple(-side.outward * size if a == side.axis else 0 for a in range(len(layout.space)))
    dtype = scope.dtypes[name]

    def call(reader: Reader) -> tuple[Any, list[Any]]:
        value = reader(StateRead(name, 0, offset), (), dtype)
        return (value if sign == 1 else -value), []

    def make() -> Traced:
        return trace(call, "a periodic copy", dtype)

    number = book.number(("periodic", name, side, sign), make)
    book.copies.add(number)
    return number

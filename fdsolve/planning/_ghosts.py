"""Ghost points: the layers beyond walls and periodic ends that rules read, each a piece like any other."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import PlanningError
from ..field import AbstractWall
from ..region import Box, Part, Points
from ..stencil import Reader, RuleContext, StateRead, Traced, take_value, trace
from ._phases import WallSpan
from ._pieces import Piece, RuleBook
from ._store import Profile
from ._walls import Side

Halo = tuple[tuple[int, ...], tuple[int, ...]]
"""Number of ghost layers below and above, by space axis."""


@dataclass(eq=False)
class GridWall(AbstractWall):
    """The wall at an end of the grid, seen from the ghost point in `layer`; reads are offsets from that point."""

    context: RuleContext
    name: str
    side: Side
    layer: int
    on_point: bool

    def _offset(self, index: int) -> int:
        """Index offset from the ghost point to interior point `index`."""
        return -self.side.outward * (self.layer + index)

    def interior(self, index: int) -> jax.Array:
        offset = [0] * len(self.context.grid.space)
        offset[self.side.axis] = self._offset(index)
        return self.context.read_state(self.name, 0, tuple(offset))

    def distance(self, index: int) -> Any:
        grid = self.context.grid
        axis = grid.space[self.side.axis]
        if grid.space_axis(axis).uniform:
            return float((self.layer + index) * grid.space_axis(axis).step)
        ends = []
        for offset in (0, self._offset(index)):
            shift = [Fraction(0)] * len(grid.names)
            shift[grid.names.index(axis)] = Fraction(offset)
            ends.append(self.context.read_coordinate(axis, tuple(shift)))
        return self.side.outward * (ends[0] - ends[1])


def ghost_rule(book: RuleBook, name: str, span: WallSpan, layer: int) -> int:
    """The rule that gives the ghost points of a layer, from the points behind the wall."""
    assignment, side = span.assignment, span.side
    scope = book.problem.scope
    layout = scope.layouts[name]
    axis = layout.space[side.axis]
    on_point = layout.shift(axis) == 0
    what = f"{assignment.describe(name)} at the {'upper' if side.upper else 'lower'} wall of `{axis}`"
    inwards = -side.outward * layer
    base = tuple(inwards if a == side.axis else 0 for a in range(len(layout.space)))
    wall_shift = {} if on_point else {axis: Fraction(side.outward, 2)}

    # Made before tracing: an array that is made while tracing belongs to the trace.
    evaluators = [
        book.evaluator(name, span.index, assignment, coefficient, what, part)
        for part, coefficient in enumerate(assignment.rule.coefficients)
    ]

    def call(reader: Reader) -> tuple[Any, list[Any]]:
        at_wall = RuleContext(scope, layout, reader, what, base=base, wall=wall_shift)
        coefficients = [take_value(evaluate(at_wall)) for evaluate in evaluators]
        context = RuleContext(scope, layout, reader, what)
        wall = GridWall(context, name, side, layer, on_point)
        with jax.numpy_dtype_promotion("standard"):  # real coefficients and distances meet complex fields
            return assignment.rule.ghost(wall, *coefficients), at_wall.shifted_constants

    return book.number(("ghost", name, span.index, side, layer), lambda: trace(call, what, scope.dtypes[name]))


def periodic_rule(book: RuleBook, name: str, side: Side) -> int:
    """The rule that copies a ghost point from the other end of a periodic axis."""
    scope = book.problem.scope
    layout = scope.layouts[name]
    size = layout.space_shape[side.axis]
    offset = tuple(-side.outward * size if a == side.axis else 0 for a in range(len(layout.space)))
    dtype = scope.dtypes[name]

    def make() -> Traced:
        return trace(lambda reader: (reader(StateRead(name, 0, offset), (), dtype), []), "a periodic copy", dtype)

    return book.number(("periodic", name, side), make)


def ghost_pieces(book: RuleBook, name: str, walls: list[WallSpan], halo: Halo) -> list[Piece]:
    """The ghost pieces of a field, axis by axis, so that corner ghosts are filled from ghosts filled before.

    Periodic axes come last: their ghosts repeat those of the walls beside them.
    """
    layout = book.problem.scope.layouts[name]
    shape, pieces, filled = layout.space_shape, [], []
    for axis_index in sorted(range(len(shape)), key=lambda a: layout.grid.space_axis(layout.space[a]).periodic):
        axis = layout.space[axis_index]
        for upper in (False, True):
            width = halo[1 if upper else 0][axis_index]
            side = Side(axis_index, upper)
            if width == 0:
                continue
            if layout.grid.space_axis(axis).periodic:
                if width > shape[axis_index]:
                    raise PlanningError(
                        f"Axis `{axis}` has {shape[axis_index]} points, and a rule on `{name}` reads {width} points "
                        f"across its period. Give the axis more points."
                    )
                box = _layers(Box.of_shape(shape), side, 1, width, shape)
                box = _extend(box, filled, shape, halo)
                rule = periodic_rule(book, name, side)
                pieces.append(Piece(name, box, rule, None, None, "ghost", False, f"periodic {axis}"))
                continue
            for span in walls:
                if span.side == side:
                    pieces.extend(_wall_pieces(book, name, span, width, filled, halo))
        filled.append(axis_index)
    return pieces


def _wall_pieces(book: RuleBook, name: str, span: WallSpan, width: int, filled: list[int], halo: Halo) -> list[Piece]:
    axis, shape = book.problem.scope.grid.space[span.side.axis], book.problem.scope.layouts[name].space_shape
    if width >= shape[span.side.axis]:
        raise PlanningError(
            f"{span.assignment.describe(name)}: rules read {width} points beyond the wall of axis `{axis}`, which has "
            f"only {shape[span.side.axis]} points to mirror. Give the axis more points."
        )
    pieces = []
    for layer in range(1, width + 1):
        rule = ghost_rule(book, name, span, layer)
        for part in span.points.parts:
            own, mask = _layers(part.box, span.side, layer, 1, shape), None
            box = _extend(own, filled, shape, halo)
            if part.mask is not None:
                grown = [(a - b, d - c) for a, b, c, d in zip(own.start, box.start, own.stop, box.stop, strict=True)]
                mask = f"mask {name} wall {span.index} {span.side.axis} {span.side.upper} {layer} {identity(part)}"
                add_mask(book, mask, np.pad(part.mask, grown, mode="edge"), box.start)
            pieces.append(Piece(name, box, rule, mask, None, "ghost", False, span.assignment.describe(name)))
    return pieces


def identity(*parts: Part) -> str:
    """A short name of a set of points, the same for equal sets."""
    digest = hashlib.sha1()
    for part in parts:
        digest.update(str(part.box).encode())
        if part.mask is not None:
            digest.update(np.packbits(part.mask).tobytes())
    return digest.hexdigest()[:12]


def add_mask(book: RuleBook, key: str, mask: np.ndarray, start: tuple[int, ...]) -> None:
    """Stores a mask over the box that begins at `start` as a profile over the space axes; false elsewhere."""
    box = Box(start, tuple(a + n for a, n in zip(start, mask.shape, strict=True)))
    book.problem.store.masks[key] = Part(box, mask)

    def build(low: tuple[int, ...], high: tuple[int, ...]) -> Any:
        return jnp.asarray(Points.of_mask(box, mask).to_mask(Box(low, high)))

    book.problem.store.profiles.setdefault(key, Profile(book.problem.scope.grid.space, build))


def _layers(box: Box, side: Side, first: int, count: int, shape: tuple[int, ...]) -> Box:
    """The box moved to ghost layers first … first + count − 1 on a side."""
    if side.upper:
        start = shape[side.axis] + first - 1
        return box.with_range(side.axis, start, start + count)
    return box.with_range(side.axis, -first - count + 1, -first + 1)


def _extend(box: Box, filled: list[int], shape: tuple[int, ...], halo: Halo) -> Box:
    """The box grown into the ghosts of the axes filled before, where it touches their ends."""
    for other in filled:
        start = -halo[0][other] if box.start[other] == 0 else box.start[other]
        stop = shape[other] + halo[1][other] if box.stop[other] == shape[other] else box.stop[other]
        box = box.with_range(other, start, stop)
    return box

"""Reads next to a hole: the wall lies half-way, and the condition on it gives the value beyond."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from ..errors import PlanningError
from ..field import AbstractWall, Use
from ..region import Predicate
from ..stencil import ProfileRead, RuleContext, take_value
from ..views import Memo, Shift
from ._arcs import coefficients_in_coordinate
from ._beside import NearHoles, sees_stored
from ._phases import Hole


@dataclass(eq=False)
class HoleWall(AbstractWall):
    """The wall between the last point outside a hole, `base`, and the hole, along one axis."""

    resolver: "HoleResolver"
    context: RuleContext
    name: str
    level: int
    base: tuple[int, ...]
    axis: int
    direction: int
    layer: int
    on_point: bool = False
    use: Use = Use.DIFFUSION
    remembers: bool = False

    def _refuse(self, wanted: str) -> NoReturn:
        raise PlanningError(
            f"{self.resolver.what} reads across the wall of the hole of `{self.name}`: {wanted} is not known there. A "
            f"hole takes conditions of second order: Neumann, Robin, Symmetric, Outflow()."
        )

    def depths(self, start: int, stop: int) -> tuple[float, ...]:
        self._refuse("a polynomial through interior points")

    @property
    def period(self) -> int:
        self._refuse("what lies across a period")

    def time_step(self) -> jax.Array:
        self._refuse("the ghost value of the level before")

    def rate(self, index: int) -> jax.Array:
        self._refuse("the rate behind the wall")

    def interior(self, index: int, back: int = 0) -> jax.Array:
        if index < 0 or back:
            self._refuse("the ghost value of the level before")
        offset = list(self.base)
        offset[self.axis] -= self.direction * index
        value = self.context.read_state(self.name, self.level, tuple(offset))
        if index == 0:
            return value
        return jnp.where(self.resolver.inside(self.context, self.name, tuple(offset)), self.interior(index - 1), value)

    def distance(self, index: int) -> Any:
        grid = self.context.grid
        name = grid.space[self.axis]
        if grid.space_axis(name).uniform:
            return float((self.layer + index) * grid.space_axis(name).step)
        layout = self.context.scope.layouts[self.name]
        local = RuleContext(self.context.scope, layout, self.context.reader, self.resolver.what, base=self.base)
        ends = []
        for step in (self.layer, -index):
            shift = [Fraction(0)] * len(grid.names)
            shift[grid.names.index(name)] = Fraction(self.direction * step)
            ends.append(local.read_coordinate(name, tuple(shift)))
        return self.direction * (ends[0] - ends[1])


@dataclass(eq=False)
class HoleResolver:
    """Answers reads that may fall into holes of the field they read, as seen from the point `stand` away.

    `owner` is the field whose rule it is.
    """

    book: Any
    holes: NearHoles
    what: str
    owner: str
    stand: tuple[int, ...]
    known: Memo = field(default_factory=Memo)

    def __post_init__(self) -> None:
        # Made before tracing: an array that is made while tracing belongs to the trace.
        self.evaluators = {
            (name, hole.index): [
                self.book.evaluator(name, hole.index, hole.assignment, coefficient, self.what, part)
                for part, coefficient in enumerate(hole.assignment.rule.coefficients)
            ]
            for name, hole, _ in self.holes
        }

    def inside(self, context: RuleContext, name: str, offset: tuple[int, ...]) -> jax.Array:
        """Whether the point at an offset lies in any hole of the field."""
        result = jnp.zeros((), bool)
        for owner, hole, mask in self.holes:
            if owner == name:
                result = result | self._in_hole(context, name, hole, mask, offset)
        return result

    def _in_hole(
        self, context: RuleContext, name: str, hole: Hole, mask: str | None, offset: tuple[int, ...]
    ) -> jax.Array:
        if mask is not None:
            return context.reader(ProfileRead(mask, context.grid.space, offset), (), jnp.dtype(bool))
        assert isinstance(hole.predicate, Predicate)
        rings = {context.grid.space[axis] for axis in hole.rings}

        def around(read: Any, *rest: Any) -> jax.Array:
            if isinstance(read, ProfileRead) and read.name.startswith("coordinate ") and rings.issuperset(read.axes):
                read = replace(read, name=f"{read.name} around")
            return context.reader(read, *rest)

        return self.book.holds(name, hole.predicate, around, self.what, offset)

    def __call__(self, context: RuleContext, name: str, level: int, offset: tuple[int, ...]) -> jax.Array:
        if not any(owner == name for owner, _, _ in self.holes):
            return context.read_state(name, level, offset)
        return self.known.take((name, level, offset), lambda: self._read(context, name, level, offset))

    def sees(self, context: RuleContext, derived: Any, shift: Shift) -> bool:
        """Whether what is stored of a view has the value that is seen from here: at the point itself, and on its
        faces."""
        by_axis = dict(zip(context.grid.names, shift, strict=True))
        away = [2 * abs(by_axis[axis] - at) for axis, at in zip(context.grid.space, self.stand, strict=True)]
        if sum(away) > 1 or context.is_between(context.layout_of(derived), shift):
            return False
        name = context.name_derived(derived, context.level_of(shift))
        return sees_stored(self.book, name, self.holes, self.owner)

    def _read(self, context: RuleContext, name: str, level: int, offset: tuple[int, ...]) -> jax.Array:
        plain = context.read_state(name, level, offset)
        if context.scope.layouts[name] != context.target:
            raise PlanningError(
                f"{self.what} reads `{name}` from another place of the staggered grid next to a hole of `{name}`; "
                f"the wall there has no ghost value. Give the hole to fields on the same place, or assign values in it."
            )
        away = tuple(o - s for o, s in zip(offset, self.stand, strict=True))
        moved = [axis for axis, o in enumerate(away) if o]
        if not moved:
            return plain
        if len(moved) == 1:
            return self._along(context, name, level, offset, moved[0], self.stand, plain)
        if any(abs(o) > 1 for o in away):
            raise PlanningError(
                f"{self.what} reads `{name}` at the diagonal offset {away} next to a hole; diagonal reads "
                f"there reach one point along each axis."
            )
        value = context.read_state(name, level, self.stand)
        for axis in moved:
            base = list(offset)
            base[axis] = self.stand[axis]
            through = self._along(context, name, level, offset, axis, tuple(base), plain)
            value = jnp.where(self.inside(context, name, tuple(base)), value, through)
        return jnp.where(self.inside(context, name, offset), value, plain)

    def _along(
        self,
        context: RuleContext,
        name: str,
        level: int,
        offset: tuple[int, ...],
        axis: int,
        start: tuple[int, ...],
        plain: jax.Array,
    ) -> jax.Array:
        """The read along one axis from `start`: beyond the first hole point, the ghost value of its condition."""
        away = offset[axis] - start[axis]
        direction, reach = (1 if away > 0 else -1), abs(away)
        value = plain
        for first in range(reach, 0, -1):
            at, base = list(start), list(start)
            at[axis] = start[axis] + direction * first
            base[axis] = at[axis] - direction
            for owner, hole, mask in self.holes:
                if owner != name:
                    continue
                wall = HoleWall(self, context, name, level, tuple(base), axis, direction, reach - first + 1)
                ghost = self._ghost(context, hole, wall)
                value = jnp.where(self._in_hole(context, name, hole, mask, tuple(at)), ghost, value)
        return value

    def _ghost(self, context: RuleContext, hole: Hole, wall: HoleWall) -> jax.Array:
        condition = hole.assignment.rule
        axis = context.grid.space[wall.axis]
        # An array was given for the points of the hole: it is read there, beyond the wall.
        inside = tuple(b + wall.direction * (a == wall.axis) for a, b in enumerate(wall.base))
        normal = tuple(wall.direction * (a == wall.axis) for a in range(len(wall.base)))
        local = RuleContext(
            context.scope, context.scope.layouts[wall.name], context.reader, self.what, base=wall.base,
            wall={axis: Fraction(wall.direction, 2)}, level=wall.level, entry=inside, normal=normal,
        )  # fmt: skip
        coefficients = [take_value(evaluate(local)) for evaluate in self.evaluators[wall.name, hole.index]]
        with jax.numpy_dtype_promotion("standard"):  # as at the walls of the grid
            coefficients = coefficients_in_coordinate(local, axis, condition, coefficients)
            return jnp.asarray(condition.ghost(wall, *coefficients))


@dataclass(eq=False)
class FaceResolver:
    """Answers the reads of what lies on a face beside a hole: as they are seen from its lower point, or from its upper
    one where the lower is in the hole."""

    lower: HoleResolver
    upper: HoleResolver

    def __call__(self, context: RuleContext, name: str, level: int, offset: tuple[int, ...]) -> jax.Array:
        seen = [one(context, name, level, offset) for one in (self.lower, self.upper)]
        if seen[0] is seen[1]:
            return seen[0]
        return jnp.where(self.lower.inside(context, name, self.lower.stand), seen[1], seen[0])

    def sees(self, context: RuleContext, derived: Any, shift: Shift) -> bool:
        """Whether what is stored of a view at a place is as seen from here: on the face itself."""
        return all(one.sees(context, derived, shift) for one in (self.lower, self.upper))


def resolver_beside(book: Any, holes: NearHoles, what: str, owner: str, halves: Sequence[int]) -> Any:
    """The resolver of a view so many half steps away from the points of its owner, axis by axis; none without holes."""
    if not holes:
        return None
    below, above = (tuple((half + side) // 2 for half in halves) for side in (0, 1))
    lower = HoleResolver(book, holes, what, owner, below)
    return lower if above == below else FaceResolver(lower, HoleResolver(book, holes, what, owner, above))

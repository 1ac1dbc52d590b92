"""The reference: a declaration evaluated point by point in plain Python, slow and obviously right.

The value of a point is that of the last assignment that covers it; same-level reads are evaluated first, by
recursion; ghosts come from the formulas of the boundary conditions. It shares no code with fdsolve.
"""

import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .declarations import Condition, Declaration, Expr, Rule, Values
from .reference_expressions import Expressions, Shift, Stand
from .reference_geometry import index_positions, place_weight
from .reference_rules import Moment, Point

STAGES = {
    "Euler": ([[]], [1.0], [0.0]),
    "Heun": ([[], [1.0]], [0.5, 0.5], [0.0, 1.0]),
    "RK4": ([[], [0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6], [0.0, 0.5, 0.5, 1.0]),
}
Wall = tuple[int, int] | None
"""Where a coefficient stands: half a step along an axis, up or down; None for a wall on the point itself."""


class Cycle(Exception):
    """Points that read each other at their own level."""


class Beyond(Exception):
    """A point beyond a wall that no condition gives a value."""


class Reference(Expressions):
    """One declaration, level by level."""

    def __init__(self, declaration: Declaration):
        super().__init__(declaration)
        self.moments: list[Moment] = []

    def solve(self) -> dict[str, np.ndarray]:
        """The values of all levels (of the only one, where there is no time); nan inside holes."""
        for level, time in enumerate(self.times):
            moment = Moment(level, 1.0, float(time))
            if level:
                moment.given = self._advanced(level)
            self.moments.append(moment)
            for name, point in self._all_points():
                self.value(moment, name, point)
        found = {}
        for name, place in self.places.items():
            array = np.zeros((len(self.times), *place.shape), complex)
            for moment in self.moments:
                for point in np.ndindex(*place.shape):
                    cut = self.assignments.hole(name, len(self.times) - 1, point) is not None
                    array[(moment.level, *point)] = np.nan if cut else moment.values[name, point]
            found[name] = array if self.assignments.timed else array[0]
        return found

    def _all_points(self) -> list[tuple[str, Point]]:
        return [(name, point) for name, place in self.places.items() for point in np.ndindex(*place.shape)]

    def value(self, moment: Moment, name: str, point: Point) -> Any:
        """The value of a field at a point of a moment, ghosts included."""
        key = name, point
        if key in moment.values:
            return moment.values[key]
        if key in moment.busy:
            raise Cycle(key)
        moment.busy.add(key)
        shape = self.places[name].shape
        if all(0 <= p < n for p, n in zip(point, shape, strict=True)):
            found = self._inner_value(moment, name, point)
        else:
            found = self._ghost(moment, name, point)
        moment.busy.discard(key)
        moment.values[key] = found
        return found

    def _inner_value(self, moment: Moment, name: str, point: Point) -> Any:
        if self.assignments.hole(name, moment.level, point) is not None:
            return 0.0
        rule, added = self.assignments.value_rules(name, moment, point)
        total = moment.given[name, point] if rule is None else self.body(rule, moment, name, point)
        for one in added:
            total = total + self.body(one, moment, name, point)
        return total

    def body(self, rule: Rule, moment: Moment, name: str, point: Point) -> Any:
        """What a rule gives at a point."""
        body = rule.body.coefficients[0] if isinstance(rule.body, Condition) else rule.body
        found = self.coefficient(rule, body, moment, name, point, None)
        if rule.region.kind == "place":
            found = found * place_weight(rule.region, self.places[name], point)
        return found

    def coefficient(self, rule: Rule, body: Any, moment: Moment, name: str, point: Point, wall: Wall) -> Any:
        """A number, array or expression of a rule at a point, with coordinates at the wall beside it."""
        if isinstance(body, Values):
            return self._entry(rule, body, moment, name, point)
        stand = self.stand(moment, name, point)
        if wall is not None:
            stand.coordinates = tuple(h + (wall[1] if a == wall[0] else 0) for a, h in enumerate(stand.coordinates))
        return self.evaluate(body, stand)

    def _entry(self, rule: Rule, values: Values, moment: Moment, name: str, point: Point) -> Any:
        """The entry of an assigned array at a point; at corner ghosts that of the mirrored point."""
        place = self.places[name]
        picked = index_positions(rule.region, place, self.assignments.timed)
        keys = [k for k in rule.region.args if k is not Ellipsis]
        dropped = [isinstance(k, int) for k in keys] + [False] * (len(picked) - len(keys))
        inner = [x.mirror(p, n in place.faces) for x, p, n in zip(place.axes, point, place.names, strict=True)]
        shape = [len(p) for p, gone in zip(picked, dropped, strict=True) if not gone]

        def at(level: int) -> Any:
            full = [level, *inner] if self.assignments.timed else inner
            entry = [p.index(i) for p, i, gone in zip(picked, full, dropped, strict=True) if not gone]
            return np.broadcast_to(values.array, shape)[tuple(entry)]

        if moment.fraction == 1.0 or np.ndim(values.array) < len(shape):
            return at(moment.level)
        return at(moment.level - 1) * (1 - moment.fraction) + at(moment.level) * moment.fraction

    def _ghost(self, moment: Moment, name: str, point: Point) -> Any:
        """A point beyond walls: periodic images first, then the condition on the last axis it lies beyond."""
        place = self.places[name]
        wrapped = tuple(
            p % n if axis.line.periodic else p for p, n, axis in zip(point, place.shape, place.axes, strict=True)
        )
        if wrapped != point:
            return self.value(moment, name, wrapped)
        axis = max(a for a, (p, n) in enumerate(zip(point, place.shape, strict=True)) if not 0 <= p < n)
        upper, size = point[axis] >= 0, place.shape[axis]
        layer = point[axis] - size + 1 if upper else -point[axis]
        nearest = tuple(min(max(p, 0), n - 1) for p, n in zip(point, place.shape, strict=True))
        rule = self.assignments.wall_condition(name, moment, (axis, upper), nearest)
        if rule is None:
            raise Beyond(name, point)
        sign, on_wall = (1 if upper else -1), self.assignments.on_wall(name, axis)
        base = _along(point, axis, size - 1 if upper else 0)
        mirror = _along(base, axis, base[axis] - sign * (layer if on_wall else layer - 1))
        wall = None if on_wall else (axis, sign)
        found = [self.coefficient(rule, c, moment, name, base, wall) for c in rule.body.coefficients]
        at_wall = self.value(moment, name, base) if on_wall and rule.body.kind == "robin" else None
        inner = HoleReader(self, moment, name, base).read(mirror)
        return ghost_value(rule.body.kind, found, inner, self.distance(name, axis, point, mirror), at_wall)

    def distance(self, name: str, axis: int, a: Point, b: Point) -> float:
        """The distance of two points of a field along an axis."""
        ends = [self.lines[axis].position(2 * p[axis] + self.places[name].shifts[axis]) for p in (a, b)]
        return abs(ends[0] - ends[1])

    def read_field(self, name: str, stand: Stand, level: int, shift: Shift) -> Any:
        place = self.places[name]
        entries = [Fraction(h - s) / 2 + by for h, s, by in zip(stand.reads, place.shifts, shift, strict=True)]
        assert all(e.denominator == 1 for e in entries), f"{name} has no point {entries}"
        moment = stand.moment if level == 0 else self.moments[stand.moment.level + level]
        point = tuple(int(e) for e in entries)
        if place.faces != self.places[stand.owner].faces:
            return self.value(moment, name, point)
        start = tuple((h - s) // 2 for h, s in zip(stand.reads, place.shifts, strict=True))
        return HoleReader(self, moment, name, start).read(point)

    def _advanced(self, level: int) -> dict[tuple[str, Point], Any]:
        """Values at a level of the points that have a rate, by the stepper's stages."""
        before, step = self.moments[-1], self.times[min(1, len(self.times) - 1)] - self.times[0]
        keys = [key for key in self._all_points() if self.assignments.has_rate(key[0], level, key[1])]
        rows, weights, fractions = STAGES[self.declaration.stepper]
        slopes: list[dict[tuple[str, Point], Any]] = []

        def advance(weights: list[float]) -> dict[tuple[str, Point], Any]:
            """The values after a step with a weighted sum of the slopes so far."""
            return {
                k: before.values[k] + step * sum(w * s[k] for w, s in zip(weights, slopes, strict=True)) for k in keys
            }

        for row, fraction in zip(rows, fractions, strict=True):
            moment = before  # the first stage is the level before, as it was completed
            if slopes:
                moment = Moment(level, fraction, before.time + fraction * step, given=advance(row))
            slopes.append({key: self._rate(moment, level, *key) for key in keys})
        return advance(weights)

    def _rate(self, moment: Moment, level: int, name: str, point: Point) -> Any:
        """du/dt at a point of a stage on the way to a level."""
        look = Moment(level, moment.fraction, moment.time)
        rules = self.assignments.rate_rules(name, look, point)
        return sum(self._rate_body(rule, moment, look, name, point) for rule in rules)

    def _rate_body(self, rule: Rule, moment: Moment, look: Moment, name: str, point: Point) -> Any:
        return self.body(rule, look if isinstance(rule.body, Values) else moment, name, point)


def _along(point: Point, axis: int, at: int) -> Point:
    return tuple(at if a == axis else p for a, p in enumerate(point))


def ghost_value(kind: str, coefficients: list[Any], inner: Any, distance: float, at_wall: Any) -> Any:
    """The ghost across a wall from `inner`, `distance` away; `at_wall` is the value on the wall, None if none is."""
    if kind == "dirichlet":
        return 2 * coefficients[0] - inner
    if kind == "neumann":
        return inner + distance * coefficients[0]
    a, b, g = coefficients
    if at_wall is not None:
        return inner + distance * (g - a * at_wall) / b
    # a (ghost + inner) / 2 + b (ghost − inner) / distance = g
    return (g - inner * (a / 2 - b / distance)) / (a / 2 + b / distance)


@dataclass
class HoleReader:
    """Reads of a field from one of its points, across the walls of holes half-way between points."""

    reference: Reference
    moment: Moment
    name: str
    start: Point

    def read(self, point: Point) -> Any:
        """The value at `point`, or the ghost value that a hole's condition gives there."""
        moved = [a for a, (p, s) in enumerate(zip(point, self.start, strict=True)) if p != s]
        if len(moved) == 1:
            return self._through(self.start, point, moved[0])
        if not moved or not self._cut(point):
            return self.reference.value(self.moment, self.name, point)
        # A diagonal read: along the last axis whose other neighbour lies outside the hole, if there is any.
        for axis in reversed(moved):
            base = _along(point, axis, self.start[axis])
            if not self._cut(base):
                return self._through(base, point, axis)
        return self.reference.value(self.moment, self.name, self.start)

    def _cut(self, point: Point) -> Rule | None:
        shape = self.reference.places[self.name].shape
        if not all(0 <= p < n for p, n in zip(point, shape, strict=True)):
            return None
        return self.reference.assignments.hole(self.name, self.moment.level, point)

    def _through(self, start: Point, point: Point, axis: int) -> Any:
        """A read along one axis: beyond the first point inside a hole, the ghost of its condition."""
        step, reach = (1 if point[axis] > start[axis] else -1), abs(point[axis] - start[axis])
        path = [_along(start, axis, start[axis] + step * k) for k in range(reach + 1)]
        first = next((k for k in range(1, reach + 1) if self._cut(path[k])), None)
        if first is None:
            return self.reference.value(self.moment, self.name, point)
        rule, base, layer = self._cut(path[first]), path[first - 1], reach - first + 1
        assert rule is not None
        inner = base
        for k in range(1, layer):
            further = _along(base, axis, base[axis] - step * k)
            if self._cut(further):
                break
            inner = further
        # Arrays are given for the points of the hole, all else is taken on this side of its wall.
        places = [path[first] if isinstance(c, Values) else base for c in rule.body.coefficients]
        found = [
            self.reference.coefficient(rule, c, self.moment, self.name, at, (axis, step))
            for c, at in zip(rule.body.coefficients, places, strict=True)
        ]
        value = self.reference.value(self.moment, self.name, inner)
        ghost = _along(base, axis, base[axis] + step * layer)
        return ghost_value(rule.body.kind, found, value, self.reference.distance(self.name, axis, ghost, inner), None)


def solve(declaration: Declaration) -> dict[str, np.ndarray]:
    """The reference's answer: each field's history (or its values, where there is no time)."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10_000))  # a recurrence is as deep as it is long
    try:
        return Reference(declaration).solve()
    finally:
        sys.setrecursionlimit(limit)


__all__ = ["Beyond", "Cycle", "Expr", "Reference", "solve"]

"""Expressions at a place: coordinates, parameters, neighbours and differences, number by number."""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .declarations import Declaration, Expr, Labelled
from .reference_geometry import Axis, central_steps, difference_weights
from .reference_rules import Assignments, Moment, Point

Shift = tuple[Fraction, ...]
FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sin": np.sin,
    "tanh": np.tanh,
    "exp": np.exp,
    "abs": abs,
    "maximum": max,
    "choose": lambda a, b, c, d: a if b > c else d,
}


@dataclass
class Stand:
    """Where an expression is evaluated: the half steps that reads start from, and those of coordinates."""

    moment: Moment
    reads: Point
    coordinates: tuple[int, ...]
    owner: str


class Expressions:
    """Evaluates expressions; who inherits it says what the value of a field is."""

    def __init__(self, declaration: Declaration):
        self.declaration = declaration
        self.assignments = Assignments(declaration, self._positive)
        self.places = self.assignments.places
        self.axes = self.assignments.axes
        self.times = self.assignments.times
        self.lines = tuple(Axis(line) for line in declaration.lines.values())

    @abstractmethod
    def read_field(self, name: str, stand: Stand, level: int, shift: Shift) -> Any:
        """The value of a field, seen from a place."""

    def _positive(self, predicate: Expr, moment: Moment, name: str, point: Point) -> bool:
        return bool(self.evaluate(predicate, self.stand(moment, name, point)) > 0)

    def stand(self, moment: Moment, name: str, point: Point) -> Stand:
        """A point of a field as a place."""
        halves = tuple(2 * p + s for p, s in zip(point, self.places[name].shifts, strict=True))
        return Stand(moment, halves, halves, name)

    def evaluate(self, expr: Any, stand: Stand, level: int = 0, shift: Shift | None = None) -> Any:
        """An expression at a place, seen from `shift` steps away and `level` levels on."""
        if not isinstance(expr, Expr):
            return expr
        shift = shift or (Fraction(0),) * len(self.axes)
        op, args = expr.op, expr.args
        if op == "name":
            return self._named(args[0], stand)
        if op == "view":
            return self._read(args[0], stand, level, shift)
        if op == "place":
            a = self.axes.index(args[0])
            return self._position(a, stand.coordinates[a] + 2 * shift[a])
        if op in ("at", "moved"):
            by = dict(args[1])
            moved = tuple(s + by.get(name, 0) for s, name in zip(shift, self.axes, strict=True))
            return self.evaluate(args[0], stand, level + int(by.get("t", 0)), moved)
        if op == "derivative":
            return self._derivative(*args, stand, level, shift)
        if op == "laplacian":
            return sum(self._derivative(args[0], axis, 2, 2, stand, level, shift) for axis in args[1])
        if op == "divergence":
            return sum(self._flux_divergence(args[0], args[1], axis, stand, level, shift) for axis in args[2])
        return FUNCTIONS[op](*(self.evaluate(part, stand, level, shift) for part in args))

    def _named(self, name: str, stand: Stand) -> Any:
        if name in self.axes:
            a = self.axes.index(name)
            return self._position(a, stand.coordinates[a])
        if name == "t":
            return stand.moment.time
        if name == "dt":
            return self.times[1] - self.times[0]
        if name[0] == "d" and name[1:] in self.axes:
            a = self.axes.index(name[1:])
            return self.lines[a].spacing(stand.reads[a])
        return self.declaration.parameters[name]

    def _position(self, axis: int, half: Fraction | int) -> float:
        assert half == int(half)
        return self.lines[axis].position(int(half))

    def _read(self, name: str, stand: Stand, level: int, shift: Shift) -> Any:
        if name in self.places:
            return self.read_field(name, stand, level, shift)
        halves = [h + 2 * s for h, s in zip(stand.reads, shift, strict=True)]
        parameter = self.declaration.parameters[name]
        assert isinstance(parameter, Labelled)
        at, array = [], parameter.array
        if parameter.axes[0] == "t":
            exact = stand.moment.level - 1 + stand.moment.fraction + level
            left = min(max(int(np.floor(exact + 1e-9)), 0), len(array) - 1)
            right = min(left + 1, len(array) - 1)
            share = min(max(exact - left, 0.0), 1.0)
            array = array[left] * (1 - share) + array[right] * share
        for axis_name in parameter.axes:
            if axis_name == "t":
                continue
            a, face = self.axes.index(axis_name), axis_name in parameter.faces
            axis = self.lines[a]
            entry = Fraction(halves[a] - axis.shift(face), 2)
            assert entry.denominator == 1
            at.append(axis.mirror(int(entry), face))
        return array[tuple(at)]

    def _parity(self, expr: Any, axis: str) -> int | None:
        """Where the points of a view lie on an axis, in half steps modulo 2; None for anywhere."""
        if not isinstance(expr, Expr):
            return None
        if expr.op == "view":
            name, a = expr.args[0], self.axes.index(axis)
            if name in self.places:
                return self.places[name].shifts[a]
            parameter = self.declaration.parameters[name]
            line = self.lines[a]
            return line.shift(axis in parameter.faces) if axis in parameter.axes else None
        found = (self._parity(part, axis) for part in expr.args)
        own = next((parity for parity in found if parity is not None), None)
        if expr.op == "moved" and own is not None:
            return int(own - 2 * dict(expr.args[1]).get(axis, Fraction(0))) % 2
        return own

    def _derivative(self, of: Expr, axis: str, n: int, order: int, stand: Stand, level: int, shift: Shift) -> Any:
        a, own = self.axes.index(axis), self._parity(of, axis)
        here = stand.reads[a] + 2 * shift[a]
        steps = central_steps(n, order, own is not None and own != here % 2)
        offsets = [self._position(a, here + 2 * s) - self._position(a, here) for s in steps]
        weights = difference_weights(n, offsets)
        terms = (w * self.evaluate(of, stand, level, _moved(shift, a, s)) for w, s in zip(weights, steps, strict=True))
        return sum(terms)

    def _flux_divergence(self, k: Any, of: Expr, axis: str, stand: Stand, level: int, shift: Shift) -> Any:
        a = self.axes.index(axis)
        here = stand.reads[a] + 2 * shift[a]
        fluxes = [self._flux(k, of, axis, side, stand, level, shift) for side in (-1, 1)]
        return (fluxes[1] - fluxes[0]) / (self._position(a, here + 1) - self._position(a, here - 1))

    def _flux(self, k: Any, of: Expr, axis: str, side: int, stand: Stand, level: int, shift: Shift) -> Any:
        """k ∂u/∂axis half a step to one side; a coefficient given as an array is not mirrored beyond walls.

        Half a step beyond a node wall stands the flux whose mean with the one inside is that through the wall. On the
        wall of a cell axis the coefficient is extrapolated. (All walls of these declarations let something through.)
        """
        a, half = self.axes.index(axis), Fraction(1, 2)
        here = stand.reads[a] + 2 * shift[a]
        face, line = here + side, self.lines[a]
        given = isinstance(k, Expr) and k.op == "view" and k.args[0] in self.declaration.parameters
        outside = given and not line.line.periodic and not 0 < face < line.halves
        at_points = self._parity(k, axis) == here % 2
        if outside and not 0 <= face <= line.halves:
            value = [self.evaluate(of, stand, level, _moved(shift, a, Fraction(by))) for by in (-1, 1)]
            slope = (value[1] - value[0]) / (self._position(a, here + 2) - self._position(a, here - 2))
            inside = [_moved(shift, a, -side * by) for by in ((0, 1) if at_points else (half, 3 * half))]
            ends = [self.evaluate(k, stand, level, place) for place in inside]
            if not at_points:
                near, far = (abs(self._position(a, here - side * by) - self._position(a, here)) for by in (1, 3))
                ends[0] = (ends[0] * far - ends[1] * near) / (far - near)
            return 2 * ends[0] * slope - self._flux(k, of, axis, -side, stand, level, shift)
        ends = [
            _moved(shift, a, by)
            for by in ((Fraction(0), Fraction(side)) if side > 0 else (Fraction(side), Fraction(0)))
        ]
        distance = self._position(a, face + 1) - self._position(a, face - 1)
        left, right = (self.evaluate(of, stand, level, end) for end in ends)
        if not at_points:
            weight = self.evaluate(k, stand, level, _moved(shift, a, side * half))
        elif outside:
            near, far = (abs(self._position(a, here - side * by) - self._position(a, face)) for by in (0, 2))
            one, two = (self.evaluate(k, stand, level, _moved(shift, a, Fraction(-side * by))) for by in (0, 1))
            weight = (one * far - two * near) / (far - near)
        else:
            weight = sum(0.5 * self.evaluate(k, stand, level, end) for end in ends)
        return weight * (right - left) / distance


def _moved(shift: Shift, axis: int, by: Fraction) -> Shift:
    return tuple(s + (by if a == axis else 0) for a, s in enumerate(shift))

"""Where points lie, which regions hold them, and finite-difference weights: the geometry of the reference."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import factorial
from typing import Any

import numpy as np

from .declarations import Declaration, Line, Region, Unknown


@dataclass(frozen=True)
class Axis:
    """Places of one axis in half steps from the lower wall: h = 2i + shift for the point (or face) of index i."""

    line: Line

    @property
    def halves(self) -> int:
        """Half steps between the walls."""
        closed = self.line.cells or self.line.periodic
        return 2 * (self.line.num if closed else self.line.num - 1)

    def shift(self, face: bool) -> int:
        return 1 if face != self.line.cells else 0

    def size(self, face: bool) -> int:
        if not face or self.line.periodic:
            return self.line.num
        return self.line.num + 1 if self.line.cells else self.line.num - 1

    def position(self, half: int) -> float:
        """The coordinate of a place; beyond walls mirrored, on a periodic axis one period on."""
        line = self.line
        if line.periodic:
            turns = half // self.halves
            return self._inside(half - turns * self.halves) + turns * (line.upper - line.lower)
        if half < 0:
            return 2 * line.lower - self.position(-half)
        if half > self.halves:
            return 2 * line.upper - self.position(2 * self.halves - half)
        return self._inside(half)

    def _inside(self, half: int) -> float:
        line = self.line
        if line.points is None:
            return line.lower + half * (line.upper - line.lower) / self.halves
        points, own = line.points, half % 2 == self.shift(False)
        if own:
            return points[(half - self.shift(False)) // 2]
        if half == 0:
            return line.lower
        if half == self.halves and not line.periodic:
            return line.upper
        left = (half - 1 - self.shift(False)) // 2
        right = points[left + 1] if left + 1 < len(points) else points[0] + (line.upper - line.lower)
        return 0.5 * (points[left] + right)

    def spacing(self, half: int) -> float:
        """Half the distance between the neighbours of a place."""
        return 0.5 * (self.position(half + 2) - self.position(half - 2))

    def mirror(self, entry: int, face: bool) -> int:
        """The entry of an array along the axis that stands for one beyond the walls."""
        size, shift = self.size(face), self.shift(face)
        if self.line.periodic:
            return entry % size
        half = abs(2 * entry + shift)
        if half > self.halves:
            half = 2 * self.halves - half
        return (half - shift) // 2


@dataclass(frozen=True)
class Place:
    """The index space of one field: axes in order, and on which of them it lies on faces."""

    names: tuple[str, ...]
    axes: tuple[Axis, ...]
    faces: frozenset[str]
    levels: int

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size(name in self.faces) for name, axis in zip(self.names, self.axes, strict=True))

    @property
    def shifts(self) -> tuple[int, ...]:
        return tuple(axis.shift(name in self.faces) for name, axis in zip(self.names, self.axes, strict=True))


def place_of(declaration: Declaration, unknown: Unknown) -> Place:
    """Where the points of an unknown lie."""
    levels = declaration.times[2] if declaration.times else 1
    axes = tuple(Axis(line) for line in declaration.lines.values())
    return Place(tuple(declaration.lines), axes, unknown.faces, levels)


def times_of(declaration: Declaration) -> np.ndarray:
    """The time of every level."""
    return np.linspace(*declaration.times) if declaration.times else np.zeros(1)


def difference_weights(n: int, offsets: list[float]) -> list[float]:
    """Weights of the n-th derivative at 0: n! times the n-th coefficient of each Lagrange polynomial."""
    found = []
    for j, own in enumerate(offsets):
        others = [x for k, x in enumerate(offsets) if k != j]
        scale = np.prod([own - x for x in others])
        coefficients = np.atleast_1d(np.poly(others))[::-1] / scale
        found.append(float(factorial(n) * coefficients[n]))
    return found


def central_steps(n: int, order: int, half_way: bool) -> list[Fraction]:
    """The places of a central difference of even order, in steps: whole ones, or halves."""
    if half_way:
        reach = (n + order) // 2 if n % 2 == 0 else (n + order - 1) // 2
        return [Fraction(2 * k + 1, 2) for k in range(-reach, reach)]
    reach = (n + 1) // 2 + order // 2 - 1
    return [Fraction(k) for k in range(-reach, reach + 1)]


Test = Callable[[Any, tuple[int, ...]], bool]
"""Whether a run-time predicate, an expression, is positive at a point."""


def axis_positions(key: Any, size: int) -> list[int]:
    """What an integer, slice or list of positions picks, as in NumPy."""
    if isinstance(key, slice):
        return list(range(size))[key]
    return [k % size for k in (key if isinstance(key, list | tuple) else [key])]


def index_positions(region: Region, place: Place, timed: bool) -> list[list[int]]:
    """The positions an index region picks, axis by axis, time first where there is time."""
    sizes = ((place.levels,) if timed else ()) + place.shape
    keys = list(region.args)
    if Ellipsis in [k for k in keys if k is Ellipsis]:
        dots = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys[dots : dots + 1] = [slice(None)] * (len(sizes) - len(keys) + 1)
    keys += [slice(None)] * (len(sizes) - len(keys))
    return [axis_positions(key, size) for key, size in zip(keys, sizes, strict=True)]


def holds(
    region: Region, place: Place, times: np.ndarray, timed: bool, level: int, point: tuple[int, ...], test: Test
) -> bool:
    """Whether a point of a level lies in a region."""
    if region.kind == "index":
        picked = index_positions(region, place, timed)
        full = ((level,) if timed else ()) + point
        return all(p in allowed for p, allowed in zip(full, picked, strict=True))
    if region.kind == "loc":
        for name, wanted in region.args[0].items():
            if name == "t":
                here, step = times[level], times[1] - times[0]
            else:
                a = place.names.index(name)
                half = 2 * point[a] + place.shifts[a]
                here, step = place.axes[a].position(half), place.axes[a].spacing(half)
            low, high = wanted if isinstance(wanted, tuple) else (wanted, wanted)
            if (low is not None and here < low - 1e-6 * step) or (high is not None and here > high + 1e-6 * step):
                return False
        return True
    if region.kind == "where":
        return test(region.args[0], point)
    if region.kind == "mask":
        mask = np.asarray(region.args[0])
        return bool(mask[point] if mask.shape == place.shape else mask[(level, *point)])
    inner = [holds(part, place, times, timed, level, point, test) for part in region.args]
    if region.kind == "~":
        return not inner[0]
    return {"|": any(inner), "&": all(inner), "-": inner[0] and not inner[-1]}[region.kind]


def place_weight(region: Region, place: Place, point: tuple[int, ...]) -> float:
    """The multilinear weight of a grid point for a place between points."""
    weight = 1.0
    for a, name in enumerate(place.names):
        at, axis, shift = region.args[0][name], place.axes[a], place.shifts[a]
        own = [axis.position(2 * i + shift) for i in range(place.shape[a])]
        values = [0.0] * len(own)
        values[point[a]] = 1.0
        weight *= float(np.interp(at, own, values))
    return weight

"""Boundary conditions on one line of points, as dense matrices: for their weights, exactness and spectra."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import fdsolve as fd
from fdsolve.field import AbstractCondition, AbstractWall, Use

AXES = {
    "node": lambda n: fd.Axis(0.0, 1.0, num=n),
    "cell": lambda n: fd.Axis(0.0, 1.0, num=n, cells=True),
    "stretched node": lambda n: fd.Axis.from_points(_stretch(np.linspace(0.0, 1.0, n))),
    "stretched cell": lambda n: fd.Axis.from_points(_stretch((np.arange(n) + 0.5) / n), cells=True),
}


def _stretch(x: np.ndarray) -> np.ndarray:
    """A smooth map whose spacing varies by a factor of three."""
    return x + 0.5 * np.sin(2 * np.pi * x) / (2 * np.pi)


@dataclass(eq=False)
class LineWall(AbstractWall):
    """A wall of a line of points; values are vectors: the weights of the points in what is computed."""

    axis: fd.Axis
    upper: bool
    layer: int
    use: Use = Use.DIFFUSION
    face: bool = False

    def __post_init__(self) -> None:
        self.on_point = self.axis.shift(self.face) == 0
        self.size = self.axis.size(self.face)

    def interior(self, index: int, back: int = 0) -> Any:
        assert 0 <= index < self.size
        return np.eye(self.size)[self.size - 1 - index if self.upper else index]

    def distance(self, index: int) -> float:
        return self.depths(index, index + 1)[0] - self.depths(-self.layer, 1 - self.layer)[0]

    def depths(self, start: int, stop: int) -> tuple[float, ...]:
        if self.upper:
            places = self.axis.positions(self.face, self.size - stop, self.size - start)[::-1]
            return tuple(float(self.axis.upper - place) for place in places)
        return tuple(float(place - self.axis.lower) for place in self.axis.positions(self.face, start, stop))

    @property
    def period(self) -> int:
        return self.axis.num

    @property
    def remembers(self) -> bool:
        return False

    def time_step(self) -> Any:
        raise AssertionError("no time on a line")

    def rate(self, index: int) -> Any:
        raise AssertionError("no rates on a line")


def ghost(condition: AbstractCondition, wall: LineWall, data: tuple[float, ...]) -> np.ndarray:
    """Weights of the points in a ghost value for homogeneous data (`data` are the coefficients, with 0 for g)."""
    return np.asarray(condition.ghost(wall, *data), float)


def extension(
    axis: fd.Axis,
    ends: tuple[AbstractCondition, AbstractCondition],
    reach: int,
    use: Use,
    face: bool = False,
) -> np.ndarray:
    """The matrix from the points of a line to these and `reach` ghost points at either end, for homogeneous data."""
    rows = []
    for condition, upper in zip(ends, (False, True), strict=True):
        data = tuple(0.0 if i == len(condition.coefficients) - 1 else c for i, c in enumerate(condition.coefficients))
        walls = [LineWall(axis, upper, layer, use, face) for layer in range(1, reach + 1)]
        rows.append([ghost(condition, wall, data) for wall in walls])
    return np.array([*rows[0][::-1], *np.eye(axis.size(face)), *rows[1]])


def difference(axis: fd.Axis, derivative: int, order: int, source: bool = False, target: bool = False) -> np.ndarray:
    """The matrix of a central difference from a line with its ghost points to the line; and back from faces."""
    if source == target:
        reach = (derivative + 1) // 2 + order // 2 - 1
        offsets = np.arange(-reach, reach + 1)
    else:
        reach = order // 2
        offsets = np.arange(-reach, reach) + (1 if axis.shift(source) < axis.shift(target) else 0)
    size, count = axis.size(target), axis.size(source)
    ghosts = int(max(-offsets.min(), offsets.max() + size - count))
    places = axis.positions(source, -ghosts, count + ghosts)
    matrix = np.zeros((size, count + 2 * ghosts))
    for row, here in enumerate(axis.positions(target, 0, size)):
        columns = row + offsets + ghosts
        matrix[row, columns] = fd.schemes.weights(derivative, tuple(places[columns] - here))
    return matrix


def closed(
    axis: fd.Axis,
    ends: tuple[AbstractCondition, AbstractCondition],
    derivative: int,
    order: int,
    use: Use,
    places: tuple[bool, bool] = (False, False),
) -> np.ndarray:
    """A central difference with its ghost values put in; rows of all points, columns of all points."""
    plain = difference(axis, derivative, order, *places)
    reach = (plain.shape[1] - axis.size(places[0])) // 2
    return plain @ extension(axis, ends, reach, use, places[0])


def unknowns(axis: fd.Axis, ends: tuple[AbstractCondition, AbstractCondition], face: bool = False) -> np.ndarray:
    """Which points are not given by a condition."""
    free = np.ones(axis.size(face), bool)
    for at, condition in zip((0, -1), ends, strict=True):
        if axis.shift(face) == 0 and condition.sets_value_on_points:
            free[at] = False
    return free

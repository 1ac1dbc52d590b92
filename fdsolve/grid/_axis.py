"""One axis of space: its walls, points and faces, and how these continue beyond the walls."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64

from ..errors import DeclarationError
from ..units import to_magnitudes
from ._checks import check_interval, to_attributes, to_count, to_flag, to_float, to_units
from ._lookup import match, match_between
from ._metric import half_way, measure, to_metric
from ._points import to_period, to_points, to_walls


@dataclass(frozen=True, init=False, repr=False)
class Axis:
    """`num` nodes from `lower` to `upper`, or with `cells=True` the centres of `num` cells between them.

    A node axis has a node on each wall; a cell axis has a face on each wall and its centres at
    lower + (i + ½)Δx, Δx = (upper − lower)/num. A periodic axis does not repeat its end point, so that
    Δx = (upper − lower)/num for its nodes as well.

    Two kinds of place lie on an axis: its **points** (nodes, or cell centres) and its **faces** (`face=True`
    below: the faces of cells, or the midpoints between nodes), where staggered fields live. Counted in half
    steps from the lower wall, the place of index i is 2i + `shift(face)`.

    Arguments:
        lower, upper: the walls, in `units`.
        num: how many points.
        periodic: whether `upper` is the same place as `lower`.
        cells: whether the points are the centres of cells.
        units: a name for the units, or a unit of saiunit; with quantities as walls, the unit they are kept in.
        metric: what the coordinate measures, if not a length along a straight line: "radius" and "angle" (polar and
            cylindrical), "spherical radius", "colatitude" and "azimuth" (spherical). Operators heed it: `laplacian`,
            `divergence`, `gradient`, `curl`. Angles are in radians. Without an angle the problem is axisymmetric.
        attrs: further attributes of the coordinate in Datasets, as `dict(standard_name="longitude")`.

    Raises: DeclarationError.

    >>> Axis(0.0, 1.0, num=5).points
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> Axis(0.0, 1.0, num=4, cells=True).points
    array([0.125, 0.375, 0.625, 0.875])
    >>> Axis(0.0, 1.0, num=4, periodic=True)
    Axis(0.0, 1.0, num=4, periodic=True)
    """

    lower: float
    upper: float
    num: int
    periodic: bool
    cells: bool
    units: str | None
    metric: str | None
    attrs: tuple[tuple[str, str | int | float], ...]
    _stretched: bytes | None  # the points of a stretched axis; bytes compare exactly and hash once

    def __init__(
        self,
        lower: Any,
        upper: Any,
        num: Any,
        *,
        periodic: Any = False,
        cells: Any = False,
        units: Any = None,
        metric: Any = None,
        attrs: Any = None,
    ) -> None:
        (lower, upper), units = to_magnitudes((lower, upper), units, "`lower` and `upper` of an Axis")
        flags = _to_flags(periodic, cells, units)
        least, why = (1, "") if periodic or cells else (2, " for an axis with a node on each wall")
        walls = to_float(lower, "`lower` of an Axis"), to_float(upper, "`upper` of an Axis")
        count = to_count(num, "`num` of an Axis", least, why)
        named = to_attributes(attrs, "`attrs` of an Axis")
        self._assign(*walls, count, *flags, to_metric(metric, *walls, flags[0]), named, None)
        check_interval(*walls, self.step, ("lower", "upper"), "An Axis")

    @classmethod
    def from_points(
        cls,
        points: Any,
        *,
        periodic: Any = False,
        cells: Any = False,
        period: Any = None,
        units: Any = None,
        metric: Any = None,
        attrs: Any = None,
    ) -> "Axis":
        """An axis through given points, evenly spaced or not.

        The faces of cells lie half-way between their centres, and each wall half a distance beyond the last.

        Arguments:
            points: (num,), strictly increasing, two at least: the nodes, or with `cells=True` the centres.
            period: the length of a periodic axis, in `units`; wanted there, and only there.

        >>> axis = Axis.from_points([0.0, 0.1, 0.3, 0.7])
        >>> axis
        Axis(0.0, 0.7, num=4, stretched)
        >>> axis.spacing
        array([0.1 , 0.15, 0.3 , 0.4 ])
        """
        (points, period), units = to_magnitudes((points, period), units, "`points` and `period` of an Axis")
        flags = _to_flags(periodic, cells, units)
        own = to_points(points)
        length = to_period(period, own, flags[0])
        lower, upper = to_walls(own, flags[1], length)
        kind, named = to_metric(metric, lower, upper, flags[0]), to_attributes(attrs, "`attrs` of an Axis")
        axis = cls.__new__(cls)
        axis._assign(lower, upper, len(own), *flags, kind, named, None)
        # Points that came from `linspace` are uniform but for rounding, and uniform axes run faster.
        slack = 1e-12 * axis.length + 4 * np.finfo(np.float64).eps * float(np.max(np.abs(own)))
        if np.max(np.abs(axis.points - own)) <= slack:
            return axis
        axis = cls.__new__(cls)
        axis._assign(lower, upper, len(own), *flags, kind, named, own.tobytes())
        return axis

    def _assign(self, *values: object) -> None:
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def length(self) -> float:
        """upper − lower; the period of a periodic axis."""
        return self.upper - self.lower

    @property
    def uniform(self) -> bool:
        """Whether the points are evenly spaced."""
        return self._stretched is None

    @property
    def step(self) -> float:
        """Δx, the distance between points; a stretched axis has no single one and raises DeclarationError."""
        if not self.uniform:
            message = f"A stretched axis has no single `step`, got {self!r}."
            raise DeclarationError(f"{message} Use `.spacing`, one value for each point.")
        return 2 * self.length / self.num_halves

    @property
    def num_halves(self) -> int:
        """How many half steps lie between the walls."""
        return 2 * (self.num if self.cells or self.periodic else self.num - 1)

    @cached_property
    def points(self) -> Float64[np.ndarray, " num"]:
        """Coordinates of the points, (num,), in `units`; read-only."""
        if self._stretched is not None:
            return np.frombuffer(self._stretched, np.float64)
        if self.cells:
            return _frozen(self.lower + (np.arange(self.num) + 0.5) * self.step)
        return _frozen(np.linspace(self.lower, self.upper, self.num, endpoint=not self.periodic))

    @cached_property
    def spacing(self) -> Float64[np.ndarray, " num"]:
        """Half the distance between each point's neighbours, (num,), in `units`, mirrored at the walls."""
        return _frozen(self.spacings(False, 0, self.num))

    @cached_property
    def _faces(self) -> Float64[np.ndarray, " faces"]:
        if self.uniform and self.cells:
            return _frozen(np.linspace(self.lower, self.upper, self.size(True), endpoint=not self.periodic))
        if self.uniform:
            return _frozen(self.lower + (np.arange(self.size(True)) + 0.5) * self.step)
        middles = (self.points[1:] + self.points[:-1]) / 2
        if self.cells:
            return _frozen(np.concatenate([[self.lower], middles, [] if self.periodic else [self.upper]]))
        last = [(self.points[-1] + self.upper) / 2] if self.periodic else []
        return _frozen(np.concatenate([middles, last]))

    def size(self, face: bool) -> int:
        """How many faces, or points, lie on the axis.

        >>> Axis(0, 1, num=4, cells=True).size(face=True), Axis(0, 1, num=4).size(face=True)
        (5, 3)
        """
        if not face or self.periodic:
            return self.num
        return self.num + 1 if self.cells else self.num - 1

    def shift(self, face: bool) -> int:
        """How many half steps the place of index 0 lies above the lower wall: 0 or 1.

        >>> Axis(0, 1, num=4, cells=True).shift(face=False), Axis(0, 1, num=4).shift(face=False)
        (1, 0)
        """
        return int(face != self.cells)

    def positions(self, face: bool, start: int, stop: int) -> Float64[np.ndarray, " span"]:
        """Coordinates of the faces, or points, of index start … stop − 1, (stop − start,), in `units`.

        Beyond the walls a periodic axis repeats, one period on; any other is mirrored about the wall: node −k
        lies at 2 lower − xₖ, centre −k at 2 lower − xₖ₋₁; and so on, mirror upon mirror, however far.

        >>> Axis.from_points([0.0, 0.1, 0.3]).positions(False, -2, 5)
        array([-0.3, -0.1,  0. ,  0.1,  0.3,  0.5,  0.6])
        """
        own = self._faces if face else self.points
        halves = 2 * np.arange(start, stop) + self.shift(face)
        across = self.num_halves
        inside = (halves >= 0) & (halves <= across) & (not self.periodic)
        copy = np.where(inside, 0, halves // across)  # which repetition of the axis: 0 is the axis itself
        if self.periodic:
            return own[(halves - copy * across) // 2] + copy * self.length
        mirrored = copy % 2 == 1
        within = np.where(mirrored, (copy + 1) * across - halves, halves - copy * across)
        value = own[(within - self.shift(face)) // 2]
        return np.where(mirrored, 2 * self.lower + (copy + 1) * self.length - value, value + copy * self.length)

    def ends(self, face: bool) -> Float64[np.ndarray, " around"]:
        """The ends of the cells around the points, or faces: half-way to the next and at the walls; one more.

        >>> Axis(0.0, 1.0, num=3).ends(face=False)
        array([0.  , 0.25, 0.75, 1.  ])
        """
        around = half_way(self, face, 0, self.size(face))
        return around if self.periodic else np.clip(around, self.lower, self.upper)

    def position(self, halves: int) -> float:
        """The coordinate of the place `halves` half steps above the lower wall, in `units`.

        >>> Axis(0.0, 1.0, num=5).position(3)
        0.375
        """
        face = self.shift(True) == halves % 2
        index = (halves - self.shift(face)) // 2
        return float(self.positions(face, index, index + 1)[0])

    def spacings(self, face: bool, start: int, stop: int) -> Float64[np.ndarray, " span"]:
        """Half the distance between the neighbours of each face, or point, of index start … stop − 1.

        The neighbours of a face are faces, those of a point are points; beyond the walls they lie as in
        `positions`. Returns (stop − start,), in `units`.

        >>> Axis.from_points([0.0, 0.1, 0.3]).spacings(True, 0, 2)
        array([0.125, 0.175])
        """
        if self.uniform:
            return np.full(max(stop - start, 0), self.step)
        around = self.positions(face, start - 1, stop + 1)
        return (around[2:] - around[:-2]) / 2

    def measure(
        self, name: str, face: bool, start: int, stop: int, mirrored: tuple[bool, bool] = (False, False)
    ) -> Float64[np.ndarray, " span"]:
        """A geometric quantity of a curvilinear axis at faces, or points: see `fdsolve.grid._metric.measure`.

        >>> Axis(0.0, 1.0, num=4, cells=True, metric="radius").measure("content", False, 0, 4)
        array([0.03125, 0.09375, 0.15625, 0.21875])
        """
        return measure(self, name, face, start, stop, mirrored)

    def index_of(self, value: Any, face: bool = False) -> int:
        """The index of the point, or face, at the coordinate `value`, matched to 1e-6 of a step.

        On a periodic axis `value` may lie in any period. Raises DeclarationError naming the nearest points.

        >>> Axis(0.0, 2.0, num=51).index_of(0.4)
        10
        """
        number = to_float(value, "A coordinate")
        num, reach = self.size(face), int(self.periodic)
        if self.periodic:
            number = self.lower + (number - self.lower) % self.length
        span = face, -reach, num + reach
        indices = np.arange(*span[1:]) % num
        return match(number, self.positions(*span), self.spacings(*span), indices, self._noun(face))

    def indices_between(self, lower: Any, upper: Any, face: bool = False) -> tuple[int, int]:
        """`start, stop` of the points, or faces, from `lower` to `upper`, both included to 1e-6 of a step.

        None leaves that side open; start = stop when no point lies there. A slice does not reach around a
        periodic axis. Raises DeclarationError when `lower` exceeds `upper`.

        >>> Axis(0.0, 2.0, num=51).indices_between(0.4, 0.48)
        (10, 13)
        """
        ends = _to_end(lower), _to_end(upper)
        span = face, 0, self.size(face)
        return match_between(ends, self.positions(*span), self.spacings(*span))

    def _noun(self, face: bool) -> str:
        if self.cells:
            return "face" if face else "cell centre"
        return "midpoint" if face else "node"

    def __repr__(self) -> str:
        parts = [f"{self.lower}, {self.upper}, num={self.num}"]
        parts += ["stretched"] * (not self.uniform)
        parts += ["periodic=True"] * self.periodic + ["cells=True"] * self.cells
        parts += [f'units="{self.units}"'] * (self.units is not None)
        parts += [f'metric="{self.metric}"'] * (self.metric is not None)
        parts += [f"attrs={dict(self.attrs)}"] * bool(self.attrs)
        return f"Axis({', '.join(parts)})"


def _frozen(array: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    array.setflags(write=False)
    return array


def _to_end(value: Any) -> float | None:
    return None if value is None else to_float(value, "An end of a slice of coordinates")


def _to_flags(periodic: object, cells: object, units: object) -> tuple[bool, bool, str | None]:
    flags = to_flag(periodic, "`periodic` of an Axis"), to_flag(cells, "`cells` of an Axis")
    return *flags, to_units(units, "`units` of an Axis")

"""Curvilinear axes: what the coordinates of polar, cylindrical and spherical systems measure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from ..errors import DeclarationError

_Function = Callable[[Float64[np.ndarray, " n"]], Float64[np.ndarray, " n"]]


@dataclass(frozen=True)
class Metric:
    """One curvilinear coordinate q: its part of the Jacobian J = Π f(q), and what it scales the others by.

    `signed` is f, continued beyond a pole as the function it is, `content` ∫|f| dq, `slope` f′/f, of which `dimension`
    − 1 is the value times the distance from a pole; `scale` is the factor of h in the coordinates that name this one
    among their `scaled_by`. `poles` are the values of q at which the coordinate lines of another one shrink to a point.
    """

    name: str
    system: str
    signed: _Function
    content: _Function
    slope: _Function
    scale: _Function
    scaled_by: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    range: tuple[float, float] = (-np.inf, np.inf)
    poles: tuple[float, ...] = ()
    dimension: int = 1


def _zero(q: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    return np.zeros_like(q)


def _one(q: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    return np.ones_like(q)


def _same(q: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    return q


def _sine(q: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    return np.where(np.isclose(q, np.pi, rtol=0, atol=1e-12), 0.0, np.sin(q))


def _sine_content(q: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """∫|sin q| dq from π/2 on, a period at most beyond either pole."""
    return np.where(q < 0, np.cos(q) - 2, np.where(q > np.pi, np.cos(q) + 2, -np.cos(q)))


_HALF_LINE, _MERIDIAN = (0.0, np.inf), (0.0, float(np.pi))

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            name="radius",
            system="polar",
            signed=_same,
            content=lambda r: r * np.abs(r) / 2,
            slope=lambda r: 1 / r,
            scale=_same,
            range=_HALF_LINE,
            poles=(0.0,),
            dimension=2,
        ),
        Metric("angle", "polar", _one, _same, _zero, _one, scaled_by=("radius",), needs=("radius",)),
        Metric(
            name="spherical radius",
            system="spherical",
            signed=lambda r: r**2,
            content=lambda r: r**3 / 3,
            slope=lambda r: 2 / r,
            scale=_same,
            range=_HALF_LINE,
            poles=(0.0,),
            dimension=3,
        ),
        Metric(
            name="colatitude",
            system="spherical",
            signed=_sine,
            content=_sine_content,
            slope=lambda q: 1 / np.tan(q),
            scale=_sine,
            scaled_by=("spherical radius",),
            range=_MERIDIAN,
            poles=_MERIDIAN,
            dimension=2,
        ),
        Metric(
            name="azimuth",
            system="spherical",
            signed=_one,
            content=_same,
            slope=_zero,
            scale=_one,
            scaled_by=("spherical radius", "colatitude"),
            needs=("colatitude",),
        ),
    )
}


@dataclass(frozen=True)
class Pole:
    """What lies beyond a pole: the point behind it, half a turn on along `turned` axes, and across `mirrored` ones."""

    turned: tuple[str, ...] = ()
    mirrored: tuple[str, ...] = ()


def to_metric(value: Any, lower: float, upper: float, periodic: bool) -> str | None:
    """`metric` of an Axis, checked against the axis' range."""
    if value is None:
        return None
    if not isinstance(value, str) or value not in METRICS:
        known = ", ".join(f'"{name}"' for name in METRICS)
        raise DeclarationError(f"`metric` of an Axis must be one of {known}, or None, got {value!r}.")
    low, high = METRICS[value].range
    slack = 1e-12 * max(1.0, abs(upper))
    if lower < low - slack or upper > high + slack:
        bound = "0 and π" if np.isfinite(high) else "0 and more"
        raise DeclarationError(f"An Axis of metric {value!r} lies between {bound}, got {lower} to {upper}.")
    if periodic and METRICS[value].poles:
        raise DeclarationError(f"An Axis of metric {value!r} is not periodic; leave `periodic=True` out.")
    return value


def check_metrics(axes: Mapping[str, Any]) -> None:
    """Refuses combinations of curvilinear axes that make no coordinate system, and poles that cannot be served."""
    named = {name: axis.metric for name, axis in axes.items() if getattr(axis, "metric", None) is not None}
    found = list(named.values())
    for name, metric in named.items():
        if found.count(metric) > 1:
            raise DeclarationError(f'Two axes of a Grid have the metric "{metric}"; axis `{name}` is one of them.')
        for needed in METRICS[metric].needs:
            if needed not in found:
                raise DeclarationError(
                    f'Axis `{name}` has the metric "{metric}", which goes with an axis of metric "{needed}"; the Grid '
                    f"has none. Add one, or leave `metric` of `{name}` out."
                )
    systems = sorted({METRICS[metric].system for metric in found})
    if len(systems) > 1:
        raise DeclarationError(f"A Grid has one system of coordinates, got {' and '.join(systems)} axes together.")
    plain = [name for name, axis in axes.items() if getattr(axis, "metric", "") is None]
    if systems == ["spherical"] and plain:
        raise DeclarationError(
            f"Axis `{plain[0]}` of a spherical Grid has no metric. Give it one, or use polar axes, which take straight "
            f"ones beside them."
        )
    _check_poles(axes, named)


def _check_poles(axes: Mapping[str, Any], named: Mapping[str, str]) -> None:
    for name, metric in named.items():
        axis = axes[name]
        around = [other for other, kind in named.items() if metric in METRICS[kind].scaled_by]
        for upper in (False, True):
            if not _is_pole(axis, upper) or not around:
                continue
            if not axis.cells:
                raise DeclarationError(
                    f"Axis `{name}` has a node at {name} = {axis.upper if upper else axis.lower:g}, which is one point "
                    f"for all values of `{around[0]}`. Declare it with cells=True, or start beside that point."
                )
            for other in around:
                if _is_circle(axes[other]) and axes[other].num % 2:
                    raise DeclarationError(
                        f"Axis `{other}` goes around the pole of `{name}`, where each point needs the one opposite: "
                        f"give it an even number of points, got {axes[other].num}."
                    )


def scaling_axes(axes: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The axes whose coordinates the scale factor of an axis depends on: r for an angle θ, h = r."""
    by = _scaled_by(getattr(axes[name], "metric", None))
    return tuple(other for other, axis in axes.items() if getattr(axis, "metric", None) in by)


def find_pole(axes: Mapping[str, Any], name: str, upper: bool) -> Pole | None:
    """What continues an axis beyond one of its ends, where that is a pole; None at walls.

    Beyond r = 0 lies the point at the angle θ + π, or without an angle the same circle. A sector, which lacks that
    point, has a wall there.
    """
    axis = axes[name]
    if not _is_pole(axis, upper):
        return None
    around = {other: own.metric for other, own in axes.items() if name in scaling_axes(axes, other)}
    turned = tuple(other for other, metric in around.items() if metric in ("angle", "azimuth"))
    mirrored = tuple(other for other, metric in around.items() if metric == "colatitude")
    if not all(_is_circle(axes[other]) for other in turned) or not all(_is_meridian(axes[other]) for other in mirrored):
        return None
    return Pole(turned, mirrored)


def _scaled_by(metric: str | None) -> tuple[str, ...]:
    return METRICS[metric].scaled_by if metric is not None else ()


def _is_pole(axis: Any, upper: bool) -> bool:
    metric = getattr(axis, "metric", None)
    if metric is None:
        return False
    end = axis.upper if upper else axis.lower
    return any(abs(end - pole) <= 1e-12 * axis.length for pole in METRICS[metric].poles)


def _is_circle(axis: Any) -> bool:
    return bool(axis.periodic and axis.uniform and abs(axis.length - 2 * np.pi) < 1e-9)


def _is_meridian(axis: Any) -> bool:
    mirrored = axis.lower + axis.upper - axis.points[::-1]
    return _is_pole(axis, False) and _is_pole(axis, True) and bool(np.allclose(mirrored, axis.points))


def measure(
    axis: Any, name: str, face: bool, start: int, stop: int, mirrored: tuple[bool, bool] = (False, False)
) -> Float64[np.ndarray, " span"]:
    """A geometric quantity at the faces, or points, of index start … stop − 1 of an axis, in units of the axis.

    With f the axis' part of the Jacobian and s what it multiplies the scale factors of other axes by, both continued
    beyond walls and poles by their formula:

    - "area below", "area above": |f| half a step away, where the cell around a place ends, 0 at a pole;
    - "content": ∫|f| dq over that cell;
    - "density", "slope": f and f′/f; "limit", "pole": the dimension at a pole, elsewhere 1 and 0;
    - "scale": s; 1/x of these, 0 where x is 0: "inverse density", "inverse scale", "inverse square scale";
    - "transverse 1", "transverse 2": |f|/|s|ᵏ times the cell's width over its content, for flux forms along other axes.

    Beyond an end that is `mirrored`, lower or upper, cells are the mirror images of those within: all but "density",
    "inverse density" and "scale", which operators at points within read there.
    """
    halves = 2 * np.arange(start, stop) + axis.shift(face)
    below, above = ((halves < 0) & mirrored[0], (halves > axis.num_halves) & mirrored[1])
    image = (below | above) & (name not in _CONTINUED)
    inside = np.where(image, np.where(below, -halves, 2 * axis.num_halves - halves), halves)
    index = (inside - axis.shift(face)) // 2
    if not image.any():
        return _continued(axis, name, face, start, stop)
    low, high = int(index.min()), int(index.max()) + 1
    partner, sign = _IMAGES.get(name, (name, 1))
    own, other = (_continued(axis, one, face, low, high)[index - low] for one in (name, partner))
    return np.where(image, sign * other, own)


def _continued(axis: Any, name: str, face: bool, start: int, stop: int) -> Float64[np.ndarray, " span"]:
    return _MEASURES[name](axis, METRICS[axis.metric], axis.positions(face, start, stop), (face, start, stop))


def _area(above: bool) -> Callable[..., Float64[np.ndarray, " span"]]:
    def of(axis: Any, metric: Metric, _: Any, span: tuple[bool, int, int]) -> Float64[np.ndarray, " span"]:
        ends = half_way(axis, *span)
        return np.abs(metric.signed(ends[1:] if above else ends[:-1]))

    return of


def _content(axis: Any, metric: Metric, _: Any, span: tuple[bool, int, int]) -> Float64[np.ndarray, " span"]:
    return np.diff(metric.content(half_way(axis, *span)))


def _transverse(power: int) -> Callable[..., Float64[np.ndarray, " span"]]:
    def of(axis: Any, metric: Metric, here: Any, span: tuple[bool, int, int]) -> Float64[np.ndarray, " span"]:
        width = np.diff(half_way(axis, *span))
        area = np.abs(metric.signed(here) * _inverse(metric.scale(here)) ** power)
        return area * width / _content(axis, metric, here, span)

    return of


def _inverse(values: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    return np.where(values == 0, 0.0, 1 / np.where(values == 0, 1.0, values))


def _away_from_poles(metric: Metric, here: Float64[np.ndarray, " n"]) -> Any:
    near = [np.isclose(here, pole, rtol=0, atol=1e-12) for pole in metric.poles]
    return ~np.logical_or.reduce(near) if near else np.ones(here.shape, bool)


def _slope(axis: Any, metric: Metric, here: Float64[np.ndarray, " n"], span: Any) -> Float64[np.ndarray, " n"]:
    away = _away_from_poles(metric, here)
    return np.where(away, metric.slope(np.where(away, here, 1.0)), 0.0)


_MEASURES: Mapping[str, Callable[..., Float64[np.ndarray, " span"]]] = {
    "area below": _area(False),
    "area above": _area(True),
    "content": _content,
    "density": lambda axis, metric, here, span: metric.signed(here),
    "inverse density": lambda axis, metric, here, span: _inverse(metric.signed(here)),
    "slope": _slope,
    "pole": lambda axis, metric, here, span: np.where(_away_from_poles(metric, here), 0.0, metric.dimension),
    "limit": lambda axis, metric, here, span: np.where(_away_from_poles(metric, here), 1.0, metric.dimension),
    "scale": lambda axis, metric, here, span: metric.scale(here),
    "inverse scale": lambda axis, metric, here, span: _inverse(metric.scale(here)),
    "inverse square scale": lambda axis, metric, here, span: _inverse(metric.scale(here)) ** 2,
    "transverse 1": _transverse(1),
    "transverse 2": _transverse(2),
}

_CONTINUED = ("density", "inverse density", "scale")
_IMAGES = {"area below": ("area above", 1), "area above": ("area below", 1), "slope": ("slope", -1)}
"""What a quantity is a mirror image of, and with which sign, where that is not the quantity itself."""


def half_way(axis: Any, face: bool, start: int, stop: int) -> Float64[np.ndarray, " around"]:
    """The places of the other kind around the faces, or points, of index start … stop − 1: one more than these."""
    first = (2 * start + axis.shift(face) - 1 - axis.shift(not face)) // 2
    return axis.positions(not face, first, first + stop - start + 1)

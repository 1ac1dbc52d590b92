"""One state of two dimensions as coloured cells: on straight axes, on a disc, or in a meridian's plane."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ._style import Scale, are_alike, label_of, name_with_unit, span_of

_RANK = {"x": 0, "r": 0, "lon": 0, "y": 1, "lat": 1, "z": 2, "depth": 2}
_TO_PLANE: dict[tuple[str, str], Callable[[Any, Any], tuple[Any, Any]]] = {
    ("radius", "angle"): lambda r, angle: (r * np.cos(angle), r * np.sin(angle)),
    ("spherical radius", "colatitude"): lambda r, angle: (r * np.sin(angle), r * np.cos(angle)),
}
_PLANE_NAMES = {"angle": ("x", "y"), "colatitude": ("distance from the axis", "z")}


@dataclass(frozen=True)
class Plane:
    """How two dimensions lie on paper: corners of the cells, (m + 1, n + 1) each or by axis, and names of the axes.

    `across` and `up` are the dimensions of the values, in the order of the corners' axes reversed.
    """

    across: str
    up: str
    corners: tuple[np.ndarray, np.ndarray]
    names: tuple[str, str]
    equal: bool
    curved: bool
    ratio: float
    downwards: bool

    @classmethod
    def of(cls, array: xr.DataArray) -> "Plane":
        """The plane of the two dimensions of a state."""
        first, second = (str(dim) for dim in array.dims)
        if _rank(first) > _rank(second):
            first, second = second, first
        a, b = array[first], array[second]
        metrics = (a.attrs.get("metric", ""), b.attrs.get("metric", ""))
        if metrics in _TO_PLANE:
            return cls._curved(a, b, metrics)
        if metrics[::-1] in _TO_PLANE:
            return cls._curved(b, a, metrics[::-1])
        alike = are_alike(a, b)
        return cls(
            first,
            second,
            (edges_of(a.values), edges_of(b.values)),
            (label_of(a), label_of(b)),
            alike,
            False,
            span_of(b) / span_of(a) if alike else 0.75,
            second.removesuffix("_face") == "depth",
        )

    @classmethod
    def _curved(cls, radius: xr.DataArray, angle: xr.DataArray, metrics: tuple[str, str]) -> "Plane":
        rings, rays = np.maximum(edges_of(radius.values), 0.0), edges_of(angle.values)
        if metrics[1] == "colatitude":
            rays = np.clip(rays, 0.0, np.pi)
        x, y = _TO_PLANE[metrics](rings[None, :], rays[:, None])
        unit = radius.attrs.get("units")
        across, up = (name_with_unit(name, unit) for name in _PLANE_NAMES[metrics[1]])
        ratio = float(np.ptp(y) / np.ptp(x))
        return cls(str(radius.name), str(angle.name), (x, y), (across, up), True, True, ratio, False)

    def values(self, array: xr.DataArray) -> np.ma.MaskedArray:
        """The values as the cells want them, holes masked."""
        return np.ma.masked_invalid(array.transpose(self.up, self.across).values)

    def prepare(self, ax: Any, across: bool = True, up: bool = True) -> None:
        """Labels, aspect and direction of the axes that the cells are drawn on."""
        if across:
            ax.set_xlabel(self.names[0])
        if up:
            ax.set_ylabel(self.names[1])
        if self.equal:
            ax.set_aspect("equal")
        if self.downwards and not ax.yaxis_inverted():
            ax.invert_yaxis()

    def draw(self, ax: Any, array: xr.DataArray, scale: Scale) -> Callable[[xr.DataArray], None]:
        """Draws the cells; returns what shows another state in their place."""
        mesh = ax.pcolormesh(*self.corners, self.values(array), rasterized=True, **scale.options)
        return lambda other: mesh.set_array(self.values(other))


def _rank(dim: str) -> int:
    return _RANK.get(dim.removesuffix("_face"), 0)


def edges_of(points: np.ndarray) -> np.ndarray:
    """The edges of cells around points: half-way between them, and as far beyond the last ones; (num + 1,)."""
    points = np.asarray(points, float)
    if points.size == 1:
        return np.array([points[0] - 0.5, points[0] + 0.5])
    middles = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - middles[0]], middles, [2 * points[-1] - middles[-1]]])


def add_bar(figure: Any, axes: Any, scale: Scale, label: str, *, beyond: bool = False, **options: Any) -> Any:
    """A colour bar for a scale beside axes; pointed where values go beyond it."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    mappable = ScalarMappable(Normalize(scale.lower, scale.upper), scale.colours)
    bar = figure.colorbar(mappable, ax=axes, label=label, extend="both" if beyond else "neither", **options)
    bar.outline.set_linewidth(0.6)
    bar.ax.yaxis.set_offset_position("left")
    bar.formatter.set_powerlimits((-3, 4))
    bar.formatter.set_useMathText(True)
    bar.update_ticks()
    return bar

"""What all pictures share: labels with units, colours that do not mislead, panels of the right shape."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError

SEQUENTIAL = "viridis"
DIVERGING = "RdBu_r"
HOLE = "0.78"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "#666666")
"""Okabe & Ito's colours, which all readers tell apart; the yellow, invisible on white, replaced."""

_STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.linewidth": 0.8,
    "font.size": 10.0,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "lines.linewidth": 1.8,
    "savefig.bbox": None,
}


def style() -> AbstractContextManager[Any]:
    """Settings of matplotlib for as long as a picture is made; the user's own come back after it."""
    from matplotlib import pyplot as plt

    return plt.rc_context(_STYLE)


def name_with_unit(name: str, unit: Any) -> str:
    """ "T (K)", or the bare name of what has no unit."""
    return f"{name} ({unit})" if unit and str(unit) != "1" else name


def label_of(array: xr.DataArray, name: str | None = None) -> str:
    """The label of an axis or colour bar: the name without its place on the grid, and the unit."""
    shown = str(array.name if name is None else name)
    return name_with_unit(shown.removesuffix("_face"), array.attrs.get("units"))


def time_text(times: xr.DataArray, index: int) -> str:
    """ "t = 0.5 s", or the date and time of day of a calendar axis: as fine as tells one of the times from another."""
    values = np.atleast_1d(times.values)
    value, gap = values[index], np.min(np.abs(np.diff(values))) if len(values) > 1 else None
    if np.issubdtype(times.dtype, np.datetime64):
        text = str(np.datetime_as_string(value, unit=_clock_unit(value, gap))).replace("T", " ")
        return text.removesuffix(" 00:00")
    unit = times.attrs.get("units")
    digits = 4 if not gap else int(np.clip(np.ceil(np.log10(np.max(np.abs(values)) / gap)) + 1, 4, 12))
    return f"{times.name} = {rounded(float(value), digits)}" + (f" {unit}" if unit and unit != "1" else "")


def _clock_unit(value: np.datetime64, gap: np.timedelta64 | None) -> Any:
    """The unit in which instants that lie a gap apart are told, or one alone: minutes, or as fine as they need."""
    if gap is None:
        return next((unit for unit in ("m", "s") if value.astype(f"datetime64[{unit}]") == value), "ms")
    return next((unit for unit in ("m", "s", "ms", "us") if gap >= np.timedelta64(1, unit)), "ns")


def rounded(value: float, digits: int = 4) -> str:
    """A number in four digits or as many as told, with a true minus."""
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "−")


@dataclass(frozen=True)
class Scale:
    """From values to colours: the limits, and the colour map with holes in grey."""

    lower: float
    upper: float
    colours: Any

    @classmethod
    def of(cls, values: np.ndarray, colours: Any = None, limits: Any = None) -> "Scale":
        """A scale for values: for both signs a diverging map with white at zero, else a sequential one."""
        import matplotlib as mpl

        lower, upper = to_limits(values, limits)
        signed = lower < 0 < upper and min(-lower, upper) > 0.1 * max(-lower, upper)
        if signed and limits is None:
            upper = max(-lower, upper)
            lower = -upper
        try:
            chosen = mpl.colormaps[colours or (DIVERGING if signed else SEQUENTIAL)] if _is_name(colours) else colours
            return cls(lower, upper, chosen.with_extremes(bad=HOLE))
        except (KeyError, AttributeError):
            raise DeclarationError(
                f'cmap= takes the name of a colour map, such as "viridis", or a Colormap; got {colours!r}.'
            ) from None

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of what matplotlib colours by value."""
        return dict(vmin=self.lower, vmax=self.upper, cmap=self.colours)


def _is_name(colours: Any) -> bool:
    return colours is None or isinstance(colours, str)


def to_limits(values: np.ndarray, limits: Any = None) -> tuple[float, float]:
    """The limits as given, or the least and greatest finite value; never equal."""
    if limits is not None:
        return _given_limits(limits)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    lower, upper = float(finite.min()), float(finite.max())
    size = max(abs(lower), abs(upper))
    if upper - lower > 1e-9 * size:
        return lower, upper
    # A constant: noise of rounding is no picture.
    return (lower - 0.5 * size, upper + 0.5 * size) if size else (-1.0, 1.0)


def _given_limits(limits: Any) -> tuple[float, float]:
    try:
        lower, upper = (float(value) for value in limits)
    except (TypeError, ValueError):
        lower = upper = math.nan
    if not lower < upper:
        raise DeclarationError(f"limits= takes the least and the greatest value, as in limits=(0, 1); got {limits!r}.")
    return lower, upper


def shape_of(panels: int) -> tuple[int, int]:
    """Rows and columns for a number of panels."""
    columns = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3}.get(panels, 4)
    return math.ceil(panels / columns), columns


def make_panels(
    panels: int, ax: Any, *, ratio: float = 0.65, shared: bool = True, bars: bool = False, columns: int | None = None
) -> tuple[Any, list[Any]]:
    """A new figure with as many axes, or those of `ax`.

    `ratio` is the height of a panel over its width; `bars`, whether each panel has a colour bar of its own.
    """
    if ax is not None:
        return _given_panels(panels, ax)
    from matplotlib import pyplot as plt

    columns = columns or shape_of(panels)[1]
    rows = math.ceil(panels / columns)
    width = {1: 4.8, 2: 4.0, 3: 3.2}.get(columns, 2.6)
    height = min(max(width * ratio, 0.35 * width), 1.5 * width)
    beside = 1.6 + (columns - 1) * (1.6 if bars else 0.25 if shared else 0.75)
    figure, axes = plt.subplots(
        rows,
        columns,
        squeeze=False,
        sharex=shared,
        sharey=shared,
        figsize=(columns * width + beside, min(rows * (height + (0.4 if shared else 0.7)) + 0.4, 11.0)),
        layout="constrained",
    )
    flat = list(axes.flat)
    for unused in flat[panels:]:
        unused.remove()
    return figure, flat[:panels]


def label_outer(axes: Sequence[Any], columns: int) -> None:
    """Labels and ticks of shared axes on the outermost panels alone; a panel with none below it is outermost."""
    for index, ax in enumerate(axes):
        below, left = index + columns < len(axes), index % columns > 0
        ax.tick_params(labelbottom=not below, labelleft=not left)
        if below:
            ax.set_xlabel("")
        if left:
            ax.set_ylabel("")


def _given_panels(panels: int, ax: Any) -> tuple[Any, list[Any]]:
    from matplotlib.axes import Axes

    given = list(np.asarray(ax, object).flat)
    if not all(isinstance(one, Axes) for one in given):
        raise DeclarationError(f"ax= takes the Axes of matplotlib to draw on, or an array of them; got {ax!r}.")
    if len(given) != panels:
        raise DeclarationError(
            f"ax= has {len(given)} Axes, and this picture has {panels} panels. Give as many, or choose one time and "
            f"one field."
        )
    return given[0].figure, given


def are_alike(first: xr.DataArray, second: xr.DataArray) -> bool:
    """Whether two coordinates have the same unit and lengths near enough to be drawn to scale."""
    if first.attrs.get("units") != second.attrs.get("units") or first.size < 2 or second.size < 2:
        return False
    ratio = span_of(second) / span_of(first)
    return 1 / 6 < ratio < 6


def span_of(coordinate: xr.DataArray) -> float:
    """The distance from the first to the last point."""
    return float(abs(coordinate.values[-1] - coordinate.values[0])) or 1.0


def pick_evenly(total: int, most: int) -> list[int]:
    """At most so many indices of a sequence, the first and last among them."""
    if total <= most:
        return list(range(total))
    return [round(i) for i in np.linspace(0, total - 1, most)]


def join(names: Sequence[Any]) -> str:
    """Names as they are listed in messages."""
    return ", ".join(f"`{name}`" for name in names)

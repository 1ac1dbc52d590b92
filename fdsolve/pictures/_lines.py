"""Pictures of one dimension: lines, one a time; a space-time diagram; traces of places along time."""

from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ._data import Shown, cut_text
from ._mesh import add_bar, edges_of
from ._request import Drawn, Request, Update, together
from ._style import COLOURS, Scale, label_of, make_panels, pick_evenly, time_text, to_limits

MOST_LINES = 9


def draw_lines(request: Request) -> Drawn:
    """u over x, a line for each time, from dark (early) to light."""
    figure, axes = make_panels(len(request.fields), request.ax, shared=False)
    updates: list[Update] = []
    for ax, shown in zip(axes, request.fields, strict=True):
        wanted = request.times if request.times is not None else pick_evenly(shown.levels, MOST_LINES)
        indices = [0] if request.moving else wanted
        updates.append(_lines_of(figure, ax, shown, indices, request))
    return Drawn(figure, together(updates))


def _lines_of(figure: Any, ax: Any, shown: Shown, indices: list[int], request: Request) -> Update:
    (dim,) = shown.space
    place = shown.array[dim]
    shades = _shades(len(indices)) if request.colours is None else _shades(len(indices), request.colours)
    marks = dict(marker="o", markersize=3) if place.size <= 24 else {}
    lines = []
    for index, shade in zip(indices, shades, strict=True):
        text = "" if shown.time is None else time_text(shown.array[shown.time], index)
        lines += ax.plot(place.values, shown.level(index).values, color=shade, label=text, **marks)
    ax.set(xlabel=label_of(place), ylabel=shown.label, xlim=_ends(place))
    if request.limits is not None:
        ax.set_ylim(*to_limits(np.zeros(1), request.limits))
    elif request.moving:
        lower, upper = to_limits(shown.array.values)
        ax.set_ylim(lower - 0.05 * (upper - lower), upper + 0.05 * (upper - lower))
    ax.grid(alpha=0.25, linewidth=0.6)
    _tell_times(ax, shown, indices)

    def update(index: int) -> None:
        lines[0].set_ydata(shown.level(index).values)
        ax.set_title(shown.title(index))

    return update


def _tell_times(ax: Any, shown: Shown, indices: list[int]) -> None:
    """One time in the title, a few beside the lines."""
    if len(indices) == 1:
        ax.set_title(shown.title(indices[0]))
        return
    ax.legend(loc="best" if len(indices) <= 4 else "center left", **_outside(len(indices)))


def _outside(count: int) -> dict[str, Any]:
    return {} if count <= 4 else dict(bbox_to_anchor=(1.0, 0.5))


def _shades(count: int, name: Any = "viridis") -> list[Any]:
    """Colours from dark to light, short of the yellow that paper swallows."""
    import matplotlib as mpl

    if count == 1:
        return [COLOURS[0]]
    return [mpl.colormaps[name](share) for share in np.linspace(0.0, 0.86, count)]


def _ends(place: xr.DataArray) -> tuple[float, float]:
    lower, upper = float(place.values.min()), float(place.values.max())
    return (lower, upper) if upper > lower else (lower - 0.5, upper + 0.5)


def draw_space_time(request: Request) -> Drawn:
    """u by colour, x across and time up."""
    figure, axes = make_panels(len(request.fields), request.ax, shared=False, ratio=0.8)
    for ax, shown in zip(axes, request.fields, strict=True):
        if shown.time is None:
            raise DeclarationError('kind="space-time" wants several times, and there is one state only; leave it out.')
        (dim,) = shown.space
        kept = request.times if request.times is not None else list(range(shown.levels))
        history = shown.array.isel({shown.time: kept})
        scale = Scale.of(history.values, request.colours, request.limits)
        place, time = history[dim], history[shown.time]
        values = np.ma.masked_invalid(history.transpose(shown.time, dim).values)
        ax.pcolormesh(edges_of(place.values), _time_edges(time), values, rasterized=True, **scale.options)
        ax.set(xlabel=label_of(place), ylabel=label_of(time))
        add_bar(figure, ax, scale, shown.label)
    return Drawn(figure)


def _time_edges(time: xr.DataArray) -> np.ndarray:
    if not np.issubdtype(time.dtype, np.datetime64):
        return edges_of(time.values)
    nanoseconds = edges_of(time.values.astype("datetime64[ns]").astype(float))
    return np.round(nanoseconds).astype("int64").astype("datetime64[ns]")


def draw_traces(request: Request) -> Drawn:
    """Values at one or several places along time: lines for a few places, colours for many."""
    figure, axes = make_panels(len(request.fields), request.ax, shared=False)
    for ax, shown in zip(axes, request.fields, strict=True):
        if shown.time is None:
            raise DeclarationError('kind="traces" wants several times, and there is one state only.')
        time = shown.array[shown.time]
        places = shown.array.transpose(shown.time, ...).values.reshape(time.size, -1)
        if places.shape[1] > len(COLOURS):
            _many_traces(figure, ax, shown, places, request)
            continue
        for index, colour in zip(range(places.shape[1]), COLOURS, strict=False):
            ax.plot(time.values, places[:, index], color=colour, label=_place_text(shown, index))
        ax.set(xlabel=label_of(time), ylabel=shown.label)
        ax.grid(alpha=0.25, linewidth=0.6)
        if request.limits is not None:
            ax.set_ylim(*to_limits(np.zeros(1), request.limits))
        if places.shape[1] > 1:
            ax.legend()
        elif text := _place_text(shown, 0):
            ax.set_title(text)
    return Drawn(figure)


def _many_traces(figure: Any, ax: Any, shown: Shown, places: np.ndarray, request: Request) -> None:
    assert shown.time is not None
    time = shown.array[shown.time]
    (dim,) = shown.space
    scale = Scale.of(places, request.colours, request.limits)
    cells = np.ma.masked_invalid(places)
    ax.pcolormesh(edges_of(shown.array[dim].values), _time_edges(time), cells, rasterized=True, **scale.options)
    ax.set(xlabel=label_of(shown.array[dim]), ylabel=label_of(time))
    ax.invert_yaxis()  # as seismograms are drawn
    add_bar(figure, ax, scale, shown.label)


def _place_text(shown: Shown, index: int) -> str:
    """Where a trace was taken: its coordinates, as far as they are known."""
    at = shown.array.isel({dim: index for dim in shown.space})
    places = [cut_text(one) for name, one in at.coords.items() if one.ndim == 0 and name != shown.time]
    if not any(places) and shown.space:
        return f"{shown.space[0]} {index}"
    return ", ".join(filter(None, places))

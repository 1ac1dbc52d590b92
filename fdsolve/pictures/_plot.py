"""`plot` and `animate`: pictures of Datasets, chosen by what is in them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ._data import Shown, pick_times, show
from ._film import write_film
from ._lines import MOST_LINES, draw_lines, draw_space_time, draw_traces
from ._maps import draw_arrows, draw_maps, draw_slices
from ._request import Drawn, Request
from ._style import join, pick_evenly, style


@dataclass(frozen=True)
class Kind:
    """A kind of picture: what draws it, and fields of how many dimensions it is for."""

    draw: Callable[[Request], Drawn]
    ranks: tuple[int, ...]


KINDS: dict[str, Kind] = {
    "lines": Kind(draw_lines, (1,)),
    "space-time": Kind(draw_space_time, (1,)),
    "traces": Kind(draw_traces, (0, 1)),
    "map": Kind(draw_maps, (2,)),
    "quiver": Kind(draw_arrows, (2,)),
    "slices": Kind(draw_slices, (3,)),
}
"""Every kind of picture, by the name that `kind=` takes."""


def plot(
    data: xr.Dataset,
    field: Any = None,
    *,
    time: Any = None,
    kind: Any = None,
    at: Any = None,
    part: Any = None,
    ax: Any = None,
    cmap: Any = None,
    limits: Any = None,
) -> Any:
    """A picture of fields; returns the matplotlib Figure.

    Arguments:
        data: fields with dimensions (time, *space), as `solution.to_xarray()` has them.
        field: a name, or several, each with panels of its own; default all. Of a pair of velocity components
            `kind="quiver"` draws arrows.
        time: a time or a list of them, in the units of the axis; the nearest saved ones are drawn. Default: a choice.
        kind: "lines" (one dimension, a line for each time), "space-time", "traces" (values at places along time),
            "map" (two dimensions), "quiver", "slices" (three). Default: by the number of dimensions.
        at: `dict(z=0.5)` cuts the field at the nearest point of an axis, and so lowers the number of dimensions.
        part: "real", "imag" or "abs" of a complex field.
        ax: the Axes to draw on, as many as the picture has panels (one, where one time of one field is chosen).
        cmap: a colour map; default viridis, and where values have both signs a diverging one, white at zero.
        limits: the least and greatest value of the colours (or of the axis of values).

    Raises DeclarationError for names, times and kinds that there are not.
    """
    chosen, request = _request(data, field, time, kind, at, part, ax, cmap, limits, moving=False)
    with style():
        return KINDS[chosen].draw(request).figure


def animate(
    data: xr.Dataset,
    path: Any,
    field: Any = None,
    *,
    fps: Any = 12,
    kind: Any = None,
    at: Any = None,
    part: Any = None,
    cmap: Any = None,
    limits: Any = None,
    most: Any = 120,
    dpi: Any = 110,
) -> Path:
    """A film of the saved times, colours and axes the same throughout; returns the path it was written to.

    Arguments: as for `plot`, and `path`, whose ending says what is written: .gif (by Pillow) or .mp4 (by the
    ffmpeg on the path, else that of imageio-ffmpeg: pip install 'fdsolve[film]'); `fps`, frames a second; `most`, how
    many frames at most, evenly chosen; `dpi`.

    Raises DeclarationError for another ending, without ffmpeg, for fewer than two frames and where there are fewer than
    two times.
    """
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 2:
        raise DeclarationError(f"animate: most= is a whole number of frames of at least 2, got {most!r}.")
    if not isinstance(path, str | PathLike):
        raise DeclarationError(f'animate takes a path such as "run.gif", got {path!r}.')
    chosen, request = _request(data, field, None, kind, at, part, None, cmap, limits, moving=True)
    levels = min(shown.levels for shown in request.fields)
    if levels < 2:
        raise DeclarationError(
            "A film wants several saved times, and there is one. Save more, as with save=fd.every(10), or draw a "
            "picture with plot()."
        )
    with style():
        drawn = KINDS[chosen].draw(request)
        return write_film(drawn, pick_evenly(levels, int(most)), Path(path), fps, dpi)


def _request(
    data: xr.Dataset,
    field: Any,
    time: Any,
    kind: Any,
    at: Any,
    part: Any,
    ax: Any,
    cmap: Any,
    limits: Any,
    *,
    moving: bool,
) -> tuple[str, Request]:
    """The kind of picture, and what it draws."""
    names = list(data.data_vars) if field is None else [field] if isinstance(field, str) else field
    if not isinstance(names, Sequence) or not names:
        raise DeclarationError(f"plot takes the name of a field, or a list of names; got {field!r}.")
    fields = tuple(show(data, name, part=part, at=at) for name in names)
    if field is None and len({len(shown.space) for shown in fields}) > 1:
        raise DeclarationError(f"The fields {join(names)} differ in their dimensions; draw them one by one.")
    times = pick_times(fields[0], time)
    chosen = _default_kind(fields, times, moving) if kind is None else kind
    _check_kind(chosen, fields)
    if field is None and chosen == "slices" and len(fields) > 1:
        raise DeclarationError(f"Fields of three dimensions are drawn one by one; name one of {join(names)}.")
    if moving and chosen in ("space-time", "traces"):
        raise DeclarationError(f"A picture of kind {chosen!r} shows all times at once; there is nothing to animate.")
    return chosen, Request(fields, times, ax, cmap, limits, moving)


def _default_kind(fields: tuple[Shown, ...], times: list[int] | None, moving: bool) -> str:
    rank = len(fields[0].space)
    if rank == 0 or (rank == 1 and fields[0].space == ("receiver",)):
        return "traces"
    if rank == 1:
        many = times is None and not moving and all(shown.levels > MOST_LINES for shown in fields)
        return "space-time" if many else "lines"
    return {2: "map", 3: "slices"}.get(rank, "slices")


def _check_kind(kind: Any, fields: tuple[Shown, ...]) -> None:
    if not isinstance(kind, str) or kind not in KINDS:
        raise DeclarationError(f"kind= takes one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    for shown in fields:
        if len(shown.space) not in KINDS[kind].ranks:
            fitting = [name for name, one in KINDS.items() if len(shown.space) in one.ranks]
            hint = f"its kinds are {', '.join(map(repr, fitting))}" if fitting else "cut it with at=dict(z=0.5)"
            raise DeclarationError(
                f"A picture of kind {kind!r} is not for {len(shown.space)} dimensions, as {shown.label} has; {hint}."
            )

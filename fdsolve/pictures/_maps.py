"""Pictures of two and three dimensions: maps, slices through the middle, arrows of a velocity."""

from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ._data import Shown, cut_text, on_points
from ._mesh import Plane, add_bar
from ._request import Drawn, Request, Update, together
from ._style import Scale, label_outer, make_panels, name_with_unit, shape_of

MOST_MAPS = 6
ARROWS = 22


def draw_maps(request: Request) -> Drawn:
    """u by colour over two axes: several times of one field share their colours; several fields have their own."""
    jobs = [(shown, index) for shown in request.fields for index in request.last_or(MOST_MAPS, shown)]
    planes = {id(shown): Plane.of(shown.level(0)) for shown in request.fields}
    several, shared = len(request.fields) > 1, _share(request.fields)
    ratio = planes[id(jobs[0][0])].ratio
    columns = len(jobs) // len(request.fields) if several and len(jobs) > len(request.fields) else None
    figure, axes = make_panels(
        len(jobs), request.ax, ratio=ratio, shared=shared, bars=several and not columns, columns=columns
    )
    updates: list[Update] = []
    for shown in request.fields:
        own = [(ax, index) for ax, (one, index) in zip(axes, jobs, strict=True) if one is shown]
        scale = request.scale(shown, [index for _, index in own])
        updates += [_map_of(ax, shown, index, planes[id(shown)], scale) for ax, index in own]
        add_bar(figure, [ax for ax, _ in own], scale, shown.label, beyond=request.limits is not None)
    if shared and request.ax is None:
        label_outer(axes, columns or shape_of(len(jobs))[1])
    if several:
        for ax, (shown, _) in zip(axes, jobs, strict=True):
            ax.set_title(", ".join(filter(None, [shown.label.partition(" (")[0], ax.get_title()])))
    return Drawn(figure, together(updates))


def _share(fields: tuple[Shown, ...]) -> bool:
    return len({shown.space for shown in fields}) == 1


def _map_of(ax: Any, shown: Shown, index: int, plane: Plane, scale: Scale) -> Update:
    redraw = plane.draw(ax, shown.level(index), scale)
    plane.prepare(ax)
    ax.set_title(shown.title(index))

    def update(at: int) -> None:
        redraw(shown.level(at))
        ax.set_title(shown.title(at))

    return update


def draw_slices(request: Request) -> Drawn:
    """Three planes through the middle of a box, the lines where they meet drawn in."""
    shown, *others = request.fields
    if others:
        raise DeclarationError('kind="slices" draws one field of three dimensions; name it, as in plot("u").')
    chosen = [0] if request.moving else [shown.levels - 1] if request.times is None else request.times
    if len(chosen) != 1:
        raise DeclarationError(f'kind="slices" draws one time, got {len(chosen)} in time=.')
    dims, middle = shown.space, {dim: shown.array.sizes[dim] // 2 for dim in shown.space}
    ratio = max(Plane.of(shown.level(0).isel({held: 0})).ratio for held in dims)
    figure, axes = make_panels(3, request.ax, ratio=ratio, shared=False)
    scale = request.scale(shown, chosen)
    updates: list[Update] = []
    for ax, held in zip(axes, reversed(dims), strict=True):
        state = shown.level(chosen[0]).isel({held: middle[held]})
        plane = Plane.of(state)
        redraw = plane.draw(ax, state, scale)
        plane.prepare(ax)
        ax.set_title(cut_text(shown.array[held][middle[held]]))
        if not plane.curved:
            thin = dict(color="k", linewidth=0.7, linestyle=(0, (4, 4)), alpha=0.6)
            ax.axvline(float(shown.array[plane.across][middle[plane.across]]), **thin)
            ax.axhline(float(shown.array[plane.up][middle[plane.up]]), **thin)
        updates.append(lambda at, r=redraw, h=held: r(shown.level(at).isel({h: middle[h]})))
    if request.ax is None:
        heading = figure.suptitle(shown.title(chosen[0]))
        updates.append(lambda at: heading.set_text(shown.title(at)))
    add_bar(figure, axes, scale, shown.label, beyond=request.limits is not None)
    return Drawn(figure, together(updates))


def draw_arrows(request: Request) -> Drawn:
    """Two components of a velocity, across and up, as arrows over the magnitude by colour."""
    if len(request.fields) != 2 or any(len(shown.space) != 2 for shown in request.fields):
        raise DeclarationError(
            'kind="quiver" draws a pair of components in two dimensions: plot(("u", "v"), kind="quiver").'
        )
    first, second = (_on_common_points(shown, request.fields) for shown in request.fields)
    chosen = request.last_or(MOST_MAPS, first) if request.times is not None or request.moving else [first.levels - 1]
    speed = xr.DataArray(np.hypot(first.array.values, second.array.values), first.array.coords, first.array.dims)
    names = [shown.label.partition(" (")[0] for shown in request.fields]
    label = name_with_unit(f"|({names[0]}, {names[1]})|", request.fields[0].array.attrs.get("units"))
    total = Shown(speed, label, first.time)
    plane = Plane.of(first.level(0))
    if plane.curved:
        raise DeclarationError('kind="quiver" draws on straight axes; draw the components by themselves.')
    figure, axes = make_panels(len(chosen), request.ax, ratio=plane.ratio)
    scale = request.scale(total, chosen)
    longest = range(total.levels) if request.moving else chosen
    highest = max(float(np.nanmax(total.level(index).values)) for index in longest)
    updates: list[Update] = []
    for ax, index in zip(axes, chosen, strict=True):
        updates.append(_map_of(ax, total, index, plane, scale))
        updates.append(_arrows_of(ax, (first, second), index, plane, highest))
    add_bar(figure, axes, scale, label, beyond=request.limits is not None)
    if request.ax is None:
        label_outer(axes, shape_of(len(chosen))[1])
    return Drawn(figure, together(updates))


def _on_common_points(shown: Shown, pair: tuple[Shown, ...]) -> Shown:
    """A component on the points that belong to neither's faces."""
    common = {}
    for one in pair:
        for dim in one.space:
            if not dim.endswith("_face"):
                common.setdefault(dim, one.array[dim])
    for dim in pair[0].space:  # both on faces
        if dim.endswith("_face") and dim.removesuffix("_face") not in common:
            return shown
    return Shown(on_points(shown.array, common), shown.label, shown.time)


def _arrows_of(ax: Any, pair: tuple[Shown, Shown], index: int, plane: Plane, highest: float) -> Update:
    """Arrows on at most 22 × 22 points, the longest as long as the distance between two of them."""
    state = pair[0].level(index)
    step = {dim: max(1, round(state.sizes[dim] / ARROWS)) for dim in (plane.across, plane.up)}
    keep = {dim: slice(step[dim] // 2, None, step[dim]) for dim in step}
    x, y = (state[dim].isel({dim: keep[dim]}).values for dim in (plane.across, plane.up))

    def components(at: int) -> list[np.ndarray]:
        return [one.level(at).isel(keep).transpose(plane.up, plane.across).values for one in pair]

    distance = min(abs(x[1] - x[0]) if x.size > 1 else 1.0, abs(y[1] - y[0]) if y.size > 1 else 1.0)
    arrows = ax.quiver(
        x,
        y,
        *components(index),
        color="w",
        edgecolor="0.15",
        linewidth=0.35,
        pivot="mid",
        angles="xy",
        scale_units="xy",
        scale=(highest or 1.0) / (1.2 * distance),
        width=0.0045,
    )
    return lambda at: arrows.set_UVC(*components(at))

"""Which rule holds where: regions by colour, with a legend, and the points that each rule reads."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._mesh import edges_of
from ._style import COLOURS, HOLE, style

SHORT_LABEL = 24
MOST_STENCILS = 4
_MORE = ("#4477AA", "#BB5566", "#999933", "#882255", "#44AA99", "#DDCC77", "#AA4499", "#332288")
_OBLIQUE = 0.42


@dataclass(frozen=True)
class Read:
    """A point that a rule reads: `offset` from its own by axis, in points (half ones where staggered)."""

    field: str
    level: int
    offset: tuple[float, ...]


@dataclass(frozen=True)
class Rule:
    """A rule on a map: what the legend says, what it reads, and whether it gives ghost points or leaves a hole."""

    label: str
    reads: tuple[Read, ...] = ()
    ghost: bool = False
    hole: bool = False


@dataclass(frozen=True)
class RegionMap:
    """The rules of a field on one or two axes.

    `numbers` holds at each point, ghost points included, the index of its rule in `rules`, or −1; its dimensions are
    those of `points`, the coordinates along each axis drawn. `labels` name these axes with units. `inside` are the
    first and last coordinates of the field's own points. `axes` are the names of all axes, in the order of offsets.
    """

    field: str
    title: str
    numbers: np.ndarray
    points: tuple[np.ndarray, ...]
    labels: tuple[str, ...]
    inside: tuple[tuple[float, float], ...]
    axes: tuple[str, ...]
    rules: tuple[Rule, ...]
    alike: bool = True
    time: str | None = None
    colours: tuple[str, ...] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        assert self.numbers.ndim == len(self.points) == len(self.labels) in (1, 2)
        plain = iter([*COLOURS, *_MORE] * (1 + len(self.rules) // 16))
        object.__setattr__(self, "colours", tuple(HOLE if rule.hole else next(plain) for rule in self.rules))


def draw_regions(maps: Sequence[RegionMap], ax: Any = None) -> Any:
    """Regions by colour, a legend, and beside them the stencil of each rule that reads; returns the Figure.

    With `ax=` the regions alone are drawn there, those of the first map.
    """
    with style():
        if ax is not None:
            _draw_map(maps[0], ax)
            ax.legend(handles=_handles(maps[0]), loc="upper left", bbox_to_anchor=(1.01, 1.0))
            return ax.figure
        from matplotlib import pyplot as plt

        flat = all(one.numbers.ndim == 1 for one in maps)
        heights = [(2.4 if flat else 4.0) + 0.2 * len(one.rules) for one in maps]
        figure = plt.figure(figsize=(10.5, sum(heights)), layout="constrained")
        for part, one in zip(
            figure.subfigures(len(maps), 1, squeeze=False, height_ratios=heights)[:, 0], maps, strict=True
        ):
            _draw_field(part, one)
    return figure


def _draw_field(part: Any, one: RegionMap) -> None:
    """A map with its legend below, and the stencils in a block beside it."""
    shown = [index for index, rule in enumerate(one.rules) if rule.reads and not rule.hole]
    distinct = list({one.rules[index].reads: index for index in reversed(shown)}.values())[::-1][:MOST_STENCILS]
    left, right = part.subfigures(1, 2, width_ratios=(1.25, 1.0)) if distinct else (part, None)
    ax = left.subplots()
    _draw_map(one, ax)
    short = max((len(rule.label) for rule in one.rules), default=0) <= SHORT_LABEL
    left.legend(handles=_handles(one), loc="outside lower center", ncols=2 if short and len(one.rules) > 6 else 1)
    if right is None:
        return
    columns = 1 if len(distinct) == 1 else 2
    rows = -(-len(distinct) // columns)
    axes = np.atleast_1d(right.subplots(rows, columns)).ravel()
    for place, index in zip(axes, distinct, strict=False):
        _draw_stencil(place, one, index)
    for place in axes[len(distinct) :]:
        place.remove()


def _handles(one: RegionMap) -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(
            facecolor=colour,
            edgecolor="0.3",
            linewidth=0.5,
            hatch="////" if rule.ghost else None,
            alpha=0.55 if rule.ghost else 1.0,
            label=_shorten(rule.label, 60),
        )
        for rule, colour in zip(one.rules, one.colours, strict=True)
    ]


def _shorten(text: str, most: int = 46) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _draw_map(one: RegionMap, ax: Any) -> None:
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Rectangle

    numbers = one.numbers if one.numbers.ndim == 2 else one.numbers[:, None]
    points = one.points if one.numbers.ndim == 2 else (one.points[0], np.zeros(1))
    x, y = (edges_of(place) for place in points)
    colours = ListedColormap(list(one.colours) or ["w"])
    norm = BoundaryNorm(np.arange(len(one.colours) + 1) - 0.5, colours.N) if one.colours else None
    few = max(numbers.shape) <= 48
    lines: dict[str, Any] = dict(edgecolors="w", linewidth=0.4) if few else dict(rasterized=True)
    ghosts = np.array([rule.ghost for rule in one.rules], bool)
    outside = np.zeros(numbers.shape, bool) if not len(ghosts) else (numbers >= 0) & ghosts[numbers]
    for mask, alpha in ((numbers < 0) | outside, 1.0), ((numbers < 0) | ~outside, 0.55):
        cells = np.ma.masked_array(numbers, mask).T
        if not np.ma.getmaskarray(cells).all():
            ax.pcolormesh(x, y, cells, cmap=colours, norm=norm, alpha=alpha, **lines)
    for i, j in np.argwhere(outside) if few else ():
        corner, size = (float(x[i]), float(y[j])), (float(x[i + 1] - x[i]), float(y[j + 1] - y[j]))
        box = Rectangle(corner, *size, fill=False, hatch="////", linewidth=0, ec="w")
        ax.add_patch(box)
    ax.set(xlabel=one.labels[0], title=one.title)
    if one.numbers.ndim == 1:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        for wall in one.inside[0]:
            ax.axvline(wall, color="k", linewidth=1.0)
        return
    (a, b), (c, d) = one.inside
    ax.add_patch(Rectangle((a, c), b - a, d - c, fill=False, ec="k", linewidth=1.0))
    ax.set_ylabel(one.labels[1])
    if one.alike:
        ax.set_aspect("equal")


def _draw_stencil(ax: Any, one: RegionMap, index: int) -> None:
    """The point of a rule, a ring, and those it reads: discs, paler the older, squares for other fields."""
    rule, colour = one.rules[index], one.colours[index]
    timed = len(one.axes) == 1 and any(read.level for read in rule.reads)
    here = (0.0, 0.0)
    drawn: dict[tuple[Any, ...], str] = {}
    reach = 1.0
    for read in sorted(rule.reads, key=lambda read: read.level):
        x, y = _on_paper(read, timed)
        reach = max(reach, abs(x), abs(y))
        ax.plot([here[0], x], [here[1], y], color=colour, linewidth=1.3, alpha=0.6, zorder=1)
        key, text = (read.field, read.level), _level_text(one, read)
        shape = dict(marker="o" if read.field == one.field else "s", markersize=8 if read.level == 0 else 7)
        ax.plot(
            x,
            y,
            **shape,
            color=colour if read.field == one.field else "0.35",
            alpha=1.0 if len(one.axes) == 1 else max(0.35, 1.0 + 0.3 * read.level),
            linestyle="",
            zorder=2,
            label=text if key not in drawn else None,
        )
        drawn[key] = text
    ax.plot(*here, "o", markersize=15, markerfacecolor="none", markeredgecolor="k", markeredgewidth=1.2, zorder=3)
    lower = min([_on_paper(read, timed)[1] for read in rule.reads] + [0.0])
    upper = max([_on_paper(read, timed)[1] for read in rule.reads] + [0.0])
    ax.set(xlim=(-reach - 0.8, reach + 0.8), ylim=(lower - 0.8, upper + 0.8), aspect="equal")
    ax.set_title(_shorten(rule.label.partition(" on ")[0], 34), fontsize="small", color=colour)
    _name_axes(ax, one, timed, reach)
    if set(drawn) != {(one.field, 0)}:
        ax.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0), handletextpad=0.1)


def _on_paper(read: Read, timed: bool) -> tuple[float, float]:
    """Where an offset lies: the third axis goes back obliquely; on one axis, older levels lie below."""
    offset = (*read.offset, 0.0, 0.0)[:3]
    if timed:
        return offset[0], float(read.level)
    back = _OBLIQUE * offset[2]
    return offset[0] + back, offset[1] + back


def _level_text(one: RegionMap, read: Read) -> str:
    """u[t−1], or the bare name where there is one level."""
    if read.level and one.time:
        return f"{read.field}[{one.time}−{-read.level}]"
    return read.field


def _name_axes(ax: Any, one: RegionMap, timed: bool, reach: float) -> None:
    """Ticks at the offsets, named as in rules: x−1, x, x+1."""
    span = int(np.ceil(reach))
    step = max(1, span // 2)
    ticks = [tick for tick in range(-span, span + 1) if tick % step == 0]
    ax.set_xticks(ticks, [_offset_text(one.axes[0], tick) for tick in ticks], fontsize="x-small")
    up = one.time if timed else (one.axes[1] if len(one.axes) > 1 else None)
    lower, upper = ax.get_ylim()
    shown = [tick for tick in range(int(np.ceil(lower)), int(upper) + 1) if tick % step == 0]
    ax.set_yticks(shown if up else [], [_offset_text(up, tick) for tick in shown] if up else [], fontsize="x-small")
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0)
    ax.grid(alpha=0.3, linewidth=0.6)


def _offset_text(name: str | None, offset: int) -> str:
    return f"{name}{offset:+d}".replace("-", "−") if offset else str(name)

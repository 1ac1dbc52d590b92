"""Errors over step sizes, with the slope of an order beside them."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ._style import COLOURS, make_panels, style

_MARKS = "osD^vPX*"


def convergence(
    steps: Any,
    errors: Any,
    *,
    order: Any = None,
    label: Any = "Δx",
    error_label: Any = "error",
    ax: Any = None,
) -> Any:
    """Errors over steps on logarithmic axes, with lines of slope `order`; returns the matplotlib Figure.

    Arguments:
        steps: (n,), step sizes, spacings, positive.
        errors: (n,), positive; or a dict of such by name, a curve each. Zeros and nan are left out.
        order: the order to compare with, or several; default: the observed one is told, nothing compared.
        label, error_label: what the axes say, with units.
        ax: the Axes to draw on.

    Raises DeclarationError for lengths that differ and for steps that are not positive.

    >>> figure = convergence([0.1, 0.05, 0.025], [1e-2, 2.5e-3, 6.2e-4], order=2)
    >>> figure.axes[0].get_xscale()
    'log'
    """
    curves = dict(errors) if isinstance(errors, Mapping) else {"": errors}
    sizes = np.asarray(steps, float)
    if sizes.ndim != 1 or sizes.size < 2 or not (sizes > 0).all():
        raise DeclarationError(f"convergence: steps are two or more positive numbers, got {steps!r}.")
    found = {name: np.asarray(values, float) for name, values in curves.items()}
    for name, values in found.items():
        if values.shape != sizes.shape:
            raise DeclarationError(
                f"convergence: {sizes.size} steps and {values.size} errors{f' of {name}' * bool(name)}."
            )
    with style():
        figure, (axis,) = make_panels(1, ax, ratio=0.8)
        for (name, values), colour, mark in zip(found.items(), cycle(COLOURS), cycle(_MARKS), strict=False):
            good = np.isfinite(values) & (values > 0)
            axis.loglog(sizes[good], values[good], mark + "-", color=colour, label=_curve_text(name, sizes, values))
        every = np.concatenate([values[np.isfinite(values) & (values > 0)] for values in found.values()])
        coarse = min(values[np.argmax(sizes)] for values in found.values())
        for slope in np.atleast_1d([] if order is None else order):
            _slope(axis, sizes, 0.5 * coarse, float(slope))
        if every.size:
            axis.set_ylim(every.min() / 4, every.max() * 2.5)
        axis.set(xlabel=label, ylabel=error_label)
        axis.grid(which="major", alpha=0.35, linewidth=0.6)
        axis.grid(which="minor", alpha=0.15, linewidth=0.4)
        _few_ticks(axis, sizes)
        axis.legend(loc="upper left")
    return figure


def _curve_text(name: str, sizes: np.ndarray, values: np.ndarray) -> str:
    """The curve's name and its observed order between the two finest grids."""
    finest = np.argsort(sizes)[:2]
    (a, b), (p, q) = sizes[finest], values[finest]
    if not (p > 0 and q > 0 and np.isfinite(p * q)) or a == b:
        return name or "measured"
    return f"{name or 'measured'} (order {np.log(q / p) / np.log(b / a):.2f})"


def _slope(axis: Any, sizes: np.ndarray, start: float, order: float) -> None:
    """A dashed line of a slope from below the coarsest error down."""
    if not (np.isfinite(start) and start > 0):
        return
    ends = np.array([sizes.max(), np.sqrt(sizes.max() * sizes.min()), sizes.min()])
    line = start * (ends / ends[0]) ** order
    axis.loglog(ends, line, "--", color="0.45", linewidth=1.1)
    options = dict(textcoords="offset points", color="0.35", ha="left", va="top", fontsize="small", clip_on=True)
    axis.annotate(f"order {order:g}", (ends[1], line[1]), (5, -3), **options)


def _few_ticks(axis: Any, sizes: np.ndarray) -> None:
    """Where steps span less than a decade, ticks at the steps themselves."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    if sizes.max() / sizes.min() > 30 or sizes.size > 8:
        return
    axis.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())

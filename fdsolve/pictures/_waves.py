"""What a scheme does to waves: amplification and velocity errors over the phase from point to point."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from ._style import COLOURS, make_panels, style


def dispersion(found: xr.Dataset, *, ax: Any = None) -> Any:
    """Amplification factors and velocity errors of `fd.analyse`, over the phase θ = kΔx; returns the Figure.

    Dotted lines are the exact equation's. With several axes: along each of them (its longest waves across) and along
    the diagonal. `ax`: two Axes to draw on.
    """
    axes = [str(name) for name in found.attrs["axes"].split()]
    theta = np.asarray(found[f"theta_{axes[0]}"])
    with style():
        figure, (left, right) = make_panels(2, ax, ratio=0.78, shared=False)
        lines = [(mode, *direction) for mode in range(found.sizes["mode"]) for direction in _directions(axes)]
        for (mode, direction, pick), colour in zip(lines, COLOURS * len(lines), strict=False):
            shown = f"mode {mode}" if found.sizes["mode"] > 1 else ""
            label = " ".join(part for part in (shown, direction) if part) or "numerical"
            left.plot(theta, pick(found["exact_amplification"], mode), ":", color=colour, linewidth=1.4)
            left.plot(theta, pick(found["amplification"], mode), color=colour, label=label)
            right.plot(theta, pick(found["phase_error"], mode), color=colour, label=f"{label}, phase")
            right.plot(theta, pick(found["group_error"], mode), "--", color=colour, label=f"{label}, group")
        left.axhline(1.0, color="0.4", linewidth=0.7)
        right.axhline(0.0, color="0.4", linewidth=0.7)
        left.set(title="amplification of one step (dotted: exact)", ylabel="|G|")
        right.set(title="relative error of the velocities", ylabel="(numerical − exact) / exact", ylim=(-1.05, 1.05))
        for axis in (left, right):
            axis.set(xlabel="θ = k Δx", xlim=(0, np.pi))
            axis.set_xticks(np.linspace(0, np.pi, 5), ["0", "π/4", "π/2", "3π/4", "π"])
            axis.grid(alpha=0.25, linewidth=0.6)
            axis.legend()
        if ax is None:
            figure.suptitle(_shorten(str(found.attrs["summary"]).splitlines()[0]), fontsize="medium")
    return figure


def _shorten(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"


def _directions(axes: list[str]) -> list[tuple[str, Callable[[Any, int], np.ndarray]]]:
    """Lines through the wavenumbers: along each axis (its longest waves across), and along the diagonal."""

    def along(axis: int) -> Callable[[Any, int], np.ndarray]:
        return lambda data, mode: np.asarray(data[mode])[
            tuple(slice(None) if a == axis else 0 for a in range(len(axes)))
        ]

    def diagonal(data: Any, mode: int) -> np.ndarray:
        values = np.asarray(data[mode])
        every = np.arange(values.shape[0])
        return values[(every,) * len(axes)]

    if len(axes) == 1:
        return [("", along(0))]
    return [*((f"near {name}", along(k)) for k, name in enumerate(axes)), ("diagonal", diagonal)]

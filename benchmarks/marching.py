"""(f) Marches along time: `solve` against loops by hand, and what a call of `solve` costs on its own."""

from typing import Any

import jax.numpy as jnp

import fdsolve as fd

from . import _marches as cases
from ._compare import Settings, compare
from ._table import Row, show_seconds
from ._timing import interleave

TITLE = "Marching: heat in two dimensions by `solve`, last level"
SIZES = ((1024, 40), (4096, 4))


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    return [(TITLE, _rows(settings))]


def _rows(settings: Settings) -> list[Row]:
    """1024² and 4096² points against two hand-written loops; eager calls of a small problem."""
    found = []
    for num, steps in SIZES:
        what, given, ours = f"{num}², {steps} steps", cases.heat_arguments(num), cases.heat_ours(num, steps)
        others = [(cases.heat_two_buffers(num, steps), "two buffers by hand")]
        if not settings.quick:
            others.append((cases.heat_padded(num, steps), "padded by hand"))
        found += [compare(settings, what, ours, other, given, against=name, bar=1.3) for other, name in others]
    return [*found, _eager(settings)]


def _eager(settings: Settings) -> Row:
    """The second call of `solve` outside jit: planning and checks, with everything compiled."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=151), x=fd.Axis(0.0, 2.0, num=51)))
    u[...] = lambda u, c, dt, dx: u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"])
    u[0] = lambda x: jnp.where((x > 0.5) & (x < 1.0), 2.0, 1.0)
    u[:, 0] = u[:, -1] = 1.0

    def call() -> Any:
        return fd.solve(u, c=0.5)["u"]

    seconds = interleave([call], budget=settings.budget).median(0)
    return Row("151 × 51 outside `jit`, second call: the plan made anew", show_seconds(seconds), "–")

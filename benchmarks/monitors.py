"""(k) What it costs to be watched: a run with monitors and a bar over the same run in one piece."""

import contextlib
import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import fdsolve as fd

from ._compare import Settings
from ._table import Row, show_seconds
from ._timing import interleave

BAR = 1.02


def _problem(num: int, steps: int) -> fd.Field:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=steps + 1), x=fd.Axis(0.0, 1.0, num=num), y=fd.Axis(0.0, 1.0, num=num))
    u = fd.Field("u", grid, dtype=jnp.float32)
    u[...] = lambda u, r: (
        u["t-1"] + r * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
    )
    u[0] = lambda x, y: jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return u


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """Monitors as often as they look unasked and every 200 levels, and a bar, over 2000 steps of 1024²."""
    num, steps = (256, 500) if settings.quick else (1024, 2000)
    field = _problem(num, steps)
    unasked = [fd.monitors.Conservation(), fd.monitors.Residual(), fd.monitors.Nan()]
    several = [fd.monitors.Conservation(every=200), fd.monitors.Residual(every=200), fd.monitors.Nan(every=200)]

    def run(**options: Any) -> Callable[[], Any]:
        def call() -> Any:
            with contextlib.redirect_stderr(io.StringIO()):  # `fft` would jump to the end where nobody looks
                return jax.block_until_ready(
                    fd.solve(field, r=0.2, save=fd.final(), kernel="native", **options).final["u"]
                )

        return call

    cases = [
        ("three monitors, as they are", run(monitors=unasked)),
        ("three monitors, every 200 levels", run(monitors=several)),
        ("a bar", run(progress=True)),
        ("a bar and three monitors as they are", run(monitors=unasked, progress=True)),
    ]
    samples = interleave(
        [*(call for _, call in cases), run()], budget=3 * settings.budget, least=7 if settings.quick else 41
    )
    rows = []
    for place, (what, _) in enumerate(cases):
        ratio, low, high = samples.ratio(place, -1)
        plain = f"{show_seconds(samples.median(-1))} (not watched)"
        rows.append(Row(what, show_seconds(samples.median(place)), plain, ratio, (low, high), BAR))
    return [(f"Watched runs of 2-D heat, {num}², {steps} steps", rows)]

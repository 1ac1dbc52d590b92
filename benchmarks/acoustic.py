"""(h) The 3-D acoustic wave equation at space order 8: a step against one by hand, and against the memory bound."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import fdsolve as fd

from ._bound import bound_row, median_seconds
from ._compare import Settings, compare
from ._table import Row

TITLE = "Waves: u_tt = c² ∇²u in three dimensions, order 8, leapfrog, last level"
WEIGHTS = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)
BYTES = 16  # float32: two levels and c² are read, one level is written


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    num, steps = (96, 4) if settings.quick else (192, 6)
    start = jax.random.uniform(jax.random.key(5), (num, num, num), jnp.float32)
    speed = jnp.full((num, num, num), 0.1, jnp.float32)
    ours, hand = acoustic_ours(num, steps), acoustic_by_hand(num, steps)
    rows = [compare(settings, f"{num}³, {steps} steps", ours, hand, [start, speed], against="slices by hand")]
    seconds = median_seconds(lambda: ours(start, speed), settings.budget)
    rows.append(bound_row(f"{num}³, float32", seconds, steps, num**3, BYTES))
    return [(TITLE, rows)]


def acoustic_ours(num: int, steps: int) -> Callable[..., Any]:
    """As a field and `solve`: periodic, c² Δt²/Δx² as a parameter at every point."""
    axes = {name: fd.Axis(0.0, float(num), num=num, periodic=True) for name in "xyz"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(steps + 1), num=steps + 2), **axes))
    u[...] = lambda u, m: 2 * u["t-1"] - u["t-2"] + m[...] * fd.schemes.laplacian(u, order=8, at="t-1")[...]
    u[[0, 1]] = lambda start: start[...]
    return jax.jit(lambda start, m: fd.solve(u, start=start, m=m, save=fd.final()).final["u"])


def acoustic_by_hand(num: int, steps: int) -> Callable[..., Any]:
    """Each level the sum of slices of the one before, wrapped."""

    def laplacian(v: jax.Array) -> jax.Array:
        wide = jnp.pad(v, 4, mode="wrap")
        total = 3 * jnp.float32(WEIGHTS[0]) * v
        for axis in range(3):
            for k in range(1, 5):
                for shift in (4 - k, 4 + k):
                    start = [4, 4, 4]
                    start[axis] = shift
                    total = total + jnp.float32(WEIGHTS[k]) * lax.dynamic_slice(wide, start, v.shape)
        return total

    def solve(start: jax.Array, m: jax.Array) -> jax.Array:
        def step(pair: Any, _: None) -> tuple[Any, None]:
            older, now = pair
            return (now, 2 * now - older + m * laplacian(now)), None

        return lax.scan(step, (start, start), None, length=steps)[0][1]

    return jax.jit(solve)

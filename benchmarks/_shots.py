"""(d) Gradients of shots with receivers by the speed at every point, by the default kernel and adjoint."""

from collections.abc import Callable
from math import isqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fdsolve as fd

from ._compare import Settings, compare, compile_for
from ._table import Row

STEPS, COURANT2 = 300, 0.2
TITLE = f"Gradient by c² of a 2-D wave of order 4, {STEPS} steps, a source and 16 receivers between the points"
BAR = 1.2
TOLERANCE = 1e-3
"""For sums over 300 steps in float32, which both round in their own order."""
SOURCE = dict(x=0.31, y=0.47)
RECEIVERS = dict(x=[float(x) for x in np.linspace(0.1, 0.9, 16)], y=[0.2] * 16)
WEIGHTS = {-2: -1 / 12, -1: 4 / 3, 0: -5 / 2, 1: 4 / 3, 2: -1 / 12}
NOTE = "By hand: nested jax.checkpoint over √T scans, two rows of zeros around; shots by jax.vmap in both."
Run = Callable[[Any, Any], Any]


def rows(settings: Settings) -> list[Row]:
    """One shot and more, forwards and the gradient, against JAX by hand."""
    found = []
    for num in (64,) if settings.quick else (64, 128, 256):
        for shots in (1, 4) if settings.quick else (1, 4, 8):
            speeds = jnp.asarray(1 + 0.1 * np.random.default_rng(0).random((num, num)), jnp.float32)
            given = [speeds, jnp.linspace(0.5, 1.5, shots, dtype=jnp.float32)]
            what = f"{num}², {shots} shot{'s' if shots > 1 else ''}"
            pair = [jax.vmap(run, (None, 0)) if shots > 1 else _alone(run) for run in (ours(num), by_hand(num))]
            forwards = [compile_for(jax.jit(one), given) for one in pair]
            found.append(compare(settings, f"{what}: records", *forwards, given, tolerance=TOLERANCE, note=NOTE))
            gradients = [compile_for(jax.jit(jax.grad(_misfit(one))), given) for one in pair]
            found.append(
                compare(settings, f"{what}: gradient", *gradients, given, bar=BAR, tolerance=TOLERANCE, note=NOTE)
            )
    return found


def _alone(run: Run) -> Run:
    return lambda speeds, strengths: run(speeds, strengths[0])[None]


def _misfit(run: Run) -> Run:
    return lambda speeds, strengths: jnp.sum(run(speeds, strengths) ** 2)


def ours(num: int) -> Run:
    """The records of a shot, (levels, receivers), from the speeds at all points and the source's strength."""
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, STEPS * 1e-3, num=STEPS + 1), **axes), dtype="float32")

    def around(u: Any) -> Any:
        return sum(w * u["t-1", *((f"{axis}{k:+d}",) if k else ())] for axis in "xy" for k, w in WEIGHTS.items())

    u[...] = lambda u, c: 2 * u["t-1"] - u["t-2"] + COURANT2 * c[...] * around(u)
    u[[0, 1]] = 0.0
    for axis in "xy":
        u[{axis: [0, 1, -2, -1]}] = 0.0
    u[fd.point(**SOURCE)] += lambda t, q: 1e-2 * q * jnp.sin(50 * t)
    places = fd.receivers(RECEIVERS)
    return lambda c, q: fd.solve(u, c=c, q=q, save=places)["u"]


def by_hand(num: int) -> Run:
    """The same, written for JAX."""
    at = {k: [np.asarray(one) * (num - 1) for one in found.values()] for k, found in enumerate((SOURCE, RECEIVERS))}
    (source, sources), (seen, weights) = (_corners(*at[k]) for k in at)

    def step(c: Any, q: Any, carry: Any, time: Any) -> Any:
        u, before = carry
        inner = 2 * u - before
        inner = inner[2:-2, 2:-2] + COURANT2 * c[2:-2, 2:-2] * sum(
            w * part
            for k, w in WEIGHTS.items()
            for part in (u[2 + k : num - 2 + k, 2:-2], u[2:-2, 2 + k : num - 2 + k])
        )
        new = jnp.pad(inner, 2).at[source].add(sources * 1e-2 * q * jnp.sin(50 * time))
        return (new, u), jnp.sum(weights * new[seen], 0)

    def run(c: Any, q: Any) -> Any:
        times = jnp.linspace(0.0, STEPS * 1e-3, STEPS + 1, dtype=jnp.float32)[1:]
        blocks = next(k for k in range(isqrt(len(times)), len(times)) if len(times) % k == 0)
        block = jax.checkpoint(lambda carry, some: lax.scan(lambda one, t: step(c, q, one, t), carry, some))
        zero = jnp.zeros((num, num), jnp.float32)
        records = lax.scan(block, (zero, zero), times.reshape(blocks, -1))[1].reshape(len(times), -1)
        return jnp.pad(records, ((1, 0), (0, 0)))

    return run


def _corners(x: Any, y: Any) -> tuple[tuple[Any, Any], Any]:
    """Indices (4, places) of the points around places, and their weights."""
    (i, a), (j, b) = ((np.floor(one).astype(int), one - np.floor(one)) for one in (x, y))
    places = np.stack([i, i, i + 1, i + 1]), np.stack([j, j + 1, j, j + 1])
    return places, jnp.asarray(np.stack([(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b]), jnp.float32)

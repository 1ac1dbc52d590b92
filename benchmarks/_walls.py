"""(d) Gradients by the portable kernel where stencils of order 8 close at walls, against the same closures by hand."""

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fdsolve as fd

from ._compare import Settings, compare, compile_for, gradient
from ._table import Row

STEPS, ORDER, DT = 64, 8, 0.4
TITLE = f"Gradient by c² of a 2-D wave of order {ORDER} between walls, {STEPS} steps, by `slices`"
BAR = 1.2
TOLERANCE = 1e-3
"""For sums over 64 steps in float32, which both round in their own order."""
NOTE = "By hand: nested jax.checkpoint over √T scans; closures as small matrices at either end, one product an axis."
CLOSED, READ = 3, 12
"""Points at a wall that have weights of their own, and of how many points these are."""
Run = Callable[[Any], Any]


def rows(settings: Settings) -> list[Row]:
    """The forward solve and its gradient by the default adjoint."""
    found = []
    for num in (128,) if settings.quick else (128, 256, 512):
        pair, at = (ours(num), by_hand(num)), [jnp.float32(0.4)]
        for what, wrap, bar in (("forward", jax.jit, None), ("gradient", gradient, BAR)):
            one, other = (compile_for(wrap(run), at) for run in pair)
            name = f"{num}²: {what}"
            found.append(compare(settings, name, one, other, at, bar=bar, tolerance=TOLERANCE, note=NOTE))
    return found


def ours(num: int) -> Run:
    """The last level from c²."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, DT * (STEPS + 1), num=STEPS + 2), **axes))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * c * fd.schemes.laplacian(u, order=ORDER, at="t-1")
    u[[0, 1]] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return lambda c: fd.solve(u, c=c, save=fd.final(), kernel="slices").final["u"]


def weights() -> np.ndarray:
    """The second derivative between walls on few points, as a matrix."""
    num = 2 * READ
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=fd.Axis(0.0, num - 1.0, num=num)))
    u[...] = lambda u: fd.schemes.laplacian(u, order=ORDER, at="t-1")
    u[dict(x=[0, -1])] = 0.0
    u[0] = lambda a: a[...]
    return np.array(jax.jacfwd(lambda a: fd.solve(u, a=a, save=fd.final()).final["u"])(jnp.zeros(num, jnp.float32)))


def by_hand(num: int) -> Run:
    """The same, written for JAX."""
    matrix, reach = weights(), ORDER // 2
    first, last = matrix[1 : 1 + CLOSED, :READ], matrix[-1 - CLOSED : -1, -READ:]
    inner = [float(matrix[READ, READ + k]) for k in range(reach + 1)]
    inside = np.zeros((num, num), np.float32)
    inside[1:-1, 1:-1] = 1.0
    points = jnp.arange(num, dtype=jnp.float32)
    begin = inside * jnp.sin(0.1 * points)[:, None] * jnp.cos(0.2 * points)

    def second(u: Any, axis: int) -> Any:
        u = jnp.moveaxis(u, axis, 0)
        middle = inner[0] * u[reach:-reach]
        for k in range(1, reach + 1):
            middle += inner[k] * (u[reach - k : num - reach - k] + u[reach + k : num - reach + k])
        wall = jnp.zeros_like(u[:1])
        return jnp.moveaxis(jnp.concatenate([wall, first @ u[:READ], middle, last @ u[-READ:], wall]), 0, axis)

    def step(c: Any, carry: Any, _: None) -> Any:
        u, before = carry
        return (inside * (2 * u - before + DT**2 * c * (second(u, 0) + second(u, 1))), u), None

    def run(c: Any) -> Any:
        length = isqrt(STEPS)
        block = jax.checkpoint(lambda carry, _: lax.scan(partial(step, c), carry, None, length=length))
        return lax.scan(block, (begin, begin), None, length=STEPS // length)[0][0]

    return run

"""(g) The Euler equations in two dimensions: WENO of order 5 and the HLLC flux, cell updates a second."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd

from ._compare import Settings
from ._table import Row, show_seconds
from ._timing import interleave

TITLE = "Euler equations, WENO5 + HLLC, SSPRK3, float32: cell updates a second (one a cell and step)"
SIZES = (256, 1024)
NUM_FIELDS, NUM_STAGES = 4, 3


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    return [(TITLE, [_row(settings, num) for num in (SIZES[:1] if settings.quick else SIZES)])]


def step(num: int, steps: int) -> tuple[Any, list[jax.Array]]:
    """A march of `steps` steps on num² periodic cells as a compiled function of the initial fields, and those."""
    axis = fd.Axis(0.0, 1.0, num=num, cells=True, periodic=True)
    grid = fd.Grid(t=fd.Time(0.0, 0.2 * steps / num, num=steps + 1), x=axis, y=axis)
    names = ("rho", "mx", "my", "energy")
    fields, gas = [fd.Field(name, grid, dtype=jnp.float32) for name in names], fd.schemes.IdealGas(1.4)
    options = dict(flux=fd.schemes.HLLC(), reconstruction=fd.schemes.WENO5())
    fd.together(*fields)[...] = fd.rate(
        lambda rho, mx, my, energy: fd.schemes.conservation(gas, (rho, mx, my, energy), **options)
    )

    def solve(*start: jax.Array) -> list[jax.Array]:
        for field, value in zip(fields, start, strict=True):
            field[0] = value
        final = fd.solve(fields, stepper=fd.schemes.SSPRK3(), save=fd.final()).final
        return [final[name] for name in names]

    x, y = np.meshgrid(axis.points, axis.points, indexing="ij")
    wave = 0.2 * np.sin(2 * np.pi * (x + y))
    start = gas.to_conservative((1 + wave, 0.5 + wave, -0.3 + 0 * wave, 1 + wave))
    return jax.jit(solve), [jnp.asarray(value, jnp.float32) for value in start]


def _row(settings: Settings, num: int) -> Row:
    """Time against that of a copy of the bytes that must move: each field read and written once a stage."""
    steps = max(2, 2**18 // num**2)
    ours, start = step(num, steps)
    copy, big = jax.jit(lambda *fields: [field + 1 for field in fields]), start
    samples = interleave([lambda: ours(*start), lambda: copy(*big)], budget=settings.budget, least=3)
    seconds, bound = samples.median(0) / steps, samples.median(1) * NUM_STAGES
    note = (
        "the bound is the time to read and write the four fields once a stage; "
        "the work is some hundreds of operations a face"
    )
    what = f"{num}² cells: {num**2 / seconds / 1e6:.3g} million updates a second, {bound / seconds:.2%} of the bound"
    return Row(what, show_seconds(seconds), f"{show_seconds(bound)} (memory bound)", seconds / bound, note=note)

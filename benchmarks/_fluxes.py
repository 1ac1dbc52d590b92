"""(d) What a gradient by the initial state costs where rules are long: conservation laws, and flow."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.schemes import (
    HLL,
    HLLC,
    RK4,
    TVD,
    WENO5,
    Heun,
    IdealGas,
    ShallowWater,
    conservation,
    convection,
    laplacian,
)

from ._compare import Settings
from ._parameters import STEPS, both_ways
from ._table import Row

COURANT = 0.1
TOLERANCE = 1e-2
"""float32, from a state of noise, where slopes change signs."""
Made = Callable[[Any], Any]


def _fields(names: Sequence[str], shape: Sequence[int], courant: float) -> list[fd.Field]:
    """Fields on periodic cells, of as many steps as all others here."""
    axes = {name: fd.Axis(0.0, 1.0, num=num, cells=True, periodic=True) for name, num in zip("xy", shape, strict=False)}
    time = fd.Time(0.0, STEPS * courant / max(shape), num=STEPS + 1)
    return [fd.Field(name, fd.Grid(t=time, **axes), dtype=np.float32) for name in names]


def _from(fields: Sequence[fd.Field], values: Sequence[float], stepper: Any, kernel: str) -> Made:
    """The initial values of the first field ↦ its last level; the others begin with numbers."""
    first, *rest = fields
    first[0] = lambda a: a[...]
    for one, value in zip(rest, values, strict=True):
        one[0] = value
    return lambda a: fd.solve(fields, a=a, stepper=stepper, save=fd.final(), kernel=kernel).final[first.name]


def _burgers(shape: Sequence[int], reconstruction: Any, kernel: str) -> Made:
    fields = _fields("u", shape, COURANT)
    each = (lambda u: u**2 / 2,) * len(shape)
    law = each if len(shape) > 1 else each[0]
    fields[0][...] = fd.rate(lambda u: conservation(law, u, reconstruction=reconstruction))
    return _from(fields, (), Heun(), kernel)


def _water(shape: Sequence[int], reconstruction: Any, kernel: str) -> Made:
    fields, law = _fields("hpq", shape, COURANT), ShallowWater(g=1.0)
    rate = fd.rate(lambda h, p, q: conservation(law, (h, p, q), flux=HLL(), reconstruction=reconstruction))
    fd.together(*fields)[...] = rate
    return _from(fields, (0.0, 0.0), Heun(), kernel)


def _gas(shape: Sequence[int], reconstruction: Any, kernel: str) -> Made:
    fields, law = _fields("rmnE", shape, COURANT / 2), IdealGas(1.4)
    rate = fd.rate(lambda r, m, n, E: conservation(law, (r, m, n, E), flux=HLLC(), reconstruction=reconstruction))
    fd.together(*fields)[...] = rate
    return _from(fields, (0.1, 0.2, 2.0), Heun(), kernel)


def _flow(shape: Sequence[int], kernel: str) -> Made:
    """Two velocities that carry each other, with friction."""
    u, v = fields = _fields("uv", shape, COURANT)
    u[...] = fd.rate(lambda u, v: 1e-3 * laplacian(u) - convection((u, v), u))
    v[...] = fd.rate(lambda u, v: 1e-3 * laplacian(v) - convection((u, v), v))
    return _from(fields, (0.3,), RK4(), kernel)


def rows(settings: Settings) -> list[Row]:
    """What gradients cost where generated code runs both ways, and where the portable kernel does."""
    plane, small, line = (64, 64, 4096) if settings.quick else (128, 96, 100_000)
    problems: list[tuple[str, Callable[[str], Made], tuple[int, ...]]] = [
        (f"Burgers, TVD, {2 * plane}²", partial(_burgers, (2 * plane,) * 2, TVD()), (2 * plane,) * 2),
        (f"Burgers, WENO5, {plane}²", partial(_burgers, (plane,) * 2, WENO5()), (plane,) * 2),
        (f"Burgers, WENO5, {line} points in a line", partial(_burgers, (line,), WENO5()), (line,)),
        (f"shallow water, HLL, TVD, {small}²", partial(_water, (small,) * 2, TVD()), (small,) * 2),
        (f"gas, HLLC, TVD, {small}²", partial(_gas, (small,) * 2, TVD()), (small,) * 2),
        (f"flow by RK4, {small}²", partial(_flow, (small,) * 2), (small,) * 2),
    ]
    found = []
    for name, make, shape in problems:
        at = jnp.asarray(1.0 + 0.2 * np.random.default_rng(0).uniform(size=shape), jnp.float32)
        found += both_ways(settings, name, make, at, TOLERANCE)
    return found

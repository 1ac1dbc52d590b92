"""A wave in one dimension, for the command line: a function of settings.

fdsolve run wave.py --set c=2.0 --set num=201 --plot wave.png
"""

import math

import jax.numpy as jnp

import fdsolve as fd


def problem(c=1.0, num=101):
    """Leapfrog at 0.9 of the largest stable step or a little less; fixed ends."""
    x, stop = fd.Axis(0.0, 1.0, num=num, units="m"), 1.5
    grid = fd.Grid(t=fd.Time(0.0, stop, num=1 + math.ceil(stop * c / (0.9 * x.step)), units="s"), x=x)
    u = fd.Field("u", grid, units="m")
    u[...] = lambda u, c, dt, dx: (
        2 * u["t-1"] - u["t-2"] + (c * dt / dx) ** 2 * (u["t-1", "x+1"] - 2 * u["t-1"] + u["t-1", "x-1"])
    )
    u[0:2] = lambda x: jnp.exp(-200.0 * (x - 0.3) ** 2)
    u[:, 0] = u[:, -1] = 0.0
    return dict(fields=u, parameters=dict(c=c))

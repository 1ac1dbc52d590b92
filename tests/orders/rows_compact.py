"""Compact derivatives: observed orders for heat and advection, walls included."""

import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.schemes import compact

from .table import Row


def _axis(kind: str, n: int) -> fd.Axis:
    if kind == "periodic node":
        return fd.Axis(0.0, 1.0, num=n, periodic=True)
    if kind == "node":
        return fd.Axis(0.0, 1.0, num=n + 1)
    index = np.linspace(0, 1, n + 1)
    return fd.Axis.from_points(index + 0.06 * np.sin(2 * np.pi * index))


def heat(kind: str, order: int):
    """u_t = u_xx + source with u = e^{-t} cos(2πx + 0.3), values given at both walls."""

    def error(n: int) -> float:
        axis, stop = _axis(kind, n), 0.01
        least = float(np.diff(axis.points).min())
        steps = int(np.ceil(stop / (0.2 * least**2)))
        grid = fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), x=axis)

        def exact(t, x):
            return jnp.exp(-t) * jnp.cos(2 * jnp.pi * x + 0.3)

        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u, t, x: compact(u, "x", 2, order=order)[...] + (4 * np.pi**2 - 1) * exact(t, x))
        u[0] = lambda x: exact(0.0, x)
        if not axis.periodic:
            u[dict(x=[0, -1])] = fd.boundary.Dirichlet(exact)
        final = fd.solve(u, save=fd.final())["u"][-1]
        return float(np.abs(np.asarray(final) - np.asarray(exact(stop, axis.points))).max())

    return error


def advection(kind: str, order: int):
    """u_t + u_x = 0 with u = sin(2π(x − t)), the inflow value given."""

    def error(n: int) -> float:
        axis, stop = _axis(kind, n), 0.4
        least = float(np.diff(axis.points).min())
        grid = fd.Grid(t=fd.Time(0.0, stop, num=int(np.ceil(stop / (0.15 * least))) * max(n // 24, 1) + 1), x=axis)

        def exact(t, x):
            return jnp.sin(2 * jnp.pi * (x - t))

        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u: -compact(u, "x", order=order))
        u[0] = lambda x: exact(0.0, x)
        if not axis.periodic:
            u[dict(x=0)] = fd.boundary.Dirichlet(exact)
        final = fd.solve(u, save=fd.final())["u"][-1]
        return float(np.abs(np.asarray(final) - np.asarray(exact(stop, axis.points))).max())

    return error


WHY = "the outermost row of the first derivative is of order 3: higher ones are unstable; one order more inside"
ROWS = [
    Row("compact 2nd derivative, order 4", "periodic", "node", 4, heat("periodic node", 4), (12, 24)),
    Row("compact 2nd derivative, order 6", "periodic", "node", 6, heat("periodic node", 6), (12, 24)),
    Row("compact 2nd derivative, order 4", "Dirichlet", "node", 4, heat("node", 4), (16, 32)),
    Row("compact 2nd derivative, order 6", "Dirichlet", "node", 6, heat("node", 6), (40, 80)),
    Row("compact 2nd derivative, order 4", "Dirichlet", "stretched node", 4, heat("stretched node", 4), (16, 32)),
    Row("compact 1st derivative, order 4", "periodic", "node", 4, advection("periodic node", 4), (12, 24)),
    Row("compact 1st derivative, order 6", "periodic", "node", 6, advection("periodic node", 6), (12, 24)),
    Row("compact 1st derivative, order 4", "Dirichlet, open", "node", 4, advection("node", 4), (64, 128)),
    Row("compact 1st derivative, order 6", "Dirichlet, open", "node", 4, advection("node", 6), (64, 128), why=WHY),
    Row(
        "compact 1st derivative, order 4",
        "Dirichlet, open",
        "stretched node",
        4,
        advection("stretched node", 4),
        (96, 192),
    ),
]

"""The flux form with a coefficient given at the points or the faces, at walls through which something flows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Robin, normal

from .table import Row


def coefficient(x: Any) -> Any:
    """A smooth coefficient that changes at the walls."""
    return 1 + x**2 + 0.5 * jnp.sin(3 * x)


def exact(t: Any, x: Any) -> Any:
    """A decaying wave."""
    return jnp.exp(-t) * jnp.sin(2 * x + 0.3)


def flow(cells: bool, place: str, kind: str, stretched: bool) -> Callable[[int], float]:
    """u_t = (k u_x)_x + s: error on about n points."""

    def error(n: int) -> float:
        index = (np.arange(n) + 0.5) / n if cells else np.linspace(0.0, 1.0, n + 1)
        moved = index + 0.1 * np.sin(2 * np.pi * index) / (2 * np.pi)
        axis = fd.Axis.from_points(moved if stretched else index, cells=cells)
        stop = 0.3 if cells else 0.05  # cells at a wall settle late
        steps = int(np.ceil(stop / (0.2 * np.diff(axis.points).min() ** 2)))
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), x=axis))
        slope = jax.grad(exact, argnums=1)
        bend = jax.grad(lambda x, t: coefficient(x) * slope(t, x))
        u[...] = fd.rate(lambda u, k, t, x: fd.schemes.divergence(k, u)[...] - exact(t, x) - bend(x, t))
        u[0] = lambda x: exact(0.0, x)
        if kind == "Neumann":
            u[dict(x=[0, -1])] = Neumann(lambda t, x, n=normal: n[0] * slope(t, x))
        elif kind == "Dirichlet":
            u[dict(x=[0, -1])] = Dirichlet(exact)
        else:
            u[dict(x=[0, -1])] = Robin(1.0, 2.0, lambda t, x, n=normal: exact(t, x) + 2.0 * n[0] * slope(t, x))
        faces = axis.positions(True, 0, axis.size(True))
        given = axis.points if place == "points" else faces
        k = fd.along(coefficient(jnp.asarray(given)), "x", at=dict(x="face") if place == "faces" else None)
        final = fd.solve(u, k=k, save=fd.final())["u"][-1]
        return float(np.abs(np.asarray(final) - np.asarray(exact(stop, axis.points))).max())

    return error


ROWS = [
    Row(
        f"divergence(k, u), k an array at {place}",
        f"{kind} with flow",
        ("stretched " if stretched else "") + ("cells" if cells else "nodes"),
        2,
        flow(cells, place, kind, stretched),
        (70, 140) if cells else (20, 40),
    )
    for cells, place, kind, stretched in (
        (False, "points", "Neumann", False),
        (False, "faces", "Neumann", False),
        (False, "points", "Robin", True),
        (True, "points", "Neumann", False),
        (True, "faces", "Robin", False),
        (True, "points", "Robin", True),
        (True, "points", "Dirichlet", False),
        (True, "points", "Dirichlet", True),
    )
]

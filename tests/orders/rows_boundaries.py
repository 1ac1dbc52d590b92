"""Boundary conditions: observed orders beside central differences of the same order, up to the walls."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Extrapolate, Neumann, Robin, Symmetric, normal
from fdsolve.schemes import Euler, derivative, laplacian

from .table import Row

GRIDS = ("nodes", "cells", "stretched nodes", "stretched cells")
SLOW = "8 is approached from below: one-sided formulas of degree 8 are asymptotic late"
HOLE = "the wall lies half-way between points, the mirror across it is of order 2"


def _axis(grid: str, n: int) -> fd.Axis:
    """n steps from 0 to 1, with spacings that vary by a third where stretched."""
    cells = grid.endswith("cells")
    if not grid.startswith("stretched"):
        return fd.Axis(0.0, 1.0, num=n if cells else n + 1, cells=cells)
    index = (np.arange(n) + 0.5) / n if cells else np.linspace(0.0, 1.0, n + 1)
    return fd.Axis.from_points(index + 0.15 * np.sin(2 * np.pi * index) / (2 * np.pi), cells=cells)


def _condition(kind: str, exact: Callable[..., Any], order: int) -> Any:
    """A condition that `exact` meets at every time."""
    slope = jax.grad(exact, argnums=1)
    if kind == "Dirichlet":
        return Dirichlet(lambda t, x: exact(t, x), order=order)
    if kind == "Neumann":
        return Neumann(lambda t, x, n=normal: n[0] * slope(t, x), order=order)
    return Robin(1.0, 2.0, lambda t, x, n=normal: exact(t, x) + 2.0 * n[0] * slope(t, x), order=order)


def heat(kind: str, grid: str, order: int) -> Callable[[int], float]:
    """u_t = u_xx + s with u = (1 + 3t) sin(kx + 0.4), which Euler's steps follow exactly."""
    wave = 5.0 if order == 8 else 3.0  # errors of order 8 of a longer wave would drown in rounding

    def error(n: int) -> float:
        axis, stop = _axis(grid, n), 0.1 if order == 2 else 0.01  # the cells at a wall settle late
        steps = int(np.ceil(stop / (0.12 * np.diff(axis.points).min() ** 2)))

        def exact(t: Any, x: Any) -> Any:
            return (1 + 3 * t) * jnp.sin(wave * x + 0.4)

        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), x=axis))
        u[...] = fd.rate(
            lambda u, t, x: derivative(u, "x", 2, order=order)[...] + wave**2 * exact(t, x) + 3 * exact(0.0, x)
        )
        u[0] = lambda x: exact(0.0, x)
        u[dict(x=[0, -1])] = _condition(kind, exact, order)
        final = fd.solve(u, stepper=Euler(), save=fd.final())["u"][-1]
        return float(np.abs(np.asarray(final) - np.asarray(exact(stop, axis.points))).max())

    return error


def advection(grid: str, order: int) -> Callable[[int], float]:
    """u_t + u_x = 0 with u = sin(5(x − t) + 0.4): the inflow given, the outflow extrapolated."""

    def error(n: int) -> float:
        axis, stop = _axis(grid, n), 0.5
        steps = int(np.ceil(stop / (0.2 * np.diff(axis.points).min())))

        def exact(t: Any, x: Any) -> Any:
            return jnp.sin(5 * (x - t) + 0.4)

        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), x=axis))
        u[...] = fd.rate(lambda u: -derivative(u, "x", order=order))
        u[0] = lambda x: exact(0.0, x)
        u[dict(x=0)] = Dirichlet(lambda t, x: exact(t, x), order=order)
        u[dict(x=-1)] = Extrapolate(order)
        final = fd.solve(u, save=fd.final())["u"][-1]
        return float(np.abs(np.asarray(final) - np.asarray(exact(stop, axis.points))).max())

    return error


def waves(kind: str, grid: str, order: int) -> Callable[[int], float]:
    """u_t = v, v_t = u_xx with u = sin(5(x − t) + 0.4), reflected nowhere."""

    def error(n: int) -> float:
        axis, stop = _axis(grid, n), 0.5
        steps = int(np.ceil(stop / (0.2 * np.diff(axis.points).min())))

        def exact(t: Any, x: Any) -> Any:
            return jnp.sin(5 * (x - t) + 0.4)

        time = fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), x=axis)
        u, v = fd.Field("u", time), fd.Field("v", time)
        u[...] = fd.rate(lambda v: v)
        v[...] = fd.rate(lambda u: derivative(u, "x", 2, order=order))
        u[0] = lambda x: exact(0.0, x)
        v[0] = lambda x: -5 * jnp.cos(5 * x + 0.4)
        u[dict(x=[0, -1])] = _condition(kind, exact, order)
        if kind == "Dirichlet" and not grid.endswith("cells"):  # v on the wall is the rate of u there
            v[dict(x=[0, -1])] = Dirichlet(lambda t, x: -5 * jnp.cos(5 * (x - t) + 0.4))
        final = fd.solve((u, v), save=fd.final())["u"][-1]
        return float(np.abs(np.asarray(final) - np.asarray(exact(stop, axis.points))).max())

    return error


def mirrored(condition: str) -> Callable[[int], float]:
    """u_t = u_xx + s of order 8 with u = (1 + 3t) cos 3πx or sin 3πx, which the mirrors continue exactly."""

    def error(n: int) -> float:
        axis, stop = _axis("nodes", n), 0.01
        steps = int(np.ceil(stop / (0.12 * np.diff(axis.points).min() ** 2)))
        shape = jnp.cos if condition == "Symmetric" else jnp.sin
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), x=axis))
        u[...] = fd.rate(
            lambda u, t, x: (
                derivative(u, "x", 2, order=8)[...] + (9 * np.pi**2 * (1 + 3 * t) + 3) * shape(3 * np.pi * x)
            )
        )
        u[0] = lambda x: shape(3 * np.pi * x)
        u[dict(x=[0, -1])] = Symmetric() if condition == "Symmetric" else fd.boundary.Antisymmetric()
        final = fd.solve(u, stepper=Euler(), save=fd.final())["u"][-1]
        return float(np.abs(np.asarray(final) - (1 + 3 * stop) * np.asarray(shape(3 * np.pi * axis.points))).max())

    return error


def hole(kind: str) -> Callable[[int], float]:
    """u_t = ∇²u + s around a staircase disc, with u = (1 + t) sin(2x + y) and the data of each face given per face."""

    def error(n: int) -> float:
        axis, stop = fd.Axis(0.0, 1.0, num=n + 1), 0.05
        grid = fd.Grid(t=fd.Time(0.0, stop, num=int(np.ceil(stop * 5 * n**2)) + 1), x=axis, y=axis)

        def exact(t: Any, x: Any, y: Any) -> Any:
            return (1 + t) * jnp.sin(2 * x + y)

        def flux(t: Any, x: Any, y: Any, n: Any) -> Any:
            return (1 + t) * (2 * n[0] + n[1]) * jnp.cos(2 * x + y)

        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u, t, x, y: laplacian(u)[...] + 5 * exact(t, x, y) + jnp.sin(2 * x + y))
        u[0] = lambda x, y: exact(0.0, x, y)
        u[dict(x=[0, -1])] = Dirichlet(lambda t, x, y: exact(t, x, y))
        u[dict(y=[0, -1])] = Dirichlet(lambda t, x, y: exact(t, x, y))
        conditions = {
            "Neumann": Neumann(lambda t, x, y, n=normal: flux(t, x, y, n)),
            "Robin": Robin(1.0, 1.0, lambda t, x, y, n=normal: exact(t, x, y) + flux(t, x, y, n)),
        }
        u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.45) ** 2 < 0.06)] = conditions[kind]
        final = np.asarray(fd.solve(u, stepper=Euler(), save=fd.final())["u"][-1])
        wanted = np.asarray(exact(stop, axis.points[:, None], axis.points[None]))
        return float(np.nanmax(np.abs(final - wanted)))

    return error


def _heat_rows() -> list[Row]:
    sizes = {2: (24, 48), 4: (64, 96), 6: (64, 96), 8: (56, 80)}
    rows = []
    for kind in ("Dirichlet", "Neumann", "Robin"):
        for grid in GRIDS:
            for order in (2, 4, 6, 8):
                late = order == 8 and kind != "Dirichlet"
                promised = 7.5 if late else order
                why = SLOW if late else ""
                scheme, boundary = f"central u_xx, order {order}, heat", f"{kind}, order={order}"
                rows.append(Row(scheme, boundary, grid, promised, heat(kind, grid, order), sizes[order], why=why))
    return rows


ROWS: list[Row] = [
    *_heat_rows(),
    *(
        Row(
            f"central u_x, order {order}, advection", f"Dirichlet, order={order}, and Extrapolate({order})",
            grid, order, advection(grid, order), (96, 192) if order == 2 else (48, 96),
        )
        for order in (2, 4)
        for grid in ("nodes", "cells")
    ),
    *(
        Row("central u_xx, order 4, waves", f"{kind}, order=4", grid, 4, waves(kind, grid, 4), (32, 64))
        for kind in ("Dirichlet", "Neumann")
        for grid in ("nodes", "cells")
    ),
    *(
        Row("central u_xx, order 8, heat", f"{condition}()", "nodes", 8, mirrored(condition), (24, 36))
        for condition in ("Symmetric", "Antisymmetric")
    ),
    *(
        Row("laplacian, order 2, heat", f"{kind} on a staircase hole", "nodes", 2, hole(kind), (16, 32), why=HOLE)
        for kind in ("Neumann", "Robin")
    ),
]  # fmt: skip

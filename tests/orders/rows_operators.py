"""Observed orders of the linear operators: on every kind of axis, between places, near open walls, curvilinear."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import j0

import fdsolve as fd
from fdsolve.schemes import average, biharmonic, curl, derivative, divergence, gradient, laplacian

from .table import Row

ORDERS = (2, 4, 6, 8)
WAVES = 2 * np.pi
Exact = Callable[..., Any]


def smooth(n: int) -> np.ndarray:
    s = np.arange(n) / n
    return s + 0.015 * np.sin(WAVES * s)


AXES: dict[str, Callable[[int], fd.Axis]] = {
    "uniform": lambda n: fd.Axis(0.0, 1.0, n, periodic=True),
    "cells": lambda n: fd.Axis(0.0, 1.0, n, periodic=True, cells=True),
    "stretched": lambda n: fd.Axis.from_points(smooth(n), periodic=True, period=1.0),
}


def phase(n: int) -> float:
    """What a wave is multiplied by in its n-th derivative: the sine becomes ± itself, or the cosine."""
    return WAVES**n * (-1.0) ** (n // 2)


@cache
def errors(kind: str, n: int, size: int, places: tuple[Any, Any]) -> dict[int, float]:
    """Largest error of the n-th derivative at every order, in one solve."""
    axis = AXES[kind](size)
    grid = fd.Grid(x=axis)
    at = [None if place is None else {"x": place} for place in places]
    u = fd.Field("u", grid, at=at[0])
    u[...] = lambda x: jnp.sin(WAVES * x)
    results = [fd.Field(f"d{order}", grid, at=at[1]) for order in ORDERS]
    for order, field in zip(ORDERS, results, strict=True):
        field[...] = lambda u, order=order: average(u, order=order) if n == 0 else derivative(u, "x", n, order=order)
    solution = fd.solve([u, *results])
    x = axis.positions(places[1] is not None, 0, size)
    exact = phase(n) * (np.cos(WAVES * x) if n % 2 else np.sin(WAVES * x))
    return {order: float(np.abs(np.asarray(solution[f"d{order}"]) - exact).max()) for order in ORDERS}


def periodic_rows() -> list[Row]:
    rows = []
    places = {"": (None, None), ", from faces to points": ("face", None), ", from points to faces": (None, "face")}
    for kind in AXES:
        for n in range(5):
            for where, pair in places.items():
                if (n == 0) == (not where) or (n > 1 and where):
                    continue
                name = "average" if n == 0 else f"derivative {n}"
                for order in ORDERS:
                    # Rounding of ∂ⁿ grows as h⁻ⁿ: high orders are measured on coarser grids.
                    sizes = (24, 36) if order < 6 else (20, 30)
                    if kind == "stretched":
                        sizes = (36, 54) if order < 8 else (40, 56)
                    promised, why = float(order), ""
                    if (kind, n, order) == ("stretched", 4, 8):
                        sizes, promised, why = (32, 48), 7.8, "rounding, ε/h⁴, sets in before the limit is reached"
                    rows.append(
                        Row(
                            f"{name} of order {order}{where}",
                            "periodic",
                            kind,
                            promised,
                            lambda size, kind=kind, n=n, pair=pair, order=order: errors(kind, n, size, pair)[order],
                            sizes,
                            why=why,
                        )
                    )
    return rows


@cache
def plane(size: int, kind: str) -> fd.Grid:
    return fd.Grid(x=AXES[kind](size), y=AXES[kind](size))


def operator_error(rule: Callable[..., Any], exact: Exact, kind: str, size: int) -> float:
    """Of a rule of u = sin 2πx cos 2πy and v = cos 2πx sin 2πy."""
    grid = plane(size, kind)
    u, v, d = (fd.Field(name, grid) for name in "uvd")
    u[...] = lambda x, y: jnp.sin(WAVES * x) * jnp.cos(WAVES * y)
    v[...] = lambda x, y: jnp.cos(WAVES * x) * jnp.sin(WAVES * y)
    d[...] = rule
    x, y = np.meshgrid(grid.x.points, grid.y.points, indexing="ij")
    return float(np.abs(np.asarray(fd.solve([u, v, d])["d"]) - exact(x, y)).max())


def _s(x: Any, y: Any) -> Any:
    return np.sin(WAVES * x) * np.cos(WAVES * y)


OPERATORS: dict[str, tuple[Callable[..., Any], Exact]] = {
    "laplacian": (lambda u, v, order: laplacian(u, order=order), lambda x, y: -2 * WAVES**2 * _s(x, y)),
    "biharmonic": (lambda u, v, order: biharmonic(u, order=order), lambda x, y: 4 * WAVES**4 * _s(x, y)),
    "divergence": (
        lambda u, v, order: divergence((u, v), order=order),
        lambda x, y: 2 * WAVES * np.cos(WAVES * x) * np.cos(WAVES * y),
    ),
    "curl": (
        lambda u, v, order: curl((v, -u), order=order),
        lambda x, y: -2 * WAVES * np.cos(WAVES * x) * np.cos(WAVES * y),
    ),
    "mixed derivative": (
        lambda u, v, order: derivative(u, {"x": 1, "y": 1}, order=order),
        lambda x, y: -(WAVES**2) * np.cos(WAVES * x) * np.sin(WAVES * y),
    ),
    "divergence in flux form": (
        lambda u, v, order: divergence(2 + u, u, order=order),
        lambda x, y: (
            (2 + _s(x, y)) * -2 * WAVES**2 * _s(x, y)
            + WAVES**2 * ((np.cos(WAVES * x) * np.cos(WAVES * y)) ** 2 + (np.sin(WAVES * x) * np.sin(WAVES * y)) ** 2)
        ),
    ),
}


def operator_rows() -> list[Row]:
    rows = []
    for name, (rule, exact) in OPERATORS.items():
        for order in (2, 4):
            bound = lambda u, v, rule=rule, order=order: rule(u, v, order)  # noqa: E731
            error = lambda n, bound=bound, exact=exact: operator_error(bound, exact, "uniform", n)  # noqa: E731
            rows.append(Row(f"{name} of order {order}", "periodic", "uniform, two axes", float(order), error, (20, 30)))
    return rows


def marched(make: Callable[[fd.Grid], tuple[Any, np.ndarray]], grid: fd.Grid) -> float:
    fields, exact = make(grid)
    final = fd.solve(fields, save=fd.final(), stepper=fd.schemes.RK4()).final
    return float(np.abs(np.asarray(final["u"]) - exact).max())


def walled(kind: str, n: int) -> fd.Axis:
    s = np.linspace(0.0, 1.0, n + 1)
    if kind == "uniform":
        return fd.Axis(0.0, 1.0, n + 1)
    return fd.Axis.from_points(s - 0.05 * np.sin(WAVES * s))


def advected(kind: str, order: int, n: int) -> float:
    """u_t + u_x = 0, the value given at the inflow, nothing at the outflow."""
    time = fd.Time(0.0, 0.4, num=n * 2 + 1)

    def make(grid: fd.Grid) -> tuple[Any, np.ndarray]:
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u: -1.0 * derivative(u, "x", order=order))
        u[0] = lambda x: jnp.sin(5 * x)
        u[dict(x=0)] = lambda t: jnp.sin(-5 * t)
        return u, np.sin(5 * (grid.x.points - 0.4))

    return marched(make, fd.Grid(t=time, x=walled(kind, n)))


def heated(kind: str, order: int, n: int) -> float:
    """u_t = u_xx with values on both nodes at the walls, given by plain rules."""
    steps = int(np.ceil(0.01 * 3.2 * n**2)) if kind == "uniform" else int(np.ceil(0.01 * 7 * n**2))

    def make(grid: fd.Grid) -> tuple[Any, np.ndarray]:
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u: derivative(u, "x", 2, order=order))
        u[0] = lambda x: jnp.cos(3 * x + 0.4)
        u[dict(x=[0, -1])] = lambda t, x: jnp.exp(-9 * t) * jnp.cos(3 * x + 0.4)
        return u, np.exp(-0.09) * np.cos(3 * grid.x.points + 0.4)

    return marched(make, fd.Grid(t=fd.Time(0.0, 0.01, num=steps + 1), x=walled(kind, n)))


def closure_rows() -> list[Row]:
    rows = []
    for kind in ("uniform", "stretched"):
        for order in ORDERS:
            promised = float(min(order, order // 2 + 1))
            why = "" if order == 2 else f"summation by parts closes at order {order // 2}; the solution gains one"
            if kind == "stretched" and order > 2:
                promised, why = 2.0, "on stretched axes the closure is exact for straight lines"
            sizes = (160, 320) if order == 2 else (100, 140)
            error = lambda n, kind=kind, order=order: advected(kind, order, n)  # noqa: E731
            rows.append(Row(f"advection, order {order}", "open outflow", kind, promised, error, sizes, why=why))
        for order in ORDERS:
            promised = float(min(order, 6))
            why = "" if order < 8 else "skewed rows of order 4; the solution gains two"
            if kind == "stretched":
                promised, why = float(min(order, 5)), why or ("closing rows of order 3" if order > 5 else "")
            error = lambda n, kind=kind, order=order: heated(kind, order, n)  # noqa: E731
            sizes = (24, 36) if order < 6 else (48, 72)
            rows.append(Row(f"heat, order {order}", "values by rule", kind, promised, error, sizes, why=why))
    return rows


def disc(n: int, cells: bool, order: int) -> float:
    """J₀(kr) e^(−k²t) with k its first zero."""
    k, steps = 2.404825557695773, int(np.ceil(0.05 * 2.5 * n**2))
    grid = fd.Grid(
        t=fd.Time(0.0, 0.05, num=steps + 1), r=fd.Axis(0.0, 1.0, n + (not cells), cells=cells, metric="radius")
    )

    def make(grid: fd.Grid) -> tuple[Any, np.ndarray]:
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u: laplacian(u, order=order))
        u[0] = j0(k * grid.r.points)
        u[dict(r=-1)] = fd.boundary.Dirichlet(0.0)
        return u, np.exp(-(k**2) * 0.05) * j0(k * grid.r.points)

    return marched(make, grid)


def shell(n: int) -> float:
    """sin(πr)/(πr) e^(−π²t)."""
    steps = int(np.ceil(0.05 * 3 * n**2))
    grid = fd.Grid(t=fd.Time(0.0, 0.05, num=steps + 1), r=fd.Axis(0.0, 1.0, n, cells=True, metric="spherical radius"))

    def make(grid: fd.Grid) -> tuple[Any, np.ndarray]:
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u: laplacian(u))
        u[0] = np.sinc(grid.r.points)
        u[dict(r=-1)] = fd.boundary.Dirichlet(0.0)
        return u, np.exp(-(np.pi**2) * 0.05) * np.sinc(grid.r.points)

    return marched(make, grid)


def zone(n: int) -> float:
    """The zonal mode P₂(cos θ) e^(−6t) of the sphere."""
    steps = int(np.ceil(0.05 * 0.5 * n**2))
    grid = fd.Grid(t=fd.Time(0.0, 0.05, num=steps + 1), q=fd.Axis(0.0, np.pi, n, cells=True, metric="colatitude"))

    def make(grid: fd.Grid) -> tuple[Any, np.ndarray]:
        u = fd.Field("u", grid)
        start = 1.5 * np.cos(grid.q.points) ** 2 - 0.5
        u[...] = fd.rate(lambda u: laplacian(u))
        u[0] = start
        return u, np.exp(-0.3) * start

    return marched(make, grid)


def polar_gradient(n: int) -> float:
    """The angular component of the gradient of r² sin θ on a ring."""
    grid = fd.Grid(
        r=fd.Axis(0.5, 1.0, 4, cells=True, metric="radius"),
        q=fd.Axis(0.0, 2 * np.pi, n, periodic=True, metric="angle"),
    )
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = lambda r, q: r * r * jnp.sin(q)
    d[...] = lambda u: gradient(u)[1]
    exact = grid.r.points[:, None] * np.cos(grid.q.points)
    return float(np.abs(np.asarray(fd.solve([u, d])["d"]) - exact).max())


def metric_rows() -> list[Row]:
    rows = [
        Row("laplacian on the disc", "Dirichlet, pole", "cells", 2.0, lambda n: disc(n, True, 2), (16, 24)),
        Row("laplacian on the disc", "Dirichlet, pole", "nodes", 2.0, lambda n: disc(n, False, 2), (16, 24)),
        Row("laplacian in the ball", "Dirichlet, pole", "cells", 2.0, shell, (16, 24)),
        Row("laplacian on the sphere", "two poles", "cells", 2.0, zone, (16, 24)),
        Row("gradient, polar", "periodic", "uniform", 2.0, polar_gradient, (16, 24)),
    ]
    return rows


ROWS = [*periodic_rows(), *operator_rows(), *closure_rows(), *metric_rows()]

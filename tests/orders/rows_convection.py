"""Observed orders of convection, upwind differences, one-step fluxes and conservation laws."""

import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.schemes import (
    TVD,
    WENO3Z,
    WENO5,
    WENO5JS,
    WENO7Z,
    LaxWendroff,
    Upwind,
    conservation,
    convection,
    mc,
    upwind,
)  # fmt: skip

from .table import Row


def _axis(kind: str, n: int) -> fd.Axis:
    if kind == "periodic stretched nodes":
        s = np.arange(n) / n
        return fd.Axis.from_points(s + 0.05 * np.sin(2 * np.pi * s), periodic=True, period=1.0)
    return fd.Axis(0.0, 1.0, num=n, cells=kind == "periodic cells", periodic=True)


def _size(values: np.ndarray, norm: str) -> float:
    return float(np.abs(values).max() if norm == "max" else np.abs(values).mean())


def _of_operator(operator, exact, kind: str, norm: str = "max"):
    """An operator on u = sin 2πx, with c = 3/2 + cos 2πx, against its exact value."""

    def error(n: int) -> float:
        grid = fd.Grid(x=_axis(kind, n))
        u, d, x = fd.Field("u", grid), fd.Field("d", grid), grid.x.points
        u[...] = np.sin(2 * np.pi * x)
        d[...] = operator
        c = fd.along(1.5 + np.cos(2 * np.pi * x), "x")
        return _size(np.asarray(fd.solve([u, d], c=c)["d"]) - exact(x), norm)

    return error


def _convection_row(scheme, kind: str, order: float, norm: str = "max", why: str = "") -> Row:
    def exact(x):
        return 2 * np.pi * (1.5 * np.cos(2 * np.pi * x) + np.cos(4 * np.pi * x))

    error = _of_operator(lambda u, c: convection(c, u, scheme=scheme), exact, kind, norm)
    return Row(f"convection {scheme}", "periodic", kind, order, error, (40, 80), norm, why)


def _upwind_row(order: int, kind: str) -> Row:
    def exact(x):
        return (1.5 + np.cos(2 * np.pi * x)) * 2 * np.pi * np.cos(2 * np.pi * x)

    error = _of_operator(lambda u, c: upwind(c, u, order=order), exact, kind)
    return Row(f"upwind, order {order}", "periodic", kind, order, error, (40, 80))


def _law_row(scheme, norm: str = "max", why: str = "") -> Row:
    """Burgers' flux with u = 3/2 + sin 2πx: one wind, a nonlinear flux."""

    def exact(x):
        return -(1.5 + np.sin(2 * np.pi * x)) * 2 * np.pi * np.cos(2 * np.pi * x)

    def rule(u, c):
        return conservation(lambda v: (v + 1.5) ** 2 / 2, u, reconstruction=scheme)

    error = _of_operator(rule, exact, "periodic cells", norm)
    name = f"conservation, Lax–Friedrichs, {scheme}"
    return Row(name, "periodic", "periodic cells", scheme.order, error, (40, 80), norm, why)


def _one_step_row(scheme, norm: str = "max", why: str = "") -> Row:
    """A sine carried half around at Courant number 0.5."""

    def error(n: int) -> float:
        axis = fd.Axis(0.0, 1.0, n, periodic=True)
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=n + 1), x=axis))
        u[...] = lambda u, dt: u["t-1"] - dt * convection(1.0, u, scheme=scheme, at="t-1")[...]
        u[0] = lambda x: jnp.sin(2 * jnp.pi * x)
        final = np.asarray(fd.solve(u, save=fd.final()).final["u"])
        return _size(final - np.sin(2 * np.pi * (axis.points - 0.5)), norm)

    name = f"one-step {scheme}" if isinstance(scheme, TVD) else "Lax–Wendroff"
    return Row(name, "periodic", "periodic nodes", 2, error, (64, 128), norm, why)


def _inflow_row(operator, name: str, order: float, why: str) -> Row:
    """A wave that enters by its value on the wall and leaves through a wall without a condition."""

    def error(n: int) -> float:
        axis = fd.Axis(0.0, 1.0, n, cells=True)
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=n + 1), x=axis))
        u[...] = fd.rate(operator)
        u[0] = lambda x: jnp.sin(5 * x)
        u[dict(x=0)] = fd.boundary.Dirichlet(lambda t: jnp.sin(-5 * t))
        final = np.asarray(fd.solve(u, save=fd.final()).final["u"])
        return _size(final - np.sin(5 * (axis.points - 0.5)), "max")

    return Row(name, "Dirichlet at the inflow, none at the outflow", "cells", order, error, (40, 80), "max", why)


_JS = "the weights of Jiang and Shu lose two orders at critical points"
_WENO3 = "two points cannot tell an extremum from a jump"
_TVD = "limiters are of order 1 at extrema"

ROWS = [
    *(_convection_row(Upwind(n), kind, n) for n in (1, 3, 5) for kind in ("periodic nodes", "periodic cells")),
    *(_convection_row(scheme, "periodic cells", scheme.order) for scheme in (WENO5(), WENO7Z())),
    _convection_row(WENO5(), "periodic nodes", 5),
    _convection_row(WENO5JS(), "periodic cells", 4, "L1", _JS),
    _convection_row(WENO3Z(), "periodic cells", 2, "L1", _WENO3),
    _convection_row(TVD(mc), "periodic cells", 1.9, "L1", _TVD),
    *(_upwind_row(n, kind) for n in (1, 3, 5) for kind in ("periodic nodes", "periodic stretched nodes")),
    _law_row(Upwind(1)),
    _law_row(TVD(mc), "L1", _TVD),
    *(_law_row(scheme) for scheme in (Upwind(3), Upwind(5), WENO5(), WENO7Z())),
    _one_step_row(LaxWendroff()),
    _one_step_row(TVD(mc), "L1", _TVD),
    _inflow_row(
        lambda u: -upwind(1.0, u, order=5), "upwind, order 5", 2,
        "the value on the wall is mirrored with order 2, and the last point takes a difference of order 1",
    ),
    _inflow_row(
        lambda u: -convection(1.0, u, scheme=TVD(mc)), "convection TVD(mc)", 1,
        "the last face takes its value from upwind, without a slope, so that nothing overshoots there",
    ),
]  # fmt: skip

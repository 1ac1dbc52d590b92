"""Wave systems with a layer or with room enough, and what of a wave comes back from the layer."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.boundary import PML, Dirichlet
from fdsolve.schemes import derivative, laplacian

POINTS_A_WAVELENGTH = (10, 14, 20, 30, 40)
NUM, STEP, STOP = 91, 0.4, 130.0
ROOM = 140
Make = Callable[[int, int, Any], np.ndarray]


def pulse(t: Any) -> Any:
    """A source whose spectrum covers 10 to 40 points a wavelength of a wave of speed 1 on a unit grid."""
    return -2 * (t - 18) / 9 * jnp.exp(-(((t - 18) / 3) ** 2))


def reflection(make: Make, pml: Any = None) -> np.ndarray:
    """What comes back over what went in, in dB at each of POINTS_A_WAVELENGTH, by comparison with a larger grid."""
    here = make(NUM, NUM // 2, PML(20) if pml is None else pml)
    free = make(NUM + ROOM, (NUM + ROOM) // 2, Dirichlet(0.0))
    spectra = [np.fft.rfft(trace, 8 * len(free)) for trace in (here - free, free)]
    frequencies = np.fft.rfftfreq(8 * len(free), STEP)
    at = [int(np.argmin(abs(frequencies - 1 / points))) for points in POINTS_A_WAVELENGTH]
    return 20 * np.log10(np.abs(spectra[0][at] / spectra[1][at]))


def line(num: int) -> fd.Grid:
    return fd.Grid(t=fd.Time(0, STOP, step=STEP), x=fd.Axis(0.0, num - 1.0, num=num))


def strip(num: int) -> fd.Grid:
    """Four points wide, periodic across: plane waves along x."""
    y = fd.Axis(0.0, 4.0, num=4, periodic=True)
    return fd.Grid(t=fd.Time(0, STOP, step=STEP), x=fd.Axis(0.0, num - 1.0, num=num), y=y)


def leapfrog(order: int) -> Make:
    """u_tt = c² u_xx in the plain three-level rule."""

    def make(num: int, middle: int, wall: Any) -> np.ndarray:
        u = fd.Field("u", line(num))
        u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c * dt) ** 2 * laplacian(u, at="t-1", order=order)
        u[:2] = 0.0
        u[2:, middle] += lambda t, dt: dt**2 * pulse(t - dt)
        u[dict(x=[0, -1])] = wall
        return np.array(fd.solve(u, c=1.0)["u"][:, middle - 20])

    return make


def pressure(order: int, rates: bool = False, stepper: Any = None) -> Make:
    """p_t = −c² v_x, v_t = −p_x, staggered; in plain rules (leapfrog in time) or as rates."""

    def make(num: int, middle: int, wall: Any) -> np.ndarray:
        grid = line(num)
        p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
        if rates:
            p[...] = fd.rate(lambda v, c: -(c**2) * derivative(v, "x", order=order))
            v[...] = fd.rate(lambda p: -derivative(p, "x", order=order))
            p[:, middle] += fd.rate(lambda t: pulse(t))
        else:
            v[...] = lambda v, p, dt: v["t-1"] - dt * derivative(p, "x", order=order, at="t-1")
            p[...] = lambda p, v, c, dt: p["t-1"] - dt * c**2 * derivative(v, "x", order=order)
            p[1:, middle] += lambda t, dt: dt * pulse(t - dt)
        p[0] = v[0] = 0.0
        fd.together(p, v)[dict(x=[0, -1])] = wall
        return np.array(fd.solve((p, v), c=1.0, stepper=stepper)["p"][:, middle - 20])

    return make


def two_rates(order: int, stepper: Any = None) -> Make:
    """u_t = v, v_t = c² u_xx."""

    def make(num: int, middle: int, wall: Any) -> np.ndarray:
        grid = line(num)
        u, v = fd.Field("u", grid), fd.Field("v", grid)
        u[...] = fd.rate(lambda v: v)
        v[...] = fd.rate(lambda u, c: c**2 * laplacian(u, order=order))
        v[:, middle] += fd.rate(lambda t: pulse(t))
        u[0] = v[0] = 0.0
        fd.together(u, v)[dict(x=[0, -1])] = wall
        return np.array(fd.solve((u, v), c=1.0, stepper=stepper)["u"][:, middle - 20])

    return make


def plain_steps(
    fields: Any, rules: Any, source: Any, middle: int, wall: Any, record: str, **parameters: Any
) -> np.ndarray:
    """Advances every field by dt times its rule, the later ones from the new values of those before."""
    for one, rule in zip(fields, rules, strict=True):
        one[...] = rule
        one[0] = 0.0
    source[1:, middle, :] += lambda t, dt: dt * pulse(t - dt)
    fd.together(*fields)[dict(x=[0, -1])] = wall
    return np.array(fd.solve(fields, **parameters)[record][:, middle - 20, 1])


def elastic(order: int, shear: bool) -> Make:
    """Velocity and stress in the plane, staggered (Virieux, Geophysics 51 (1986) 889), P or S waves of speed 1."""

    def slope(view: Any, axis: str, at: Any = None) -> Any:
        return derivative(view, axis, order=order, at=at)

    def make(num: int, middle: int, wall: Any) -> np.ndarray:
        grid = strip(num)
        vx, vy = fd.Field("vx", grid, at=dict(x="face")), fd.Field("vy", grid, at=dict(y="face"))
        sx, sy = fd.Field("sx", grid), fd.Field("sy", grid)
        sxy = fd.Field("sxy", grid, at=dict(x="face", y="face"))
        rules = (
            lambda vx, sx, sxy, dt: vx["t-1"] + dt * (slope(sx, "x", "t-1") + slope(sxy, "y", "t-1")),
            lambda vy, sy, sxy, dt: vy["t-1"] + dt * (slope(sxy, "x", "t-1") + slope(sy, "y", "t-1")),
            lambda sx, vx, vy, la, mu, dt: sx["t-1"] + dt * ((la + 2 * mu) * slope(vx, "x") + la * slope(vy, "y")),
            lambda sy, vx, vy, la, mu, dt: sy["t-1"] + dt * (la * slope(vx, "x") + (la + 2 * mu) * slope(vy, "y")),
            lambda sxy, vx, vy, mu, dt: sxy["t-1"] + dt * mu * (slope(vx, "y") + slope(vy, "x")),
        )
        source, record = (vy, "vy") if shear else (sx, "sx")
        constants = dict(la=0.2, mu=1.0) if shear else dict(la=0.4, mu=0.3)
        return plain_steps((vx, vy, sx, sy, sxy), rules, source, middle, wall, record, **constants)

    return make


def maxwell(order: int, electric: bool) -> Make:
    """Yee's scheme in the plane: (Hx, Hy, Ez), or with `electric` (Ex, Ey, Hz)."""

    def slope(view: Any, axis: str, at: Any = None) -> Any:
        return derivative(view, axis, order=order, at=at)

    def make(num: int, middle: int, wall: Any) -> np.ndarray:
        grid = strip(num)
        if electric:
            ex, ey = fd.Field("ex", grid, at=dict(x="face")), fd.Field("ey", grid, at=dict(y="face"))
            hz = fd.Field("hz", grid, at=dict(x="face", y="face"))
            rules = (
                lambda ex, hz, dt: ex["t-1"] + dt * slope(hz, "y", "t-1"),
                lambda ey, hz, dt: ey["t-1"] - dt * slope(hz, "x", "t-1"),
                lambda hz, ex, ey, dt: hz["t-1"] + dt * (slope(ex, "y") - slope(ey, "x")),
            )
            return plain_steps((ex, ey, hz), rules, ey, middle, wall, "ey")
        hx, hy = fd.Field("hx", grid, at=dict(y="face")), fd.Field("hy", grid, at=dict(x="face"))
        ez = fd.Field("ez", grid)
        rules = (
            lambda hx, ez, dt: hx["t-1"] - dt * slope(ez, "y", "t-1"),
            lambda hy, ez, dt: hy["t-1"] + dt * slope(ez, "x", "t-1"),
            lambda ez, hx, hy, dt: ez["t-1"] + dt * (slope(hy, "x") - slope(hx, "y")),
        )
        return plain_steps((hx, hy, ez), rules, ez, middle, wall, "ez")

    return make

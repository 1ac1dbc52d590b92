"""(d) What a gradient by parameters costs by default, by generated code and by the portable kernel."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.kernels.native import _march
from fdsolve.kernels.native._march import choose_tiling

from ._compare import Settings, check_agreement, gradient
from ._table import Row, show_seconds
from ._timing import interleave

STEPS, SPACE_NUM, WIDE_NUM, JUMP_STEPS = 64, 128, 64, 1024
PLANE_NUM, LAYER = 400, 10
BAR, PORTABLE_BAR = 5.0, 8.0
TOLERANCE = 2e-2
"""float32 over 64 steps that are not linear: a sum of terms of both signs."""


def _burgers(num: int, kernel: str) -> Callable[..., Any]:
    """ν ↦ the last level of the first of two velocities carried by themselves."""
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name in "xy"}
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=STEPS + 1), **axes)
    u, v = fd.Field("u", grid), fd.Field("v", grid)

    def carried(w: Any, u: Any, v: Any, nu: Any) -> Any:
        along = u["t-1"] * (w["t-1"] - w["t-1", "x-1"]) + v["t-1"] * (w["t-1"] - w["t-1", "y-1"])
        around = w["t-1", "x-1"] + w["t-1", "x+1"] + w["t-1", "y-1"] + w["t-1", "y+1"]
        return w["t-1"] - 0.1 * along + nu * (around - 4 * w["t-1"])

    u[...] = lambda u, v, nu: carried(u, u, v, nu)
    v[...] = lambda u, v, nu: carried(v, u, v, nu)
    u[0] = lambda x, y: jnp.sin(3 * x) * jnp.cos(5 * y)
    v[0] = lambda x, y: jnp.cos(4 * x * y)
    for one in (u, v):
        one[dict(x=[0, -1])] = one[dict(y=[0, -1])] = 0.0
    return lambda nu: fd.solve((u, v), nu=nu, save=fd.final(), kernel=kernel).final["u"]


def _medium(num: int, kernel: str) -> Callable[..., Any]:
    """The conductivity at every point ↦ the last level of heat between insulated walls and cold ones."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(STEPS), num=STEPS + 1), **axes))
    u[...] = lambda u, m: (
        u["t-1"] + m[...] * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
    )
    u[0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = 0.0
    return lambda m: fd.solve(u, m=m, save=fd.final(), kernel=kernel).final["u"]


def _between_walls(num: int, kernel: str) -> Callable[..., Any]:
    """c² ↦ the last level of a wave of order 8, closed at walls."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4 * STEPS, num=STEPS + 1), **axes))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * c * fd.schemes.laplacian(u, order=8, at="t-1")
    u[[0, 1]] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return lambda c: fd.solve(u, c=c, save=fd.final(), kernel=kernel).final["u"]


def _wavelet(num: int, kernel: str) -> Callable[..., Any]:
    """The record of a source between points ↦ the last level of a wave of order 2."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4 * STEPS, num=STEPS + 1), **axes))
    u[...] = 0.0
    u[2:, 1:-1, 1:-1] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * fd.schemes.laplacian(u, at="t-1")
    u[fd.point(x=0.31 * num, y=0.47 * num)] += lambda q: q
    return lambda q: fd.solve(u, q=fd.along(q, "t"), save=fd.final(), kernel=kernel).final["u"]


def _runge_kutta(num: int, kernel: str) -> Callable[..., Any]:
    """κ ↦ the last level of heat by the classical method of order 4, cold and insulated walls."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5 * STEPS, num=STEPS + 1), **axes))
    u[...] = fd.rate(lambda u, kappa: kappa * fd.schemes.laplacian(u))
    u[0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = 0.0
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    return lambda k: fd.solve(u, kappa=k, stepper=fd.schemes.RK4(), save=fd.final(), kernel=kernel).final["u"]


def _on_a_line(num: int, kernel: str, wave: bool = False) -> Callable[..., Any]:
    """κ ↦ the last level of heat, or c² that of a wave, on num² points in a line between cold walls."""
    u = _plain_field(dict(x=fd.Axis(0.0, num**2 - 1.0, num=num**2)), wave)
    u[[0, 1] if wave else 0] = lambda x: jnp.sin(0.1 * x)
    return lambda k: fd.solve(u, kappa=k, save=fd.final(), kernel=kernel).final["u"]


def _in_a_plane(num: int, kernel: str, wave: bool = False) -> Callable[..., Any]:
    """The same on num × num points."""
    u = _plain_field({name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}, wave)
    u[[0, 1] if wave else 0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    return lambda k: fd.solve(u, kappa=k, save=fd.final(), kernel=kernel).final["u"]


def _in_space(
    num: int, kernel: str, wave: bool = False, medium: bool = False, order: int = 2, most: int = SPACE_NUM
) -> Callable[..., Any]:
    """The same in three dimensions; by the coefficient at every point of a `medium`."""
    size = min(num, most)
    u = _plain_field({name: fd.Axis(0.0, size - 1.0, num=size) for name in "xyz"}, wave, medium, order)
    u[[0, 1] if wave else 0] = lambda x, y, z: jnp.sin(0.1 * x) * jnp.cos(0.2 * y) * jnp.cos(0.1 * z)
    return lambda k: fd.solve(u, kappa=k, save=fd.final(), kernel=kernel).final["u"]


def _absorbed(num: int, kernel: str, order: int, most: int) -> Callable[..., Any]:
    """c² at every point ↦ the last level of a wave that leaves through absorbing layers on all sides."""
    size = min(num, most)
    u = _plain_field({name: fd.Axis(0.0, size - 1.0, num=size) for name in "xy"}, True, True, order)
    u[[0, 1]] = lambda x, y: jnp.exp(-(((x - size / 2) / 5) ** 2) - ((y - size / 2) / 5) ** 2)
    for name in "xy":
        u[{name: [0, -1]}] = fd.boundary.PML(LAYER, speed=0.4)
    return lambda c: fd.solve(u, kappa=c, save=fd.final(), kernel=kernel).final["u"]


def _plain_field(axes: dict[str, fd.Axis], wave: bool, medium: bool = False, order: int = 2) -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(STEPS), num=STEPS + 1), **axes))
    u[...] = lambda u, kappa, dt: (
        (2 * u["t-1"] - u["t-2"] if wave else u["t-1"])
        + dt * (kappa[...] if medium else kappa) * fd.schemes.laplacian(u, order=order, at="t-1")
    )
    for name in axes:
        u[{name: [0, -1]}] = 0.0
    return u


def _jump(num: int, kernel: str) -> Callable[..., Any]:
    """κ ↦ the last level of heat between cold walls after so many steps that they are one jump."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(JUMP_STEPS), num=JUMP_STEPS + 1), **axes))
    u[...] = lambda u, kappa, dt: u["t-1"] + dt * kappa * fd.schemes.laplacian(u, at="t-1")
    u[0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return lambda k: fd.solve(u, kappa=k, save=fd.final(), kernel=kernel).final["u"]


@contextmanager
def _one_level_a_pass() -> Iterator[None]:
    """Marches of generated code go through the field once a level."""

    def fewest(*given: Any) -> Any:
        return replace(choose_tiling(*given), levels=1, width=0)

    jax.clear_caches()
    with patch.object(_march, "choose_tiling", fewest):
        yield
    jax.clear_caches()


def rows(settings: Settings, num: int) -> list[Row]:
    """What a gradient by a parameter costs where generated code runs both ways, and where the portable kernel does."""
    found = []
    uniform = np.random.default_rng(0).uniform
    conductivity = jnp.asarray(0.1 + 0.1 * uniform(size=(num, num)), jnp.float32)
    wavelet = jnp.asarray(uniform(size=STEPS + 1), jnp.float32)
    space, wide = min(num, SPACE_NUM), min(num, WIDE_NUM)
    in_space = jnp.asarray(0.05 + 0.1 * uniform(size=(space,) * 3), jnp.float32)
    plane = min(num, PLANE_NUM)
    in_plane = jnp.asarray(0.05 + 0.1 * uniform(size=(plane, plane)), jnp.float32)
    far = partial(_in_space, wave=True, medium=True, order=4, most=WIDE_NUM)
    problems = (
        ("Burgers, by ν", _burgers, jnp.float32(0.05)),
        ("heat, by κ(x, y)", _medium, conductivity),
        ("heat by RK4, by κ", _runge_kutta, jnp.float32(0.4)),
        ("wave, by its source's record", _wavelet, wavelet),
        ("wave of order 8 between walls, by c²", _between_walls, jnp.float32(0.4)),
        ("heat, by κ", _in_a_plane, jnp.float32(0.1)),
        ("wave, by c²", partial(_in_a_plane, wave=True), jnp.float32(0.1)),
        (f"heat, {space}³, by κ", _in_space, jnp.float32(0.1)),
        (f"wave, {space}³, by c²", partial(_in_space, wave=True), jnp.float32(0.1)),
        (f"wave, {space}³, by c² at every point", partial(_in_space, wave=True, medium=True), in_space),
        (f"wave of order 4, {wide}³, by c² at every point", far, in_space[:wide, :wide, :wide]),
        (f"wave through layers, {plane}², by c² at every point", partial(_absorbed, order=2, most=PLANE_NUM), in_plane),
        (f"the same of order 4, {plane}²", partial(_absorbed, order=4, most=PLANE_NUM), in_plane),
        (f"heat, {num}² points in a line, by κ", _on_a_line, jnp.float32(0.2)),
        (f"wave, {num}² points in a line, by c²", partial(_on_a_line, wave=True), jnp.float32(0.2)),
    )
    for name, make, at in problems:
        found += both_ways(settings, name, partial(make, num), at, TOLERANCE)
    at, name = jnp.float32(0.1), f"heat, {JUMP_STEPS} steps by `fft`, by κ"
    forward = jax.jit(_jump(num, "fft")).lower(at).compile()
    ours, level = (gradient(_jump(num, kernel)).lower(at).compile() for kernel in ("fft", "native"))
    check_agreement(name, ours(at), level(at), TOLERANCE)
    return found + _against(settings, name, ours, {"forward": forward, "gradient by `native`": level}, at, None)


def both_ways(
    settings: Settings, name: str, make: Callable[[str], Callable[..., Any]], at: Any, tolerance: float
) -> list[Row]:
    """Rows of a gradient, of the function that is made for a kernel: by generated code, and by the portable kernel."""
    forward = jax.jit(make("native")).lower(at).compile()
    with _one_level_a_pass():
        level = jax.jit(make("native")).lower(at).compile()
    ours = gradient(make("native")).lower(at).compile()
    found = _against(settings, name, ours, {"forward": forward, "forward, one level a pass": level}, at, BAR)
    # Apart, since its fresh memory slows down what runs after it.
    portable, other = jax.jit(make("slices")).lower(at).compile(), gradient(make("slices")).lower(at).compile()
    check_agreement(name, ours(at), other(at), tolerance)
    found += _against(settings, name, ours, {"gradient by `slices`": other}, at, None)
    return found + _against(settings, f"{name}, by `slices`", other, {"forward": portable}, at, PORTABLE_BAR)


def _against(
    settings: Settings, name: str, ours: Callable[..., Any], others: dict[str, Callable[..., Any]], at: Any, bar: Any
) -> list[Row]:
    """A row for each of the others, which run in turn with ours."""
    runs = [ours, *others.values()]
    samples = interleave([partial(f, at) for f in runs], budget=settings.budget, least=3, most=40)
    seconds = [show_seconds(samples.median(k)) for k in range(len(runs))]
    found = []
    for place, against in enumerate(others, start=1):
        ratio, low, high = samples.ratio(0, place)
        text = f"{seconds[place]} ({against})"
        found.append(Row(f"{name}, against the {against}", seconds[0], text, ratio, (low, high), bar))
    return found

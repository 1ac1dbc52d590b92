"""fdsolve: the same problems declared as fields, and `fd.solve` for the last level."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import fdsolve as fd

from ._cases import Case
from ._equations import Burgers, GrayScott, Heat

AXES = "xyz"


def declare(case: Case) -> list[fd.Field]:
    """The fields of a case; initial states are the parameters `u_start`, …, coefficients `kappa` or `m`."""
    equation, levels = case.equation, case.steps + (2 if case.equation.two_levels else 1)
    axes = {name: fd.Axis(0.0, case.num - 1.0, num=case.num) for name in AXES[: equation.rank]}
    grid = fd.Grid(t=fd.Time(0.0, levels - 1.0, num=levels), **axes)
    fields = [fd.Field(name, grid, dtype=jnp.dtype(case.dtype)) for name in equation.fields]
    first = levels - case.steps
    inner = (slice(first, None), *(slice(equation.reach, -equation.reach),) * equation.rank)
    for field, edge in zip(fields, equation.edges, strict=True):
        field[first:] = edge
        field[:first] = _starts(field.name)
    RULES[case.problem](inner, *fields)
    return fields


def solve(case: Case, kernel: Any, adjoint: Any = None) -> tuple[Callable[..., list[jax.Array]], list[jax.Array]]:
    """`fd.solve` of a case as a function of its arrays, and those."""
    fields = declare(case)
    names = [f"{name}_start" for name in case.equation.fields]
    names += [COEFFICIENTS[case.problem]] if case.equation.num_coefficients else []
    arrays = [jnp.asarray(array) for array in (*case.initial(), *case.coefficients())]

    def call(*given: jax.Array) -> list[jax.Array]:
        parameters = dict(zip(names, given, strict=True))
        final = fd.solve(fields, save=fd.final(), kernel=kernel, adjoint=adjoint, parameters=parameters).final
        return [final[name] for name in case.equation.fields]

    return call, arrays


def _starts(name: str) -> Callable[..., Any]:
    return {"u": lambda u_start: u_start[...], "v": lambda v_start: v_start[...]}[name]


def _heat2d(inner: Any, u: fd.Field) -> None:
    k = Heat.k
    u[inner] = lambda u: (
        u["t-1"] + k * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
    )


def _heat(inner: Any, u: fd.Field) -> None:
    k = Heat.k
    u[inner] = lambda u: u["t-1"] + k * fd.schemes.laplacian(u, at="t-1")[...]


def _variable(inner: Any, u: fd.Field) -> None:
    def conduct(u: Any, kappa: Any) -> Any:
        def flux(to: str) -> Any:
            return (kappa[to] + kappa[...]) * (u["t-1", to] - u["t-1"])

        return u["t-1"] + flux("x-1") + flux("x+1") + flux("y-1") + flux("y+1")

    u[inner] = conduct


def _acoustic(order: int) -> Callable[..., None]:
    def declare(inner: Any, u: fd.Field) -> None:
        u[inner] = lambda u, m: 2 * u["t-1"] - u["t-2"] + m[...] * fd.schemes.laplacian(u, order=order, at="t-1")[...]

    return declare


def _burgers(inner: Any, u: fd.Field) -> None:
    def advect(u: Any) -> Any:
        east, west, north, south = (u["t-1", to] for to in ("x+1", "x-1", "y+1", "y-1"))
        here = u["t-1"]
        slope = (east - west) + (north - south)
        return here - Burgers.r * here * slope + Burgers.nu * (east + west + north + south - 4 * here)

    u[inner] = advect


def _gray_scott(inner: Any, u: fd.Field, v: fd.Field) -> None:
    def spread(w: Any) -> Any:
        return w["t-1", "x-1"] + w["t-1", "x+1"] + w["t-1", "y-1"] + w["t-1", "y+1"] - 4 * w["t-1"]

    def feed(u: Any, v: Any) -> Any:
        a, b = u["t-1"], v["t-1"]
        return a + (GrayScott.du * spread(u) - a * b * b + GrayScott.feed * (1 - a))

    def grow(u: Any, v: Any) -> Any:
        a, b = u["t-1"], v["t-1"]
        return b + (GrayScott.dv * spread(v) + a * b * b - (GrayScott.feed + GrayScott.kill) * b)

    u[inner] = feed
    v[inner] = grow


RULES: dict[str, Callable[..., None]] = {
    "heat2d": _heat2d,
    "heat2d_variable": _variable,
    "burgers2d": _burgers,
    "gray_scott": _gray_scott,
    "heat3d": _heat,
    "heat1d": _heat,
    **{f"acoustic{rank}d_{order}": _acoustic(order) for rank in (2, 3) for order in (2, 4, 8)},
}
COEFFICIENTS = {name: "kappa" if name == "heat2d_variable" else "m" for name in RULES}


class Ours:
    """`fd.solve` with one kernel, called from outside `jit` or compiled."""

    def __init__(self, case: Case, kernel: str, jitted: bool) -> None:
        call, self._arrays = solve(case, kernel)
        self._call = jax.jit(call) if jitted else call
        self.label = f"fdsolve {kernel}{'' if jitted else ', eager'}"
        self.run()

    def run(self) -> None:
        """What is timed: the whole solve."""
        jax.block_until_ready(self._call(*self._arrays))

    def answer(self) -> list[Any]:
        """The fields after the steps of the case."""
        return self._call(*self._arrays)

"""Marches of every kind by generated machine code, cut into tiles in every way, against the portable kernel.

Sizes are small; where there are two tiles, the first axis has the 128 rows that they need.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels.native._march import layout_of, refusal
from fdsolve.kernels.native._tiling import Tiling
from fdsolve.schemes import SSPRK3, Heun, derivative, divergence, laplacian

from .native_cases import Case, case_of

RANDOM = np.random.default_rng(8)
ONE, DEEP, UNEVEN = Tiling(1, 1, 1), Tiling(4, 1, 1), Tiling(3, 1, 1)
SMALL: tuple[Tiling | None, ...] = (None, ONE, UNEVEN)


def grid(steps: int, stop: float = 0.02, **axes: fd.Axis) -> fd.Grid:
    """A grid of `steps` levels after the first."""
    return fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), **axes)


def axis(num: int, **options: bool) -> fd.Axis:
    """An axis from 0 to 1."""
    return fd.Axis(0.0, 1.0, num=num, **options)


def heat_between_walls() -> Case:
    """All conditions that set values or ghosts on four walls, in tiles."""
    u = fd.Field("u", grid(9, x=axis(129), y=axis(13, cells=True)))
    u[...] = lambda u, k: u["t-1"] + k * laplacian(u, at="t-1")
    u[0] = lambda x, y: jnp.sin(7 * x * y) + x
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t, y: 1.0 + 30 * t * y)
    u[dict(x=-1)] = fd.boundary.Neumann(0.5)
    u[dict(y=0)] = fd.boundary.Robin(1.0, 0.2, 0.3)
    u[dict(y=-1)] = fd.boundary.Antisymmetric()
    return case_of(u, k=1e-5)


def waves_in_a_medium() -> Case:
    """Two older levels, a coefficient at every point, a reach of two, walls of value zero."""
    u = fd.Field("u", grid(10, x=axis(131), y=axis(10)))
    u[...] = lambda u, m: 2 * u["t-1"] - u["t-2"] + m[...] * laplacian(u, at="t-1", order=4)
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = fd.boundary.Symmetric()
    u[dict(y=[0, -1])] = fd.boundary.Antisymmetric()
    return case_of(u, m=1e-6 * RANDOM.uniform(0.5, 1.0, (131, 10)))


def waves_but_in_places() -> Case:
    """A rule over another one of the same row still reads the level that the other's is written over."""
    u = fd.Field("u", grid(8, x=axis(11), y=axis(6, cells=True)))
    u[...] = lambda u: 0.3 * u["t-2"]
    u[fd.where(lambda t, x: x + 30 * t > 0.7137)] = lambda u: 0.4 * u["t-2"] + 0.3 * u["t-1", "x+1"]
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x + 3 * y)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.1)
    return case_of(u)


def two_species_on_a_torus() -> Case:
    """Two fields in single precision, every axis periodic, rows counted round."""
    g = grid(9, x=axis(140, periodic=True), y=axis(7, periodic=True))
    u, v = fd.Field("u", g, dtype=jnp.float32), fd.Field("v", g, dtype=jnp.float32)

    def around(w):
        return w["t-1", "x+1"] + w["t-1", "x-1"] + w["t-1", "y+1"] + w["t-1", "y-1"] - 4 * w["t-1"]

    u[...] = lambda u, v, a: u["t-1"] + a * around(u) - u["t-1"] * v["t-1"] ** 2 + 0.035 * (1 - u["t-1"])
    v[...] = lambda u, v, a: v["t-1"] + a / 2 * around(v) + u["t-1"] * v["t-1"] ** 2 - 0.1 * v["t-1"]
    u[0] = lambda x, y: 0.7 + 0.2 * jnp.cos(5 * x * y)
    v[0] = lambda x, y: x * y * 0.3
    return case_of((u, v), a=0.16)


def rules_of_regions() -> Case:
    """Masks, predicates of time and of a parameter, boxes, sums, arrays along time and space, branches."""
    u = fd.Field("u", grid(9, 9.0, x=axis(128), y=axis(9, periodic=True)))
    u[...] = lambda u, t, x, s, w: 0.9 * u["t-1"] + 0.05 * s[...] * jnp.tanh(t * u["t-1", "x+1"] - w[...])
    u[dict(x=-1)] = lambda t, y: jnp.sin(t + 3 * y)
    u[dict(x=0)] = fd.boundary.Neumann(0.1)
    u[fd.where(lambda x, y: jnp.sin(30 * x + 20 * y) > 0.3137)] = lambda u: 0.8 * u["t-1", "y+1"]
    u[3:, 20:90, 2:5] += lambda u: 0.1 * u["t-1", "y-2"] ** 3
    u[fd.where(lambda x, t, q: (x > 0.513) & (t > q)) - fd.where(lambda t: t < 0.5)] = lambda u: jnp.where(
        (u["t-1"] > 0.1) & ~(u["t-1", "y-1"] > 0.2), jnp.abs(u["t-1"]), 0.3
    )
    u[0] = lambda x, y: jnp.cos(4 * x * y)
    w = fd.along(0.3 * jnp.arange(9.0), "y")
    return case_of(u, s=fd.along(jnp.arange(10.0) / 10, "t"), w=w, q=3.0)


def rates_in_places() -> Case:
    """Two stages, a flux form, rates in places and rates added, overlapping."""
    u = fd.Field("u", grid(5, 0.002, x=axis(24), y=axis(15)))
    u[...] = fd.rate(lambda u, kappa: divergence(kappa, u))
    u[fd.where(lambda x, y: jnp.sin(9 * x + 7 * y) > 0.2137)] = fd.rate(lambda u, x, t: laplacian(u) * 0.01 - t * x * u)
    u[:, 2:12, 3:9] += fd.rate(lambda u: u**2 + 1.0)
    u[0] = lambda x, y: jnp.exp(-9 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))
    u[dict(x=0)] = fd.boundary.Dirichlet(0.0)
    u[dict(x=-1)] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = fd.boundary.Robin(1.0, 0.5, 0.1)
    return case_of(u, stepper=Heun(), kappa=0.05)


def flow_around_a_hole() -> Case:
    """Points beside a hole read what its insulated wall gives."""
    u = fd.Field("u", grid(6, x=axis(20), y=axis(12, periodic=True)))
    u[...] = lambda u: u["t-1"] + 1e-4 * laplacian(u, at="t-1") - 0.2 * (u["t-1"] - u["t-1", "x-1"])
    u[0] = lambda x, y: jnp.sin(2 * jnp.pi * y) + x
    u[dict(x=0)] = fd.boundary.Dirichlet(0.4)
    u[dict(x=-1)] = fd.boundary.Outflow()
    u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.02)] = fd.boundary.Neumann(0.0)
    return case_of(u)


def rates_on_a_ring() -> Case:
    """A stored flux whose rows go round a periodic axis, three stages."""
    u = fd.Field("u", grid(6, x=axis(20, periodic=True), y=axis(6, cells=True)))
    u[...] = fd.rate(lambda u: 0.1 * derivative(fd.stored(u * derivative(u, "x")), "x") - derivative(u, "y"))
    u[0] = lambda x, y: jnp.sin(2 * jnp.pi * x) + y
    u[dict(y=0)] = fd.boundary.Dirichlet(0.3)
    u[dict(y=-1)] = fd.boundary.Extrapolate(2)
    return case_of(u, stepper=SSPRK3())


def stored_one_row_off() -> Case:
    """A stored product that is held from one row before the first to one before the last."""
    u = fd.Field("u", grid(6, x=axis(18, periodic=True), y=axis(5)))
    u[...] = lambda u: 0.4 * u["t-1"] + 0.5 * fd.stored(u * u)["t-1", "x-1"]
    u[0] = lambda x, y: jnp.sin(2 * jnp.pi * x) + 0.3 * y
    return case_of(u)


def staggered_sound() -> Case:
    """Two fields a half step apart, the second reading the level that the first has just reached."""
    g = grid(8, x=axis(12, cells=True), y=axis(9))
    v, p = fd.Field("v", g, at=dict(x="face")), fd.Field("p", g)
    v[...] = lambda v, p: v["t-1"] - 0.4 * (p["t-1", "x+1/2"] - p["t-1", "x-1/2"])
    p[...] = lambda v, p: p["t-1"] - 0.4 * (v["x+1/2"] - v["x-1/2"]) + 0.01 * laplacian(p, at="t-1") / 1e3
    v[0], p[0] = 0.0, lambda x, y: jnp.cos(9 * x) * y
    v[dict(x=[0, -1])] = 0.0
    p[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    p[dict(y=[0, -1])] = fd.boundary.Symmetric()
    return case_of((v, p))


def open_ends() -> Case:
    """Ghosts with a memory of their own, three older levels, along one axis."""
    u = fd.Field("u", grid(9, x=axis(60)))
    u[...] = lambda u: u["t-1"] - 0.3 * (u["t-1", "x+1"] - u["t-1", "x-1"]) + 0.05 * (u["t-3"] - u["t-2"])
    u[[0, 1, 2]] = lambda x: jnp.exp(-90 * (x - 0.5) ** 2)
    u[dict(x=0)] = fd.boundary.Extrapolate(2)
    u[dict(x=-1)] = fd.boundary.Outflow(speed=0.5)
    return case_of(u)


def heat_in_space() -> Case:
    """Three axes, one periodic, tiles along one."""
    u = fd.Field("u", grid(5, x=axis(128), y=axis(5, periodic=True), z=axis(6, cells=True)))
    u[...] = lambda u, k: u["t-1"] + k * laplacian(u, at="t-1") * (1 + u["t-1"])
    u[0] = lambda x, y, z: jnp.sin(7 * x * z + y)
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.2)
    u[dict(z=[0, -1])] = fd.boundary.Robin(1.0, 0.5, lambda t, y: 0.3)
    return case_of(u, k=1e-6)


def four_axes() -> Case:
    """The most axes there are, two stages."""
    u = fd.Field("u", grid(3, w=axis(4), x=axis(4, periodic=True), y=axis(5, cells=True), z=axis(5)))
    u[...] = fd.rate(lambda u, z: -0.1 * u["w+1"] + 0.2 * u["x-1"] * z + 0.3 * u["y+1", "z-1"])
    u[0] = lambda w, x, y, z: jnp.sin(w + 6.3 * x) + y * z
    for name in "wyz":
        u[{name: [0, -1]}] = fd.boundary.Neumann(0.1)
    return case_of(u, stepper=Heun())


CASES: dict[Callable[[], Case], Sequence[Tiling | None]] = {
    heat_between_walls: (None, ONE, Tiling(3, 2, 2), Tiling(2, 2, 2), Tiling(4, 1, 1)),
    waves_in_a_medium: (None, UNEVEN, Tiling(4, 2, 2)),
    waves_but_in_places: (None, Tiling(2, 1, 1), UNEVEN),
    two_species_on_a_torus: (None, DEEP, Tiling(2, 2, 2)),
    rules_of_regions: (None, ONE, DEEP, Tiling(2, 2, 2)),
    rates_in_places: (None, UNEVEN),
    flow_around_a_hole: (None, DEEP),
    rates_on_a_ring: (None,),
    stored_one_row_off: SMALL,
    staggered_sound: SMALL,
    open_ends: (None, ONE, UNEVEN, Tiling(2, 1, 2)),
    heat_in_space: (None, ONE, Tiling(2, 2, 2)),
    four_axes: (None, Tiling(2, 1, 1)),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_machine_code_gives_the_numbers_of_the_portable_kernel(case: Callable[[], Case]) -> None:
    made = case()
    assert refusal(made.call) is None
    made.agrees(CASES[case])


def test_rows_go_round_a_periodic_first_axis() -> None:
    assert layout_of(two_species_on_a_torus().call).program.wraps
    assert not layout_of(heat_between_walls().call).program.wraps


def test_levels_given_one_by_one_stay_where_later_ones_read_them() -> None:
    """A phase that reads nothing, of fewer levels than are kept."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=7), x=fd.Axis(0.0, 1.0, num=40), y=fd.Axis(0.0, 1.0, num=31)))
    u[...] = lambda u: 0.5 * u["t-1"] + 0.3 * u["t-2"] + 0.1 * u["t-3", "x+1"]
    u[[0, 1, 2]] = lambda t, x, y: jnp.sin(7 * x * y + t)
    u[dict(x=[0, -1])] = 0.3
    found, wanted = (fd.solve(u, kernel=kernel, save=fd.final()).final["u"] for kernel in ("native", "slices"))
    np.testing.assert_allclose(found, wanted, rtol=1e-13)

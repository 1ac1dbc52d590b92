"""Marches cut along the second axis, block by block in place, against the portable kernel and against whole planes."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native import _tiling
from fdsolve.kernels.native._derivative import march
from fdsolve.kernels.native._march import blocked_layout_of, layout_of
from fdsolve.kernels.native._tiling import Tiling, choose_tiling
from fdsolve.schemes import Heun, divergence, laplacian

from .native_cases import Case, case_of

RANDOM = np.random.default_rng(11)
TILINGS = (Tiling(2, 1, 1, 3), Tiling(4, 1, 1, 1), Tiling(6, 2, 2, 4), Tiling(3, 2, 2, 100), Tiling(1, 1, 1, 2))


def grid(steps: int, *sizes: int, periodic: str = "", cells: str = "") -> fd.Grid:
    """A grid of `steps` levels after the first and three or four axes."""
    axes = {
        name: fd.Axis(0.0, 1.0, num=num, periodic=name in periodic, cells=name in cells)
        for name, num in zip("xyzw", sizes, strict=False)
    }
    return fd.Grid(t=fd.Time(0.0, 0.02, num=steps + 1), **axes)


def noise(*shape: int, dtype: str = "float64") -> np.ndarray:
    """Random numbers between 0 and 1, another at every point."""
    return RANDOM.uniform(size=shape).astype(dtype)


def waves(order: int = 4, dtype: str = "float64", steps: int = 14) -> Case:
    """Two older levels in a medium, walls of four kinds."""
    shape = (131, 11, 9)
    u = fd.Field("u", grid(steps, *shape), dtype=jnp.dtype(dtype))
    u[...] = lambda u, m: 2 * u["t-1"] - u["t-2"] + m[...] * laplacian(u, at="t-1", order=order)[...]
    u[0], u[1] = lambda start: start[...], lambda after: after[...]
    u[dict(x=[0, -1])] = fd.boundary.Symmetric()
    u[dict(y=0)] = fd.boundary.Symmetric()
    u[dict(y=-1)] = fd.boundary.Antisymmetric()
    u[dict(z=[0, -1])] = fd.boundary.Antisymmetric()
    m = (1e-6 * RANDOM.uniform(0.5, 1.0, shape)).astype(dtype)
    return case_of(u, m=m, start=noise(*shape, dtype=dtype), after=noise(*shape, dtype=dtype))


def waves_in_a_frame(steps: int = 15) -> Case:
    """The rule inside a frame of two points, a source at some points, an odd number of levels."""
    u = fd.Field("u", grid(steps, 37, 21, 18))
    u[2:] = 0.25
    u[2:, 2:-2, 2:-2, 2:-2] = lambda u: 2 * u["t-1"] - u["t-2"] + 1e-5 * laplacian(u, at="t-1", order=4)[...]
    u[2:, 9, 7:9, 5] += lambda t: 3 * t
    u[:2] = lambda start: start[...]
    return case_of(u, start=noise(37, 21, 18))


def heat_between_walls(dtype: str = "float64") -> Case:
    """One older level, so a second array beside the state's; conditions that set values or ghosts on six walls."""
    shape = (129, 10, 7)
    u = fd.Field("u", grid(11, *shape, cells="y"), dtype=jnp.dtype(dtype))
    u[...] = lambda u, k: u["t-1"] + k * laplacian(u, at="t-1")[...]
    u[0] = lambda start: start[...]
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t, y: 1.0 + 30 * t * y)
    u[dict(x=-1)] = fd.boundary.Neumann(0.5)
    u[dict(y=0)] = fd.boundary.Robin(1.0, 0.2, 0.3)
    u[dict(y=-1)] = fd.boundary.Antisymmetric()
    u[dict(z=0)] = fd.boundary.Extrapolate(2)
    u[dict(z=-1)] = fd.boundary.Neumann(lambda t, x: t + x)
    return case_of(u, k=np.asarray(1e-5, dtype), start=noise(*shape, dtype=dtype))


def species_on_a_ring() -> Case:
    """Two fields that read each other, round the first axis and the last."""
    g = grid(9, 128, 9, 6, periodic="xz")
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = lambda u, v: u["t-1"] + 1e-6 * laplacian(u, at="t-1")[...] - 0.1 * u["t-1"] * v["t-1", "y+1"] ** 2
    v[...] = lambda u, v: 0.9 * v["t-1", "x-1"] + 0.1 * u["y-1", "z+1"] * v["t-1"]
    u[0], v[0] = lambda start: start[...], lambda other: other[...]
    for one in (u, v):
        one[dict(y=[0, -1])] = fd.boundary.Neumann(0.1)
    return case_of((u, v), start=noise(128, 9, 6), other=noise(128, 9, 6))


def holes_and_places() -> Case:
    """Masks and conditions over other rules, what is added, and a level that is read in place."""
    u = fd.Field("u", grid(10, 19, 12, 11, cells="z"))
    u[...] = lambda u: 0.3 * u["t-2"] + 0.1 * u["t-1", "y-2"]
    u[:, :, :2] = u[:, :, -2:] = lambda x: x
    u[fd.where(lambda t, x: x + 30 * t > 0.7137)] = lambda u: 0.4 * u["t-2"]
    u[2:, 3:9, 2:-2, 1:5] = lambda u: 0.4 * u["t-2"] + 0.3 * u["t-1", "x+1", "y+1"]
    u[2:, 5:12, 3:7] += lambda u, y: 0.2 * u["t-1", "y-1"] * y
    u[noise(19, 12, 11) > 0.8] = 0.4
    u[:2] = lambda start: start[...]
    return case_of(u, start=noise(19, 12, 11))


def staggered_sound() -> Case:
    """Fields of different sizes, each reading the level that the other has just reached or the one before."""
    g = grid(12, 17, 10, 8, cells="xy")
    p, v, w = fd.Field("p", g), fd.Field("v", g, at=dict(x="face")), fd.Field("w", g, at=dict(y="face"))
    v[...] = lambda v, p: v["t-1"] - 0.4 * (p["t-1", "x+1/2"] - p["t-1", "x-1/2"])
    w[...] = lambda w, p: w["t-1"] - 0.4 * (p["t-1", "y+1/2"] - p["t-1", "y-1/2"])
    p[...] = lambda p, v, w: p["t-1"] - 0.4 * (v["x+1/2"] - v["x-1/2"] + w["y+1/2"] - w["y-1/2"])
    v[0], w[0], p[0] = 0.0, 0.0, lambda start: start[...]
    v[dict(x=[0, -1])] = 0.0
    w[dict(y=[0, -1])] = 0.0
    return case_of((p, v, w), start=noise(17, 10, 8))


def heat_in_stages() -> Case:
    """Arrays that live within a level: slopes and stages of a rate, a stored flux."""
    u = fd.Field("u", grid(7, 21, 11, 9))
    u[...] = fd.rate(lambda u, kappa, t: divergence(kappa, u)[...] - t * u[...] ** 2)
    u[0] = lambda start: start[...]
    u[dict(x=0)] = fd.boundary.Dirichlet(0.0)
    u[dict(x=-1)] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = fd.boundary.Robin(1.0, 0.5, 0.1)
    u[dict(z=[0, -1])] = fd.boundary.Symmetric()
    return case_of(u, stepper=Heun(), kappa=1e-3 * noise(21, 11, 9), start=noise(21, 11, 9))


def written_late_at_times() -> Case:
    """A field that nothing reads, written over at every other level by what waits for rows far ahead on both axes."""
    g = grid(11, 40, 19, 7)
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = lambda u: 0.5 * (u["t-1"] + u["t-1", "x-1"])
    u[0] = lambda start: start[...]
    u[dict(x=0)] = 0.2
    v[...] = lambda u: 2 * u["t-1"]
    even = fd.where(lambda t: jnp.cos(jnp.pi * t / g.t.step) > 0)
    v[even & fd.region[1:, 3:20, 2:9]] = lambda u: u["x+12", "y+9"]
    v[0] = 0.0
    return case_of((u, v), start=noise(40, 19, 7))


def four_axes() -> Case:
    """Middle axes beside the one that is cut; three levels kept."""
    u = fd.Field("u", grid(11, 9, 8, 5, 6, periodic="w"))
    u[...] = lambda u: 0.4 * u["t-1", "y-1"] + 0.2 * u["t-3", "x+1", "w-1"] + 0.1 * u["t-2", "z+1"]
    u[[0, 1, 2]] = lambda start: start[...]
    u[:, -1] = u[:, :, 0] = u[:, :, :, -1] = 0.3
    return case_of(u, start=noise(9, 8, 5, 6))


CASES: tuple[Callable[[], Case], ...] = (
    waves,
    partial(waves, 2, "float32", 13),
    partial(waves, 8, "float64", 8),
    waves_in_a_frame,
    heat_between_walls,
    partial(heat_between_walls, "float32"),
    species_on_a_ring,
    holes_and_places,
    staggered_sound,
    heat_in_stages,
    written_late_at_times,
    four_axes,
)


@pytest.mark.parametrize("case", CASES)
def test_blocks_give_the_numbers_of_the_portable_kernel(case: Callable[[], Case]) -> None:
    made = case()
    assert blocked_layout_of(made.call) is not None
    made.agrees(TILINGS)


@pytest.mark.parametrize("num_levels", (13, 14))
def test_derivatives_march_in_blocks_too(num_levels: int) -> None:
    case = waves(2, steps=num_levels)
    assert case.call.steps == num_levels - 1
    levels, _ = case.expected(case.arrays)
    moved = jax.tree.map(lambda array: jnp.asarray(noise(*array.shape)), levels)
    found = []
    for function in (
        lambda held: get("march", "slices").function(case.call, case.arrays, held, case.start),
        lambda held: march(case.call, case.arrays, held, case.start, Tiling(4, 2, 2, 3)),
    ):
        new, pushed = jax.jit(lambda held, f=function: jax.jvp(f, (held,), (moved,)))(levels)
        pulled = jax.jit(lambda held, f=function: jax.vjp(f, held)[1](moved))(levels)
        found.append([np.asarray(one) for one in jax.tree.leaves((new, pushed, pulled))])
    for one, wanted in zip(*reversed(found), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=0, atol=1e-12 * np.max(np.abs(wanted)))


def test_no_blocks_round_a_long_second_axis_or_in_two_dimensions() -> None:
    for axes in ("y", "xy"):
        u = fd.Field("u", grid(6, 12, 40, 8, periodic=axes))
        u[...] = lambda u: u["t-1"] + 0.1 * laplacian(u, at="t-1")[...] / 1e3
        u[0] = 0.5
        u[dict(z=[0, -1])] = 0.1
        if axes == "y":
            u[dict(x=[0, -1])] = 0.2
        made = case_of(u)
        assert blocked_layout_of(made.call) is None
        made.agrees((Tiling(4, 1, 1, 3),))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=8)))
    u[...] = lambda u: 0.5 * u["t-1"]
    u[0] = 0.5
    assert blocked_layout_of(case_of(u).call) is None


def test_what_is_written_over_and_what_stands_beside() -> None:
    wave, heat = blocked_layout_of(waves().call), blocked_layout_of(heat_between_walls().call)
    assert wave is not None and wave.schedule.blocks is not None and heat is not None
    assert wave.schedule.blocks.depths["u"] == 2
    assert wave.beside_bytes(4, 1) == 0 < 8 * 129 * 10 * 7 < heat.beside_bytes(4, 1)


def test_blocks_are_chosen_where_planes_are_large() -> None:
    small = waves()
    layout, blocked = layout_of(small.call), blocked_layout_of(small.call)
    assert choose_tiling(layout, 14, blocked).width == 0
    u = fd.Field("u", grid(33, 256, 256, 256), dtype=jnp.float32)
    u[...] = lambda u: 2 * u["t-1"] - u["t-2"] + 1e-6 * laplacian(u, at="t-1")[...]
    u[:2] = 0.5
    for name in "xyz":
        u[{name: [0, -1]}] = 0.0
    large = case_of(u)
    layout, blocked = layout_of(large.call), blocked_layout_of(large.call)
    assert choose_tiling(layout, 32, blocked).width > 0
    assert choose_tiling(layout, 32).width == 0


def test_few_levels_a_pass_where_a_state_stays_in_cache_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    u = fd.Field("u", grid(33, 300, 300), dtype=jnp.float32)
    u[...] = lambda u: u["t-1"] + 0.1 * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = u[dict(x=[0, -1])] = 0.5
    layout = layout_of(case_of(u).call)
    state = 4 * 300 * 300
    for cache, levels in ((8 * state, 4), (6 * state, 16)):
        monkeypatch.setattr(_tiling, "shared_cache", lambda cache=cache: cache)
        monkeypatch.setattr(_tiling, "num_threads", lambda: 1)
        assert choose_tiling(layout, 32).levels == levels


def test_one_dimension_takes_two_levels_a_pass_so_that_none_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    u = fd.Field("u", grid(33, 5000))
    u[...] = lambda u: u["t-1"] + 0.1 * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = u[dict(x=[0, -1])] = 0.5
    layout = layout_of(case_of(u).call)
    monkeypatch.setattr(_tiling, "shared_cache", lambda: 2**10)
    assert [choose_tiling(layout, steps).levels for steps in (1, 2, 32)] == [1, 2, 2]

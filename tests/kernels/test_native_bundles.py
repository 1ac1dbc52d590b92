"""Operations that share rows: loops in blocks over widths that blocks do not fill, in place, under masks; gradients."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels.native._bundles import make_bundles
from fdsolve.kernels.native._march import layout_of
from fdsolve.kernels.native._tiling import Tiling
from fdsolve.schemes import laplacian

from .native_cases import Case, case_of


def grid(steps: int, stop: float = 0.02, **nums: int) -> fd.Grid:
    """A grid of `steps` levels after the first, from 0 to 1 on every axis."""
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name, num in nums.items()}
    return fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), **axes)


def two_velocities(steps: int, rows: int, width: int) -> tuple[fd.Field, fd.Field]:
    """Two fields that both read both, between walls."""
    g = grid(steps, x=rows, y=width)
    u, v = fd.Field("u", g), fd.Field("v", g)

    def carried(w: Any, u: Any, v: Any, nu: Any) -> Any:
        along = u["t-1"] * (w["t-1"] - w["t-1", "x-1"]) + v["t-1"] * (w["t-1"] - w["t-1", "y-1"])
        around = w["t-1", "x-1"] + w["t-1", "x+1"] + w["t-1", "y-1"] + w["t-1", "y+1"]
        return w["t-1"] - 0.1 * along + nu * (around - 4 * w["t-1"])

    u[...] = lambda u, v, nu: carried(u, u, v, nu)
    v[...] = lambda u, v, nu: carried(v, u, v, nu)
    u[0] = lambda x, y, a: a * jnp.sin(7 * x * y + 1)
    v[0] = lambda x, y: jnp.cos(5 * x - 9 * y)
    for one in (u, v):
        one[dict(x=[0, -1])] = one[dict(y=[0, -1])] = 0.1
    return u, v


def coupled() -> Case:
    """Two operations in one loop, four beside walls."""
    return case_of(two_velocities(7, 130, 37), nu=0.05, a=1.0)


def leapfrog() -> Case:
    """Written over the oldest level, which is read at the point itself."""
    u = fd.Field("u", grid(9, 0.01, x=130, y=21))
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * laplacian(u, at="t-1", order=4)
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return case_of(u)


def at_points() -> Case:
    """Written over what the same operation reads, under a mask, and with something added."""
    u = fd.Field("u", grid(6, 6.0, x=20, y=35))
    u[...] = lambda u, a: 0.9 * u["t-1"] + 0.05 * jnp.tanh(a * u["t-1"])
    u[fd.where(lambda x, y: jnp.sin(30 * x + 20 * y) > 0.3137)] = lambda u: 0.8 * u["t-1"] ** 2
    u[1:, 2:9, 3:33] += lambda u, a: 0.1 * a * u["t-1"] ** 3
    u[0] = lambda x, y: jnp.sin(9 * x * y + 1)
    return case_of(u, a=0.7)


def in_space() -> Case:
    """Rows within planes, one point more than a block."""
    u = fd.Field("u", grid(5, 1e-4, x=70, y=6, z=19))
    u[...] = lambda u, k: u["t-1"] + k * laplacian(u, at="t-1") * (1 + u["t-1"])
    u[0] = lambda x, y, z: jnp.sin(7 * x * z + y)
    for name in "xyz":
        u[{name: [0, -1]}] = 0.2
    return case_of(u, k=1e-4)


@pytest.mark.parametrize("case", [coupled, leapfrog, at_points, in_space], ids=lambda case: case.__name__)
def test_blocks_that_lie_over_each_other(case: Callable[[], Case]) -> None:
    case().agrees((None, Tiling(3, 2, 2)))


def test_what_runs_over_the_same_points_is_one_bundle() -> None:
    layout = layout_of(coupled().call)
    bundles, operations = make_bundles(layout.program, layout.schedule), layout.program.operations
    assert sorted(number for bundle in bundles for number in bundle) == list(range(len(operations)))
    largest = max(bundles, key=lambda bundle: operations[bundle[0]].box.size)
    assert {operations[number].array for number in largest} == {"u", "v"}
    assert len({operations[number].box.start[:-1] for number in largest}) == 1


def test_operations_that_read_each_other_stay_apart() -> None:
    g = grid(4, 1.0, x=20, y=18)
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = lambda u: 0.5 * u["t-1"]
    v[...] = lambda u, v: 0.5 * v["t-1"] + 0.1 * u[...]
    u[0] = v[0] = 1.0
    layout = layout_of(case_of((u, v)).call)
    assert all(len(bundle) == 1 for bundle in make_bundles(layout.program, layout.schedule))


def test_levels_are_computed_where_they_stay_only_if_written_once() -> None:
    """Else a tile could read there what another one has not finished."""
    once = {case: layout_of(case().call).program.written_once("u") for case in (coupled, leapfrog, at_points)}
    assert once == {coupled: True, leapfrog: True, at_points: False}


def test_gradients_by_levels_that_stay_where_they_were_computed() -> None:
    def total(a: Any, nu: Any, kernel: str) -> Any:
        solution = fd.solve(two_velocities(6, 130, 21), save=fd.final(), a=a, nu=nu, kernel=kernel)
        weights = np.random.default_rng(3)
        return sum(jnp.sum(solution.final[name] * weights.normal(size=(130, 21))) for name in "uv")

    found, wanted = (
        jax.jit(jax.grad(total, (0, 1)), static_argnums=2)(1.0, 0.05, kernel) for kernel in ("native", "slices")
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("rows", [(), (40,)])
def test_what_is_added_comes_after_all_that_it_is_added_to(rows: tuple[int, ...]) -> None:
    """Two fields of one bundle, to both of which something is added at the same points of a row."""
    g = grid(8, 0.02, **dict(zip("x", rows, strict=False)), y=24)
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = lambda u: 0.9 * u["t-1"] + 0.05 * (u["t-1", "y-1"] + u["t-1", "y+1"])
    u[dict(y=slice(5, 20))] += lambda u: 0.01 * u["t-1"]
    v[...] = lambda u, v: 0.9 * v["t-1"] + 0.05 * u["t-1"]
    v[dict(y=slice(5, 20))] += lambda v: 0.02 * v["t-1"]
    u[dict(y=[0, -1])] = 0.1
    u[0] = lambda y: jnp.sin(3 * y)
    v[0] = lambda y: jnp.cos(5 * y)
    ours, theirs = (fd.solve((u, v), kernel=kernel) for kernel in ("native", "slices"))
    for name in "uv":
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-14)


def test_a_gradient_of_rules_that_read_nothing() -> None:
    """No cotangent is read by a level before."""
    u = fd.Field("u", grid(8, x=12, y=24))
    u[...] = lambda x, y, t: jnp.sin(x + y) * t
    u[0] = lambda a: a[...]

    def total(a: Any, kernel: str) -> Any:
        return jnp.sum(fd.solve(u, save=fd.every(2), kernel=kernel, a=a)["u"] ** 2)

    found, wanted = (jax.jit(jax.grad(total), static_argnums=1)(jnp.ones((12, 24)), k) for k in ("native", "slices"))
    assert np.abs(wanted).max() > 0
    np.testing.assert_allclose(found, wanted, rtol=1e-14)

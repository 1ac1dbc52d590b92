"""Waves that leave through absorbing layers, in generated code: the same as by the portable kernel."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import PML
from fdsolve.kernels.native import _derivative
from fdsolve.schemes import RK4, derivative, laplacian

STEPS = 30


def _grid(**nums: int) -> fd.Grid:
    axes = {
        name: fd.Axis(0.0, num - 1.0, num=num) if num > 5 else fd.Axis(0.0, float(num), num=num, periodic=True)
        for name, num in nums.items()
    }
    return fd.Grid(t=fd.Time(0.0, 0.4 * STEPS, num=STEPS + 1), **axes)


def _begin(grid: fd.Grid) -> Any:
    if len(grid.space) == 1:
        return lambda x: jnp.exp(-(((x - 12) / 3) ** 2))
    if len(grid.space) == 3:
        return lambda x, y, z: jnp.exp(-((x - 5) ** 2 + (y - 6) ** 2 + (z - 5) ** 2) / 6)
    return lambda x, y: jnp.exp(-(((x - 8) / 3) ** 2) - ((y - 2) / 3) ** 2)


def _leapfrog(grid: fd.Grid, walls: dict[str, Any], order: int = 2) -> Any:
    u = fd.Field("u", grid)
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c[...] * dt) ** 2 * laplacian(u, at="t-1", order=order)
    u[:2] = _begin(grid)
    ends = [({axis: at}, rule) for axis, both in walls.items() for at, rule in zip((0, -1), both, strict=True)]
    for end, rule in sorted(ends, key=lambda one: isinstance(one[1], PML)):  # layers lie along whole walls
        u[end] = rule
    return u


def _staggered(grid: fd.Grid, wall: Any, rates: bool) -> Any:
    p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
    if rates:
        p[...] = fd.rate(lambda v, c: -(c[...] ** 2) * derivative(v, "x"))
        v[...] = fd.rate(lambda p: -derivative(p, "x"))
    else:
        v[...] = lambda v, p, dt: v["t-1"] - dt * derivative(p, "x", at="t-1")
        p[...] = lambda p, v, c, dt: p["t-1"] - dt * c[...] ** 2 * derivative(v, "x")
    p[0], v[0] = _begin(grid), 0.0
    fd.together(p, v)[dict(x=[0, -1])] = wall
    return p, v


def _second(grid: fd.Grid, wall: Any) -> Any:
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: v)
    v[...] = fd.rate(lambda u, c: c[...] ** 2 * laplacian(u))
    u[0], v[0] = _begin(grid), 0.0
    fd.together(u, v)[dict(x=[0, -1])] = wall
    return u, v


LINE, PLANE, SPACE = _grid(x=33), _grid(x=24, y=19), _grid(x=11, y=12, z=10)
CASES = {
    "a line": (_leapfrog(LINE, dict(x=(PML(5), PML(6)))), None),
    "order 4": (_leapfrog(LINE, dict(x=(PML(5), PML(5))), order=4), None),
    "one end, its speed given": (_leapfrog(LINE, dict(x=(0.0, PML(7, speed=1.0)))), None),
    "a plane": (_leapfrog(PLANE, dict(x=(PML(4), PML(4)), y=(fd.boundary.Neumann(0.0), PML(5)))), None),
    "a plane, order 4": (_leapfrog(PLANE, dict(x=(PML(4), PML(3)), y=(PML(4), PML(5))), order=4), None),
    "space": (_leapfrog(SPACE, dict(x=(PML(3), PML(3)), y=(0.0, PML(4)), z=(PML(2), PML(3)))), None),
    "around": (_leapfrog(_grid(x=24, y=5), dict(x=(PML(4), PML(5)))), None),
    "staggered": (_staggered(LINE, PML(5), rates=False), None),
    "staggered, by stages": (_staggered(LINE, PML(5), rates=True), RK4()),
    "by stages": (_second(LINE, PML(5)), RK4()),
}


def _both(fields: Any, stepper: Any, kernel: str, save: Any = None) -> Any:
    """c ↦ all that is saved of the first field."""
    name = (fields[0] if isinstance(fields, tuple) else fields).name
    return lambda c: fd.solve(fields, c=c, stepper=stepper, save=save, kernel=kernel)[name]


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str) -> None:
    fields, stepper = CASES[case]
    first = fields[0] if isinstance(fields, tuple) else fields
    shape = tuple(first.grid.space_axis(name).num for name in first.grid.space)
    random = np.random.default_rng(2)
    c, weight = jnp.asarray(random.uniform(0.7, 1.0, shape)), jnp.asarray(random.standard_normal(shape))
    values, gradients = {}, {}
    for kernel in ("native", "slices"):
        values[kernel] = np.asarray(jax.jit(_both(fields, stepper, kernel))(c))
        last = _both(fields, stepper, kernel, fd.final())
        gradients[kernel] = np.asarray(jax.jit(jax.grad(lambda c, last=last: jnp.sum(weight * last(c) ** 2)))(c))
    np.testing.assert_allclose(values["native"], values["slices"], atol=1e-13)
    most = np.abs(gradients["slices"]).max()
    assert most > 1e-3
    np.testing.assert_allclose(gradients["native"], gradients["slices"], atol=1e-12 * most)


@pytest.mark.parametrize("case", ["a plane, order 4", "space"])
def test_gradients_are_generated(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transposes of layers on all sides have no more pieces than there is code for."""

    def refused(*arguments: Any) -> Any:
        raise AssertionError("by the portable kernel")

    for name in ("portable", "portable_by_blocks"):
        monkeypatch.setattr(_derivative, name, refused)
    u, _ = CASES[case]
    c = jnp.full([u.grid.space_axis(name).num for name in u.grid.space], 0.9)
    last = _both(u, None, "native", fd.final())
    assert "fdsolve_" in jax.jit(jax.grad(lambda c: jnp.sum(last(c) ** 2))).lower(c).as_text()


def test_layers_that_few_of_the_tiles_have() -> None:
    """What layers at either end remember has no rows in the tiles of other threads."""
    u = _leapfrog(_grid(x=256, y=80), dict(x=(PML(5, speed=1.0), PML(5, speed=1.0)), y=(0.0, 0.0)))
    c = jnp.asarray(np.random.default_rng(0).uniform(0.7, 1.0, (256, 80)))
    found = {}
    for kernel in ("native", "slices"):
        last = _both(u, None, kernel, fd.final())
        found[kernel] = np.asarray(jax.jit(jax.grad(lambda c, last=last: jnp.sum(last(c) ** 2)))(c))
    np.testing.assert_allclose(found["native"], found["slices"], atol=1e-13 * np.abs(found["slices"]).max())


@pytest.mark.parametrize(("num", "kernel"), [(24, "slices"), (512, "native")])
def test_small_runs_are_left_to_the_portable_kernel(num: int, kernel: str) -> None:
    """Compiling the many rules of layers pays where much is computed."""
    u = _leapfrog(
        fd.Grid(t=fd.Time(0.0, 0.4 * 80, num=81), **{a: fd.Axis(0.0, num - 1.0, num=num) for a in "xy"}),
        dict(x=(PML(4), PML(4)), y=(0.0, 0.0)),
    )
    assert f"Kernel for march: {kernel}" in str(fd.plan(u, c=jnp.ones((num, num)), save=fd.final()))

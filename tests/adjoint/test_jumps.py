"""Marches that a kernel jumps through: their derivative is that of the jump, and keeps the digits of long waves."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.adjoint import Quick, _fitted
from fdsolve.kernels import detect_platform
from fdsolve.schemes import RK4, laplacian

STEPS = 40


def wave(steps: int = STEPS, num: int = 9) -> fd.Field:
    """Two levels and walls of two kinds: a matrix a mode."""
    axes = dict(x=fd.Axis(0.0, 1.0, num=num), y=fd.Axis(0.0, 1.0, num=num, periodic=True))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.02 * steps, num=steps + 1), **axes))
    u[...] = lambda u, c, q, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * (c * laplacian(u, at="t-1") + q)
    u[0] = lambda x, y, a: a * jnp.sin(np.pi * x) * jnp.cos(2 * np.pi * y)
    u[1] = lambda x, y: jnp.sin(np.pi * x)
    u[dict(x=0)], u[dict(x=-1)] = fd.boundary.Dirichlet(0.5), fd.boundary.Neumann(0.0)
    return u


def heat(steps: int = STEPS, num: int = 9) -> fd.Field:
    """Rates, by a Runge–Kutta method."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.002 * steps, num=steps + 1), x=fd.Axis(0.0, 1.0, num=num)))
    u[...] = fd.rate(lambda u, c, q: c * laplacian(u) + q)
    u[0] = lambda x, a: a * jnp.sin(np.pi * x)
    u[dict(x=[0, -1])] = 0.0
    return u


PROBLEMS: dict[str, Any] = dict(wave=(wave, {}), heat=(heat, dict(stepper=RK4())))
ADJOINTS = (
    fd.adjoint.Full(),
    fd.adjoint.Checkpointed(),
    fd.adjoint.Checkpointed(snapshots=2),
    fd.adjoint.Checkpointed(levels=2),
    fd.adjoint.Checkpointed(memory=10**4, storage=fd.adjoint.Host()),
)
POINT = dict(c=jnp.asarray(0.7), q=jnp.asarray(0.3), a=jnp.asarray(1.1))


def last(name: str, kernel: str, adjoint: Any = None, steps: int = STEPS, num: int = 9, save: Any = None) -> Any:
    """Parameters ↦ what is saved."""
    make, options = PROBLEMS[name]
    u, save = make(steps, num), save or fd.final()
    return lambda p: fd.solve(u, parameters=p, kernel=kernel, adjoint=adjoint, save=save, **options)["u"]


@pytest.mark.parametrize("save", [None, fd.every(8)], ids=["the last level", "some levels"])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("adjoint", ADJOINTS, ids=repr)
def test_gradients_are_those_level_by_level(name: str, adjoint: Any, save: Any) -> None:
    def of(kernel: str, adjoint: Any) -> Any:
        run = last(name, kernel, adjoint, save=save)
        return jax.jit(jax.grad(lambda p: jnp.sum(jnp.sin(3 * run(p)))))(POINT)

    expected, found = of("slices", fd.adjoint.Full()), of("fft", adjoint)
    for parameter in POINT:
        np.testing.assert_allclose(found[parameter], expected[parameter], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_products_with_tangents_and_slopes(name: str) -> None:
    table = fd.check_gradient(last(name, "fft", fd.adjoint.Checkpointed()), POINT, match=1e-13)
    assert bool(table), table


def test_products_with_the_hessian() -> None:
    def product(kernel: str) -> Any:
        run = last("wave", kernel, fd.adjoint.Checkpointed())
        gradient = jax.grad(lambda p: jnp.sum(run(p) ** 3))
        return jax.jit(lambda p, v: jax.jvp(gradient, (p,), (v,))[1])(POINT, POINT)

    expected, found = product("slices"), product("fft")
    for parameter in POINT:
        np.testing.assert_allclose(found[parameter], expected[parameter], rtol=1e-10)


@pytest.mark.parametrize("adjoint", [None, fd.adjoint.Checkpointed(), fd.adjoint.Checkpointed(levels=2)], ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_transforms_and_memory_hardly_grow_with_the_steps(name: str, adjoint: Any) -> None:
    def compiled(steps: int) -> Any:
        run = last(name, "fft", adjoint, steps, 65)
        return jax.jit(jax.grad(lambda p: jnp.sum(run(p) ** 2))).lower(POINT).compile()

    few, many = compiled(2**9), compiled(2**13)
    assert many.as_text().count(" fft(") == few.as_text().count(" fft(") > 0
    bytes_few, bytes_many = (one.memory_analysis().temp_size_in_bytes for one in (few, many))
    assert bytes_many <= 1.5 * bytes_few


def test_the_default_takes_the_jump_where_steps_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def jumped(self: Quick, consts: Any, carry: Any, start: Any, count: int) -> Any:
        asked.append(count)
        return self.run(consts, carry, start, count)

    monkeypatch.setattr(_fitted, "EASY", 2**10)
    monkeypatch.setattr(Quick, "__call__", jumped)
    run = last("heat", "fft", None, 600)
    assert detect_platform() == "cpu"
    assert np.isfinite(jax.grad(lambda p: jnp.sum(run(p)))(POINT)["c"])
    assert not asked  # neither whole nor in parts


def test_the_plan_says_so() -> None:
    def shown(adjoint: Any, kernel: str = "fft") -> str:
        text = str(fd.plan(wave(), parameters=POINT, save=fd.final(), adjoint=adjoint, kernel=kernel))
        return next(line.strip() for line in text.splitlines() if line.strip().startswith("Adjoint: "))

    found = shown(fd.adjoint.Checkpointed(snapshots=3))
    assert found.startswith("Adjoint: Checkpointed(snapshots=3): keeps the state that the jump by `fft` starts from")
    assert found.endswith("bytes, and computes the jump once more, whatever the steps")
    assert "jump by `fft` needs, whatever the steps" in shown(None)
    assert "jump" not in shown(fd.adjoint.Checkpointed(), "slices")


@pytest.mark.parametrize("kernel", ["slices", "native", "fft"])
def test_gradients_keep_the_digits_of_long_waves(kernel: str) -> None:
    """In float32, 2000 steps that each change the wave by 2e-5 of it."""

    def gradient(kernel: str, dtype: Any) -> float:
        axes = {name: fd.Axis(0.0, 32.0, num=33) for name in "xy"}
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 2000.0, num=2001), **axes), dtype=dtype)
        u[...] = lambda u, r: 2 * u["t-1"] - u["t-2"] + r * laplacian(u, at="t-1")
        u[[0, 1]] = lambda x, y: jnp.sin(np.pi * x / 32) * jnp.sin(np.pi * y / 32)
        u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
        run = jax.jit(jax.grad(lambda r: jnp.mean(fd.solve(u, r=r, save=fd.final(), kernel=kernel)["u"] ** 2)))
        return float(run(dtype(0.001)))

    exact = gradient("slices", jnp.float64)
    # 2 − 4r in float32, as one number, would be off by 1e-7 at every step: 8e-3 of the gradient.
    assert abs(gradient(kernel, jnp.float32) - exact) < 3e-4 * abs(exact)

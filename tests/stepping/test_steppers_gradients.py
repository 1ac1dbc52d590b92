"""Gradients through every stepper: the Taylor remainder falls by four, forward and reverse mode agree, vmap and jit."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    ETDRK4,
    AdamsBashforth,
    CarpenterKennedy,
    Diffrax,
    Heun,
    Leapfrog,
    Lie,
    Midpoint,
    StormerVerlet,
    Strang,
    laplacian,
)

TOLERANCE = dict(rtol=1e-8, atol=1e-8)
STEPPERS = [
    CarpenterKennedy(),
    AdamsBashforth(3),
    Leapfrog(0.1),
    StormerVerlet(),
    Lie(),
    Strang(Heun(), Midpoint()),
    ETDRK4(),
    fd.CFL(0.03, Heun(), max_substeps=6),
    fd.CFL(0.1, speed=lambda u, a: 0.2 + 0.1 * jnp.tanh(u[...]) + 0.0 * a, max_substeps=4),
    Diffrax(diffrax.Tsit5(), adjoint=diffrax.ForwardMode(), **TOLERANCE),
    Diffrax(diffrax.Tsit5(), **TOLERANCE),
]
FORWARD_ONLY, REVERSE_ONLY = (STEPPERS[-2],), (STEPPERS[-1],)


def declare() -> tuple[fd.Field, fd.Field]:
    """u' = a v (twice), v' = a² u_xx / 10: two groups that read each other, all rates linear in the state."""
    grid = fd.Grid(t=fd.Time(0.0, 0.3, num=5), x=fd.Axis(0.0, 1.0, 6, periodic=True))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v, a: a * v[...])
    u[...] += fd.rate(lambda v, a: jnp.sin(a) * v[...])
    v[...] = fd.rate(lambda u, a: 0.1 * a**2 * laplacian(u))
    v[...] += fd.rate(lambda u, q: q[...] * jnp.cos(u[...]))
    u[0] = lambda start: start
    v[0] = lambda x, a: a * jnp.cos(2 * jnp.pi * x)
    return u, v


U, V = declare()
RANDOM = np.random.default_rng(7)
POINT = (jnp.asarray(0.7), jnp.asarray(RANDOM.normal(size=6)), jnp.asarray(RANDOM.normal(size=6)))
DIRECTION = (jnp.asarray(0.4), jnp.asarray(RANDOM.normal(size=6)), jnp.asarray(RANDOM.normal(size=6)))


def final(stepper: Any, a: Any, start: Any, q: Any) -> Any:
    """The last level of both fields."""
    # A start that is a whole array, so that the rule takes it from its position.
    u, v = declare()
    u[0] = start
    found = fd.solve((u, v), stepper=stepper, save=fd.final(), a=a, q=q)
    return jnp.stack([found.final["u"], found.final["v"]])


def show(stepper: Any) -> str:
    """A stepper's name, the same in every process: without the address of a function."""
    return repr(stepper).split(" at 0x")[0]


@pytest.mark.parametrize("stepper", STEPPERS, ids=show)
def test_taylor_remainder_and_dot_product(stepper: Any) -> None:
    run = jax.jit(lambda *point: final(stepper, *point))
    cotangent = jnp.asarray(np.random.default_rng(3).normal(size=(2, 6)))
    tangent = backward = None
    if stepper not in REVERSE_ONLY:
        tangent = jax.jvp(run, POINT, DIRECTION)[1]
    if stepper not in FORWARD_ONLY:
        pulled = jax.vjp(run, *POINT)[1](cotangent)
        backward = sum(jnp.vdot(p, d) for p, d in zip(pulled, DIRECTION, strict=True))
    if tangent is not None and backward is not None:
        assert float(backward) == pytest.approx(float(jnp.vdot(cotangent, tangent)), rel=1e-12)
    slope = jnp.vdot(cotangent, tangent) if tangent is not None else backward

    def value(h: float) -> Any:
        return jnp.vdot(cotangent, run(*(p + h * d for p, d in zip(POINT, DIRECTION, strict=True))))

    remainders = [float(abs(value(h) - value(0.0) - h * slope)) for h in (2e-3, 1e-3)]
    assert np.log2(remainders[0] / remainders[1]) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(
    "stepper", [STEPPERS[1], STEPPERS[7], STEPPERS[-1]], ids=lambda stepper: repr(stepper).split(" at 0x")[0]
)
def test_batches_equal_single_runs(stepper: Any) -> None:
    scales = jnp.asarray([0.7, 1.1])
    batch = jax.jit(jax.vmap(lambda a: final(stepper, a, *POINT[1:])))(scales)
    for scale, found in zip(scales, batch, strict=True):
        np.testing.assert_allclose(found, final(stepper, scale, *POINT[1:]), rtol=0, atol=1e-7)

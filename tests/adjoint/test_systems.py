"""Gradients of systems of conservation laws in a plane: Riemann fluxes, reconstructions, several stages a step."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

NUM, STEPS = (8, 7), 3


def waves(x: Any, y: Any, phase: float) -> Any:
    return jnp.sin(2 * jnp.pi * x + phase) * jnp.cos(2 * jnp.pi * y - 0.3 * phase)


def system(law: Any, start: Any, flux: Any, reconstruction: Any, walls: bool) -> tuple[fd.Field, ...]:
    """A law on cells of a plane, a parameter `a` in its first state."""
    names = "pmnE"[: len(start)]
    axes = [fd.Axis(0.0, 1.0, num=n, cells=True, periodic=not walls) for n in NUM]
    grid = fd.Grid(t=fd.Time(0.0, 0.01 * STEPS, num=STEPS + 1), x=axes[0], y=axes[1])
    fields = tuple(fd.Field(name, grid) for name in names)
    options: Any = dict(flux=flux, reconstruction=reconstruction)
    rates = {
        3: lambda p, m, n: fd.schemes.conservation(law, (p, m, n), **options),
        4: lambda p, m, n, E: fd.schemes.conservation(law, (p, m, n, E), **options),
    }
    fd.together(*fields)[...] = fd.rate(rates[len(start)])
    for k, (field, value) in enumerate(zip(fields, law.to_conservative(start), strict=True)):
        field[0] = lambda x, y, a, k=k, value=value: value * (1.0 + a * (0.5 + 0.1 * k) * waves(x, y, 0.7 * k))
        if walls:
            field[dict(x=[0, -1])] = field[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    return fields


GAS, WATER = fd.schemes.IdealGas(1.4), fd.schemes.ShallowWater(9.81)
CASES = {
    "gas, HLLC, TVD": (GAS, (1.2, 0.4, -0.3, 1.1), fd.schemes.HLLC(), fd.schemes.TVD(fd.schemes.mc), False),
    "water, HLL, TVD, walls": (WATER, (1.3, 0.5, -0.4), fd.schemes.HLL(), fd.schemes.TVD(), True),
    "water, Roe, WENO": (WATER, (1.3, 0.5, -0.4), fd.schemes.Roe(), fd.schemes.WENO5(), False),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_systems_agree_with_differences_and_each_other(case: str) -> None:
    fields = system(*CASES[case])

    def loss(adjoint: Any) -> Any:
        options: Any = dict(stepper=fd.schemes.Heun(), save=fd.final(), adjoint=adjoint)

        def of(a: Any) -> Any:
            found = fd.solve(fields, a=a, **options)
            return sum(jnp.sum(found[name] ** 2 * (k + 1.0)) for k, name in enumerate("pmnE"[: len(fields)]))

        return jax.jit(jax.value_and_grad(of))

    at, step = 0.2, 1e-5
    full = loss(fd.adjoint.Full())
    value, slope = full(at)
    assert np.isfinite(value)
    difference = (full(at + step)[0] - full(at - step)[0]) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-7)
    if case == "water, HLL, TVD, walls":  # the others take long to compile
        np.testing.assert_allclose(loss(fd.adjoint.Checkpointed(snapshots=2))(at)[1], slope, rtol=1e-11)

"""What flows through walls is what the domain gains, with coefficients given as arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Neumann


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("place", ["point", "face"])
@pytest.mark.parametrize("flux", [0.0, 0.7])
def test_the_total_grows_by_what_flows_in(cells: bool, place: str, flux: float) -> None:
    generator = np.random.default_rng(4)
    axes = {name: fd.Axis(0.0, 1.0, num=7 + i, cells=cells) for i, name in enumerate("xy")}
    grid = fd.Grid(t=fd.Time(0.0, 1e-3, num=2), **axes)
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, k: fd.schemes.divergence(k, u))
    u[0] = generator.normal(size=(7, 8))
    u[dict(x=[0, -1])] = Neumann(lambda y: flux * (1 + y)) if flux else Neumann(0.0)
    u[dict(y=[0, -1])] = Neumann(0.0)
    shape = (axes["x"].size(place == "face"), 8)
    k = generator.uniform(1.0, 2.0, size=shape)
    given = fd.along(k, "x", "y", at=dict(x="face") if place == "face" else None)
    final = fd.solve(u, k=given, stepper=fd.schemes.Euler(), save=fd.every(1))["u"]
    wide, high = (weights_of(axis) for axis in axes.values())
    total = np.einsum("tij,i,j->t", np.asarray(final), wide, high)
    at_walls = wall_coefficients(k, cells, place)
    gain = 1e-3 * np.sum(at_walls * flux * (1 + axes["y"].points) * high)
    assert abs(total[1] - total[0] - gain) < 1e-13 * np.abs(total).max() + 1e-15


def weights_of(axis: fd.Axis) -> np.ndarray:
    """The volumes of an axis: halves at nodes on walls."""
    found = np.full(axis.num, axis.step)
    if not axis.cells:
        found[[0, -1]] /= 2
    return found


def wall_coefficients(k: np.ndarray, cells: bool, place: str) -> np.ndarray:
    """The coefficient on both walls of x: given there, or extrapolated linearly."""
    if (place == "face") == cells:
        return np.stack([k[0], k[-1]])
    return np.stack([1.5 * k[0] - 0.5 * k[1], 1.5 * k[-1] - 0.5 * k[-2]])


def test_gradients_reach_the_coefficient_at_the_wall() -> None:

    grid = fd.Grid(t=fd.Time(0.0, 1e-3, num=2), x=fd.Axis(0.0, 1.0, num=6))

    def total(k):
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u, k: fd.schemes.divergence(k, u))
        u[0] = 0.0
        u[dict(x=[0, -1])] = Neumann(lambda t: 1.0 + 0 * t)
        return (fd.solve(u, k=k, stepper=fd.schemes.Euler()).final["u"] * jnp.asarray(weights_of(grid.x))).sum()

    assert np.allclose(jax.grad(total)(jnp.ones(6)), [1e-3, 0, 0, 0, 0, 1e-3], atol=1e-12)

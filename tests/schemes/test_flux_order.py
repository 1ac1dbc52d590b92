"""Order of the flux form with a coefficient that varies, walls included, against exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Robin, Symmetric
from fdsolve.schemes import Euler, divergence


def exact(x, insulated, derivative=0):
    """u and its first two derivatives; flat at both ends where walls are insulated."""
    if insulated:
        return [np.cos(np.pi * x), -np.pi * np.sin(np.pi * x), -(np.pi**2) * np.cos(np.pi * x)][derivative]
    return [np.sin(3 * x + 0.2), 3 * np.cos(3 * x + 0.2), -9 * np.sin(3 * x + 0.2)][derivative]


def condition(name, x, outward, order):
    u, slope = float(exact(x, False)), outward * float(exact(x, False, 1))
    return {
        "Dirichlet": Dirichlet(u, order=order),
        "Neumann": Neumann(slope, order=order),
        "Robin": Robin(2.0, 1.0, 2.0 * u + slope, order=order),
        "insulated": Neumann(0.0, order=order),
    }[name]


def error(num, cells, low, high, order):
    insulated = "insulated" in (low, high)
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num, cells=cells))
    x, u = grid.x.points, fd.Field("u", grid, dtype=float)
    k, slope = 1 + 0.5 * np.sin(2 * x), np.cos(2 * x)
    source = slope * exact(x, insulated, 1) + k * exact(x, insulated, 2) - exact(x, insulated)
    u[...] = fd.residual(lambda u, k, s: divergence(k, u, order=order) - u - s[...])
    u[dict(x=0)], u[dict(x=-1)] = condition(low, 0.0, -1, order), condition(high, 1.0, 1, order)
    return float(np.abs(np.asarray(fd.solve(u, k=k, s=source)["u"]) - exact(x, insulated)).max())


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize(
    ("low", "high"),
    [("Dirichlet", "Dirichlet"), ("Dirichlet", "Neumann"), ("Neumann", "Robin"), ("insulated", "insulated")],
)
def test_the_order_is_kept_at_walls(low, high, cells, order):
    coarse, fine = (error(num, cells, low, high, order) for num in (48, 96))
    assert np.log2(coarse / fine) > order - 0.1


@pytest.mark.parametrize("order", [4, 6])
@pytest.mark.parametrize("cells", [True, False])
def test_no_mode_grows(cells, order):
    """Beside walls of the same order, with coefficients whose logarithm varies by six."""
    for low, high in [("Dirichlet", "Neumann"), ("Neumann", "Robin"), ("insulated", "insulated")]:
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=fd.Axis(0.0, 1.0, 24, cells=cells))
        u = fd.Field("u", grid, dtype=float)
        u[...] = fd.rate(lambda u, k: divergence(k, u, order=order))
        u[0] = lambda start: start[...]
        for end, name in ((0, low), (-1, high)):
            u[dict(x=end)] = condition(name, 0.0, -1, order)
        k = np.exp(3 * np.sin(5 * grid.x.points))

        def step(start, u=u, k=k):
            return fd.solve(u, k=k, start=start, stepper=Euler(), kernel="slices")["u"][1]

        rates = np.linalg.eigvals(np.asarray(jax.jacobian(step)(jnp.zeros(24))) - np.eye(24))
        assert rates.real.max() < 1e-10 * np.abs(rates).max()
        assert np.abs(rates.imag).max() < 1e-8 * np.abs(rates).max()


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("wall", [Neumann(0.0), Symmetric()])
def test_mirrors_keep_the_total_at_any_order(cells, wall):
    generator = np.random.default_rng(7)
    grid = fd.Grid(t=fd.Time(0.0, 1e-3, num=2), x=fd.Axis(0.0, 1.0, 12, cells=cells))
    u = fd.Field("u", grid, dtype=float)
    u[...] = fd.rate(lambda u, k: divergence(k, u, order=4))
    u[0] = generator.normal(size=12)
    u[dict(x=[0, -1])] = wall
    found = np.asarray(fd.solve(u, k=generator.uniform(1.0, 2.0, 12), stepper=Euler())["u"])
    volumes = np.full(12, grid.x.step)
    if not cells:
        volumes[[0, -1]] /= 2
    totals = found @ volumes
    assert abs(totals[1] - totals[0]) < 1e-13 * np.abs(found).max()

"""Conditions on walls of constant angle: ∂u/∂n is (1/h) ∂u/∂q, whatever the order, the place and the axes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Outflow, Robin
from fdsolve.schemes import gradient, laplacian


def sector(n: int, cells: bool = True, lower: float = 0.3) -> fd.Grid:
    """r of 0.5 to 1.5, an angle of `lower` to 1.2."""
    return fd.Grid(
        r=fd.Axis(0.5, 1.5, 4, cells=True, metric="radius"),
        q=fd.Axis(lower, 1.2, n + (not cells), cells=cells, metric="angle"),
    )


def ghost(grid: fd.Grid, axis: str, upper: bool, values: Any, condition: Any, layer: int, at: Any = None) -> np.ndarray:
    """The ghost values of a layer beyond a wall, along the other axes."""
    u, d = fd.Field("u", grid, at=at), fd.Field("d", grid, at=at)
    u[...] = np.asarray(values)
    end = -1 if upper else 0
    u[{axis: end}] = condition
    d[...] = 0.0
    d[{axis: end}] = lambda u: u[f"{axis}{'+' if upper else '-'}{layer}"]
    return np.take(np.asarray(fd.solve([u, d])["d"]), end, axis=grid.space.index(axis))


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("kind", ["Neumann", "Robin"])
def test_ghosts_across_an_angle_are_exact_for_polynomials(kind: str, order: int, cells: bool) -> None:
    """u = p(q) s(r) with p of the degree that the order asks for, and data of ∂u/∂n = p′(q) s(r)/r."""
    grid = sector(10, cells)
    r, q, axis = grid.r.points[:, None], grid.q.points, grid.q
    random = np.random.default_rng(order)
    for upper in (False, True):
        p = np.polynomial.Polynomial(random.normal(size=(order if order > 2 else 1) + 1))
        wall, sign = (axis.upper, 1.0) if upper else (axis.lower, -1.0)
        slope, value = float(sign * p.deriv()(wall)), float(p(wall))
        condition = {
            "Neumann": Neumann(lambda r, slope=slope: slope * jnp.cos(r) / r, order=order),
            "Robin": Robin(
                1.2, 0.7, lambda r, slope=slope, value=value: (1.2 * value + 0.7 * slope / r) * jnp.cos(r), order=order
            ),
        }[kind]
        for layer in (1, 2):
            place = axis.positions(False, axis.num + layer - 1, axis.num + layer) if upper else None
            place = axis.positions(False, -layer, 1 - layer) if place is None else place
            got = ghost(grid, "q", upper, np.cos(r) * p(q), condition, layer)
            np.testing.assert_allclose(got, np.cos(r[:, 0]) * p(place), atol=1e-9)


def test_ghosts_across_an_azimuth_know_both_other_axes() -> None:
    """h = r sin θ, at points and at faces of r and θ: u₋₁ = u₀ + h Δφ g."""
    grid = fd.Grid(
        r=fd.Axis(0.5, 1.0, 3, cells=True, metric="spherical radius"),
        q=fd.Axis(0.4, 2.0, 5, cells=True, metric="colatitude"),
        f=fd.Axis(0.0, 1.0, 4, cells=True, metric="azimuth"),
    )
    random = np.random.default_rng(0)
    for faces in ((), ("r",), ("q",), ("r", "q")):
        at = dict.fromkeys(faces, "face")
        r, q = (np.asarray(grid[axis].positions(axis in faces, 0, grid[axis].size(axis in faces))) for axis in "rq")
        values = random.normal(size=(len(r), len(q), 4))
        got = ghost(grid, "f", False, values, Neumann(1.7), 1, at or None)
        np.testing.assert_allclose(got, values[:, :, 0] + r[:, None] * np.sin(q) * 0.25 * 1.7, rtol=1e-12)
        if "q" not in faces:
            got = ghost(grid, "q", True, values, Neumann(1.7), 1, at or None)
            np.testing.assert_allclose(got, values[:, -1] + r[:, None] * 0.32 * 1.7, rtol=1e-12)


@pytest.mark.parametrize("cells", [True, False])
def test_a_harmonic_function_on_a_sector(cells: bool) -> None:
    """u = r² cos 2q with its slope on one wall of constant angle and a Robin condition on the other."""

    def error(n: int) -> float:
        grid = fd.Grid(
            r=fd.Axis(0.3, 1.0, n, cells=True, metric="radius"),
            q=fd.Axis(0.3, 1.2, n + (not cells), cells=cells, metric="angle"),
        )
        u = fd.Field("u", grid)
        u[...] = fd.residual(lambda u: laplacian(u))
        u[dict(r=0)] = Dirichlet(lambda q: 0.09 * jnp.cos(2 * q))
        u[dict(r=-1)] = Dirichlet(lambda q: jnp.cos(2 * q))
        u[dict(q=0)] = Neumann(lambda r: 2 * r * jnp.sin(0.6))
        u[dict(q=-1)] = Robin(1.0, 0.5, lambda r: r**2 * jnp.cos(2.4) - r * jnp.sin(2.4))
        r, q = np.meshgrid(grid.r.points, grid.q.points, indexing="ij")
        return float(np.abs(np.asarray(fd.solve(u)["u"]) - r**2 * np.cos(2 * q)).max())

    assert np.log2(error(10) / error(20)) > 1.7


def test_waves_leave_across_an_angle_at_their_speed() -> None:
    """Each ring is a line of its own length: the radiation condition moves at c along the arc."""

    def levels(axes: dict[str, fd.Axis], name: str) -> np.ndarray:
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=41), **axes)
        u = fd.Field("u", grid)
        u[...] = fd.rate(lambda u: -1.3 * gradient(u)[-1])
        u[0] = np.broadcast_to(np.exp(-(((np.arange(20) - 13) / 3) ** 2)), grid.shape[1:])
        u[{name: 0}] = Dirichlet(0.0)
        u[{name: -1}] = Outflow(speed=1.3)
        return np.asarray(fd.solve(u, stepper=fd.schemes.RK4())["u"])

    rings = dict(
        r=fd.Axis(1.0, 3.0, 2, cells=True, metric="radius"), q=fd.Axis(0.0, 1.0, 20, cells=True, metric="angle")
    )
    bent = levels(rings, "q")
    for ring, radius in enumerate((1.5, 2.5)):
        straight = levels(dict(x=fd.Axis(0.0, radius, 20, cells=True)), "x")
        np.testing.assert_allclose(bent[:, ring], straight, atol=1e-12)


def test_a_hole_has_arcs_too() -> None:
    """Beyond the wall of a hole across the angle: u + r Δq g; across the radius: u + Δr g."""
    grid = sector(6)
    values = np.random.default_rng(1).normal(size=(4, 6))
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = values
    u[dict(r=2, q=3)] = Neumann(1.7)
    d[...] = 0.0
    d[dict(r=2, q=2)] = lambda u: u["q+1"]
    d[dict(r=1, q=3)] = lambda u: u["r+1"]
    got = np.asarray(fd.solve([u, d])["d"])
    assert got[2, 2] == pytest.approx(values[2, 2] + grid.r.points[2] * 0.15 * 1.7)
    assert got[1, 3] == pytest.approx(values[1, 3] + 0.25 * 1.7)

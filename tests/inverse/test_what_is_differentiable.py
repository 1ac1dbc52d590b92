"""Gradients by everything a declaration can take: a Taylor slope and the dot-product test along each."""

import jax.numpy as jnp
import numpy as np

import fdsolve as fd

X = np.linspace(0.0, 1.0, 9)
AT = dict(
    scalar=0.4,
    field=0.4 + 0.1 * X,
    initial=np.cos(3 * X),
    wall=0.3,
    wall_in_time=np.linspace(0.0, 0.4, 5),
    source=0.4321,  # between the points
    obstacle=np.array([0.53, 0.11]),  # centre and half width, both between the points
    weights=np.array([3.0, -6.4, 3.9]),
    step=0.9,
)


def rate(u, x, scalar, field, obstacle, weights, step):
    """Diffusion, an obstacle in which u is drawn to zero, a stencil, and how long a step of time is."""
    inside = 1 / (1 + jnp.exp((jnp.abs(x - obstacle[0]) - obstacle[1]) / 0.05))
    stencil = weights[0] * u["x-1"] + weights[1] * u[...] + weights[2] * u["x+1"]
    return step * (scalar * fd.schemes.divergence(field, u) - 20.0 * inside * u[...] + stencil)


def history(p):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.02, num=5), x=fd.Axis(0.0, 1.0, num=X.size)))
    u[...] = fd.rate(rate)
    u[fd.point(x=p["source"])] += fd.rate(lambda t: 5.0 + t)
    u[0] = lambda initial: initial
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda wall, wall_in_time: wall + wall_in_time)
    u[dict(x=-1)] = fd.boundary.Neumann(0.1)
    named = {name: value for name, value in p.items() if name != "source"}
    named["wall_in_time"] = fd.along(p["wall_in_time"], "t")
    return fd.solve(u, stepper=fd.schemes.Heun(), **named)["u"] ** 2


def test_gradients_by_every_kind_of_parameter():
    table = fd.check_gradient(history, AT, directions="each", step=0.05)
    assert table, table
    for row in table.rows:
        known = [slope for slope in row.slopes if np.isfinite(slope)]
        assert abs(known[-1] - 2) < 0.05 and row.mismatch < 1e-13, table
    assert [row.along for row in table.rows] == sorted(AT)

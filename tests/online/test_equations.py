"""Traces of marches that solve equations at every level."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.adjoint.traces import SnAp


def potential() -> tuple[fd.Field, fd.Field]:
    """A field moved by a potential that is solved for at every level, with walls of given slope."""
    grid = fd.Grid(t=fd.Time(0.0, 0.3, num=4), x=fd.Axis(0.0, 5.0, num=6))
    u, p = fd.Field("u", grid), fd.Field("p", grid)
    p[...] = fd.residual(lambda p, u: fd.schemes.laplacian(p) - p[...] + u[...])
    p[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    u[...] = lambda u, p, c: 0.9 * u["t-1"] + 0.1 * c * p["t-1"]
    u[0] = lambda x: jnp.sin(x)
    return u, p


@pytest.mark.parametrize("method", ["forward", SnAp(3)], ids=str)
def test_equations_within_a_march_are_followed(method: Any) -> None:
    """The first level has a system of its own there: what is known of it is joined to the others once."""
    expected = jax.grad(lambda c: jnp.sum(fd.solve(potential(), c=c)["u"][1:] ** 2))(0.8)
    assert abs(expected) > 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.FdsolveWarning)
        stream = fd.online(potential(), dict(c=0.8), loss=lambda state, data: jnp.sum(state["u"] ** 2), method=method)
    for _ in range(3):
        found = stream.step()
    np.testing.assert_allclose(found.gradient["c"], expected, rtol=1e-11)

"""What changes in time within a step of several stages: generated code against the portable kernel."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Robin
from fdsolve.schemes import RK4, Euler, Heun, laplacian

NUM = 9
RANDOM = np.random.default_rng(3)
SERIES = {"q": (RANDOM.normal(size=NUM), "t"), "f": (RANDOM.normal(size=(NUM, 14)), "t", "x")}
AT_WALLS = {"w": (RANDOM.normal(size=(NUM, 11)), "t", "y"), "n": (RANDOM.normal(size=NUM), "t")}


def _in_rates() -> tuple[fd.Field, dict[str, Any]]:
    u = _field()
    u[...] = fd.rate(lambda u, q, f, k, t: k * laplacian(u) + q * u[...] + f * jnp.cos(3 * t))
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    return u, SERIES


def _in_a_mask() -> tuple[fd.Field, dict[str, Any]]:
    u = _field()
    u[...] = fd.rate(lambda u, k: k * laplacian(u))
    u[fd.where(lambda x, q: x > q)] = fd.rate(lambda u: -u)
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    return u, {"q": SERIES["q"]}


def _at_walls() -> tuple[fd.Field, dict[str, Any]]:
    u = _field()
    u[...] = fd.rate(lambda u, k: k * laplacian(u) - u * u)
    u[dict(x=0)] = Dirichlet(lambda y, t: jnp.sin(40 * t) + y)
    u[dict(x=-1)] = Neumann(lambda w: w)
    return u, {"w": AT_WALLS["w"]}


def _at_a_wall_without_derivatives() -> tuple[fd.Field, dict[str, Any]]:
    u = _field()
    u[...] = fd.rate(lambda u, k: k * laplacian(u))
    u[dict(x=0)] = Dirichlet(lambda w, t: w * t**1.5)
    u[dict(x=-1)] = Robin(1.0, 2.0, lambda n, t: n * jnp.sqrt(t))
    return u, AT_WALLS


def _field() -> fd.Field:
    grid = fd.Grid(
        t=fd.Time(0.0, 0.02, num=NUM), x=fd.Axis(0.0, 1.0, num=14), y=fd.Axis(0.0, 1.0, num=11, periodic=True)
    )
    return fd.Field("u", grid)


@pytest.mark.parametrize(
    ("case", "stepper"),
    [
        (_in_rates, Euler()),
        (_in_rates, Heun()),
        (_in_a_mask, Heun()),
        (_at_walls, RK4()),
        (_at_a_wall_without_derivatives, Heun()),
        (_at_a_wall_without_derivatives, RK4()),
    ],
)
def test_it_is_what_it_is_by_slices(case: Any, stepper: Any) -> None:
    u, along = case()
    u[0] = lambda x, y: jnp.sin(2 * jnp.pi * y) * x + 2.0

    def loss(k: Any, scale: Any, kernel: str) -> tuple[Any, Any]:
        given = {name: fd.along(scale * values, *axes) for name, (values, *axes) in along.items()}
        found = jnp.asarray(fd.solve(u, k=k, stepper=stepper, kernel=kernel, **given)["u"])
        return jnp.sum(found**2), found

    ours, slices = (
        jax.value_and_grad(loss, (0, 1), has_aux=True)(0.01, 1.1, kernel) for kernel in ("native", "slices")
    )
    assert np.abs(np.asarray(ours[0][1] - slices[0][1])).max() < 1e-13 * np.abs(np.asarray(slices[0][1])).max()
    np.testing.assert_allclose(ours[1], slices[1], rtol=1e-12)

"""Patterns of approximate traces hold for the whole run: within as many steps as they reach, gradients are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd

NUM, LAST = 9, 6
W = np.cos(np.arange(NUM))


def declared(rule, first=1, periodic=True):
    axis = fd.Axis(0.0, 8.0, num=NUM, periodic=periodic)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=LAST + 1), x=axis))
    u[...] = rule
    if not periodic:
        u[dict(x=[0, -1])] = 0.0
    u[:first] = lambda x, f: jnp.sin(x) + f
    return u


def late(rule):
    u = declared(lambda u: 0.9 * u["t-1"])
    u[4:] = rule
    return u


def flow(u, t, k, dt):
    speed = jnp.cos(4.0 * t)  # it turns round on the way
    return u["t-1"] - k * jnp.where(speed > 0, u["t-1"] - u["t-1", "x-1"], u["t-1"] - u["t-1", "x+1"]) * jnp.abs(speed)


PROBLEMS = {
    "two levels back": declared(lambda u, k: 0.5 * u["t-1"] + 0.3 * u["t-2"] + k * u["t-1", "x+1"], first=2),
    "a wave between walls": declared(
        lambda u, k: 2 * u["t-1"] - u["t-2"] + k * fd.schemes.laplacian(u, at="t-1"), first=2, periodic=False
    ),
    "a field of coefficients, two levels back": declared(
        lambda u, k: 0.5 * u["t-1"] + 0.3 * u["t-2"] + k[...] * u["t-1", "x+1"], first=2
    ),
    "from a later level on": late(lambda u, k: u["t-1"] + k * u["t-1", "x-1"] ** 2),
    "upwind of a flow that turns": declared(flow),
    "upwind of the field itself": declared(
        lambda u, k: u["t-1"] - k * jnp.where(u["t-1"] > 0, u["t-1", "x-1"], jnp.maximum(u["t-1", "x+1"], 0.1))
    ),
    "only for a while": declared(lambda u, t, k: u["t-1"] + jnp.where((t > 0.4) & (t < 0.8), k * u["t-1", "x+1"], 0.0)),
    "clipped": declared(
        lambda u, k: u["t-1"] + k * jnp.clip(u["t-1", "x+1"], -0.2, 0.2) + jax.nn.relu(u["t-1", "x-1"])
    ),
    "as a factor": declared(lambda u, t, k: u["t-1"] + k * u["t-1", "x+1"] * jnp.asarray(t > 0.5, float)),
}


def gradients(u, adjoint, parameters):
    def loss(p):
        return jnp.vdot(W, fd.solve(u, **p, save=fd.final(), adjoint=adjoint)["u"][-1])

    return jax.grad(loss)(parameters)


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_within_its_steps(name):
    values = np.linspace(0.1, 0.3, NUM)
    parameters = dict(k=jnp.asarray(values) if "field of" in name else 0.2, f=0.1)
    exact = gradients(PROBLEMS[name], fd.adjoint.Full(), parameters)
    found = gradients(PROBLEMS[name], fd.adjoint.Online("snap", n=3 * LAST), parameters)
    for one in parameters:
        assert np.any(np.asarray(exact[one]))
        np.testing.assert_allclose(found[one], exact[one], rtol=1e-11, atol=1e-13, err_msg=one)


def test_a_known_source_that_begins_late():
    amounts = np.concatenate([np.zeros(4), np.ones(3)])
    u = declared(lambda u, k, q: u["t-1"] + k * q[...])
    given = xr.DataArray(amounts, dict(t=np.linspace(0.0, 1.0, LAST + 1)), ("t",))

    def loss(k, adjoint):
        return jnp.vdot(W, fd.solve(u, k=k, q=given, f=0.1, save=fd.final(), adjoint=adjoint)["u"][-1])

    exact, found = (jax.grad(loss)(0.2, one) for one in (fd.adjoint.Full(), fd.adjoint.Online("snap", n=3 * LAST)))
    assert exact != 0
    np.testing.assert_allclose(found, exact, rtol=1e-12)

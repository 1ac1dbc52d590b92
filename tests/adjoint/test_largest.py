"""Gradients through a largest value found from parameters: compiled and not, forward and back, they are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve._largest import largest, smallest


def _loss(c):
    """Of a wave whose layer is tuned to the fastest speed that the rules have in it."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0, 0.6, num=37), x=fd.Axis(0, 1, num=41)))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c[...] * dt) ** 2 * fd.schemes.laplacian(u, at="t-1")
    u[:2] = lambda x: jnp.exp(-60 * (x - 0.45) ** 2)
    u[dict(x=[0, -1])] = fd.boundary.PML(8)
    return jnp.sum(fd.solve(u, c=c, save=fd.final())["u"] ** 2)


def test_speed_of_a_layer_compiled():
    """JAX's own derivative of a maximum loses or doubles entries here, for about half of all random media."""
    back, forth = jax.jit(jax.grad(_loss)), jax.jit(jax.jacfwd(_loss))
    value = jax.jit(_loss)
    for seed in range(12):
        c = jnp.asarray(np.random.default_rng(seed).uniform(0.8, 1.2, 41))
        found, other = back(c), forth(c)
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-11)
        along = jnp.asarray(np.random.default_rng(100 + seed).normal(size=41)) * 1e-6
        np.testing.assert_allclose(jnp.vdot(found, along), (value(c + along) - value(c - along)) / 2, rtol=1e-6)


@pytest.mark.parametrize("axes", [None, (1,), (0, 2), ()])
def test_largest_along_axes(axes):
    values = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 5)))
    along = jnp.asarray(np.random.default_rng(1).normal(size=(3, 4, 5)))
    for ours, theirs in ((largest, jnp.max), (smallest, jnp.min)):
        out, moved = jax.jvp(lambda x, ours=ours: ours(x, axes), (values,), (along,))
        expected, other = jax.jvp(lambda x, theirs=theirs: theirs(x, axes), (values,), (along,))
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_allclose(moved, other, rtol=1e-15)


def test_largest_of_equals_nans_and_integers():
    assert jnp.isnan(largest(jnp.array([1.0, jnp.nan, 2.0])))
    np.testing.assert_array_equal(jax.grad(largest)(jnp.array([2.0, 1.0, 2.0])), [1.0, 0.0, 0.0])
    assert largest(jnp.array([3, 7, 5])) == 7 and smallest(jnp.array([3, 7, 5], jnp.uint8)) == 3

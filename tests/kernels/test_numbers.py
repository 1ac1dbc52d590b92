"""Derivatives of rules by numbers, summed by products with ones, against JAX's own sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from fdsolve.kernels import _numbers
from fdsolve.kernels._numbers import at_points

SHAPE = (9, 7)
FIELD = jnp.cos(jnp.arange(63.0).reshape(SHAPE))
ROW = jnp.linspace(0.5, 1.0, 7)
WEIGHTS = jnp.asarray([0.3, -0.2])
FLAGS = [(True, True), (False, True), (False, False), (False, False), (False, False)]


def rule(u, row, a, b, weights):
    return jnp.where(u > 0.2, jnp.exp(a * u) * row, weights[0] * u**2 + weights[1] * b) + jnp.sin(a * b)


def score(field, row, a, b, weights):
    return (jnp.cos(at_points(rule, [field, row, a, b, weights], FLAGS, SHAPE)) * FIELD).sum()


POINT = (FIELD, ROW, jnp.asarray(0.7), jnp.asarray(-0.4), WEIGHTS)
EVERY = tuple(range(5))
TRANSFORMS = {
    "value": lambda f: f(*POINT),
    "gradient": lambda f: jax.grad(f, EVERY)(*POINT),
    "gradient by one": lambda f: jax.grad(f, 3)(*POINT),
    "tangent": lambda f: jax.jvp(f, POINT, tuple(0.3 * one + 0.1 for one in POINT))[1],
    "hessian": lambda f: jax.hessian(f, (2, 3, 4))(*POINT),
    "reverse twice": lambda f: jax.jacrev(jax.grad(f, 2), EVERY)(*POINT),
    "batch": lambda f: jax.vmap(jax.grad(f, EVERY), in_axes=(None, None, 0, None, None))(
        FIELD, ROW, jnp.linspace(0.1, 0.9, 3), *POINT[3:]
    ),
    "batch of fields": lambda f: jax.vmap(jax.grad(f, EVERY), in_axes=(0, None, None, None, None))(
        jnp.stack([FIELD, 2 * FIELD]), *POINT[1:]
    ),
    "rematerialised": lambda f: jax.jit(jax.grad(jax.checkpoint(f), EVERY))(*POINT),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_derivatives_by_numbers_are_jaxs_own(name, monkeypatch):
    expected = TRANSFORMS[name](score)
    asked = []
    monkeypatch.setattr(_numbers, "LARGE", 1)
    monkeypatch.setattr(_numbers, "SHORT", 4)
    spread = _numbers.spread
    monkeypatch.setattr(_numbers, "spread", lambda *given: asked.append(given) or spread(*given))
    found = TRANSFORMS[name](lambda *given: score(*given))  # another function, which JAX has not traced yet
    assert bool(asked) == (name != "value")
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "shape", [(5000,), (5003,), (4096,), (70, 61), (71, 61), (3, 5000), (5000, 3), (17, 16, 19), (2, 3)], ids=str
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_cotangents_of_a_number_are_summed_over_the_box(shape, dtype):
    values = np.random.default_rng(0).uniform(0.5, 1.5, (2, *shape)).astype(dtype)
    if dtype.startswith("complex"):
        values = values * (1 + 0.3j)
    real = dtype.replace("complex128", "float64")

    def total(number, array):
        return (_numbers.spread(number, shape) * array).sum().real

    given = jnp.ones((), dtype), jnp.asarray(values)
    found = jax.jit(jax.vmap(jax.grad(total), in_axes=(None, 0)))(*given)
    one = jax.jit(jax.grad(total))(given[0], given[1][0])
    expected = values.sum(axis=tuple(range(1, values.ndim)), dtype=values.dtype)
    tolerance = dict(rtol=10 * np.sqrt(values[0].size) * np.finfo(real).eps)
    assert_allclose(found, expected, **tolerance)
    assert_allclose(one, expected[0], **tolerance)

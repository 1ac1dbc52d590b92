"""Random keys as parameters: noise is that of a loop, and keys go wherever parameters go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

NUM_T, NUM_X = 4, 5


def noisy():
    """A random walk at each point, every step of which draws from a key of its own."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.3, num=NUM_T), x=fd.Axis(0.0, 1.0, num=NUM_X)))

    def rule(u, a, key, t, x, dt, dx):
        here = jax.random.fold_in(jax.random.fold_in(key, jnp.rint(t / dt).astype(int)), jnp.rint(x / dx).astype(int))
        return a * u["t-1"] + jax.random.normal(here)

    u[...] = rule
    u[0] = 0.0
    return u


def walk(key):
    """The same, point by point."""
    u = np.zeros((NUM_T, NUM_X))
    for n in range(1, NUM_T):
        for i in range(NUM_X):
            u[n, i] = u[n - 1, i] + float(jax.random.normal(jax.random.fold_in(jax.random.fold_in(key, n), i)))
    return u


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_each_point_draws_from_its_own_key(implementation):
    key = jax.random.key(3, impl=implementation)
    solution = fd.solve(noisy(), a=1.0, key=key)
    if implementation == "threefry2x32":  # numbers of others depend on how many are drawn at once
        np.testing.assert_allclose(solution["u"], walk(key), atol=1e-12)
    assert np.std(solution["u"][-1]) > 0.1
    np.testing.assert_array_equal(solution.to_xarray().attrs["key"], jax.random.key_data(key))


def test_keys_of_an_ensemble_and_of_a_stream():
    keys = jax.random.split(jax.random.key(0), NUM_X)  # as many as points: still no field
    ensemble = jax.vmap(lambda key: fd.solve(noisy(), a=1.0, key=key)["u"])(keys)
    np.testing.assert_allclose(ensemble[1], walk(keys[1]), atol=1e-12)

    v = fd.Field("v", fd.Grid(t=fd.Time(0.0, 0.3, num=NUM_T), x=fd.Axis(0.0, 1.0, num=NUM_X)))
    v[...] = lambda v, a, keys: a * v["t-1"] + jax.random.normal(keys[1])
    v[0] = 1.0
    np.testing.assert_allclose(fd.solve(v, a=0.0, keys=keys)["v"][-1], jax.random.normal(keys[1]))
    stream = fd.online(v, dict(a=jnp.asarray(0.9)), loss=lambda state, _: jnp.sum(state["v"]), inputs=dict(keys=keys))
    assert float(stream.step(dict(keys=keys[::-1])).gradient["a"]) == NUM_X


def test_a_key_that_a_rule_makes():
    def rule(u, x, dx):
        return u["t-1"] + jax.random.normal(jax.random.fold_in(jax.random.key(7), jnp.rint(x / dx).astype(int)))

    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.3, num=NUM_T), x=fd.Axis(0.0, 1.0, num=NUM_X)))
    u[...], u[0] = rule, 0.0
    each = [float(jax.random.normal(jax.random.fold_in(jax.random.key(7), i))) for i in range(NUM_X)]
    np.testing.assert_allclose(fd.solve(u)["u"], np.outer(range(NUM_T), each), atol=1e-12)
    assert "refused native: a rule of `u`: it computes with" in str(fd.plan(u))


def test_keys_are_no_fields():
    keys = fd.along(jax.random.split(jax.random.key(0), NUM_X), "x")
    with pytest.raises(fd.DeclarationError, match="The parameter `key` holds random keys, which rules get whole"):
        fd.solve(noisy(), a=1.0, key=keys)


@pytest.mark.parametrize("given", [jax.random.key(0), fd.whole(jax.random.key(0)), fd.rate(jax.random.key(0))])
def test_keys_are_no_rules(given):
    with pytest.raises(fd.DeclarationError, match=r"u\[0\]: a rule is a number, .*, got a random key\. Draw from it"):
        noisy()[0] = given

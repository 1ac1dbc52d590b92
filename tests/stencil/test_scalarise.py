"""Small arrays taken apart give the same numbers, from scalar operations alone."""

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.stencil._scalarise import scalarise

WINDOWS = {
    "sum": jnp.sum,
    "mean": jnp.mean,
    "maximum": jnp.max,
    "minimum along an axis": lambda x: jnp.sum(jnp.min(x, axis=1)),
    "product": jnp.prod,
    "weighted": lambda x: jnp.sum(x * jnp.arange(9.0).reshape(3, 3)),
    "matrix product": lambda x: (x @ x.T)[0, 2] + jnp.vdot(x, x),
    "indexing": lambda x: x[1, 0] - x[-1, 2] + x[0, 1],
    "slicing": lambda x: jnp.sum(x[1:, ::2]) + jnp.sum(x[:, 0]),
    "flip, transpose, concatenate": lambda x: jnp.concatenate([jnp.flip(x, 0), x.T], axis=1)[1, 4],
    "stack and where": lambda x: jnp.where(x > 0, x, -x).max(),
    "norm": lambda x: jnp.sqrt(jnp.sum(x**2)),
    "sorting (stacked)": lambda x: jnp.median(x),
    "any and all": lambda x: jnp.where(jnp.any(x > 1) & jnp.all(x < 9), 1.0, 2.0),
    "cumulative": lambda x: jnp.cumsum(x)[4],
    "limiter": lambda x: jnp.maximum(0.0, jnp.minimum(x[1, 1] - x[0, 1], x[2, 1] - x[1, 1])),
}


def scalar_jaxpr(function):
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((3, 3), jnp.dtype("float64")))
    scalars = [jax.ShapeDtypeStruct((), jnp.dtype("float64"))] * 9
    return jax.make_jaxpr(lambda *values: scalarise(closed, [(3, 3)])(*values))(*scalars)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_give_the_same_number(name):
    closed = scalar_jaxpr(WINDOWS[name])
    x = np.random.default_rng(0).normal(size=(3, 3))
    got = jax.extend.core.jaxpr_as_fun(closed)(*map(jnp.asarray, x.ravel()))[0]
    assert float(got) == pytest.approx(float(WINDOWS[name](jnp.asarray(x))), rel=1e-13)


@pytest.mark.parametrize("name", [n for n in WINDOWS if "stacked" not in n and n != "cumulative"])
def test_no_array_is_left(name):
    closed = scalar_jaxpr(WINDOWS[name])
    assert all(v.aval.shape == () for eqn in closed.jaxpr.eqns for v in eqn.outvars)

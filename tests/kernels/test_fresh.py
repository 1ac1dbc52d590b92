"""Arrays to be filled, and gradients whose kept states lie in them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fdsolve as fd
from fdsolve.kernels import fresh_arrays
from fdsolve.kernels.native import _fresh

LIKE = [jax.ShapeDtypeStruct((7, 3), jnp.float32), jax.ShapeDtypeStruct((5,), jnp.int32), jax.ShapeDtypeStruct((), "?")]


@pytest.fixture(params=["small", "large"], autouse=True)
def size(request, monkeypatch):
    if request.param == "large":
        monkeypatch.setattr(_fresh, "LARGE", 0)
    jax.clear_caches()
    return request.param


@pytest.mark.parametrize("beside", [0, 10000])
@pytest.mark.parametrize("blank", [False, True])
def test_shapes_and_zeros(blank, beside):
    def make(after):
        return fresh_arrays(LIKE, after, blank=blank, beside=beside)

    for found in (jax.jit(make)(jnp.ones(3)), make(2.0), [x[1] for x in jax.vmap(make)(jnp.ones((2, 3)))]):
        assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in LIKE]
        if blank:
            assert not any(np.any(x) for x in found)
    assert fresh_arrays([], 1.0) == []


def test_what_is_written_is_read_in_loops_and_batches_and_counts_as_constant():
    def total(x):
        def turn(k, sum_so_far):
            room, blank = (fresh_arrays(LIKE[:1], sum_so_far, blank=zeros)[0] for zeros in (False, True))
            for row in range(7):
                room = lax.dynamic_update_index_in_dim(room, row * x + k, row, 0)
            return sum_so_far + room.sum() + blank.sum()

        return lax.fori_loop(0, 5, turn, jnp.float32(0))

    x = jnp.arange(3, dtype=jnp.float32)
    expected = 5 * 21 * 3 + 10 * 21
    np.testing.assert_allclose(jax.jit(total)(x), expected)
    np.testing.assert_allclose(jax.vmap(total)(jnp.stack([x, 2 * x])), [expected, 5 * 21 * 6 + 10 * 21])
    np.testing.assert_allclose(jax.jvp(total, (x,), (jnp.ones(3, jnp.float32),))[1], 5 * 21 * 3)
    np.testing.assert_allclose(jax.grad(total)(x), 5 * 21)


def axes(periodic=False, **nums):
    return {name: fd.Axis(0.0, num - 1.0, num=num, periodic=periodic) for name, num in nums.items()}


WAVES = {
    "in a line": axes(x=2**19 + 5),
    "in a plane": axes(x=601, y=903),
    "around a ring": axes(periodic=True, x=700) | axes(y=800),
}


@pytest.mark.parametrize("size", ["large"], indirect=True)
@pytest.mark.parametrize("wave", WAVES)
def test_gradients_of_large_waves_are_transposes(wave):
    field = fd.Field("u", fd.Grid(t=fd.Time(0.0, 24.0, num=25), **WAVES[wave]))
    field[...] = lambda u, c2: 2 * u["t-1"] - u["t-2"] + c2 * fd.schemes.laplacian(u, at="t-1")
    field[[0, 1]] = lambda f: f[...]
    for name, axis in WAVES[wave].items():
        if not axis.periodic:
            field[{name: [0, -1]}] = 0.0

    @jax.jit
    def run(c2, f):
        return fd.solve(field, c2=c2, f=f, save=fd.final(), kernel="slices").final["u"]

    rng = np.random.default_rng(1)
    shape = tuple(axis.num for axis in WAVES[wave].values())
    f, along, weights = (jnp.asarray(rng.standard_normal(shape)) for _ in range(3))
    moved = jax.jvp(run, (0.2, f), (0.7, along))[1]
    for _ in range(2):  # the second time in memory that was used before
        of_c2, of_f = jax.jit(lambda *at: jax.vjp(run, *at)[1](weights))(0.2, f)
        there, back = jnp.vdot(moved, weights), 0.7 * of_c2 + jnp.vdot(along, of_f)
        scale = jnp.linalg.norm(moved) * jnp.linalg.norm(weights)
        assert abs(there - back) <= 1e-13 * scale

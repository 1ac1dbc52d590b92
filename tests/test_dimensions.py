"""One source for one to four space axes, in both precisions and with complex values."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import laplacian

SIZES = dict(x=5, y=4, z=3, w=4)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.complex128])
@pytest.mark.parametrize("num_axes", [1, 2, 3, 4])
def test_diffusion_and_its_steady_wall(num_axes, dtype):
    sizes = dict(list(SIZES.items())[:num_axes])
    axes = {name: fd.Axis(0.0, 1.0, size, periodic=name != "x") for name, size in sizes.items()}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.004, num=5), **axes), dtype=dtype)
    generator = np.random.default_rng(num_axes)
    start = generator.normal(size=tuple(sizes.values())).astype(dtype)
    u[...] = lambda u, dt, k: u["t-1"] + dt * k * laplacian(u, at="t-1")
    u[0] = start
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    solution = fd.solve(u, k=0.7)

    expected = start.astype(np.result_type(dtype, np.float64))
    for _ in range(4):
        padded = np.pad(expected, [(1, 1)] + [(0, 0)] * (num_axes - 1), mode="reflect")
        change = (padded[2:] - 2 * expected + padded[:-2]) * (sizes["x"] - 1) ** 2
        for axis, size in list(enumerate(sizes.values()))[1:]:
            change = change + (np.roll(expected, -1, axis) - 2 * expected + np.roll(expected, 1, axis)) * size**2
        expected = expected + 0.001 * 0.7 * change
    assert solution["u"].dtype == dtype
    np.testing.assert_allclose(solution["u"][-1], expected, rtol=2e-5 if dtype == jnp.float32 else 1e-12)

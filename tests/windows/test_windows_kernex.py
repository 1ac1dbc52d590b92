"""Programs written for kernex, run on a module of that name that only re-exports ours."""

import sys
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fdsolve.windows

NAMES = {
    "kernex": [
        "kmap",
        "kscan",
        "smap",
        "sscan",
        "kernel_map",
        "kernel_scan",
        "offset_kernel_map",
        "offset_kernel_scan",
    ],
    "kernex._src.map": ["kernel_map", "offset_kernel_map"],
    "kernex._src.scan": ["kernel_scan", "offset_kernel_scan"],
    "kernex._src.utils": ["roll_view"],
}


@pytest.fixture
def kernex(monkeypatch):
    """The module `kernex`, importable as such with the parts that its own tests import."""
    for name, exported in {**NAMES, "kernex._src": []}.items():
        module = ModuleType(name)
        for one in exported:
            setattr(module, one, getattr(fdsolve.windows, one))
        monkeypatch.setitem(sys.modules, name, module)
    import kernex  # type: ignore[import-not-found]

    return kernex


def test_sums_in_parallel_and_in_sequence(kernex):
    numbers = jnp.arange(1, 6)
    assert_array_equal(kernex.kmap(kernel_size=(3,))(jnp.sum)(numbers), [6, 9, 12])
    assert_array_equal(kernex.kscan(kernel_size=(3,))(jnp.sum)(numbers), [6, 13, 22])
    average = kernex.kmap(kernel_size=(3,))(lambda x: jnp.mean(x))
    assert_allclose(average(jnp.array([1.0, 2, 3, 7, 9])), [2, 4, 19 / 3], rtol=1e-12)


def test_laplacian_written_out(kernex):
    @kernex.kmap(kernel_size=(3, 3), padding="valid", relative=True)
    def laplacian(x):
        return (
            0 * x[1, -1] + 1 * x[1, 0] + 0 * x[1, 1] + x[0, -1] - 4 * x[0, 0] + x[0, 1]
            + 0 * x[-1, -1] + 1 * x[-1, 0] + 0 * x[-1, 1]
        )  # fmt: skip

    assert_array_equal(laplacian(jnp.ones([10, 10])), np.zeros((8, 8)))
    i, j = np.mgrid[:6, :7]
    assert_allclose(laplacian(jnp.asarray(1.0 * i**2 * j)), 2.0 * j[1:-1, 1:-1], atol=1e-12)


def test_functions_by_index_and_their_gradient(kernex):
    windows = kernex.kmap(kernel_size=(1,))
    windows[0] = lambda x: x[0] ** 2
    windows[1:] = lambda x: x[0] ** 3
    numbers = np.arange(1.0, 11.0)
    assert_allclose(windows(jnp.asarray(numbers)), [1, *numbers[1:] ** 3], rtol=1e-12)
    assert_allclose(jax.grad(lambda x: windows(x).sum())(numbers), [2, *3 * numbers[1:] ** 2], rtol=1e-12)


def test_linear_convection_on_the_space_time_array(kernex):
    num_t, num_x, c = 151, 51, 0.5
    dt, dx = 0.5 / (num_t - 1), 2.0 / (num_x - 1)
    low, high = (num_x - 1) // 4 + 1, (num_x - 1) // 2
    windows = kernex.kscan(kernel_size=(3, 3), padding=((1, 1), (1, 1)), named_axis={0: "n", 1: "i"}, relative=True)
    windows[:, 0] = windows[:, -1] = lambda u: 1
    windows[:, :low] = windows[:, high:] = lambda u: 1
    windows[0:1, low:high] = lambda u: 2
    windows[1:, 1:-1] = lambda u: u["i", "n-1"] - (c * dt / dx) * (u["i", "n-1"] - u["i-1", "n-1"])

    row = np.ones(num_x)
    row[low:high] = 2
    expected = [row]
    for _ in range(num_t - 1):
        row = row.copy()
        row[1:-1] -= c * dt / dx * (expected[-1][1:-1] - expected[-1][:-2])
        expected.append(row)
    for _ in range(2):
        assert_allclose(windows(np.ones([num_t, num_x])), expected, rtol=1e-12)


def test_max_pool_layer(kernex):
    def pool(images, kernel_size=(2, 2), strides=(2, 2), padding="same"):
        largest = kernex.kmap(kernel_size=kernel_size, strides=strides, padding=padding)(lambda x: jnp.max(x))
        return jax.vmap(jax.vmap(largest))(images)

    images = jnp.arange(1, 26).reshape(1, 1, 5, 5)
    assert_array_equal(pool(images), [[[[7, 9, 10], [17, 19, 20], [22, 24, 25]]]])
    assert_array_equal(pool(images, strides=2, padding="valid"), [[[[7, 9], [17, 19]]]])


def test_average_blur_layer(kernex):
    size = (5, 3)

    @jax.jit
    def blur(images):
        @jax.vmap
        @jax.vmap
        @kernex.kmap(kernel_size=size, padding="same")
        def average(x):
            weights = jnp.ones(size, jnp.float32) / jnp.array(size).prod().astype(jnp.float32)
            return jnp.sum(x.astype(jnp.float32) * weights, dtype=jnp.float32)

        return average(images).astype(jnp.uint8)

    images = jax.random.randint(jax.random.key(3), (1, 4, 12, 9), 0, 256).astype(jnp.uint8)
    padded = np.pad(np.asarray(images, float), [(0, 0), (0, 0), (2, 2), (1, 1)])
    total = sum(padded[:, :, a : a + 12, b : b + 9] for a in range(5) for b in range(3))
    # Truncation to whole colours may fall either way where the mean is a whole number.
    assert np.abs(np.asarray(blur(images), float) - np.floor(total / 15)).max() <= 1
    assert (np.asarray(blur(images)) == np.floor(total / 15)).mean() > 0.95


def test_convolution_layer(kernex):
    in_channels, out_channels, size = 3, 4, (3, 2)
    weight = jax.random.normal(jax.random.key(1), (out_channels, in_channels, *size))
    bias = jnp.arange(1.0, 5.0).reshape(out_channels, 1, 1)
    images = jax.random.normal(jax.random.key(2), (2, in_channels, 8, 7))

    def layer(weight, images):
        @kernex.kmap(kernel_size=(in_channels, *size), padding=("valid", "same", "same"))
        def convolve(x, w):
            return jnp.sum(x * w)

        return jax.vmap(lambda image: jax.vmap(lambda w: convolve(image, w))(weight)[:, 0] + bias)(images)

    def reference(weight, images):
        found = jax.lax.conv_general_dilated(
            images, weight, (1, 1), [(1, 1), (0, 1)], dimension_numbers=("NCHW", "OIHW", "NCHW")
        )
        return found + bias

    assert_allclose(layer(weight, images), reference(weight, images), rtol=1e-10, atol=1e-12)
    slopes = [jax.grad(lambda w, f=f: (f(w, images) ** 2).sum())(weight) for f in (layer, reference)]
    assert_allclose(slopes[0], slopes[1], rtol=1e-9, atol=1e-10)


def test_function_tables(kernex):
    from kernex._src.map import offset_kernel_map  # type: ignore[import-not-found]
    from kernex._src.scan import kernel_scan, offset_kernel_scan  # type: ignore[import-not-found]

    numbers = jnp.arange(1, 7)
    table = {
        lambda x: x[0]: ([[]]),
        lambda x: -x[0]: [((1, jnp.inf, 2),)],
        lambda x: 50: [(0,), ((4, 5),)],
    }
    windows = kernex.kernel_map(table, (6,), (3,), (1,), ((1, 1),), True)
    assert_array_equal(windows(numbers), [50, -2, 3, -4, 50, -6])
    windows = kernex.kernel_map(table, (6,), (3,), (1,), ((2, 0),), True)
    assert_array_equal(windows(numbers), [0, 50, -2, 3, -4, 50])
    anywhere = {lambda x: x[0, 0]: (), lambda x: 9: [(jnp.inf, 1)]}
    square = jnp.arange(4).reshape(2, 2)
    assert_array_equal(kernex.kernel_map(anywhere, (2, 2), (1, 1), (1, 1), ((0, 0), (0, 0)))(square), [[0, 9], [2, 9]])
    total = {lambda x, w: w * (x[-1] + x[0]): ()}
    scanned = kernel_scan(total, (6,), (3,), (1,), ((1, 1),), True)(numbers, 2)
    assert_array_equal(scanned, [2, 8, 22, 52, 114, 240])
    scanned = offset_kernel_scan(total, (6,), (3,), (1,), ((1, 2),), True, "scan", {"reverse": True})(numbers, 2)
    assert_array_equal(scanned, [1, 6, 10, 14, 5, 6])
    mapped = offset_kernel_map(total, (6,), (3,), (2,), ((1, 0),), True)(numbers, 2)
    assert_array_equal(mapped, [1, 6, 3, 14, 5, 22])

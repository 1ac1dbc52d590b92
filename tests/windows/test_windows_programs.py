"""What is compiled: parallel schedules, nothing of the array's size, one program for equal calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from numpy.testing import assert_allclose

import fdsolve as fd
from fdsolve.windows import _map, _scan


def ten_regions(kind):
    windows = kind(kernel_size=(3, 3), padding="same", relative=True)
    windows[...] = lambda x: x[1, 0] + x[-1, 0] + x[0, 1] + x[0, -1] - 4 * x[0, 0]
    for k in range(9):
        windows[5 * k : 5 * k + 3, 2 : 40 + k] = lambda x, k=k: k * x[0, 0] - 0.1 * x[-1, 0]
    return windows


def sizes(jaxpr):
    """Number of equations, and the largest constant, in a jaxpr and all inside it."""
    count, largest = 0, max((np.size(c.aval) if hasattr(c, "aval") else 0 for c in jaxpr.constvars), default=0)
    for eqn in jaxpr.eqns:
        count += 1
        for inner in jaxprs_in_params(eqn.params):
            more, constant = sizes(inner)
            count, largest = count + more, max(largest, constant)
    return count, largest


@pytest.mark.parametrize("kind", [fd.kmap, fd.kscan])
def test_programs_do_not_grow_with_the_array(kind):
    small, large = (
        jax.make_jaxpr(ten_regions(kind))(jax.ShapeDtypeStruct((n, n), np.float64)).jaxpr for n in (64, 2048)
    )
    assert sizes(large)[0] < 1.02 * sizes(small)[0]
    assert sizes(large)[1] == 0


def test_the_cotangent_of_the_centre_comes_first():
    """Sums of shifted arrays that begin with the one that is not shifted are computed much sooner on a CPU."""
    laplacian = fd.kmap(kernel_size=(3, 3), padding="same", relative=True)(
        lambda x: x[0, 0] * -4 + x[1, 0] + x[-1, 0] + x[0, 1] + x[0, -1]
    )
    text = jax.jit(jax.grad(lambda x: jnp.sum(laplacian(x) ** 2))).lower(jnp.ones((8, 8))).as_text()
    starts = [line.split("[")[1].split("]")[0] for line in text.splitlines() if "stablehlo.slice" in line]
    assert starts[4] == "1:9, 1:9" and len(set(starts[:5])) == 5


def schedule(monkeypatch, windows, array):
    """The stages of a scan, by method."""
    found = []
    plain = _scan.make_schedule

    def spy(*arguments):
        found.extend(plain(*arguments))
        return tuple(found)

    with monkeypatch.context() as patch:
        patch.setattr(_scan, "make_schedule", spy)
        windows(array)
    return [getattr(stage, "method", "parallel") for stage in found]


def test_schedules(monkeypatch):
    plane, line = np.ones((70, 8)), np.ones(100)

    def of(function, array, **options):
        return schedule(monkeypatch, fd.kscan(3, padding="same", relative=True, **options)(function), array)

    assert of(lambda x: 0.5 * x[-1] + x[0], line) == ["associative"]
    assert of(lambda x: jnp.sin(x[-1]) + x[0], line) == ["scan"]
    assert of(lambda x: x[0] + x[1], line) == ["parallel"]
    assert of(lambda x: x[0] + x[1], line, scan_kwargs={"reverse": True}) == ["associative"]
    assert of(lambda x: jnp.sin(x[-1, 1]) + x[-1, 0], plane) == ["scan"]
    assert of(lambda x: 0.25 * (x[-1, 0] + x[0, -1] + x[1, 0] + x[0, 1]), plane) == ["wavefront"]


def test_a_long_affine_recurrence():
    values = np.cos(np.arange(10**5)) + 2
    found = fd.kscan(3, padding="same", relative=True)(lambda x: 0.9 * x[-1] + 0.1 * x[0])(values)
    last, expected = 0.0, np.zeros_like(values)
    for i, value in enumerate(values):
        last = expected[i] = 0.9 * last + 0.1 * value
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("kind", "module"), [(fd.kmap, _map), (fd.kscan, _scan)])
def test_equal_calls_share_one_program(kind, module):
    def call(weight):
        return kind(kernel_size=3, relative=True)(lambda x, w: w * x[-1] + x[0])(np.arange(7.0), weight)

    call(jnp.array(0.25))
    before = module._run._cache_size()
    call(jnp.array(0.75))
    assert module._run._cache_size() == before


@pytest.mark.parametrize("kind", [fd.kmap, fd.kscan])
def test_masked_points_do_not_spoil_gradients(kind):
    windows = kind(kernel_size=1)
    windows[...] = lambda x: x[0] * 2
    windows[::2] = lambda x: jnp.sqrt(x[0])
    values = np.array([4.0, 0.0, 9.0, 0.0, 1.0, 0.0, 4.0, 0.0, 4.0, 0.0])
    expected = np.where(np.arange(10) % 2 == 0, 0.5 / np.sqrt(np.where(values > 0, values, 1.0)), 2.0)
    assert_allclose(jax.grad(lambda a: windows(a).sum())(values), expected, rtol=1e-12)

"""kmap, kscan, smap and sscan on random cases against the point loop."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fdsolve as fd
from tests.windows.point_loop import Case, draw_case, offsets_of

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@given(draw_case())
def test_kmap_is_the_point_loop(case: Case) -> None:
    windows = case.windows(fd.kmap, case.border)
    found = windows(case.array)
    assert_allclose(found, case.run(in_order=False), **CLOSE)
    assert_array_equal(windows(case.array), found)


@given(draw_case(), st.booleans())
@settings(max_examples=40)
def test_kscan_is_the_point_loop(case: Case, reverse: bool) -> None:
    windows = case.windows(fd.kscan, case.border, scan_kwargs={"reverse": reverse})
    found = windows(case.array)
    assert_allclose(found, case.run(in_order=True, reverse=reverse), **CLOSE)
    assert_array_equal(windows(case.array), found)


@given(draw_case(offset=True))
def test_smap_is_the_point_loop(case: Case) -> None:
    found = case.windows(fd.smap, offsets_of(case))(case.array)
    assert_allclose(found, case.put_back(case.run(in_order=False)), **CLOSE)


@given(draw_case(offset=True), st.booleans())
def test_sscan_is_the_point_loop(case: Case, reverse: bool) -> None:
    windows = case.windows(fd.sscan, offsets_of(case), scan_kwargs={"reverse": reverse})
    expected = case.put_back(case.run(in_order=True, reverse=reverse))
    assert_allclose(windows(case.array), expected, **CLOSE)


@pytest.mark.parametrize("kind", [fd.kmap, fd.kscan])
@given(case=draw_case(max_ndim=2))
@settings(max_examples=10)
def test_jit_and_vmap_are_the_eager_call(kind: type, case: Case) -> None:
    windows = case.windows(kind, case.border)
    eager = windows(case.array)
    assert_allclose(jax.jit(windows)(case.array), eager, **CLOSE)
    both = jax.vmap(windows)(np.stack([case.array, 0.9 * case.array]))
    assert_allclose(both[0], eager, **CLOSE)
    assert_allclose(both[1], windows(0.9 * case.array), **CLOSE)


@pytest.mark.parametrize("kind", [fd.kmap, fd.kscan])
@given(case=draw_case(max_ndim=2, max_length=5))
@settings(max_examples=10)
def test_gradients_are_central_differences(kind: type, case: Case) -> None:
    windows = case.windows(kind, case.border)
    in_order = kind is fd.kscan
    outputs = case.run(in_order=in_order)
    cotangent = np.cos(np.arange(outputs.size, dtype=float)).reshape(outputs.shape)
    gradient = jax.grad(lambda a: (windows(a) * cotangent).sum())(case.array)

    step, base = 1e-6, case.array
    expected = np.zeros_like(base)
    for index in np.ndindex(*base.shape):
        pair = []
        for sign in (1, -1):
            moved = base.copy()
            moved[index] += sign * step
            case.array = moved
            pair.append((case.run(in_order=in_order) * cotangent).sum())
        expected[index] = (pair[0] - pair[1]) / (2 * step)
    case.array = base
    assert_allclose(gradient, expected, rtol=2e-6, atol=2e-7)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=6)
def test_gradients_of_many_regions_are_transposes(seed: int) -> None:
    """Regions that overlap, on one to three axes, by a dot product; and the same with a batch of arrays."""
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 4))
    shape, size = tuple(map(int, rng.integers(5, 12, ndim))), tuple(map(int, rng.choice([1, 3, 5], ndim)))
    windows = fd.kmap(kernel_size=size, padding="same", relative=True)
    for k in range(int(rng.integers(2, 6))):
        offsets = [tuple(int(rng.integers(-(s // 2), s // 2 + 1)) for s in size) for _ in range(3)]
        starts = [int(rng.integers(0, n - 1)) for n in shape]
        key = tuple(slice(a, int(rng.integers(a + 1, n + 1))) for a, n in zip(starts, shape, strict=True))
        windows[key if k else ...] = lambda x, k=k, offsets=offsets: sum(np.cos(k) * x[o] ** 2 for o in offsets)
    at, along, cotangent = (rng.normal(size=shape) for _ in range(3))
    moved = jax.jvp(windows, (at,), (along,))[1]

    def pull(a: jax.Array) -> jax.Array:
        return jax.vjp(windows, a)[1](cotangent)[0]

    room = 1e-13 * np.linalg.norm(moved) * np.linalg.norm(cotangent)
    assert abs(np.vdot(moved, cotangent) - np.vdot(along, pull(at))) <= room
    assert_allclose(jax.vmap(pull)(np.stack([at, along])), np.stack([pull(at), pull(along)]), **CLOSE)

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

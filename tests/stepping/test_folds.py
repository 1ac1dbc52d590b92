"""Sums and extremes of whole fields by folding."""

import math

import jax
import numpy as np
import pytest

from fdsolve.stepping import _folds, largest, total

SHAPES = [(), (7, 3), (997,), (5, 7, 11), (3, 2, 200)]


@pytest.fixture(autouse=True)
def fold_small(monkeypatch):
    """Folds from sixteen numbers on."""
    monkeypatch.setattr(_folds, "SMALL", 16)
    monkeypatch.setattr(_folds, "LARGE", 16)


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_extremes(shape):
    values = np.random.default_rng(len(shape)).normal(size=shape)
    np.testing.assert_allclose(total(values), math.fsum(values.ravel()), rtol=1e-13, atol=1e-13)
    assert float(largest(values)) == values.max()


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_every_entry_counts_once_and_nan_is_seen(shape):
    values, both = np.zeros(shape), jax.jit(lambda v: (total(v), largest(v)))
    for place in (0, values.size // 3, values.size - 1):
        values.flat[place] = np.nan
        assert all(np.isnan(one) for one in both(values))
        values.flat[place] = 0.0
    assert int(total(np.ones(shape, np.int64))) == values.size


def test_a_chain_of_additions_loses_more():
    values = np.full(2**16, 0.1, np.float32)
    exact = 2**16 * float(np.float32(0.1))
    assert abs(float(total(values)) - exact) < 2e-7 * exact


def test_derivative_of_a_sum_is_one_everywhere():
    values = np.random.default_rng(0).normal(size=(31, 41))
    np.testing.assert_array_equal(jax.grad(lambda v: total(v))(values), np.ones_like(values))

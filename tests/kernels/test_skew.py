"""Skewing and its inverse against the definition."""

import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.kernels import skew, unskew

CASES = [
    ((4, 5), (1, 1), 0),
    ((4, 5), (2, 1), 1),
    ((3, 4), (1, 3), 0),
    ((3, 4, 2), (1, 1, 1), 2),
    ((3, 2, 4), (1, 2, 5), 0),
    ((3, 4), (1, 0), 0),
]


@pytest.mark.parametrize(("shape", "weights", "axis"), CASES)
def test_rows_hold_hyperplanes(shape, weights, axis):
    array = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    rows = np.asarray(skew(jnp.asarray(array), weights, axis))
    expected = np.zeros_like(rows)
    for point in np.ndindex(*shape):
        others = tuple(p for a, p in enumerate(point) if a != axis)
        expected[(sum(w * p for w, p in zip(weights, point, strict=True)), *others)] = array[point]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(unskew(jnp.asarray(rows), weights, axis, shape[axis]), array)

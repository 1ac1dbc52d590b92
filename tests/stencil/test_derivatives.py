"""Sums of derivatives of functions of one number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.stencil import sum_derivatives


@pytest.mark.parametrize("coefficients", [(0.0, 2.0), (1.5, 0.0, -0.5, 0.0), (0.25, 1.0, 0.0, 0.0, 3.0)])
def test_derivatives_of_all_orders_come_of_one_evaluation(coefficients: tuple[float, ...]) -> None:
    calls = []

    def wave(at: jax.Array) -> jax.Array:
        calls.append(at)
        return jnp.sin(2 * at) * jnp.ones(3)

    found = sum_derivatives(wave, jnp.asarray(0.3), coefficients)
    wanted = sum(c * 2**k * np.sin(0.6 + k * np.pi / 2) for k, c in enumerate(coefficients))
    np.testing.assert_allclose(found, np.full(3, wanted), rtol=1e-6)
    assert len(calls) == 1

"""Variables of sizes that differ by many orders, maxima and saddles: found, or told."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

RANDOM = np.random.default_rng(1)
SIZES = np.array([1e8, 1.0, 1e-4])
MATRIX = jnp.asarray(RANDOM.normal(size=(20, 3)) * SIZES)
SEEN = jnp.asarray(np.asarray(MATRIX) @ (np.array([3.0, 5.0, -2.0]) / SIZES) + 0.1 * RANDOM.normal(size=20))


@pytest.fixture(scope="module")
def least() -> float:
    scaled = np.asarray(MATRIX) / SIZES
    return 0.5 * float(np.sum((scaled @ np.linalg.lstsq(scaled, np.asarray(SEEN), rcond=None)[0] - SEEN) ** 2))


def residuals(p: Any) -> Any:
    return MATRIX @ p["x"] - SEEN


@pytest.mark.parametrize("method", ["levenberg-marquardt", "gauss-newton"])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_least_squares_find_variables_of_any_size(start: float, method: str, least: float) -> None:
    found = fd.invert(residuals, dict(x=jnp.full(3, start)), method=method)
    assert found.converged, found.reason
    assert found.loss == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("method", ["bfgs", "l-bfgs", "adam"])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_no_method_says_so_where_it_has_not_converged(start: float, method: str, least: float) -> None:
    found = fd.invert(lambda p: 0.5 * jnp.sum(residuals(p) ** 2), dict(x=jnp.full(3, start)), method=method)
    assert not found.converged or found.loss == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("method", ["l-bfgs", "bfgs", "adam"])
def test_maxima_and_saddles_are_told(method: str) -> None:
    top = fd.invert(lambda p: jnp.cos(p["x"]) + 2.0, dict(x=0.0), method=method)
    assert not top.converged
    assert "the loss falls away from it: start elsewhere" in top.reason
    saddle = fd.invert(lambda p: p["x"] ** 2 - p["y"] ** 2 + p["y"] ** 4 + 1.0, dict(x=1.0, y=0.0), method=method)
    assert not saddle.converged
    assert "the loss still falls along variables" in saddle.reason
    least = fd.invert(lambda p: (p["x"] - 1.0) ** 2 + 1.0, dict(x=1.0), method=method)
    assert least.converged, least.reason


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_narrow_numbers_whose_steps_are_lost_have_not_converged(dtype: Any) -> None:
    wanted = jnp.arange(3).astype(dtype)
    found = fd.invert(lambda p: jnp.sum((p["x"] - wanted) ** 2), dict(x=jnp.zeros(3, dtype)), method="adam")
    assert not found.converged or found.loss < 1e-3

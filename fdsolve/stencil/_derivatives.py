"""Derivatives of functions of one number."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def sum_derivatives(function: Callable[[Any], Any], at: Any, coefficients: Sequence[Any]) -> Any:
    """Σ_k coefficients[k] dᵏf/dsᵏ of a function of one number, at `at`; numbers that are 0 are left out."""
    wanted = [k for k, one in enumerate(coefficients) if not (isinstance(one, float) and one == 0.0)]
    assert wanted
    derivatives = _first_of(function)
    for _ in range(wanted[-1]):
        derivatives = _and_next(derivatives)
    found = derivatives(at)
    terms = [jnp.asarray(coefficients[k], found[k].real.dtype) * found[k] for k in wanted]
    return sum(terms[1:], start=terms[0])


def _first_of(function: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda at: (function(at),)


def _and_next(derivatives: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """Derivatives of orders up to k + 1 from those up to k: each beside the others, so that none is traced twice."""

    def longer(at: Any) -> tuple[Any, ...]:
        found, slopes = jax.jvp(derivatives, (at,), (jnp.ones_like(at),))
        return *found, slopes[-1]

    return longer

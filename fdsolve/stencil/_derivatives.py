"""Derivatives of functions of one number."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def sum_derivatives(function: Callable[[Any], Any], at: Any, coefficients: Sequence[Any]) -> Any:
    """Σ_k coefficients[k] dᵏf/dsᵏ of a function of one number, at `at`; numbers that are 0 are left out."""
    found, derivative = None, function
    for coefficient in coefficients:
        if not (isinstance(coefficient, float) and coefficient == 0.0):
            term = derivative(at)
            term = jnp.asarray(coefficient, term.real.dtype) * term
            found = term if found is None else found + term
        derivative = _derivative(derivative)
    assert found is not None
    return found


def _derivative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda at: jax.jvp(function, (at,), (jnp.ones_like(at),))[1]

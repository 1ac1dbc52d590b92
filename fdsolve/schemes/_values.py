"""Choices between values, with finite derivatives; on traced scalars one operation each, which is quick to trace."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def choose(condition: Any, a: Any, b: Any) -> Any:
    """a where a condition holds, else b."""
    if _alike(a, b) and isinstance(condition, jax.Array) and condition.shape == a.shape:
        return lax.select(condition, a, b)
    return jnp.where(condition, a, b)


def least(a: Any, b: Any) -> Any:
    """The smaller of two values; at a tie each has half of the derivative."""
    return lax.min(a, b) if _alike(a, b) else jnp.minimum(a, b)


def most(a: Any, b: Any) -> Any:
    """The greater of two values; at a tie each has half of the derivative."""
    return lax.max(a, b) if _alike(a, b) else jnp.maximum(a, b)


def safe_divide(a: Any, b: Any) -> Any:
    """a/b, and 0 with derivative 0 where b is 0."""
    if _alike(a, b) and a.shape == ():
        none, one = b.dtype.type(0), b.dtype.type(1)
        zero = lax.eq(b, none)
        return lax.select(zero, none, lax.div(a, lax.select(zero, one, b)))
    zero, one = b == 0, 1 + 0 * b
    return choose(zero, 0 * one, a / choose(zero, one, b))


def safe_sqrt(a: Any) -> Any:
    """√a, and 0 with derivative 0 where a is not positive."""
    positive, one = a > 0, 1 + 0 * a
    return choose(positive, jnp.sqrt(choose(positive, a, one)), 0 * one)


def _alike(a: Any, b: Any) -> bool:
    return isinstance(a, jax.Array) and isinstance(b, jax.Array) and a.shape == b.shape and a.dtype == b.dtype

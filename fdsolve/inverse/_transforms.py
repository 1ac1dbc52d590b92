"""Transforms: free variables, any real number, to parameters that keep their bounds."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError

INSIDE = 0.02
"""How far inside a bound a value that lies at it starts, over the size of its transform."""
LOST = 1e-12
"""The same distance, within which a value lies at its bound."""
LOST_BESIDE = 4e-18
"""The same distance of what is put at its bound, lost in rounding but beside zero, where roots have no derivative."""


class AbstractTransform(ABC):
    """A smooth increasing map from all real numbers to the values a parameter may take."""

    @abstractmethod
    def to_parameter(self, free: jax.Array) -> jax.Array:
        """The parameter of a free variable."""

    @abstractmethod
    def to_free(self, parameter: jax.Array) -> jax.Array:
        """The free variable of a parameter; nan or infinite for a value outside."""


@dataclass(frozen=True)
class Identity(AbstractTransform):
    """p = z."""

    def to_parameter(self, free: jax.Array) -> jax.Array:
        return free

    def to_free(self, parameter: jax.Array) -> jax.Array:
        return parameter


@dataclass(frozen=True)
class Exponential(AbstractTransform):
    """p = eᶻ > 0: steps are factors. For coefficients known to an order of magnitude."""

    def to_parameter(self, free: jax.Array) -> jax.Array:
        return jnp.exp(free)

    def to_free(self, parameter: jax.Array) -> jax.Array:
        return jnp.log(parameter)


@dataclass(frozen=True)
class Softplus(AbstractTransform):
    """p = b + s log(1 + eᶻ) > b, or p = b − s log(1 + eᶻ) < b with `above=False`: linear far from the bound.

    `bound` is b; `size` s > 0 is the distance from it over which the map bends, of the size of the parameter.
    """

    bound: float = 0.0
    size: float = 1.0
    above: bool = True

    def __post_init__(self) -> None:
        if not (_are_numbers(self.bound, self.size) and self.size > 0):
            raise DeclarationError(
                f"Softplus wants numbers, a finite `bound` and a positive `size`, got {self.bound!r} and {self.size!r}."
            )

    def to_parameter(self, free: jax.Array) -> jax.Array:
        sign = self.size if self.above else -self.size
        return self.bound + sign * jax.nn.softplus(free)

    def to_free(self, parameter: jax.Array) -> jax.Array:
        distance = (parameter - self.bound) / (self.size if self.above else -self.size)
        return distance + jnp.log(-jnp.expm1(-distance))


@dataclass(frozen=True)
class Logistic(AbstractTransform):
    """p = l + (u − l)/(1 + e⁻ᶻ), between `lower` l and `upper` u."""

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        if not (_are_numbers(self.lower, self.upper) and self.lower < self.upper):
            raise DeclarationError(
                f"Logistic wants numbers, finite bounds with lower < upper, got {self.lower!r} and {self.upper!r}."
            )

    def to_parameter(self, free: jax.Array) -> jax.Array:
        return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(free)

    def to_free(self, parameter: jax.Array) -> jax.Array:
        return jnp.log(parameter - self.lower) - jnp.log(self.upper - parameter)


@dataclass(frozen=True)
class Transform(AbstractTransform):
    """A transform of one's own: `forward` from free variables to the parameter, `inverse` back."""

    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not (callable(self.forward) and callable(self.inverse)):
            raise DeclarationError(
                f"Transform wants two functions, fd.inverse.Transform(jnp.exp, jnp.log); got {self.forward!r} and "
                f"{self.inverse!r}."
            )

    def to_parameter(self, free: jax.Array) -> jax.Array:
        return self.forward(free)

    def to_free(self, parameter: jax.Array) -> jax.Array:
        return self.inverse(parameter)


def _are_numbers(*values: Any) -> bool:
    """Whether each is a finite number."""
    try:
        return all(np.ndim(value) == 0 and np.isfinite(value) for value in values)
    except (TypeError, ValueError):
        return False


def within(bounds: Any, value: np.ndarray, name: str) -> AbstractTransform:
    """The transform that keeps a parameter inside `(lower, upper)`, None where it is free; from its start `value`."""
    lower, upper = _ends(bounds, name)
    if lower is not None and upper is not None and not lower < upper:
        raise DeclarationError(f"bounds of `{name}`: (lower, upper) with lower < upper is wanted, got {bounds!r}.")
    outside = np.zeros(np.shape(value), bool)
    if lower is not None:
        outside |= value < lower
    if upper is not None:
        outside |= value > upper
    if outside.any():
        shown = float(np.asarray(value)[outside].flat[0])
        raise DeclarationError(
            f"bounds of `{name}`: the initial value must lie in ({lower}, {upper}), got {shown:g}. Start inside."
        )
    if lower is not None and upper is not None:
        return Logistic(lower, upper)
    if lower is None and upper is None:
        return Identity()
    bound = lower if lower is not None else upper
    assert bound is not None
    return Softplus(bound, float(np.abs(value - bound).mean()) or abs(bound) or 1.0, lower is not None)


def extent(transform: AbstractTransform) -> tuple[tuple[float, float], float]:
    """Between what a transform that keeps bounds keeps a parameter, and its size."""
    if isinstance(transform, Logistic):
        size = transform.upper - transform.lower
        return (transform.lower + LOST_BESIDE * size, transform.upper - LOST_BESIDE * size), size
    assert isinstance(transform, Softplus)
    end = transform.bound + (LOST_BESIDE if transform.above else -LOST_BESIDE) * transform.size
    return (end, math.inf) if transform.above else (-math.inf, end), transform.size


def inside(transform: AbstractTransform, value: np.ndarray) -> np.ndarray:
    """The value to start from: at a bound, where a search could not begin, a little inside."""
    if isinstance(transform, Logistic):
        size, ends = transform.upper - transform.lower, [(transform.lower, 1.0), (transform.upper, -1.0)]
    elif isinstance(transform, Softplus):
        size, ends = transform.size, [(transform.bound, 1.0 if transform.above else -1.0)]
    else:
        return value
    for bound, sign in ends:
        lost = max(LOST * size, 2 * float(jnp.finfo(value.dtype).eps) * abs(bound))
        value = np.where(sign * (value - bound) <= lost, bound + sign * INSIDE * size, value).astype(value.dtype)
    return value


def _ends(bounds: Any, name: str) -> tuple[float | None, float | None]:
    wanted = f"bounds of `{name}` are (lower, upper), numbers or None: bounds=dict({name}=(0, None))"
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise DeclarationError(f"{wanted}; got {bounds!r}.")
    ends = []
    for end in bounds:
        if np.ndim(end):
            raise DeclarationError(
                f"{wanted}, one for all entries; got an array of shape {np.shape(end)}. Bounds that differ from entry "
                f"to entry are kept by transform=dict({name}=fd.inverse.Transform(lambda z: lower + (upper - lower) * "
                f"jax.nn.sigmoid(z), lambda p: jax.scipy.special.logit((p - lower) / (upper - lower))))."
            )
        if end is not None and (isinstance(end, bool | str) or not np.isreal(end) or np.isnan(end)):
            raise DeclarationError(f"{wanted}; got {end!r}.")
        ends.append(None if end is None or np.isinf(end) else float(end))
    return ends[0], ends[1]

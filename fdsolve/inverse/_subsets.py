"""Which part of the data a loss gets, iteration by iteration."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError

KEYS = 8
"""How many keys are tried before a parameter is said not to count."""


@dataclass(frozen=True, eq=False)
class Subsets:
    """What the loss gets as its second argument, iteration by iteration."""

    number: int | None
    key: Any
    seed: int

    @classmethod
    def of(cls, given: Any, seed: Any) -> "Subsets":
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise DeclarationError(f"seed= is a whole number, 0 or more, got {seed!r}.")
        seed = int(seed)
        if given is None:
            return cls(None, None, seed)
        if isinstance(given, jax.Array) and jnp.issubdtype(given.dtype, jax.dtypes.prng_key) and given.shape == ():
            return cls(None, given, seed)
        if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
            raise DeclarationError(
                f"subsets= takes their number, or a jax.random.key(0) from which keys are drawn; got {given!r}."
            )
        return cls(int(given), None, seed)

    @property
    def example(self) -> Any:
        return jnp.asarray(0, jnp.int32) if self.number is not None else self.key

    @property
    def examples(self) -> Any:
        """A sequence of all there are; of keys, which have no end, a few."""
        if self.number is not None:
            return np.arange(self.number, dtype=np.int32)
        return [None] if self.key is None else [self.key, *(self._key(count) for count in range(KEYS))]

    def stream(self) -> Iterator[Any]:
        """Subsets without end."""
        draw, count = np.random.default_rng(self.seed), 0
        while True:
            for k in draw.permutation(self.number) if self.number is not None else (None,):
                yield jnp.asarray(k, jnp.int32) if self.number is not None else self._key(count)
                count += 1

    def _key(self, count: int) -> Any:
        return None if self.key is None else jax.random.fold_in(self.key, count)

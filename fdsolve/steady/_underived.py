"""What has no derivatives here says so when it is asked for them, and gives no zero."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .._tangents import moves
from ..errors import DeclarationError


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def underived(message: str, value: Any, given: Any) -> Any:
    """The value, made of what is given; an error with the message where that is differentiated by."""
    return value


def _refuse(message: str, primals: Any, tangents: Any) -> Any:
    value, _ = primals
    if any(moves(leaf) for leaf in jax.tree.leaves(tangents[1])):
        raise DeclarationError(message)
    return value, jax.tree.map(jnp.zeros_like, value)


underived.defjvp(_refuse, symbolic_zeros=True)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def derived_once(message: str, function: Callable[[Any, Any], Any], given: Any, kept: Any) -> Any:
    """`function(given, kept)`, differentiated by what is given, once: what is kept stands for a function of it."""
    return function(given, kept)


@derived_once.defjvp
def _once(message: str, function: Callable[[Any, Any], Any], primals: Any, tangents: Any) -> Any:
    given, kept = primals
    kept = underived(message, kept, given)
    return jax.jvp(lambda moved: function(moved, kept), (given,), tangents[:1])


@dataclass(frozen=True, eq=False)
class Underived(Mapping[str, Any]):
    """Arrays by name, made of what is given; an error with the message where one is looked at and that moves."""

    message: str
    arrays: Mapping[str, jax.Array]
    given: Any

    def __getitem__(self, name: str) -> Any:
        return underived(self.message, self.arrays[name], self.given)

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

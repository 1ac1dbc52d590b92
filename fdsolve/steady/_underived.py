"""What has no derivatives here says so when it is asked for them, and gives no zero."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..errors import DeclarationError


@own_derivative
def underived(message: str, value: Any, given: list[Any]) -> Any:
    """The value, made of the arrays given; an error with the message where that is differentiated by."""
    return value


@underived.defjvp
def _refuse(message: str, trees: Any, tangents: Any) -> tuple[Any, Any]:
    if any(moves(leaf) for leaf in tangents[1]):
        raise DeclarationError(message)
    return trees[0], tangents[0]


@own_derivative
def derived_once(told: tuple[str, Callable[[list[Any], Any], Any]], given: list[Any], kept: Any) -> Any:
    """function(given, kept) of a message and a function, differentiated by the arrays given, once: what is kept
    stands for a function of them."""
    return told[1](given, kept)


@derived_once.defjvp
def _once(told: tuple[str, Callable[[list[Any], Any], Any]], trees: Any, tangents: Any) -> tuple[Any, Any]:
    (given, kept), (message, function) = trees, told
    moving = [k for k, tangent in enumerate(tangents[0]) if moves(tangent)]
    if not moving:
        found = function(given, kept)
        return found, jax.tree.map(jnp.zeros_like, found)
    kept = underived(message, kept, given)

    def moved(*own: Any) -> Any:
        return function(replaced(given, moving, own), kept)

    return jax.jvp(moved, [given[k] for k in moving], [tangents[0][k] for k in moving])


@dataclass(frozen=True, eq=False)
class Underived(Mapping[str, Any]):
    """Arrays by name, made of others; an error with the message where one is looked at and that moves."""

    message: str
    arrays: Mapping[str, jax.Array]
    given: list[Any]

    def __getitem__(self, name: str) -> Any:
        return underived(self.message, self.arrays[name], self.given)

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

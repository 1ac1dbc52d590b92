"""Leaves of a function's arguments, of which some are differentiated by."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero


def moves(tangent: Any) -> bool:
    """Whether a tangent is one: not zero throughout, and of numbers that have derivatives."""
    return type(tangent) is not SymbolicZero and getattr(tangent, "dtype", None) != jax.dtypes.float0


def replaced(leaves: Sequence[Any], places: Sequence[int], given: Sequence[Any]) -> list[Any]:
    """The leaves with those at some places put in."""
    whole = list(leaves)
    for place, one in zip(places, given, strict=True):
        whole[place] = one
    return whole

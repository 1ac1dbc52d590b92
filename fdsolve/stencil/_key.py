"""Structural identity of jaxprs: two traces of the same rule are equal, whatever arrays they were traced with."""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import jax.extend.core as jex
import numpy as np


class _Identity:
    """An unhashable thing, equal to itself alone; holds it, so that its id is not used again."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any):
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.thing is other.thing


def jaxpr_key(jaxpr: jex.Jaxpr) -> Hashable:
    """A hashable value, equal for jaxprs that compute the same from arguments of the same types."""
    numbers: dict[Any, int] = {}
    for variable in (*jaxpr.constvars, *jaxpr.invars):
        numbers[variable] = len(numbers)
    inputs, equations = tuple(_shown(v.aval) for v in numbers), []
    for eqn in jaxpr.eqns:  # of long rules there are very many
        given = tuple([literal_key(v) if isinstance(v, jex.Literal) else numbers[v] for v in eqn.invars])
        results = tuple([_shown(v.aval) for v in eqn.outvars])
        for variable in eqn.outvars:
            numbers[variable] = len(numbers)
        equations.append((eqn.primitive.name, given, results, value_key(eqn.params) if eqn.params else ()))
    last = tuple(literal_key(v) if isinstance(v, jex.Literal) else numbers[v] for v in jaxpr.outvars)
    return (len(jaxpr.constvars), inputs, tuple(equations), last)


def literal_key(one: jex.Literal) -> Hashable:
    """A hashable value, equal for numbers written in equations that are the same and of the same type."""
    array = np.asarray(one.val)
    return ("literal", array.tobytes(), array.dtype.str, _shown(one.aval))


@lru_cache(maxsize=4096)
def _shown(aval: Any) -> str:
    return str(aval)


def value_key(value: Any) -> Hashable:
    """A hashable value, equal for parameters of equations that mean the same."""
    if isinstance(value, jex.ClosedJaxpr):
        return ("closed", jaxpr_key(value.jaxpr), tuple(value_key(c) for c in value.consts))
    if isinstance(value, jex.Jaxpr):
        return ("jaxpr", jaxpr_key(value))
    if isinstance(value, dict):
        return tuple((name, value_key(part)) for name, part in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(value_key(part) for part in value)
    if isinstance(value, np.ndarray | np.generic):
        return (value.tobytes(), value.dtype.str, value.shape)
    try:
        hash(value)
    except TypeError:
        return _Identity(value)
    return value

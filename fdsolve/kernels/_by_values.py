"""Primitives by values: what evaluates them outside of a program."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax


def by_values(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run(*arrays, **parameters)`, compiled once for each choice of parameters, which are static."""

    @lru_cache(maxsize=1024)
    def compiled(parameters: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
        return jax.jit(lambda *arrays: run(*arrays, **dict(parameters)))

    return lambda *arrays, **parameters: compiled(tuple(sorted(parameters.items(), key=lambda one: one[0])))(*arrays)

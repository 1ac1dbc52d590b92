"""Affinity: linearity propagated through the jaxpr of a rule, and the weights of the rules that have it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ._equations import CALLS, follow, inner_of

CONSTANT, AFFINE, NONLINEAR = 0, 1, 2

_LINEAR = frozenset(
    {
        "add", "add_any", "sub", "neg", "reduce_sum", "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "slice",
        "concatenate", "stack", "unstack", "transpose", "rev", "pad", "copy", "copy_p", "cumsum", "split",
        "optimization_barrier",
    }
)  # fmt: skip
_BILINEAR = frozenset({"mul", "dot_general"})


def output_degrees(jaxpr: jex.Jaxpr, degrees: Sequence[int]) -> list[int]:
    """CONSTANT, AFFINE or NONLINEAR for each output, given the same for each input (constvars first)."""
    return follow(jaxpr, degrees, _equation_degrees, lambda literal: CONSTANT)


def _equation_degrees(eqn: Any, degrees: list[int]) -> list[int]:
    name, worst = eqn.primitive.name, max(degrees, default=CONSTANT)
    if worst == CONSTANT:
        found = CONSTANT
    elif worst == NONLINEAR:
        found = NONLINEAR
    elif name in _LINEAR or (name == "integer_pow" and eqn.params["y"] == 1):
        found = AFFINE
    elif name in _BILINEAR:
        found = AFFINE if degrees.count(CONSTANT) == 1 else NONLINEAR
    elif name == "div":
        found = AFFINE if degrees[1] == CONSTANT else NONLINEAR
    elif name == "select_n":
        found = AFFINE if degrees[0] == CONSTANT else NONLINEAR
    elif name in ("gather", "dynamic_slice"):
        found = AFFINE if all(d == CONSTANT for d in degrees[1:]) else NONLINEAR
    elif name == "convert_element_type":
        found = AFFINE if _keeps_linearity(eqn.invars[0].aval.dtype, eqn.params["new_dtype"]) else NONLINEAR
    elif name in CALLS and (inner := inner_of(eqn)) is not None:
        return output_degrees(inner.jaxpr, [CONSTANT] * len(inner.consts) + degrees)
    else:
        found = NONLINEAR
    return [found] * len(eqn.outvars)


def _keeps_linearity(old: Any, new: Any) -> bool:
    """Between floats of any precision, and from real to complex; not to integers, nor from complex to real."""
    if not jnp.issubdtype(old, jnp.inexact) or not jnp.issubdtype(new, jnp.inexact):
        return False
    return not jnp.issubdtype(old, jnp.complexfloating) or bool(jnp.issubdtype(new, jnp.complexfloating))


def depends_on(jaxpr: jex.Jaxpr, marked: Sequence[bool]) -> list[bool]:
    """For each output, whether it depends on a marked input (constvars first)."""
    return follow(jaxpr, marked, lambda eqn, marks: [any(marks)] * len(eqn.outvars), lambda literal: False)


class _Traits(NamedTuple):
    """What a value depends on: what is read, something marked, and the marked by its derivatives by what is read."""

    reads: bool = False
    marked: bool = False
    weighed: bool = False


def weights_depend_on(jaxpr: jex.Jaxpr, reads: Sequence[bool], marked: Sequence[bool]) -> bool:
    """Whether the weights of an affine function by some of its inputs depend on marked ones (constvars first)."""
    inputs = [_Traits(*pair) for pair in zip(reads, marked, strict=True)]
    return any(one.weighed for one in follow(jaxpr, inputs, _equation_traits, lambda literal: _Traits()))


def _equation_traits(eqn: Any, inputs: list[_Traits]) -> list[_Traits]:
    name = eqn.primitive.name
    if name in CALLS and (inner := inner_of(eqn)) is not None:
        return follow(
            inner.jaxpr, [_Traits()] * len(inner.consts) + inputs, _equation_traits, lambda literal: _Traits()
        )
    reads, marked = any(one.reads for one in inputs), any(one.marked for one in inputs)
    beside = name not in _LINEAR and any(one.marked and not one.reads for one in inputs)
    weighed = any(one.weighed for one in inputs) or (reads and beside)
    return [_Traits(reads, marked, weighed)] * len(eqn.outvars)


def linear_weights(
    function: Callable[..., Any], num_reads: int, dtype: Any, along: Any = None
) -> tuple[list[Any], Any]:
    """Weights and constant of an affine scalar function of `num_reads` scalars: f(r) = Σ w_k r_k + f(0).

    Exact up to rounding: each weight is f(e_k) − f(0) taken as a derivative, so complex weights keep both parts.
    `along`: rows of numbers, one a read; then Σ w_k row_k of each instead, which rounds no more than the function does:
    a difference of what it reads is exactly 0 along equal numbers.
    """
    zeros = tuple(jnp.zeros((), dtype) for _ in range(num_reads))
    constant, pushforward = jax.linearize(function, *zeros)
    rows = np.eye(num_reads) if along is None else along
    found = [pushforward(*(jnp.asarray(e, dtype) for e in row)) for row in rows]
    return found, constant

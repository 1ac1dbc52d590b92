"""Jaxprs gone through equation by equation: whatever stands for a value, from the inputs to the outputs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"})
"""Equations that do what is inside of them, once."""
ALL_CALLS = CALLS | {"custom_jvp_call"}
"""The same, and those that have a derivative of their own, for what takes none."""
SAME = frozenset({"copy", "copy_p", "reshape", "squeeze", "broadcast_in_dim", "expand_dims", "stop_gradient",
                  "optimization_barrier"})  # fmt: skip
"""Equations that give a scalar as it is."""
SMOOTH = frozenset({"abs", "add", "and", "convert_element_type", "cos", "eq", "erf", "exp", "floor", "ge", "gt", "le",
                    "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "select_n", "sign", "sin", "sub",
                    "tanh"})  # fmt: skip
"""Equations that are finite, as are all their derivatives, where what they are of is."""

T = TypeVar("T")


def follow(
    jaxpr: jex.Jaxpr, inputs: Iterable[T], evaluate: Callable[[Any, list[T]], Sequence[T]], literal: Callable[[Any], T]
) -> list[T]:
    """What stands for the outputs, given what stands for the inputs (constvars first).

    `evaluate(equation, inputs)` gives it for the results of an equation, `literal(one)` for a number written in it.
    """
    known: dict[Any, T] = dict(zip((*jaxpr.constvars, *jaxpr.invars), inputs, strict=True))

    for eqn in jaxpr.eqns:
        given = [literal(v) if isinstance(v, jex.Literal) else known[v] for v in eqn.invars]
        known.update(zip(eqn.outvars, evaluate(eqn, given), strict=True))
    return [literal(v) if isinstance(v, jex.Literal) else known[v] for v in jaxpr.outvars]


def why_not_pointwise(
    jaxpr: jex.Jaxpr, has_dtype: Callable[[Any], bool], has_operation: Callable[[str], bool]
) -> str | None:
    """Why a jaxpr of scalars cannot be computed, where there are these dtypes and operations; None where it can."""
    for variable in (*jaxpr.constvars, *jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)):
        aval: Any = variable.aval
        if aval.shape != ():
            return f"it computes with an array of shape {aval.shape} at each point"
        if jnp.issubdtype(aval.dtype, jax.dtypes.extended) or not has_dtype(aval.dtype):
            return f"it computes with {aval.dtype}"
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in ALL_CALLS:
            inner = inner_of(eqn)
            if inner is None or (reason := why_not_pointwise(inner.jaxpr, has_dtype, has_operation)):
                return f"`{name}` in it cannot be entered" if inner is None else reason
            if any(np.shape(const) for const in inner.consts):
                return "it holds an array"
        elif name not in SAME and not has_operation(name):
            return f"it uses `{name}`"
    return None


def is_smooth(jaxpr: jex.Jaxpr) -> bool:
    """Whether a jaxpr of scalars, and all its derivatives, surely are finite wherever its inputs are."""
    return why_not_pointwise(jaxpr, lambda dtype: True, SMOOTH.__contains__) is None


def count_operations(jaxpr: jex.Jaxpr) -> int:
    """Operations in a jaxpr, those within calls too."""
    called = (inner_of(eqn) for eqn in jaxpr.eqns)
    return sum(1 if inner is None else count_operations(inner.jaxpr) for inner in called)


def uses(jaxpr: jex.Jaxpr, name: str) -> bool:
    """Whether equations of this name stand in a jaxpr, or in what its equations call."""
    return any(
        eqn.primitive.name == name or any(uses(one, name) for one in programs_in(eqn.params.values()))
        for eqn in jaxpr.eqns
    )


def programs_in(values: Iterable[Any]) -> Iterator[jex.Jaxpr]:
    """The jaxprs among the parameters of an equation: what it calls, its branches, its body."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from programs_in(value)
        elif isinstance(value, jex.ClosedJaxpr | jex.Jaxpr):
            yield value.jaxpr if isinstance(value, jex.ClosedJaxpr) else value


def inner_of(eqn: Any) -> jex.ClosedJaxpr | None:
    """What an equation calls; None if that is not known."""
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    if isinstance(inner, jex.ClosedJaxpr):
        return inner
    return jex.ClosedJaxpr(inner, ()) if isinstance(inner, jex.Jaxpr) and not inner.constvars else None


def bind_equation(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """The results of an equation for these values."""
    found = eqn.primitive.get_bind_params(eqn.params)
    subfuns, params = found if isinstance(found, tuple) else ((), found)  # older versions of jax give both
    out = eqn.primitive.bind(*subfuns, *values, **params)
    return list(out) if eqn.primitive.multiple_results else [out]

"""A rule's scalar jaxpr on tiles: the same arithmetic at all points of a tile."""

from collections.abc import Sequence
from typing import Any

import jax.extend.core as jex
import numpy as np
from jax import lax

_CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "remat2", "custom_jvp_call"})
_SAME = frozenset({"copy", "copy_p", "reshape", "squeeze", "broadcast_in_dim", "expand_dims", "stop_gradient",
                   "optimization_barrier"})  # fmt: skip
_ELEMENTWISE = frozenset(
    {
        "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
        "clamp", "convert_element_type", "cos", "cosh", "div", "eq", "exp", "exp2", "expm1", "floor", "ge", "gt",
        "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg",
        "nextafter", "not", "or", "pow", "rem", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "sub",
        "tan", "tanh", "xor",
    }
)  # fmt: skip
_DTYPES = frozenset(np.dtype(t) for t in (bool, np.int32, np.int64, np.float32, np.float64))


def supports_dtype(dtype: Any) -> bool:
    """Whether tiles may hold values of a dtype."""
    return np.dtype(dtype) in _DTYPES


def unsupported(jaxpr: Any) -> str | None:
    """Why a scalar jaxpr cannot be computed on tiles; None where it can."""
    for variable in (*jaxpr.constvars, *jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)):
        if variable.aval.shape != ():
            return f"it computes with an array of shape {variable.aval.shape} at each point"
        if not supports_dtype(variable.aval.dtype):
            return f"it computes with {variable.aval.dtype}"
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _CALLS:
            inner = _inner(eqn)
            if any(np.shape(const) for const in inner.consts):
                return "it holds an array"
            if reason := unsupported(inner.jaxpr):
                return reason
        elif name not in _ELEMENTWISE and name not in _SAME:
            return f"it uses `{name}`"
    return None


def _inner(eqn: Any) -> jex.ClosedJaxpr:
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return inner if isinstance(inner, jex.ClosedJaxpr) else jex.ClosedJaxpr(inner, [])


def compute(jaxpr: Any, consts: Sequence[Any], values: Sequence[Any]) -> Any:
    """The jaxpr's one result at all points; values are scalars or arrays that broadcast with each other."""
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *values), strict=True))

    def value(v: Any) -> Any:
        if isinstance(v, jex.Literal):
            aval: Any = v.aval
            return np.asarray(v.val, aval.dtype)[()]
        return known[v]

    for eqn in jaxpr.eqns:
        given, name = [value(v) for v in eqn.invars], eqn.primitive.name
        if name in _CALLS:
            inner = _inner(eqn)
            held = [np.asarray(const)[()] for const in inner.consts]
            result = compute(inner.jaxpr, held, given)
        elif name in _SAME:
            result = given[0]
        else:
            result = _bind(eqn, given)
        known[eqn.outvars[0]] = result
    return value(jaxpr.outvars[0])


def _bind(eqn: Any, given: Sequence[Any]) -> Any:
    shape = np.broadcast_shapes(*(np.shape(x) for x in given))
    params = {**eqn.params, "sharding": None} if "sharding" in eqn.params else eqn.params
    return eqn.primitive.bind(*(spread(x, shape) for x in given), **params)


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """A value at all points of a shape: a scalar repeated, an array of that shape as it is."""
    return value if np.shape(value) == shape else lax.broadcast_in_dim(value, shape, ())

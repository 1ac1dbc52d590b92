"""A rule's scalar jaxpr on tiles: the same arithmetic at all points of a tile."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from ...stencil import ALL_CALLS, SAME, follow, inner_of, why_not_pointwise

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
    return why_not_pointwise(jaxpr, supports_dtype, _ELEMENTWISE.__contains__)


def compute(jaxpr: Any, consts: Sequence[Any], values: Sequence[Any]) -> Any:
    """The jaxpr's one result at all points; values are scalars or arrays that broadcast with each other."""
    (result,) = follow(
        jaxpr,
        [*consts, *values],
        _evaluate,
        lambda literal: np.asarray(literal.val, literal.aval.dtype)[()],
    )
    return result


def _evaluate(eqn: Any, given: list[Any]) -> list[Any]:
    name = eqn.primitive.name
    if name in SAME:
        return [given[0]]
    if name not in ALL_CALLS:
        return [_bind(eqn, given)]
    inner = inner_of(eqn)
    assert inner is not None  # asked by `unsupported`
    return [compute(inner.jaxpr, [np.asarray(const)[()] for const in inner.consts], given)]


def _bind(eqn: Any, given: Sequence[Any]) -> Any:
    shape = np.broadcast_shapes(*(np.shape(x) for x in given))
    params = {**eqn.params, "sharding": None} if "sharding" in eqn.params else eqn.params
    return eqn.primitive.bind(*(spread(x, shape) for x in given), **params)


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """A value at all points of a shape: a scalar repeated, an array of that shape as it is."""
    return value if np.shape(value) == shape else lax.broadcast_in_dim(value, shape, ())

"""Rules as they are differentiated here: JAX's derivatives of quotients and extremes, written with fewer operations.

Of x/y JAX divides the cotangent by y and by y² again, where one 1/y serves all; of a maximum it multiplies by a weight
for each side, where one takes what the other leaves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from ...stencil import CALLS, bind_equation, follow, inner_of


def derivable(closed: jex.ClosedJaxpr) -> Callable[[Sequence[Any], Sequence[bool]], list[Any]]:
    """The results of a scalar jaxpr as a function of its inputs and of which of them are differentiated by."""

    def run(values: Sequence[Any], moving: Sequence[bool]) -> list[Any]:
        inputs = [_Value(one, False) for one in closed.consts]
        inputs += [_Value(one, moves) for one, moves in zip(values, moving, strict=True)]
        return [one.value for one in _run(closed.jaxpr, inputs)]

    return run


@dataclass(frozen=True, eq=False)
class _Value:
    value: Any
    moves: bool


def _run(jaxpr: jex.Jaxpr, inputs: Sequence[_Value]) -> list[_Value]:
    return follow(jaxpr, inputs, _evaluate, lambda one: _Value(one.val, False))


def _evaluate(eqn: Any, given: list[_Value]) -> list[_Value]:
    inner = inner_of(eqn) if eqn.primitive.name in CALLS else None
    if inner is not None:
        return _run(inner.jaxpr, [*(_Value(one, False) for one in inner.consts), *given])
    values, moves = [one.value for one in given], any(one.moves for one in given)
    name, dtype = eqn.primitive.name, eqn.outvars[0].aval.dtype
    if name in _SHORT and jnp.issubdtype(dtype, jnp.floating) and (given[-1].moves or (moves and name in _EXTREMES)):
        return [_Value(_SHORT[name](eqn, *values), True)]
    return [_Value(one, moves) for one in bind_equation(eqn, values)]


@jax.custom_jvp
def _divide(x: Any, y: Any) -> Any:
    return x * _inverse(y)


def _push_divide(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x, y), (along_x, along_y) = primals, tangents
    inverse = _inverse(y)
    found = x * inverse
    return found, inverse * _minus(along_x, _times(found, along_y))


_divide.defjvp(_push_divide, symbolic_zeros=True)


@jax.custom_jvp
def _inverse(y: Any) -> Any:
    return lax.integer_pow(y, -1)


@_inverse.defjvp
def _push_inverse(primals: Any, tangents: Any) -> tuple[Any, Any]:
    found = lax.integer_pow(primals[0], -1)
    return found, -(found * found) * tangents[0]


def _power(eqn: Any, x: Any) -> Any:
    power = int(eqn.params["y"])
    return lax.integer_pow(x, power) if power >= 0 else lax.integer_pow(_inverse(x), -power)


def _extreme(pick: Callable[[Any, Any], Any], before: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """`pick` of two values, the first where it lies `before` the other; at a tie each has half of the derivative."""

    @jax.custom_jvp
    def run(x: Any, y: Any) -> Any:
        return pick(x, y)

    def push(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x, y), (along_x, along_y) = primals, tangents
        one, half, none = (x.dtype.type(weight) for weight in (1.0, 0.5, 0.0))
        if _is_zero(along_x):
            x, y, along_x, along_y = y, x, along_y, along_x
        share = lax.select(x == y, half, lax.select(before(x, y), one, none))
        return pick(*primals), _plus(_times(share, _minus(along_x, along_y)), along_y)

    run.defjvp(push, symbolic_zeros=True)
    return lambda eqn, x, y: run(x, y)


def _is_zero(tangent: Any) -> bool:
    return type(tangent) is SymbolicZero


def _times(factor: Any, tangent: Any) -> Any:
    return tangent if _is_zero(tangent) else factor * tangent


def _plus(a: Any, b: Any) -> Any:
    return b if _is_zero(a) else a if _is_zero(b) else a + b


def _minus(a: Any, b: Any) -> Any:
    return a if _is_zero(b) else -b if _is_zero(a) else a - b


_EXTREMES: dict[str, Callable[..., Any]] = {"max": _extreme(lax.max, lax.gt), "min": _extreme(lax.min, lax.lt)}
_SHORT: dict[str, Callable[..., Any]] = {
    "div": lambda eqn, x, y: _divide(x, y),
    "integer_pow": _power,
    **_EXTREMES,
}

"""Values written down: arrays that XLA on a CPU would compute again for each loop that reads them.

It fuses what is computed into every loop that reads it, unless an operation is dear. A value that is read at several
offsets, or by several loops, is so computed as often, and all that leads to it; in a derivative, which reads the values
of the way there at each of its steps, that multiplies. With a call that is not to be inlined nothing is fused.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import jax
import jax.extend.core as jex
from jax.experimental.xla_metadata import set_xla_metadata
from jax.interpreters import ad, batching, mlir

from ..stencil import bind_equation, follow

DEAR = 100
"""Operations that are saved for which a value that several results need is written down."""
_WRITTEN = frozenset({"div", "exp", "sqrt", "rsqrt", "log", "pow", "tanh", "logistic"})
"""Operations that XLA does not do twice, and writes down by itself."""

_settle = jex.Primitive("fdsolve_settle")
_settle_back = jex.Primitive("fdsolve_settle_back")
_same = jax.jit(lambda array: array, inline=False)


def settle(value: Any) -> Any:
    """The same, computed once on a CPU however many read it; so are its tangents and cotangents."""
    return _settle.bind(value)


def settle_back(value: Any) -> Any:
    """The same; what comes back to it is computed once on a CPU, however many it is handed on to."""
    return _settle_back.bind(value)


def _apart(array: jax.Array) -> jax.Array:
    with set_xla_metadata(inlineable="false"):
        return _same(array)


for _primitive in (_settle, _settle_back):
    _primitive.def_impl(lambda array: array)
    _primitive.def_abstract_eval(lambda aval: aval)
    ad.deflinear2(_primitive, lambda cotangent, array: [_settle.bind(cotangent)])
    batching.defvectorized(_primitive)
    mlir.register_lowering(_primitive, mlir.lower_fun(lambda array: array, multiple_results=False))
mlir.register_lowering(_settle, mlir.lower_fun(_apart, multiple_results=False), platform="cpu")


def settle_shared(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """A jaxpr of scalars without constants in which the values that several results need are settled, if that spares
    enough: each of its results is a loop of its own."""
    jaxpr = closed.jaxpr
    chosen = _dear_and_shared(jaxpr)
    if not chosen:
        return closed

    def evaluate(eqn: Any, given: list[Any]) -> list[Any]:
        found = bind_equation(eqn, given)
        return [settle(one) if v in chosen else one for v, one in zip(eqn.outvars, found, strict=True)]

    def run(*values: Any) -> list[Any]:
        return follow(jaxpr, values, evaluate, lambda one: one.val)

    return jax.make_jaxpr(run)(*(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals))


def _dear_and_shared(jaxpr: jex.Jaxpr) -> set[Any]:
    """The values that more results need than some value made of them, where to compute them for each is dear."""
    needed = _needed_by(jaxpr)
    parting = {
        v for eqn in jaxpr.eqns for v in _variables(eqn.invars) if any(needed.get(w) != needed[v] for w in eqn.outvars)
    }
    operations: dict[Any, int] = {}
    chosen = set()
    for eqn in jaxpr.eqns:
        count = 1 + sum(operations.get(v, 0) for v in _variables(eqn.invars))
        for v in eqn.outvars:
            again = needed.get(v, 0).bit_count() - 1
            if again * count >= DEAR and v in parting and v not in jaxpr.outvars:
                chosen.add(v)
            operations[v] = 0 if v in chosen or eqn.primitive.name in _WRITTEN else count
    return chosen


def _needed_by(jaxpr: jex.Jaxpr) -> dict[Any, int]:
    """By value, the results that need it, as bits."""
    found: dict[Any, int] = {}
    for number, one in enumerate(jaxpr.outvars):
        if not isinstance(one, jex.Literal):
            found[one] = found.get(one, 0) | 1 << number
    for eqn in reversed(jaxpr.eqns):
        bits = reduce(or_, (found.get(v, 0) for v in eqn.outvars))
        for v in _variables(eqn.invars):
            found[v] = found.get(v, 0) | bits
    return found


def _variables(values: Sequence[Any]) -> set[Any]:
    return {v for v in values if not isinstance(v, jex.Literal)}

"""Long rules that are not linear, at all points of a box on a CPU, with a way back of their own.

XLA computes each of several results in a loop of its own, and each with all that leads to it. What the derivative of
such a rule gives back to the values that were read, it would compute within the loop that adds that up at every point,
for each of them all that the rule computes and its derivative. Here it is computed once for each, and written down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..stencil import ELEMENTWISE, Shared, Traced, count_equations, why_not_pointwise
from ._derivable import pull_through
from ._level import guarded, vectorise_function
from ._linear_map import linear_map
from ._numbers import Flags, collect
from ._registry import detect_platform
from ._settle import settle, settle_shared

LEAST = 8
"""Equations of a rule that is long."""
FAR, LEAST_FAR = 2**18, 32
"""Points of a box whose arrays lie in no cache, and the same of a rule there: to write values down costs more."""


@dataclass(frozen=True, eq=False)
class LongRule:
    """A function of real scalars, by equations of which the way back is known; several results have much in common."""

    closed: jex.ClosedJaxpr

    def __call__(self, *values: Any) -> list[Any]:
        """The results, of scalars."""
        return jex.jaxpr_as_fun(self.closed)(*values)

    def forth(self, *values: Any) -> list[Any]:
        """The same, with what they share computed once."""
        return jex.jaxpr_as_fun(_shared(self))(*values)

    def back(self, places: tuple[int, ...], *given: Any) -> list[Any]:
        """The cotangents of the values at some places, of all values and the cotangents of the results."""
        return jex.jaxpr_as_fun(_way_back(self, places))(*given)


@lru_cache(maxsize=1024)
def _shared(rule: LongRule) -> jex.ClosedJaxpr:
    return settle_shared(rule.closed)


@lru_cache(maxsize=1024)
def _way_back(rule: LongRule, places: tuple[int, ...]) -> jex.ClosedJaxpr:
    count = len(rule.closed.in_avals)

    def run(*given: Any) -> list[Any]:
        found = pull_through(rule.closed, given[:count], places, given[count:])
        return [jnp.asarray(one) for one in found]

    avals = (*rule.closed.in_avals, *rule.closed.out_avals)
    return settle_shared(jax.make_jaxpr(run)(*(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in avals)))


def long_rule(rule: Traced | Shared, size: int) -> LongRule | None:
    """The rule as a long one for a box of so many points, of its constants and operands; None where it is short or
    linear, or holds what is no real scalar, and where no CPU computes it."""
    if detect_platform() != "cpu" or (isinstance(rule, Traced) and rule.affine):
        return None
    found = _long_rule(rule)
    far = found is not None and size >= FAR and count_equations(found.closed.jaxpr) < LEAST_FAR
    return None if far else found


@lru_cache(maxsize=1024)
def _long_rule(rule: Traced | Shared) -> LongRule | None:
    jaxpr, consts = (rule.jaxpr, ()) if isinstance(rule, Traced) else (rule.jaxpr.jaxpr, rule.jaxpr.consts)
    if consts or count_equations(jaxpr) < LEAST or why_not_pointwise(jaxpr, _is_real, ELEMENTWISE.__contains__):
        return None
    info = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    closed = jex.ClosedJaxpr(jaxpr.replace(constvars=[], invars=inputs, debug_info=info), ())
    return LongRule(closed) if all(jnp.issubdtype(one.dtype, jnp.floating) for one in closed.out_avals) else None


def _is_real(dtype: np.dtype) -> bool:
    return not jnp.issubdtype(dtype, jnp.complexfloating)


def evaluate_long(
    rule: LongRule, held: jax.Array | None, values: Sequence[Any], flags: Sequence[Flags], shape: tuple[int, ...]
) -> list[jax.Array]:
    """The results at all points of a box, with no derivative where it is not `held` to.

    flags[i] marks the axes of the box that values[i] has.
    """
    everywhere = (True,) * len(shape)
    if held is None:
        task = _Task(rule, tuple(flags), shape, False)
        return _evaluated(task, list(values))
    task = _Task(rule, (everywhere, *flags), shape, True)
    return _evaluated(task, [held, *values])


@dataclass(frozen=True, eq=False)
class _Task:
    """A long rule of values with these axes; `guarded`: the first tells where it has a derivative."""

    rule: LongRule
    flags: tuple[Flags, ...]
    shape: tuple[int, ...]
    guarded: bool


@partial(own_derivative, open=True)
def _evaluated(task: _Task, values: list[Any]) -> list[Any]:
    first = int(task.guarded)
    return vectorise_function(task.rule.forth, values[first:], task.flags[first:], task.shape)


def _push(task: _Task, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    (values,), (along,) = primals, tangents
    moving, first = tuple(k for k, tangent in enumerate(along) if moves(tangent)), int(task.guarded)
    places, everywhere = tuple(k - first for k in moving), (True,) * len(task.shape)
    function = guarded(task.rule) if task.guarded else task.rule
    out = _evaluated(task, values)

    def forward(kept: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        def run(*some: Any) -> list[Any]:
            return vectorise_function(function, replaced(kept, moving, some), task.flags, task.shape)

        return jax.jvp(run, tuple(kept[k] for k in moving), tuple(given))[1]

    def backward(kept: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        way_back = partial(task.rule.back, places)

        def run(*given: Any) -> list[Any]:
            if not task.guarded:
                return way_back(*given)
            found = guarded(way_back)(*given)
            return [jnp.where(given[0], one, jnp.zeros_like(one)) for one in found]

        flags = [*task.flags, *(everywhere for _ in cotangents)]
        found = vectorise_function(run, [*kept, *cotangents], flags, task.shape)
        return [_summed(settle(one), task.flags[k]) for k, one in zip(moving, found, strict=True)]

    return out, linear_map(forward, backward, values, [along[k] for k in moving], out)


_evaluated.defjvp(_push)


def _summed(array: jax.Array, flags: Flags) -> jax.Array:
    """An array on a box summed over the axes that are not marked."""
    if not any(flags):
        return collect(array, array.ndim)
    return array if all(flags) else jnp.sum(array, axis=tuple(k for k, here in enumerate(flags) if not here))

"""Long rules that are not linear, at all points of a box on a CPU, with derivatives of their own.

XLA computes each of several results in a loop of its own, and each with all that leads to it. What the derivative of
such a rule gives back to the values that were read, it would compute within the loop that adds that up at every point,
for each of them all that the rule computes and its derivative. Where LLVM is there to compile it, generated code
computes several results in one loop; elsewhere, what they share is written down.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..stencil import ELEMENTWISE, Shared, Traced, count_equations, why_not_pointwise
from ._derivable import pull_through
from ._level import guarded, vectorise_function
from ._linear_map import linear_map
from ._numbers import collect
from ._registry import detect_platform
from ._settle import settle, settle_shared
from ._window import Flags, Window, whole

LEAST = 8
"""Equations of a rule that is long."""
FAR, LEAST_FAR = 2**18, 32
"""Points of a box whose arrays lie in no cache, and the same of a rule there: to write values down costs more."""
MORE = 2
"""An array that is kept may be so many times as large as all that is read of it."""
Source = tuple[jax.Array, tuple[int, ...]] | None
"""An array that values were taken from, and the index where they begin; None where they are all of it."""


@dataclass(frozen=True, eq=False)
class LongRule:
    """A function of real scalars, by equations of which the way back is known; several results have much in common.

    `guarded`: where its first value, a truth value, does not hold, it has no derivative.
    """

    closed: jex.ClosedJaxpr
    guarded: bool = False

    def __call__(self, *values: Any) -> list[Any]:
        """The results, of scalars."""
        return jex.jaxpr_as_fun(self.closed)(*values)

    def within(self) -> "LongRule":
        """The same of where it has a derivative, and its values."""
        return _within(self)

    def along(self, places: tuple[int, ...]) -> "LongRule":
        """The tangents of the results, of all values and the tangents of those at some places."""
        return _along(self, places)

    def back(self, places: tuple[int, ...]) -> "LongRule":
        """The cotangents of the values at some places, of all values and the cotangents of the results."""
        return _back(self, places)


@lru_cache(maxsize=1024)
def _within(rule: LongRule) -> LongRule:
    held = jax.ShapeDtypeStruct((), np.dtype(bool))
    return _made(lambda _, *values: rule(*values), [held, *rule.closed.in_avals], True)


@lru_cache(maxsize=1024)
def _along(rule: LongRule, places: tuple[int, ...]) -> LongRule:
    inputs = rule.closed.in_avals

    def function(*values: Any) -> list[Any]:
        return guarded(partial(rule, values[0]))(*values) if rule.guarded else rule(*values)

    def run(*given: Any) -> list[Any]:
        values, along = given[: len(inputs)], given[len(inputs) :]

        def moved(*some: Any) -> list[Any]:
            return function(*replaced(values, places, some))

        return jax.jvp(moved, tuple(values[k] for k in places), tuple(along))[1]

    return _made(run, [*inputs, *(inputs[k] for k in places)], rule.guarded)


@lru_cache(maxsize=1024)
def _back(rule: LongRule, places: tuple[int, ...]) -> LongRule:
    inputs = rule.closed.in_avals

    def run(*given: Any) -> list[Any]:
        found = pull_through(rule.closed, given[: len(inputs)], places, given[len(inputs) :])
        arrays = [jnp.asarray(one) for one in found]
        return [lax.select(given[0], one, jnp.zeros_like(one)) for one in arrays] if rule.guarded else arrays

    return _made(run, [*inputs, *rule.closed.out_avals], rule.guarded)


def _made(function: Any, like: Sequence[Any], guarded: bool) -> LongRule:
    return LongRule(jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct((), one.dtype) for one in like)), guarded)


@lru_cache(maxsize=1024)
def _shared(rule: LongRule) -> jex.ClosedJaxpr:
    return settle_shared(rule.closed)


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
    rule: LongRule,
    held: jax.Array | None,
    values: Sequence[Any],
    flags: Sequence[Flags],
    shape: tuple[int, ...],
    sources: Sequence[Source] | None = None,
) -> list[jax.Array]:
    """The results at all points of a box, with no derivative where it is not `held` to.

    flags[i] marks the axes of the box that values[i] has; sources[i] is the array that it was taken from, and the index
    where it begins. What is known of such arrays need not be kept besides, nor taken out of them, if they hold hardly
    more than that: the derivative keeps them whole.
    """
    sources = [None] * len(values) if sources is None else sources
    if held is not None:
        rule, values, sources = rule.within(), [held, *values], [None, *sources]
        flags = [(True,) * len(shape), *flags]
    arrays: list[jax.Array] = []
    places, windows, read = dict[int, int](), list[Window](), Counter[int]()
    for value, source in zip(values, sources, strict=True):
        read[id(source[0]) if source else 0] += jnp.size(value)
    for value, source, own in zip(values, sources, flags, strict=True):
        array, start = source or (value, (0,) * sum(own))
        if source is not None and MORE * read[id(array)] < array.size:
            array, start = value, (0,) * sum(own)
        if id(array) not in places:
            places[id(array)] = len(arrays)
            arrays.append(array)
        windows.append(Window(places[id(array)], own, tuple(start)))
    return _evaluated(_Task(rule, tuple(windows), shape), arrays, list(values))


@dataclass(frozen=True, eq=False)
class _Task:
    """A long rule of values that lie so in arrays."""

    rule: LongRule
    windows: tuple[Window, ...]
    shape: tuple[int, ...]

    @property
    def flags(self) -> tuple[Flags, ...]:
        """The axes that values have."""
        return tuple(one.flags for one in self.windows)

    def evaluate(self, arrays: Sequence[Any]) -> list[jax.Array]:
        """The results, of the arrays."""
        return _evaluated(self, list(arrays), [one.of(arrays, self.shape) for one in self.windows])


def _in_one_loop(task: _Task, arrays: list[Any], values: list[Any]) -> list[Any]:
    """The results, by generated code where that is of use, from the arrays."""
    loops, closed = _loops(), task.rule.closed
    if len(closed.out_avals) < 2 or loops is None or not loops.serves(closed, arrays, task.shape):
        return _plainly(task, arrays, values)
    return loops.evaluate_points(closed, arrays, task.windows, task.shape)


def _plainly(task: _Task, arrays: list[Any], values: list[Any]) -> list[Any]:
    """The results, from the values."""
    return vectorise_function(jex.jaxpr_as_fun(_shared(task.rule)), values, task.flags, task.shape)


@cache
def _loops() -> Any:
    """The module that generates loops, where LLVM is there to compile them: it takes a third of a second to load."""
    return import_module(".native._points", __package__) if find_spec("llvmlite") is not None else None


_evaluated = own_derivative(_plainly, open=True, compiled=_in_one_loop)


def _push(task: _Task, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    """Derivatives are by the values; what the arrays hold besides is not asked for."""
    (arrays, values), (_, along) = primals, tangents
    places, everywhere = tuple(k for k, tangent in enumerate(along) if moves(tangent)), (True,) * len(task.shape)
    out = _evaluated(task, arrays, values)

    def with_more(rule: LongRule, kept: Sequence[Any], flags: Sequence[Flags]) -> _Task:
        more = (whole(len(kept) + k, own) for k, own in enumerate(flags))
        return _Task(rule, (*task.windows, *more), task.shape)

    def forward(kept: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        made = with_more(task.rule.along(places), kept, [task.flags[k] for k in places])
        return made.evaluate([*kept, *given])

    def backward(kept: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        made = with_more(task.rule.back(places), kept, [everywhere for _ in cotangents])
        found = made.evaluate([*kept, *cotangents])
        return [_summed(settle(one), task.flags[k]) for k, one in zip(places, found, strict=True)]

    return out, linear_map(forward, backward, arrays, [along[k] for k in places], out)


_evaluated.defjvp(_push)


def _summed(array: jax.Array, flags: Flags) -> jax.Array:
    """An array on a box summed over the axes that are not marked."""
    if not any(flags):
        return collect(array, array.ndim)
    return array if all(flags) else jnp.sum(array, axis=tuple(k for k, here in enumerate(flags) if not here))

"""Rules at all points of a box, whose derivatives by numbers are summed over it as a CPU does that fast.

XLA adds up the entries of an array one after the other; a product with a vector of ones it computes many at a time. So
the tangent of a number is spread over the box, and cotangents there are collected by such a product.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import ad, batching, mlir

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ._by_values import by_values
from ._level import vectorise_function
from ._registry import detect_platform
from ._window import Flags

LARGE = 2**12
"""Points of a box from which on it matters how a sum over them is computed."""
SHORT, ROW = 2**4, 2**10
"""Entries on a last axis that are too few to be multiplied by ones at a time, and how many are then."""
PARTS = 4, 2
"""Parts of a box of one axis, and of several, that are added to each other first; XLA fuses no more of them."""


@dataclass(frozen=True, eq=False)
class _Rule:
    """A scalar function of several values at all points of a box; flags[i] marks the axes that values[i] has."""

    function: Callable[..., Any]
    flags: tuple[Flags, ...]
    shape: tuple[int, ...]

    def is_number(self, place: int, value: Any) -> bool:
        """Whether a value is one real number for the whole box."""
        real = jnp.issubdtype(jnp.result_type(value), jnp.floating)
        return real and jnp.ndim(value) == 0 and not any(self.flags[place])


def at_points(
    function: Callable[..., Any], values: Sequence[Any], flags: Sequence[Flags], shape: tuple[int, ...]
) -> Any:
    """A scalar function of several values at all points of a box, which holds no tracers itself."""
    rule = _Rule(function, tuple(flags), shape)
    numbers = any(rule.is_number(k, value) for k, value in enumerate(values))
    if numbers and prod(shape) >= LARGE and detect_platform() == "cpu":
        return _evaluated(rule, list(values))
    return vectorise_function(function, values, flags, shape)


@partial(own_derivative, open=True)
def _evaluated(rule: _Rule, values: list[Any]) -> Any:
    return vectorise_function(rule.function, values, rule.flags, rule.shape)


def _push(rule: _Rule, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (values,), (along,) = primals, tangents
    moving = [k for k, tangent in enumerate(along) if moves(tangent)]
    everywhere = (True,) * len(rule.shape)
    numbers = [rule.is_number(k, values[k]) for k in moving]
    given = [spread(along[k], rule.shape) if here else along[k] for k, here in zip(moving, numbers, strict=True)]
    flags = [everywhere if here else rule.flags[k] for k, here in zip(moving, numbers, strict=True)]

    def both(*inputs: Any) -> tuple[Any, Any]:
        own, directions = inputs[: len(values)], inputs[len(values) :]

        def run(*some: Any) -> Any:
            return rule.function(*replaced(own, moving, some))

        return jax.jvp(run, tuple(own[k] for k in moving), directions)

    return vectorise_function(both, [*values, *given], [*rule.flags, *flags], rule.shape)


_evaluated.defjvp(_push)

_spread = jex.Primitive("fdsolve_spread")
_collect = jex.Primitive("fdsolve_collect")


def spread(number: Any, shape: tuple[int, ...]) -> jax.Array:
    """The number at all points of a box; axes before are those of the box before."""
    return _spread.bind(jnp.asarray(number), shape=tuple(shape))


def collect(array: jax.Array, ndim: int) -> jax.Array:
    """The sum of an array over its last axes, so many."""
    return _collect.bind(array, ndim=ndim)


def _run_spread(number: jax.Array, *, shape: tuple[int, ...]) -> jax.Array:
    return lax.broadcast_in_dim(number, (*number.shape, *shape), range(number.ndim))


def _run_collect(array: jax.Array, *, ndim: int) -> jax.Array:
    return jnp.sum(array, axis=tuple(range(array.ndim - ndim, array.ndim)))


def _collect_on_cpu(array: jax.Array, *, ndim: int) -> jax.Array:
    """Parts of the array are added up before, in the loop that computes them: less is written, and read again."""
    at = array.ndim - ndim
    size, length = prod(array.shape[at:]), array.shape[at]
    if size < LARGE or not jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.itemsize < 4:
        return _run_collect(array, ndim=ndim)
    parts = PARTS[min(ndim, 2) - 1] if length >= SHORT else 1
    step = length // parts
    total, *others = (lax.slice_in_dim(array, k * step, (k + 1) * step, axis=at) for k in range(parts))
    for one in others:
        total = total + one
    rest = lax.slice_in_dim(array, parts * step, length, axis=at)
    return _times_ones(total, ndim) + _times_ones(rest, ndim) if rest.size else _times_ones(total, ndim)


def _times_ones(array: jax.Array, ndim: int) -> jax.Array:
    lead, last = array.shape[: array.ndim - ndim], array.shape[-1]
    size = prod(array.shape[len(lead) :])
    row = last if ndim > 1 and last >= SHORT else ROW
    flat, whole = array.reshape(*lead, size), size // row * row
    rows = flat[..., :whole].reshape(*lead, size // row, row)
    sums = jnp.matmul(rows, jnp.ones(row, array.dtype), precision=lax.Precision.HIGHEST)
    return jnp.sum(sums, axis=-1) + jnp.sum(flat[..., whole:], axis=-1)


def _define(primitive: Any, run: Any, transpose: Any) -> None:
    def shapes(aval: Any, **parameters: Any) -> Any:
        like = jax.ShapeDtypeStruct(aval.shape, aval.dtype)
        out = jax.eval_shape(lambda array: run(array, **parameters), like)
        return ShapedArray(out.shape, out.dtype)

    def batch(given: Any, places: Any, **parameters: Any) -> tuple[Any, int]:
        return primitive.bind(jnp.moveaxis(given[0], places[0], 0), **parameters), 0

    primitive.def_impl(by_values(run))
    primitive.def_abstract_eval(shapes)
    ad.deflinear2(primitive, transpose)
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=False))


def _spread_transpose(cotangent: Any, number: Any, *, shape: tuple[int, ...]) -> list[Any]:
    return [collect(cotangent, len(shape))]


def _collect_transpose(cotangent: Any, array: Any, *, ndim: int) -> list[Any]:
    shape = array.aval.shape
    return [_spread.bind(cotangent, shape=shape[len(shape) - ndim :])]


_define(_spread, _run_spread, _spread_transpose)
_define(_collect, _run_collect, _collect_transpose)
mlir.register_lowering(_collect, mlir.lower_fun(_collect_on_cpu, multiple_results=False), platform="cpu")

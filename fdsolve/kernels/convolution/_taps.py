"""Convolution as a sum over the points of its window (or of its result), each one product of strided slices."""

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._registry import register
from ._bilinear import bilinear
from ._call import ConvCall

_UNROLL = 32  # points; more of them run as a loop, so that programs stay short
_FEW_FEATURES = 16  # features in times features out, up to which products are elementwise and fuse


@register("conv", backend="taps", priority=100)
@bilinear("taps")
def taps(call: ConvCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Strided slices, weighed and summed over the taps: every dtype, rank and argument."""
    zero = jnp.zeros((), lhs.dtype)
    around = [(low, high, d - 1) for (low, high), d in zip(call.padding, call.lhs_dilation, strict=True)]
    values = lax.pad(lhs, zero, [(0, 0, 0)] * 3 + around)
    total = _over_window(call, values, rhs) if prod(call.window) <= prod(call.out) else _over_out(call, values, rhs)
    return lax.convert_element_type(total, jnp.dtype(call.result))


def _over_window(call: ConvCall, values: jax.Array, rhs: jax.Array) -> jax.Array:
    """Σₛ rhs[s] · values[q·stride + s·dilation]: few taps, many points."""
    weights = rhs.reshape(*rhs.shape[:3], -1)
    span = tuple((n - 1) * s + 1 for n, s in zip(call.out, call.strides, strict=True))
    starts = _points(call.window) * np.asarray(call.rhs_dilation, np.int32)
    contract = _elementwise if call.features_in * call.features_out <= _FEW_FEATURES else _contract_features

    def term(number: Any, start: Any) -> jax.Array:
        part = _cut(values, start, span, call.strides)
        weight = lax.dynamic_index_in_dim(weights, number, 3, keepdims=False)
        return contract(call, part, weight)

    return _sum_terms(term, starts, jnp.zeros(call.out_shape, call.accumulator))


def _over_out(call: ConvCall, values: jax.Array, rhs: jax.Array) -> jax.Array:
    """One contraction over the window for each point of the result: few points, many taps, as in a transpose."""
    span = tuple((n - 1) * d + 1 for n, d in zip(call.window, call.rhs_dilation, strict=True))
    starts = _points(call.out) * np.asarray(call.strides, np.int32)
    summed = tuple(range(2, 3 + call.rank))

    def one(start: Any) -> jax.Array:
        part = _cut(values, start, span, call.rhs_dilation)
        return lax.dot_general(
            part,
            rhs,
            ((summed, summed), ((0,), (0,))),
            precision=call.dot_precision,
            preferred_element_type=call.accumulator,
        )

    if len(starts) <= _UNROLL:
        found = jnp.stack([one(start) for start in starts], -1)
    else:
        found = jnp.moveaxis(lax.map(one, jnp.asarray(starts)), 0, -1)
    return found.reshape(call.out_shape)


def _points(extents: tuple[int, ...]) -> np.ndarray:
    """The indices of a box, one row a point."""
    return np.indices(extents, np.int32).reshape(len(extents), prod(extents)).T


def _cut(values: jax.Array, start: Any, span: tuple[int, ...], strides: tuple[int, ...]) -> jax.Array:
    """Every `strides`-th point of a box of the spatial axes, of `span` points; the start may be traced."""
    lead = values.shape[:3]
    if isinstance(start, np.ndarray):
        low = [0, 0, 0, *(int(a) for a in start)]
        stop = [a + n for a, n in zip(low, (*lead, *span), strict=True)]
        return lax.slice(values, low, stop, (1, 1, 1, *strides))
    zero = jnp.zeros((), start.dtype)
    box = lax.dynamic_slice(values, [zero, zero, zero, *start], (*lead, *span))
    return lax.slice(box, [0] * box.ndim, box.shape, (1, 1, 1, *strides))


def _sum_terms(term: Callable[[Any, Any], jax.Array], starts: np.ndarray, total: jax.Array) -> jax.Array:
    """The sum of `term(number, start)`: written out, and as a loop of such blocks where there are many."""
    loops = len(starts) // _UNROLL if len(starts) > _UNROLL else 0
    if loops:
        table = jnp.asarray(starts)

        def block(turn: jax.Array, total: jax.Array) -> jax.Array:
            for k in range(_UNROLL):
                number = turn * _UNROLL + k
                total = total + term(number, lax.dynamic_index_in_dim(table, number, 0, keepdims=False))
            return total

        total = lax.fori_loop(0, loops, block, total)
    for number in range(loops * _UNROLL, len(starts)):
        total = total + term(number, starts[number])
    return total


def _elementwise(call: ConvCall, part: jax.Array, weight: jax.Array) -> jax.Array:
    """Σ꜀ weight[g, o, c] · part[g, n, c, …], written out over the features: fuses with the slices."""
    part, weight = (lax.convert_element_type(x, call.accumulator) for x in (part, weight))
    total = None
    for feature in range(call.features_in):
        scale = weight[:, None, :, feature].reshape(call.groups, 1, call.features_out, *(1,) * call.rank)
        product = part[:, :, feature : feature + 1] * scale
        total = product if total is None else total + product
    assert total is not None
    return total


def _contract_features(call: ConvCall, part: jax.Array, weight: jax.Array) -> jax.Array:
    """Σ꜀ weight[g, o, c] · part[g, n, c, …] as a matrix product."""
    found = lax.dot_general(
        part,
        weight,
        (((2,), (2,)), ((0,), (0,))),
        precision=call.dot_precision,
        preferred_element_type=call.accumulator,
    )
    return jnp.moveaxis(found, -1, 2)

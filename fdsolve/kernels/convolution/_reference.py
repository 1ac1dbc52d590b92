"""Convolution by its definition, in plain NumPy: the judge."""

from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from .._registry import register
from ._bilinear import bilinear
from ._call import ConvCall


@register("conv", platform="cpu", backend="reference", priority=-100)
@bilinear("reference")
def reference(call: ConvCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Every point of the result, every tap, one after another, by NumPy outside the program: slow, the judge."""
    shape = jax.ShapeDtypeStruct(call.out_shape, jnp.dtype(call.result))
    return jax.pure_callback(lambda a, b: convolve_plainly(call, np.asarray(a), np.asarray(b)), shape, lhs, rhs)


def convolve_plainly(call: ConvCall, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The sum of the definition, point by point and tap by tap.

    Arguments: lhs (groups, batch, features_in, *size); rhs (groups, features_out, features_in, *window).
    """
    accumulator = np.dtype(call.accumulator)
    total = np.zeros(call.out_shape, accumulator)
    for point in np.ndindex(*call.out):
        for tap in np.ndindex(*call.window):
            place = _source(call, point, tap)
            if place is None:
                continue
            values = lhs[(slice(None), slice(None), slice(None), *place)].astype(accumulator)
            weights = rhs[(slice(None), slice(None), slice(None), *tap)].astype(accumulator)
            total[(slice(None), slice(None), slice(None), *point)] += np.einsum("gnc,goc->gno", values, weights)
    assert prod(total.shape) == prod(call.out_shape)
    return total.astype(jnp.dtype(call.result))


def _source(call: ConvCall, point: tuple[int, ...], tap: tuple[int, ...]) -> tuple[int, ...] | None:
    """Which point of lhs a tap reads; None for a zero between or around its points."""
    found = []
    for axis in range(call.rank):
        place = point[axis] * call.strides[axis] + tap[axis] * call.rhs_dilation[axis] - call.padding[axis][0]
        index, between = divmod(place, call.lhs_dilation[axis])
        if between or not 0 <= index < call.size[axis]:
            return None
        found.append(index)
    return tuple(found)

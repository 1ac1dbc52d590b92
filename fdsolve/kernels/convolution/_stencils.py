"""Constant stencils as convolutions of one channel."""

import jax
import jax.numpy as jnp

from .._registry import platform_of, register
from .._stencil_call import StencilCall
from ._conv import conv
from ._lax import sound_dtypes


def _serves_conv(call: StencilCall) -> str | None:
    sound, dtype = sound_dtypes(platform_of(call)), jnp.dtype(call.dtype).name
    if dtype not in sound:
        return f"XLA's convolution is relied on for {', '.join(sound)} here, and this is {dtype}"
    return None if 1 <= call.rank <= 3 else f"serves 1 to 3 axes, and this has {call.rank}"


def _serves_gemm(call: StencilCall) -> str | None:
    axes = [axis for axis in range(call.rank) if call.lower[axis] + call.upper[axis]]
    if call.rank and len(axes) <= 1:
        return None
    return f"serves stencils along one axis, and this one reaches along {len(axes)}"


@register("stencil", backend="conv", priority=20, serves=_serves_conv)
def convolve_stencil(call: StencilCall, values: jax.Array, weights: jax.Array) -> jax.Array:
    """XLA's convolution of one channel: float32 on CPUs, where fused slices are several times faster."""
    return _run(call, values, weights, "lax")


@register("stencil", backend="gemm", priority=30, serves=_serves_gemm)
def multiply_stencil(call: StencilCall, values: jax.Array, weights: jax.Array) -> jax.Array:
    """Banded matrices along one axis, in tiles: for long windows."""
    return _run(call, values, weights, "gemm")


def _run(call: StencilCall, values: jax.Array, weights: jax.Array, kernel: str) -> jax.Array:
    """The stencil's weights as a window, and its convolution by a kernel of the operation "conv"."""
    window = tuple(a + b + 1 for a, b in zip(call.lower, call.upper, strict=True))
    places = jnp.asarray(call.offsets) + jnp.asarray(call.lower)
    dense = jnp.zeros(window, weights.dtype).at[tuple(places.T)].add(weights)
    out = conv(values[None, None], dense[None, None], (1,) * call.rank, "VALID", kernel=kernel)
    return out[0, 0]

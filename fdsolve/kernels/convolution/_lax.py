"""Convolution as XLA's own, where that is known to be sound."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from .._registry import platform_of, register
from ._bilinear import bilinear
from ._call import ConvCall

_SOUND = {"cpu": ("float32", "complex64")}
_ANYWHERE = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def sound_dtypes(platform: str) -> tuple[str, ...]:
    """The dtypes whose convolutions may reach XLA on a platform."""
    return _SOUND.get(platform, _ANYWHERE)


def _serves(call: ConvCall) -> str | None:
    """XLA:CPU crashes on some float64 and complex convolutions (jaxlib 0.8 to 0.10): only float32 ones reach it."""
    sound = sound_dtypes(platform_of(call))
    if call.dtype not in sound:
        return f"XLA's convolution is relied on for {', '.join(sound)} here, and this is {call.dtype}"
    return None if call.rank <= 3 else f"serves up to 3 axes, and this has {call.rank}"


def _rank(call: ConvCall) -> int:
    """Before `taps` where features are contracted: one channel fuses better as slices."""
    return 150 if call.features_in * call.features_out > 16 else 50


@register("conv", backend="lax", priority=_rank, serves=_serves)
@bilinear("lax")
def convolve(call: ConvCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """`lax.conv_general_dilated`; complex numbers as real convolutions, of which each component keeps its digits."""
    if not call.is_complex:
        return _grouped(call, lhs, rhs, call.result)
    real = jnp.finfo(call.result).dtype.name
    return multiply_complex(lambda a, b: _grouped(call, a, b, real), lhs, rhs)


def multiply_complex(product: Callable[[jax.Array, jax.Array], jax.Array], lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """A bilinear map of complex numbers by that of real ones: two products where one operand is real, else four.

    Three would do (Gauss), but lose what is small in one component beside what is large in the other.
    """
    if not jnp.iscomplexobj(rhs):
        return lax.complex(product(lax.real(lhs), rhs), product(lax.imag(lhs), rhs))
    if not jnp.iscomplexobj(lhs):
        return lax.complex(product(lhs, lax.real(rhs)), product(lhs, lax.imag(rhs)))
    (a, b), (c, d) = (lax.real(lhs), lax.imag(lhs)), (lax.real(rhs), lax.imag(rhs))
    return lax.complex(product(a, c) - product(b, d), product(a, d) + product(b, c))


def _grouped(call: ConvCall, lhs: jax.Array, rhs: jax.Array, result: str) -> jax.Array:
    """XLA's convolution of real operands, the groups as groups of features."""
    values = jnp.swapaxes(lhs, 0, 1).reshape(call.batch, call.groups * call.features_in, *call.size)
    kernel = rhs.reshape(call.groups * call.features_out, call.features_in, *call.window)
    out = lax.conv_general_dilated(
        values,
        kernel,
        call.strides,
        call.padding,
        call.lhs_dilation,
        call.rhs_dilation,
        feature_group_count=call.groups,
        precision=call.dot_precision,
        preferred_element_type=jnp.dtype(result),
    )
    return jnp.swapaxes(out.reshape(call.batch, call.groups, call.features_out, *call.out), 0, 1)

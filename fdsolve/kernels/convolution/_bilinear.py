"""Convolution as one bilinear primitive: its transposes and batches are convolutions again, served by the registry.

So no kernel is differentiated by JAX: a kernel gives the forward sum, and its derivatives reach only kernels that
serve them (a float32 convolution of XLA never becomes a float64 one, a tiled loop keeps nothing for going back).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching, mlir

from .._registry import get
from .._selection import candidates, none_left, refusal_of
from ._call import ConvCall

Forward = Callable[[ConvCall, jax.Array, jax.Array], jax.Array]

_conv = jex.Primitive("fdsolve_conv")


def bilinear(backend: str) -> Callable[[Forward], Forward]:
    """Makes a forward sum a kernel called `backend`, with the derivatives and batches of a convolution."""

    def decorate(forward: Forward) -> Forward:
        @wraps(forward)
        def kernel(call: ConvCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
            return _conv.bind(lhs, rhs, call=call, forward=forward, backend=backend)

        return kernel

    return decorate


def dispatch_like(backend: str, call: ConvCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """A convolution by the kernel that ran the one it derives from, where it serves, else by the best that does."""
    kernel = get("conv", backend)
    if refusal_of(kernel, call) is not None:
        serving, refused = candidates(call)
        if not serving:
            raise none_left("conv", refused)
        kernel = serving[0]
    return kernel(call, lhs, rhs)


def _run(lhs: jax.Array, rhs: jax.Array, *, call: ConvCall, forward: Forward, backend: str) -> jax.Array:
    if call.is_empty:
        return jnp.zeros(call.out_shape, call.result)
    return forward(call, lhs, rhs)


def _shape(lhs: Any, rhs: Any, *, call: ConvCall, forward: Forward, backend: str) -> Any:
    assert lhs.shape == call.lhs_shape and rhs.shape == call.rhs_shape, (lhs.shape, rhs.shape, call)
    assert lhs.dtype == rhs.dtype == jnp.dtype(call.dtype), (lhs.dtype, rhs.dtype, call)
    return lhs.update(shape=call.out_shape, dtype=jnp.dtype(call.result), weak_type=False)


def _jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
    out = _conv.bind(*primals, **parameters)
    terms = []
    for place, tangent in enumerate(tangents):
        if not isinstance(tangent, ad.Zero):
            terms.append(_conv.bind(*(tangent if i == place else p for i, p in enumerate(primals)), **parameters))
    return out, terms[0] if len(terms) == 1 else lax.add(*terms)


def _transpose(
    cotangent: Any, lhs: Any, rhs: Any, *, call: ConvCall, forward: Forward, backend: str
) -> tuple[Any, Any]:
    if ad.is_undefined_primal(lhs):
        if isinstance(cotangent, ad.Zero):
            return ad.Zero(lhs.aval), None
        kernel = lax.rev(jnp.swapaxes(rhs, 1, 2), tuple(range(3, rhs.ndim)))
        return _derived(backend, call.to_lhs(), cotangent, kernel, call.lhs_shape, call.dtype), None
    if isinstance(cotangent, ad.Zero):
        return None, ad.Zero(rhs.aval)
    shape = (call.groups, call.features_in, call.features_out, *call.window)
    values, window = jnp.swapaxes(lhs, 1, 2), jnp.swapaxes(cotangent, 1, 2)
    return None, jnp.swapaxes(_derived(backend, call.to_rhs(), values, window, shape, call.dtype), 1, 2)


def _derived(backend: str, call: ConvCall, lhs: Any, rhs: Any, shape: tuple[int, ...], dtype: str) -> jax.Array:
    """A transpose: summed in the dtype of the result, given in that of the operand."""
    if call.is_empty:
        return jnp.zeros(shape, dtype)
    wide = [lax.convert_element_type(x, jnp.dtype(call.dtype)) for x in (lhs, rhs)]
    return lax.convert_element_type(dispatch_like(backend, call, *wide), jnp.dtype(dtype))


def _batch(arguments: Any, dims: Any, *, call: ConvCall, forward: Forward, backend: str) -> tuple[jax.Array, int]:
    """A batch of both operands is more groups, of lhs more of its batch, of rhs more features of the result."""
    lhs, rhs = arguments
    lhs_dim, rhs_dim = dims
    if lhs_dim is not None and rhs_dim is not None:
        lhs, rhs = jnp.moveaxis(lhs, lhs_dim, 0), jnp.moveaxis(rhs, rhs_dim, 0)
        more, place, wider = lhs.shape[0], 0, replace(call, groups=call.groups * lhs.shape[0])
    elif lhs_dim is not None:
        lhs = jnp.moveaxis(lhs, lhs_dim, 1)
        more, place, wider = lhs.shape[1], 1, replace(call, batch=call.batch * lhs.shape[1])
    else:
        assert rhs_dim is not None
        rhs = jnp.moveaxis(rhs, rhs_dim, 1)
        more, place, wider = rhs.shape[1], 2, replace(call, features_out=call.features_out * rhs.shape[1])
    out = dispatch_like(backend, wider, lhs.reshape(wider.lhs_shape), rhs.reshape(wider.rhs_shape))
    return out.reshape(*call.out_shape[:place], more, *call.out_shape[place:]), place


_conv.def_impl(jax.jit(_run, static_argnames=("call", "forward", "backend")))
_conv.def_abstract_eval(_shape)
ad.primitive_jvps[_conv] = _jvp
ad.primitive_transposes[_conv] = _transpose
batching.primitive_batchers[_conv] = _batch
mlir.register_lowering(_conv, mlir.lower_fun(_run, multiple_results=False))

"""Arrays to be filled. On Linux they lie in large pages: thousands of small ones, fresh at every call of a program,
take longer than what is computed in them."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import batching, mlir

from .._by_values import by_values

LARGE, PAGE = 2**24, 4096
"""Bytes of all arrays together from which on large pages are asked for; those of a small page."""

_fresh = jex.Primitive("fdsolve_fresh")
_fresh.multiple_results = True


def fresh_arrays(like: Sequence[Any], after: Any, *, blank: bool = False, beside: int = 0) -> list[jax.Array]:
    """Arrays of these shapes and dtypes, `blank` ones of zeros; entries of others mean nothing until they are written.

    They are made after the array `after` is, and so in a loop at every turn of it. They count as constant. So many
    bytes `beside` them are asked for too, in which arrays that are needed later may lie.
    """
    shapes = tuple((tuple(one.shape), np.dtype(one.dtype)) for one in like)
    if not shapes:
        return []
    return _fresh.bind(lax.stop_gradient(jnp.asarray(after)), shapes=shapes, blank=blank, beside=beside)


def _zeros(after: Any, *, shapes: Any, **others: Any) -> list[jax.Array]:
    return [jnp.zeros(shape, dtype) for shape, dtype in shapes]


def _on_cpu(after: Any, *, shapes: Any, blank: bool, beside: int) -> list[jax.Array]:
    sizes = [prod(shape) * dtype.itemsize for shape, dtype in shapes]
    target = _target() if sum(sizes) >= LARGE else None
    if target is None:
        return _zeros(after, shapes=shapes)
    found, _ = _ask(target, shapes, after[(0,) * after.ndim], beside)
    return [_blanked(one) for one in found] if blank else found


def fresh_before(
    like: Sequence[Any], after: jax.Array, held: Sequence[jax.Array], beside: int
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Arrays of these shapes and dtypes in large pages, whatever they may hold, and the arrays `held`, of which none is
    made before: so that these lie in the `beside` bytes, if nothing computed them yet. For code on CPUs.
    """
    target, shapes = _target(), [(tuple(one.shape), np.dtype(one.dtype)) for one in like]
    assert target is not None
    found, made = _ask(target, shapes, after[(0,) * after.ndim], beside)
    return found, [jnp.where(made, one, jnp.zeros_like(one)) for one in held]


def _ask(target: str, shapes: Sequence[Any], after: Any, beside: int) -> tuple[list[jax.Array], jax.Array]:
    """The arrays, and true, which is known when they are there."""
    shapes = [*shapes, ((beside,), np.dtype(np.uint8)), ((), np.dtype(bool))]
    pages = jnp.asarray([prod(shape) * dtype.itemsize // PAGE for shape, dtype in shapes], jnp.int32)
    *found, _, made = jax.ffi.ffi_call(target, [jax.ShapeDtypeStruct(*one) for one in shapes])(pages, after)
    return found, made


def _blanked(array: jax.Array) -> jax.Array:
    """Zeros in the same memory: put in two parts, since what is put over all of an array XLA takes instead of it."""
    if not array.ndim or array.shape[0] < 2:
        return jnp.zeros_like(array)
    start = (0,) * array.ndim
    most = lax.dynamic_update_slice(array, jnp.zeros((array.shape[0] - 1, *array.shape[1:]), array.dtype), start)
    last = jnp.zeros((1, *array.shape[1:]), array.dtype)
    return lax.dynamic_update_slice(most, last, (array.shape[0] - 1, *start[1:]))


@cache
def _target() -> str | None:
    """The custom call that asks for large pages; None where no code is generated."""
    if find_spec("llvmlite") is None:
        return None
    return import_module("._pages", __package__).register_pages()


def _shapes(after: Any, *, shapes: Any, **others: Any) -> list[Any]:
    return [ShapedArray(shape, dtype) for shape, dtype in shapes]


def _batch(arguments: Any, dims: Any, *, shapes: Any, beside: int, blank: bool) -> tuple[list[jax.Array], list[int]]:
    (after,), (dim,) = arguments, dims
    size = after.shape[dim]
    shapes = tuple(((size, *shape), dtype) for shape, dtype in shapes)
    found = _fresh.bind(jnp.moveaxis(after, dim, 0), shapes=shapes, blank=blank, beside=size * beside)
    return found, [0] * len(found)


_fresh.def_impl(by_values(_zeros))
_fresh.def_abstract_eval(_shapes)
batching.primitive_batchers[_fresh] = _batch
mlir.register_lowering(_fresh, mlir.lower_fun(_zeros, multiple_results=True))
mlir.register_lowering(_fresh, mlir.lower_fun(_on_cpu, multiple_results=True), platform="cpu")

"""Many boxes of one array, there and back: cut out, and put together, each the other's transpose.

Plain slices of an array transpose to zero-padded arrays of its full size, one a slice, and a chain of updates to one
more copy a link, so that a gradient would cost regions × array. These two cost the boxes' own entries, both ways.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching, mlir

from ..region import Box

_cut = jex.Primitive("fdsolve_cut")
_cut.multiple_results = True
_join = jex.Primitive("fdsolve_join")


def cut_boxes(array: jax.Array, boxes: Sequence[Box]) -> list[jax.Array]:
    """The entries of each box, which may overlap; axes after those of the boxes are kept whole."""
    return _cut.bind(array, boxes=tuple(boxes), lead=0)


def join_boxes(values: Sequence[jax.Array], boxes: Sequence[Box], shape: tuple[int, ...]) -> jax.Array:
    """An array of zeros with the values added on the boxes; axes after those of the boxes are kept whole."""
    return _join.bind(*values, boxes=tuple(boxes), shape=tuple(shape), lead=0)


def _window(box: Box, shape: tuple[int, ...], lead: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start and stop of a box among the axes of an array, of which `lead` come before the box's own."""
    last = shape[lead + box.ndim :]
    return (0,) * lead + box.start + (0,) * len(last), shape[:lead] + box.stop + last


def _run_cut(array: jax.Array, *, boxes: tuple[Box, ...], lead: int) -> list[jax.Array]:
    return [lax.slice(array, *_window(box, array.shape, lead)) for box in boxes]


def _run_join(*values: jax.Array, boxes: tuple[Box, ...], shape: tuple[int, ...], lead: int) -> jax.Array:
    total = jnp.zeros(shape, values[0].dtype)
    done: list[Box] = []
    for value, box in zip(values, boxes, strict=True):
        start, stop = _window(box, shape, lead)
        if any(not box.intersect(other).empty for other in done):
            value = value + lax.slice(total, start, stop)
        total = lax.dynamic_update_slice(total, value, start)
        done.append(box)
    return total


def _cut_transpose(cotangents: Any, array: Any, *, boxes: tuple[Box, ...], lead: int) -> list[Any]:
    given = [(ct, box) for ct, box in zip(cotangents, boxes, strict=True) if not isinstance(ct, ad.Zero)]
    if not given:
        return [ad.Zero(array.aval)]
    shape = array.aval.shape
    return [_join.bind(*(ct for ct, _ in given), boxes=tuple(box for _, box in given), shape=shape, lead=lead)]


def _join_transpose(
    cotangent: Any, *values: Any, boxes: tuple[Box, ...], shape: tuple[int, ...], lead: int
) -> list[Any]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(v.aval) if ad.is_undefined_primal(v) else None for v in values]
    found = _cut.bind(cotangent, boxes=boxes, lead=lead)
    return [ct if ad.is_undefined_primal(v) else None for ct, v in zip(found, values, strict=True)]


def _cut_jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
    return _cut.bind(*primals, **parameters), _cut.bind(*map(ad.instantiate_zeros, tangents), **parameters)


def _join_jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
    return _join.bind(*primals, **parameters), _join.bind(*map(ad.instantiate_zeros, tangents), **parameters)


def _cut_batch(arguments: Any, dims: Any, *, boxes: tuple[Box, ...], lead: int) -> tuple[Any, Any]:
    array = jnp.moveaxis(arguments[0], dims[0], 0)
    return _cut.bind(array, boxes=boxes, lead=lead + 1), [0] * len(boxes)


def _join_batch(
    arguments: Any, dims: Any, *, boxes: tuple[Box, ...], shape: tuple[int, ...], lead: int
) -> tuple[Any, int]:
    pairs = list(zip(arguments, dims, strict=True))
    size = next(value.shape[dim] for value, dim in pairs if dim is not None)
    moved = [
        jnp.broadcast_to(value, (size, *value.shape)) if dim is None else jnp.moveaxis(value, dim, 0)
        for value, dim in pairs
    ]
    return _join.bind(*moved, boxes=boxes, shape=(size, *shape), lead=lead + 1), 0


def _define(primitive: Any, run: Any, jvp: Any, transpose: Any, batch: Any) -> None:
    def shapes(*avals: Any, **parameters: Any) -> Any:
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        out = jax.eval_shape(lambda *arrays: run(*arrays, **parameters), *specs)
        make = avals[0].update
        if isinstance(out, list):
            return [make(shape=o.shape, dtype=o.dtype, weak_type=False) for o in out]
        return make(shape=out.shape, dtype=out.dtype, weak_type=False)

    primitive.def_impl(lambda *arrays, **parameters: jax.jit(lambda *given: run(*given, **parameters))(*arrays))
    primitive.def_abstract_eval(shapes)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=primitive.multiple_results))


_define(_cut, _run_cut, _cut_jvp, _cut_transpose, _cut_batch)
_define(_join, _run_join, _join_jvp, _join_transpose, _join_batch)

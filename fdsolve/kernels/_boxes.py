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
from ._box_sums import join_in_one_loop, join_on_cpu, window_of
from ._by_values import by_values

_cut = jex.Primitive("fdsolve_cut")
_cut.multiple_results = True
_join = jex.Primitive("fdsolve_join")
_put = jex.Primitive("fdsolve_put")
_part = jex.Primitive("fdsolve_part")
_part.multiple_results = True


def cut_boxes(array: jax.Array, boxes: Sequence[Box], nested: bool = False, weighed: bool = False) -> list[jax.Array]:
    """The entries of each box, which may overlap; axes after those of the boxes are kept whole.

    `nested`: the array was itself cut out, so that its cotangent is added to that of another. `weighed`: its entries
    are multiplied by other arrays, and by nothing that depends on them.
    """
    return _cut.bind(array, boxes=tuple(boxes), lead=0, nested=nested, weighed=weighed)


def join_boxes(values: Sequence[jax.Array], boxes: Sequence[Box], shape: tuple[int, ...]) -> jax.Array:
    """An array of zeros with the values added on the boxes; axes after those of the boxes are kept whole."""
    return _join.bind(*values, boxes=tuple(boxes), shape=tuple(shape), lead=0, nested=False, weighed=False)


def put_boxes(array: jax.Array, values: Sequence[jax.Array], boxes: Sequence[Box]) -> jax.Array:
    """The array with the values on the boxes, no two of which have points in common."""
    return _put.bind(array, *values, boxes=tuple(boxes), lead=0)


def _run_cut(
    array: jax.Array, *, boxes: tuple[Box, ...], lead: int, nested: bool = False, weighed: bool = False
) -> list[jax.Array]:
    return [lax.slice(array, *window_of(box, array.shape, lead)) for box in boxes]


def _run_put(array: jax.Array, *values: jax.Array, boxes: tuple[Box, ...], lead: int) -> jax.Array:
    for value, box in zip(values, boxes, strict=True):
        array = lax.dynamic_update_slice(array, value, window_of(box, array.shape, lead)[0])
    return array


def _run_part(array: jax.Array, *, boxes: tuple[Box, ...], lead: int) -> list[jax.Array]:
    """The array with zeros on the boxes, and what stood there; that is taken out first, so that nothing is copied."""
    array, parts = lax.optimization_barrier((array, _run_cut(array, boxes=boxes, lead=lead)))
    return [_run_put(array, *map(jnp.zeros_like, parts), boxes=boxes, lead=lead), *parts]


def _put_transpose(cotangent: Any, *given: Any, **parameters: Any) -> list[Any]:
    moves = [ad.is_undefined_primal(one) for one in given]
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(one.aval) if moved else None for one, moved in zip(given, moves, strict=True)]
    found = (
        _part.bind(cotangent, **parameters)
        if moves[0]
        else [None, *_cut.bind(cotangent, nested=False, weighed=False, **parameters)]
    )
    return [one if moved else None for one, moved in zip(found, moves, strict=True)]


def _part_transpose(cotangents: Any, array: Any, **parameters: Any) -> list[Any]:
    return [_put.bind(*map(ad.instantiate_zeros, cotangents), **parameters)]


def _cut_transpose(cotangents: Any, array: Any, *, boxes: tuple[Box, ...], **others: Any) -> list[Any]:
    given = [(ct, box) for ct, box in zip(cotangents, boxes, strict=True) if not isinstance(ct, ad.Zero)]
    if not given:
        return [ad.Zero(array.aval)]
    shape = array.aval.shape
    return [_join.bind(*(ct for ct, _ in given), boxes=tuple(box for _, box in given), shape=shape, **others)]


def _join_transpose(
    cotangent: Any, *values: Any, boxes: tuple[Box, ...], shape: tuple[int, ...], **others: Any
) -> list[Any]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(v.aval) if ad.is_undefined_primal(v) else None for v in values]
    found = _cut.bind(cotangent, boxes=boxes, **others)
    return [ct if ad.is_undefined_primal(v) else None for ct, v in zip(found, values, strict=True)]


def _cut_batch(arguments: Any, dims: Any, *, lead: int, **others: Any) -> tuple[Any, Any]:
    array = jnp.moveaxis(arguments[0], dims[0], 0)
    return _cut.bind(array, lead=lead + 1, **others), [0] * len(others["boxes"])


def _join_batch(arguments: Any, dims: Any, *, shape: tuple[int, ...], lead: int, **others: Any) -> tuple[Any, int]:
    moved = _leading(arguments, dims)
    shape = (moved[0].shape[0], *shape)
    return _join.bind(*moved, shape=shape, lead=lead + 1, **others), 0


def _put_batch(arguments: Any, dims: Any, *, boxes: tuple[Box, ...], lead: int) -> tuple[Any, int]:
    return _put.bind(*_leading(arguments, dims), boxes=boxes, lead=lead + 1), 0


def _part_batch(arguments: Any, dims: Any, *, boxes: tuple[Box, ...], lead: int) -> tuple[Any, Any]:
    array = jnp.moveaxis(arguments[0], dims[0], 0)
    return _part.bind(array, boxes=boxes, lead=lead + 1), [0] * (len(boxes) + 1)


def _leading(arguments: Any, dims: Any) -> list[jax.Array]:
    """All arguments with the batch as their first axis."""
    pairs = list(zip(arguments, dims, strict=True))
    size = next(value.shape[dim] for value, dim in pairs if dim is not None)
    return [
        jnp.broadcast_to(value, (size, *value.shape)) if dim is None else jnp.moveaxis(value, dim, 0)
        for value, dim in pairs
    ]


def _define(primitive: Any, run: Any, transpose: Any, batch: Any) -> None:
    def jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
        moved = primitive.bind(*map(ad.instantiate_zeros, tangents), **parameters)
        return primitive.bind(*primals, **parameters), moved

    def shapes(*avals: Any, **parameters: Any) -> Any:
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        out = jax.eval_shape(lambda *arrays: run(*arrays, **parameters), *specs)
        make = avals[0].update
        if isinstance(out, list):
            return [make(shape=o.shape, dtype=o.dtype, weak_type=False) for o in out]
        return make(shape=out.shape, dtype=out.dtype, weak_type=False)

    primitive.def_impl(by_values(run))
    primitive.def_abstract_eval(shapes)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=primitive.multiple_results))


_define(_cut, _run_cut, _cut_transpose, _cut_batch)
_define(_join, join_in_one_loop, _join_transpose, _join_batch)
_define(_put, _run_put, _put_transpose, _put_batch)
_define(_part, _run_part, _part_transpose, _part_batch)
mlir.register_lowering(_join, mlir.lower_fun(join_on_cpu, multiple_results=False), platform="cpu")

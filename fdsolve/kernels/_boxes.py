"""Many boxes of one array, there and back: cut out, and put together, each the other's transpose.

Plain slices of an array transpose to zero-padded arrays of its full size, one a slice, and a chain of updates to one
more copy a link, so that a gradient would cost regions × array. These two cost the boxes' own entries, both ways.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching, mlir

from ..region import Box

SMALL = 4
"""A box is small if it is at most one part in so many of its array."""
MANY = 8
"""So many boxes that are no large part of an array are added one by one; fewer in the same loop as large ones."""
SPLIT = 2**19
"""Entries of an array from which on a pass over all of them is dearer than a few more loops along its edges."""
NARROW = 32
"""Columns, of which fewer are added up beside each other."""
NEAR = 256
"""Entries that a loop may ask in vain for each of the boxes that it spares a loop of its own."""
RECENT = 32
"""Groups of boxes, the last so many of which a further box may join."""
Placed = tuple[jax.Array, Box]
"""What is added on a box."""

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


def _window(box: Box, shape: tuple[int, ...], lead: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start and stop of a box among the axes of an array, of which `lead` come before the box's own."""
    last = shape[lead + box.ndim :]
    return (0,) * lead + box.start + (0,) * len(last), shape[:lead] + box.stop + last


def _run_cut(
    array: jax.Array, *, boxes: tuple[Box, ...], lead: int, nested: bool = False, weighed: bool = False
) -> list[jax.Array]:
    return [lax.slice(array, *_window(box, array.shape, lead)) for box in boxes]


def _run_join(
    *values: jax.Array, boxes: tuple[Box, ...], shape: tuple[int, ...], lead: int, nested: bool, weighed: bool
) -> jax.Array:
    """Large boxes are summed up in one loop over all entries, and others where they are few; many are added one by one
    where they are."""
    large, small = _by_size(values, boxes, shape, lead)
    if len(small) < MANY:
        large, small = [*large, *small], []
    total = jnp.zeros(shape, values[0].dtype)
    if large:
        total = _sum_within(_of_all_axes(large, shape, lead), Box((0,) * len(shape), shape))
    return _add_each(total, small, lead)


def _join_on_cpu(
    *values: jax.Array, boxes: tuple[Box, ...], shape: tuple[int, ...], lead: int, nested: bool, weighed: bool
) -> jax.Array:
    """The same as XLA on a CPU does it best. In one loop over all entries it would ask for each of them and each box
    whether it lies within: there is no question where all large boxes do. Boxes of few columns, each row of which is
    another line of the cache, are added up beside each other before, and boxes of few entries in one loop.

    `nested`: no box of what is added to a larger array counts as large.
    """
    large, others = ([], list(zip(values, boxes, strict=True))) if nested else _by_size(values, boxes, shape, lead)
    total = _sum_of_large(_of_all_axes(large, shape, lead), shape, values[0].dtype, weighed)
    others = [_sum_near(group, lead) if len(group) > 1 else group[0] for group in _near(others)]
    groups = _columns(others, shape[lead:])
    small = [_sum_beside(group, shape, lead) if len(group) > 1 else group[0] for group in groups]
    return _add_each(total, small, lead)


def _by_size(
    values: Sequence[jax.Array], boxes: Sequence[Box], shape: tuple[int, ...], lead: int
) -> tuple[list[Placed], list[Placed]]:
    """Values on boxes that are most of the array, and the others."""
    placed, size = list(zip(values, boxes, strict=True)), prod(shape[lead:])
    large = [_is_large(value, lead, size) for value in values]
    big, rest = ([one for one, most in zip(placed, large, strict=True) if most == wanted] for wanted in (True, False))
    return big, rest


def _of_all_axes(placed: Sequence[Placed], shape: tuple[int, ...], lead: int) -> list[Placed]:
    """The same on boxes that have all axes of the array."""
    return [(value, Box(*_window(box, shape, lead))) for value, box in placed]


def _add_each(total: jax.Array, placed: Sequence[Placed], lead: int) -> jax.Array:
    """An array with values added one by one, to zeros too: XLA on a CPU computes a chain of values that are only put
    somewhere in one loop over all entries, which asks each of them for every box."""
    for value, box in placed:
        start, stop = _window(box, total.shape, lead)
        total = lax.dynamic_update_slice(total, value + lax.slice(total, start, stop), start)
    return total


def _sum_of_large(placed: Sequence[Placed], shape: tuple[int, ...], dtype: Any, weighed: bool) -> jax.Array:
    """An array of zeros with values added, in the parts of it around where all of them lie, and there. What is put into
    zeros, XLA computes in a loop over all entries that asks of each whether it is there, unless it cannot see them.
    Where every entry is put, some entry takes the place of zeros: these, an array that loops need not change, XLA would
    make once and then copy each time.

    XLA runs a loop that puts values on one core. Where they are `weighed`, so that to compute them is most of it, the
    sum where all lie is padded instead, on all cores; where they are not, the loops that read it would compute it
    again.
    """
    whole = core = Box((0,) * len(shape), shape)
    for _, box in placed:
        core = core.intersect(box)
    cut = len(placed) > 1 and 2 * core.size > whole.size
    parts = _parts_around(core, [box for _, box in placed], whole) if cut else [whole] * bool(placed)
    if cut and weighed:
        *parts, core = parts
        sides = zip(core.start, core.stop, shape, strict=True)
        total = lax.pad(_sum_within(placed, core), jnp.zeros((), dtype), [(a, n - b, 0) for a, b, n in sides])
    else:
        some = placed[0][0][(0,) * len(shape)] if cut else jnp.zeros((), dtype)
        total = jnp.broadcast_to(some, shape)
        total = lax.optimization_barrier(total) if cut else total
    for part in parts:
        total = lax.dynamic_update_slice(total, _sum_within(placed, part), part.start)
    return total


def _parts_around(core: Box, boxes: Sequence[Box], whole: Box) -> list[Box]:
    """The parts of an array: the core in which all boxes lie, and around it.

    A value on all of a large array is often one within the walls, between zeros, of which XLA would make an array where
    a part reaches over their edge: none does. The box of points' own values is that which lies as far from either end.
    """
    own = min(boxes, key=lambda box: (box == whole, _off_centre(box, whole)))
    if whole.size < SPLIT or whole not in boxes or own.intersect(core) != core:
        return [*whole.subtract(core), core]
    return [*whole.subtract(own), *own.subtract(core), core]


def _off_centre(box: Box, whole: Box) -> int:
    return sum(abs(start - (size - stop)) for start, stop, size in zip(box.start, box.stop, whole.stop, strict=True))


def _sum_within(placed: Sequence[Placed], part: Box) -> jax.Array:
    """What values add up to in a part of the array."""
    zero = jnp.zeros((), placed[0][0].dtype)
    total = None
    for value, box in placed:
        both = part.intersect(box)
        if not both.empty:
            inner = both.shift(tuple(-a for a in box.start))
            sides = zip(part.start, part.stop, both.start, both.stop, strict=True)
            around = [(low - start, stop - high, 0) for start, stop, low, high in sides]
            here = lax.pad(lax.slice(value, inner.start, inner.stop), zero, around)
            total = here if total is None else total + here
    return jnp.zeros(part.shape, zero.dtype) if total is None else total


def _near(placed: Sequence[Placed]) -> list[list[Placed]]:
    """Groups of boxes that lie so near each other that to add them up in one loop over the least box that holds them
    costs less than a loop for each; near in their order too."""
    groups: list[tuple[Box, int, list[Placed]]] = []
    for value, box in placed:
        for k in range(max(0, len(groups) - RECENT), len(groups)):
            hull, size, group = groups[k]
            hull, size, group = _hull([hull, box]), size + value.size, [*group, (value, box)]
            of_each = value.size // max(box.size, 1)
            if hull.size * of_each * len(group) - size <= NEAR * (len(group) - 1):
                groups[k] = hull, size, group
                break
        else:
            groups.append((box, value.size, [(value, box)]))
    return [group for _, _, group in groups]


def _sum_near(placed: Sequence[Placed], lead: int) -> Placed:
    """Values added up, in one loop over all entries of the least box that holds them."""
    hull, value = _hull([box for _, box in placed]), placed[0][0]
    shape = (*value.shape[:lead], *hull.stop, *value.shape[lead + hull.ndim :])
    return _sum_within(_of_all_axes(placed, shape, lead), Box(*_window(hull, shape, lead))), hull


def _columns(placed: Sequence[Placed], shape: tuple[int, ...]) -> Iterator[list[Placed]]:
    """Boxes of few columns in groups of such as lie beside each other; any other one alone."""
    most = min(NARROW, shape[placed[0][1].ndim - 1] // SMALL) if placed else 0
    group: list[Placed] = []
    start = stop = 0
    for one in sorted(placed, key=lambda one: one[1].start[-1]):
        box = one[1]
        if box.ndim < 2 or box.shape[-1] > most:
            yield [one]
            continue
        if group and (box.start[-1] > stop or box.stop[-1] > start + most):
            yield group
            group = []
        start, stop = (start, max(stop, box.stop[-1])) if group else (box.start[-1], box.stop[-1])
        group.append(one)
    if group:
        yield group


def _sum_beside(placed: Sequence[Placed], shape: tuple[int, ...], lead: int) -> Placed:
    """Values added up in the least box that holds them."""
    hull = _hull([box for _, box in placed])
    size = (*shape[:lead], *hull.shape, *shape[lead + hull.ndim :])
    inner = [(value, box.shift(tuple(-a for a in hull.start))) for value, box in placed]
    return _add_each(jnp.zeros(size, placed[0][0].dtype), inner, lead), hull


def _hull(boxes: Sequence[Box]) -> Box:
    """The least box that holds others."""
    return Box(
        tuple(map(min, zip(*(box.start for box in boxes), strict=True))),
        tuple(map(max, zip(*(box.stop for box in boxes), strict=True))),
    )


def _is_large(value: jax.Array, lead: int, size: int) -> bool:
    """Whether a box is most of its array: to add it up in a loop over all entries costs little more."""
    return prod(value.shape[lead:]) * 2 > size


def _run_put(array: jax.Array, *values: jax.Array, boxes: tuple[Box, ...], lead: int) -> jax.Array:
    for value, box in zip(values, boxes, strict=True):
        array = lax.dynamic_update_slice(array, value, _window(box, array.shape, lead)[0])
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


def _cut_jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
    return _cut.bind(*primals, **parameters), _cut.bind(*map(ad.instantiate_zeros, tangents), **parameters)


def _join_jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
    return _join.bind(*primals, **parameters), _join.bind(*map(ad.instantiate_zeros, tangents), **parameters)


def _cut_batch(arguments: Any, dims: Any, *, lead: int, **others: Any) -> tuple[Any, Any]:
    array = jnp.moveaxis(arguments[0], dims[0], 0)
    return _cut.bind(array, lead=lead + 1, **others), [0] * len(others["boxes"])


def _join_batch(arguments: Any, dims: Any, *, shape: tuple[int, ...], lead: int, **others: Any) -> tuple[Any, int]:
    moved = _leading(arguments, dims)
    shape = (moved[0].shape[0], *shape)
    return _join.bind(*moved, shape=shape, lead=lead + 1, **others), 0


def _put_jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
    return _put.bind(*primals, **parameters), _put.bind(*map(ad.instantiate_zeros, tangents), **parameters)


def _part_jvp(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
    return _part.bind(*primals, **parameters), _part.bind(*map(ad.instantiate_zeros, tangents), **parameters)


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
_define(_put, _run_put, _put_jvp, _put_transpose, _put_batch)
_define(_part, _run_part, _part_jvp, _part_transpose, _part_batch)
mlir.register_lowering(_join, mlir.lower_fun(_join_on_cpu, multiple_results=False), platform="cpu")

"""Values on many boxes of one array added up, as XLA does it best on a platform."""

from collections.abc import Iterator, Sequence
from math import prod
from operator import ne
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..region import Box
from ._settle import settle

SMALL = 3
"""Boxes are narrow, and fill enough of what holds them, by this part, one in so many."""
MANY = 8
"""So many boxes that are no large part of an array are added one by one; fewer in the same loop as large ones."""
SPLIT = 2**19
"""Entries of an array from which on a pass over all of them is dearer than a few more loops along its edges."""
NARROW = 32
"""Rows or columns, of which fewer are added up beside each other, and put with large boxes at the ends of an axis."""
NEAR = 256
"""Entries that a loop may ask in vain for each of the boxes that it spares a loop of its own."""
IN_LINE, LONG = 3, 2**16
"""Boxes moved along one axis against each other are added up in one loop where it asks in vain for a part of what it
adds, one of so many, or less; and entries of a box from which on a loop for each costs less."""
RECENT = 32
"""Groups of boxes, the last so many of which a further box may join."""
Placed = tuple[jax.Array, Box]
"""What is added on a box."""


def window_of(box: Box, shape: tuple[int, ...], lead: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start and stop of a box among the axes of an array, of which `lead` come before the box's own."""
    last = shape[lead + box.ndim :]
    return (0,) * lead + box.start + (0,) * len(last), shape[:lead] + box.stop + last


def join_in_one_loop(
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


def join_on_cpu(
    *values: jax.Array, boxes: tuple[Box, ...], shape: tuple[int, ...], lead: int, nested: bool, weighed: bool
) -> jax.Array:
    """The same as XLA on a CPU does it best. In one loop over all entries it would ask for each of them and each box
    whether it lies within: there is no question where all large boxes do. A loop that adds to a part of an array goes
    over all of its entries, one that puts values on it over these alone: boxes of few rows or columns are added up
    beside each other before, and put together with what large boxes give there.

    `nested`: no box of what is added to a larger array counts as large.
    """
    large, others = ([], list(zip(values, boxes, strict=True))) if nested else _by_size(values, boxes, shape, lead)
    large = _of_all_axes(large, shape, lead)
    others = [_sum_near(group, lead) if len(group) > 1 else group[0] for group in _near(others)]
    others = _of_all_axes(others, shape, lead)
    for axis in reversed(range(lead, lead + boxes[0].ndim)):
        others = [one for group in _beside(others, shape, axis) for one in _sum_beside(group)]
    core, sides, others = _core_of(large, others, shape)
    total = _sum_of_large(large, sides, core, shape, values[0].dtype, weighed)
    return _add_each(total, others, 0)


def _core_of(
    large: Sequence[Placed], others: Sequence[Placed], shape: tuple[int, ...]
) -> tuple[Box, list[Placed], list[Placed]]:
    """Where all large boxes lie, and none of the others along the ends of an axis; these others, and the rest."""
    core = whole = Box((0,) * len(shape), shape)
    for _, box in large:
        core = core.intersect(box)
    sides, rest = [], []
    for one in others:
        left = max(_left_by(one[1], core, shape), key=lambda box: box.size)
        if large and 2 * left.size > whole.size:
            core = left
            sides.append(one)
        else:
            rest.append(one)
    return core, sides, rest


def _left_by(box: Box, core: Box, shape: tuple[int, ...]) -> Iterator[Box]:
    """What a box near an end of an axis leaves of the core; nothing where there is no such end."""
    yield core.with_range(0, core.start[0], core.start[0])
    for axis, size in enumerate(shape):
        most = min(NARROW, size // SMALL)
        if box.stop[axis] <= most:
            yield core.with_range(axis, max(core.start[axis], box.stop[axis]), core.stop[axis])
        if size - box.start[axis] <= most:
            yield core.with_range(axis, core.start[axis], min(core.stop[axis], box.start[axis]))


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
    return [(value, Box(*window_of(box, shape, lead))) for value, box in placed]


def _add_each(total: jax.Array, placed: Sequence[Placed], lead: int) -> jax.Array:
    """An array with values added one by one, to zeros too: XLA on a CPU computes a chain of values that are only put
    somewhere in one loop over all entries, which asks each of them for every box."""
    for value, box in placed:
        start, stop = window_of(box, total.shape, lead)
        total = lax.dynamic_update_slice(total, value + lax.slice(total, start, stop), start)
    return total


def _sum_of_large(
    large: Sequence[Placed], sides: Sequence[Placed], core: Box, shape: tuple[int, ...], dtype: Any, weighed: bool
) -> jax.Array:
    """An array of zeros with the values of large boxes, and of others along its sides, added: in the parts of it around
    the core, which these others leave free, and there. What is put into zeros, XLA computes in a loop over all entries
    that asks of each whether it is there, unless it cannot see them. Where every entry is put, some entry takes the
    place of zeros: these, an array that loops need not change, XLA would make once and then copy each time.

    XLA runs a loop that puts values on one core. Where they are `weighed`, so that to compute them is most of it, the
    sum where all lie is padded instead, on all cores; where they are not, the loops that read it would compute it
    again.
    """
    whole = Box((0,) * len(shape), shape)
    cut, placed = len(large) + len(sides) > 1 and 2 * core.size > whole.size, [*large, *sides]
    parts = _parts_around(core, [box for _, box in large], whole) if cut else [whole] * bool(placed)
    if cut and weighed:
        *parts, core = parts
        around = zip(core.start, core.stop, shape, strict=True)
        total = lax.pad(_sum_within(placed, core), jnp.zeros((), dtype), [(a, n - b, 0) for a, b, n in around])
    else:
        some = large[0][0][(0,) * len(shape)] if cut else jnp.zeros((), dtype)
        total = jnp.broadcast_to(some, shape)
        total = lax.optimization_barrier(total) if cut else total
    for part in parts:
        total = lax.dynamic_update_slice(total, _sum_within(placed, part), part.start)
    return _held(total) if cut else total


def _held(total: jax.Array) -> jax.Array:
    """The same array, its first entry read and put once more: what is only put, XLA on a CPU would compute within loops
    that read all of it, which ask each entry for every part."""
    first = lax.slice(total, (0,) * total.ndim, (1,) * total.ndim)
    return lax.dynamic_update_slice(total, first + (first.real > jnp.inf).astype(first.dtype), (0,) * total.ndim)


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
    """Groups of boxes that lie so near each other, or in line, that to add them up in one loop over the least box that
    holds them costs less than a loop for each; near in their order too."""
    groups: list[tuple[Box, int, list[Placed]]] = []
    for value, box in placed:
        for k in range(max(0, len(groups) - RECENT), len(groups)):
            hull, size, group = groups[k]
            hull, size, group = _hull([hull, box]), size + value.size, [*group, (value, box)]
            vain = hull.size * (value.size // max(box.size, 1)) * len(group) - size
            if vain <= NEAR * (len(group) - 1) or (IN_LINE * vain <= size and _in_line(hull, group)):
                groups[k] = hull, size, group
                break
        else:
            groups.append((box, value.size, [(value, box)]))
    return [group for _, _, group in groups]


def _in_line(hull: Box, placed: Sequence[Placed]) -> bool:
    """Whether all boxes are as long as the box that holds them, but along one axis, and not too many entries."""
    return all(value.size < LONG and sum(map(ne, hull.shape, box.shape)) < 2 for value, box in placed)


def _sum_near(placed: Sequence[Placed], lead: int) -> Placed:
    """Values added up, in one loop over all entries of the least box that holds them.

    Where they lie in other rows the loop is its own: within one over a larger box, jaxlib 0.10 with AVX-512 takes what
    is added one row below others from a wrong row in some columns.
    """
    hull, value = _hull([box for _, box in placed]), placed[0][0]
    shape = (*value.shape[:lead], *hull.stop, *value.shape[lead + hull.ndim :])
    placed = _of_all_axes(placed, shape, lead)
    total = _sum_within(placed, Box(*window_of(hull, shape, lead)))
    rows = {(box.start[:-1], box.stop[:-1]) for _, box in placed}
    return (settle(total) if len(rows) > 1 else total), hull


def _beside(placed: Sequence[Placed], shape: tuple[int, ...], axis: int) -> Iterator[list[Placed]]:
    """Boxes that are narrow along an axis in groups of such as lie beside each other; any other one alone."""
    most = min(NARROW, shape[axis] // SMALL)
    group: list[Placed] = []
    start = stop = 0
    for one in sorted(placed, key=lambda one: one[1].start[axis]):
        box = one[1]
        if box.shape[axis] > most:
            yield [one]
            continue
        if group and (box.start[axis] > stop or box.stop[axis] > start + most):
            yield group
            group = []
        start, stop = (start, max(stop, box.stop[axis])) if group else (box.start[axis], box.stop[axis])
        group.append(one)
    if group:
        yield group


def _sum_beside(placed: Sequence[Placed]) -> Sequence[Placed]:
    """Values added up in the least box that holds them, where they fill enough of it."""
    hull = _hull([box for _, box in placed])
    if len(placed) == 1 or hull.size > SMALL * sum(box.size for _, box in placed) + NEAR * len(placed):
        return placed
    inner = [(value, box.shift(tuple(-a for a in hull.start))) for value, box in placed]
    return [(_add_each(jnp.zeros(hull.shape, placed[0][0].dtype), inner, 0), hull)]


def _hull(boxes: Sequence[Box]) -> Box:
    """The least box that holds others."""
    return Box(
        tuple(map(min, zip(*(box.start for box in boxes), strict=True))),
        tuple(map(max, zip(*(box.stop for box in boxes), strict=True))),
    )


def _is_large(value: jax.Array, lead: int, size: int) -> bool:
    """Whether a box is most of its array: to add it up in a loop over all entries costs little more."""
    return prod(value.shape[lead:]) * 2 > size

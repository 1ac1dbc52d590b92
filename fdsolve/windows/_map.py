"""Functions of windows, all windows at once: shifted slices of the padded array, fused into one loop a patch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import DeclarationError
from ..kernels import cut_boxes, farthest_first, join_boxes, vectorise_function, vectorise_guarded
from ..region import Box
from ..stencil import ProfileRead, Traced
from ._arguments import Geometry
from ._regions import Assignments, Lattice, Patch, split
from ._roll import roll_view
from ._rules import (
    Rule,
    WholeWindow,
    check_scalar,
    common_dtype,
    offsets,
    scalar_rule,
    trace_function,
    whole_rule,
    without_consts,
)
from ._window import describe

MAX_SLICES = 64
"""Overlapping windows are made of this many slices at most, else gathered entry by entry."""


@dataclass(frozen=True)
class MapProgram:
    """All that decides what a map computes, and no array."""

    geometry: Geometry
    relative: bool
    rules: tuple[Rule, ...]
    patches: tuple[Patch, ...]
    value_shape: tuple[int, ...]


def map_windows(
    assignments: Assignments,
    geometry: Geometry,
    relative: bool,
    named_axis: Mapping[int, Any] | None,
    array: jax.Array,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    *,
    keep_dtype: bool = False,
) -> jax.Array:
    """The results of all windows, one beside the other; scalars of the array's dtype with `keep_dtype`."""
    patches = split(assignments, geometry)
    used = sorted({patch.function for patch in patches})
    traced = {
        i: trace_function(assignments.functions[i], geometry, relative, named_axis, array.dtype, arguments)
        for i in used
    }
    shapes = {i: one.out_avals[0].shape for i, one in traced.items()}
    if len(set(shapes.values())) > 1:
        shown = ", ".join(f"{describe(assignments.functions[i])} {shape}" for i, shape in shapes.items())
        raise DeclarationError(f"Functions return different shapes: {shown}. All must return the same.")
    if keep_dtype:
        for i, one in traced.items():
            check_scalar(describe(assignments.functions[i]), one, array.dtype)
    result = array.dtype if keep_dtype else common_dtype(list(traced.values()))
    rules = tuple(_make_rule(traced[i], geometry, relative, result) for i in used)
    patches = tuple(Patch(p.box, used.index(p.function), p.within, p.without) for p in patches)
    static = tuple(without_consts(rule) for rule in rules)
    program = MapProgram(geometry, relative, static, patches, shapes[used[0]])
    return _run(program, array, tuple(rule.consts for rule in rules))


def _make_rule(closed: Any, geometry: Geometry, relative: bool, dtype: Any) -> Rule:
    axes = tuple(f"axis {a}" for a in range(geometry.ndim))
    rule = scalar_rule(closed, lambda: [ProfileRead("window", axes, o) for o in offsets(geometry, relative)], dtype)
    return whole_rule(closed, dtype) if rule is None else rule


@partial(jax.jit, static_argnums=0)
def _run(program: MapProgram, array: jax.Array, consts: tuple[tuple[Any, ...], ...]) -> jax.Array:
    geometry, patches = program.geometry, program.patches
    padded = jnp.pad(array, geometry.zeros)
    if len(patches) == 1:
        return _evaluate(program, patches[0], padded, (0,) * geometry.ndim, consts[patches[0].function])
    reaches = [_reach(program, patch) for patch in patches]
    cuts = cut_boxes(padded, reaches)
    values = [
        _evaluate(program, patch, cut, reach.start, consts[patch.function])
        for patch, cut, reach in zip(patches, cuts, reaches, strict=True)
    ]
    return join_boxes(values, [patch.box for patch in patches], (*geometry.counts, *program.value_shape))


def _reach(program: MapProgram, patch: Patch) -> Box:
    """The box of the padded array that holds all that a patch's windows read."""
    rule, geometry = program.rules[patch.function], program.geometry
    if isinstance(rule, WholeWindow):
        lower = tuple(-m for m in geometry.centre)
        upper = tuple(k - 1 - m for k, m in zip(geometry.size, geometry.centre, strict=True))
    else:
        reads = [read.offset for read in _reads(rule)] or [(0,) * geometry.ndim]
        lower = tuple(min(o[a] for o in reads) for a in range(geometry.ndim))
        upper = tuple(max(o[a] for o in reads) for a in range(geometry.ndim))
    last = tuple(b - 1 for b in patch.box.stop)
    stop = tuple(a + 1 for a in place_of(geometry, last, upper))
    return Box(place_of(geometry, patch.box.start, lower), stop)


def _evaluate(
    program: MapProgram, patch: Patch, source: jax.Array, origin: tuple[int, ...], consts: tuple[Any, ...]
) -> jax.Array:
    """A patch's function at all windows of its box, zero where it is not meant; `source` is cut from the array."""
    rule, box = program.rules[patch.function], patch.box
    function = rule.function(consts)
    held = None if patch.whole else member_mask(patch)
    if isinstance(rule, WholeWindow):
        value = _evaluate_whole(program, source, origin, box, function)
    else:
        reads = _reads(rule)
        taken = _take(program, source, box, origin, farthest_first(reads))
        values = [taken[read] for read in reads]
        flags = [(True,) * box.ndim] * len(values)
        if held is None or not values:
            value = vectorise_function(function, values, flags, box.shape)
        else:
            value = vectorise_guarded(function, held, values, flags, box.shape)
    if held is None:
        return value
    return jnp.where(held.reshape(held.shape + (1,) * len(program.value_shape)), value, jnp.zeros((), value.dtype))


def _reads(rule: Traced) -> list[ProfileRead]:
    """The entries of its window that a rule reads."""
    return [operand for operand in rule.operands if isinstance(operand, ProfileRead)]


def place_of(geometry: Geometry, window: tuple[Any, ...], offset: tuple[int, ...]) -> tuple[Any, ...]:
    """The index in the padded array of the entry at an offset from a window's centre."""
    parts = zip(window, geometry.first, geometry.strides, offset, geometry.zeros, strict=True)
    return tuple(first + p * stride + o + low for p, first, stride, o, (low, _) in parts)


def _take(
    program: MapProgram, source: jax.Array, box: Box, origin: tuple[int, ...], reads: list[ProfileRead]
) -> dict[ProfileRead, jax.Array]:
    """What is read at all windows of a box, from what was cut out for them; plain slices where that is the whole array,
    to which their transposes are added in one loop, and where windows lie apart."""
    geometry = program.geometry
    if len(program.patches) == 1 or any(stride != 1 for stride in geometry.strides):
        return {read: window_slice(geometry, source, box, read.offset, origin) for read in reads}
    here = Box.of_shape(box.shape).shift(tuple(-o for o in origin))
    boxes = [here.shift(place_of(geometry, box.start, read.offset)) for read in reads]
    return dict(zip(reads, cut_boxes(source, boxes, nested=True), strict=True))


def window_slice(
    geometry: Geometry, source: jax.Array, box: Box, offset: tuple[int, ...], origin: tuple[int, ...]
) -> jax.Array:
    """The entries at an offset from the centres of a box of windows; `source` is the padded array from `origin` on."""
    start = [a - o for a, o in zip(place_of(geometry, box.start, offset), origin, strict=True)]
    stop = [a + (n - 1) * s + 1 for a, n, s in zip(start, box.shape, geometry.strides, strict=True)]
    return lax.slice(source, start, stop, geometry.strides)


def read_window(
    geometry: Geometry, relative: bool, source: jax.Array, place: Any, origin: tuple[int, ...]
) -> jax.Array:
    """The whole window whose number is `place`, its centre first where `relative`."""
    corner = place_of(geometry, place, tuple(-m for m in geometry.centre))
    window = lax.dynamic_slice(source, [a - o for a, o in zip(corner, origin, strict=True)], geometry.size)
    return roll_view(window) if relative else window


def _evaluate_whole(
    program: MapProgram, source: jax.Array, origin: tuple[int, ...], box: Box, function: Any
) -> jax.Array:
    """A function of whole windows, one row of windows (along the last axis) after the other.

    So no more than one row's windows are ever held side by side.
    """
    geometry, (*lead, count) = program.geometry, box.shape
    length = (count - 1) * geometry.strides[-1] + geometry.size[-1]
    lower = tuple(-m for m in geometry.centre)

    def row(number: jax.Array) -> jax.Array:
        window = (*jnp.unravel_index(number, lead), 0) if lead else (0,)
        first = tuple(p + a for p, a in zip(window, box.start, strict=True))
        places = zip(place_of(geometry, first, lower), origin, strict=True)
        corner = [jnp.asarray(a - o, jnp.int32) for a, o in places]
        strip = lax.dynamic_slice(source, corner, (*geometry.size[:-1], length))
        windows = _windows_along(strip, count, geometry.size[-1], geometry.strides[-1])
        return jax.vmap(lambda one: function(roll_view(one) if program.relative else one))(windows)

    rows = lax.map(row, jnp.arange(prod(lead), dtype=jnp.int32))
    return rows.reshape(*box.shape, *program.value_shape)


def _windows_along(strip: jax.Array, count: int, size: int, stride: int) -> jax.Array:
    """The `count` windows of a strip along its last axis, on a new first axis."""
    if count <= MAX_SLICES and count <= size:
        return jnp.stack([strip[..., p * stride : p * stride + size] for p in range(count)])
    if size <= MAX_SLICES:
        stop = (count - 1) * stride + 1
        parts = [strip[..., j : j + stop : stride] for j in range(size)]
        return jnp.moveaxis(jnp.stack(parts, -1), -2, 0)
    index = stride * jnp.arange(count, dtype=jnp.int32)[:, None] + jnp.arange(size, dtype=jnp.int32)
    return jnp.moveaxis(strip[..., index], -2, 0)


def member_mask(patch: Patch) -> jax.Array:
    """Which points of a patch's box belong to it."""
    held = jnp.ones(patch.box.shape, bool)
    if patch.within is not None:
        held &= _lattice_mask(patch.within, patch.box)
    for lattice in patch.without:
        held &= ~_lattice_mask(lattice, patch.box)
    return held


def _lattice_mask(lattice: Lattice, box: Box) -> jax.Array:
    held = jnp.ones(box.shape, bool)
    for axis in range(box.ndim):
        index = lax.broadcasted_iota(jnp.int32, box.shape, axis) + box.start[axis]
        start, stop = lattice.box.start[axis], lattice.box.stop[axis]
        held &= (index >= start) & (index < stop) & ((index - start) % lattice.step[axis] == 0)
    return held

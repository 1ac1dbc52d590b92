"""Functions of windows, all windows at once: shifted slices of the padded array, fused into one loop a patch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import DeclarationError
from ..kernels import vectorise_function, vectorise_guarded
from ..region import Box
from ..stencil import ProfileRead
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


@dataclass(frozen=True)
class MapProgram:
    """All that decides what a map computes, and no array."""

    geometry: Geometry
    relative: bool
    rules: tuple[Rule, ...]
    patches: tuple[Patch, ...]
    value_shape: tuple[int, ...]
    dtype: str


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
    program = MapProgram(geometry, relative, static, patches, shapes[used[0]], result.str)
    return _run(program, array, tuple(rule.consts for rule in rules))


def _make_rule(closed: Any, geometry: Geometry, relative: bool, dtype: Any) -> Rule:
    axes = tuple(f"axis {a}" for a in range(geometry.ndim))
    rule = scalar_rule(closed, lambda: [ProfileRead("window", axes, o) for o in offsets(geometry, relative)], dtype)
    return whole_rule(closed, dtype) if rule is None else rule


@partial(jax.jit, static_argnums=0)
def _run(program: MapProgram, array: jax.Array, consts: tuple[tuple[Any, ...], ...]) -> jax.Array:
    padded = jnp.pad(array, program.geometry.zeros)
    shape = (*program.geometry.counts, *program.value_shape)
    result = None
    for patch in program.patches:
        value, held = _evaluate(program, padded, patch, consts[patch.function])
        if patch.box.shape == program.geometry.counts and held is None:
            return value
        if result is None:
            result = jnp.zeros(shape, program.dtype)
        start = (*patch.box.start, *(0 for _ in program.value_shape))
        if held is not None:
            below = lax.dynamic_slice(result, start, value.shape)
            value = jnp.where(held.reshape(held.shape + (1,) * len(program.value_shape)), value, below)
        result = lax.dynamic_update_slice(result, value, start)
    assert result is not None
    return result


def _evaluate(
    program: MapProgram, padded: jax.Array, patch: Patch, consts: tuple[Any, ...]
) -> tuple[jax.Array, jax.Array | None]:
    """A patch's function at all windows of its box, and which of them it is meant for (None: all)."""
    rule, box, held = program.rules[patch.function], patch.box, None
    if not patch.whole:
        held = member_mask(patch)
    function = rule.function(consts)
    if isinstance(rule, WholeWindow):
        return _evaluate_whole(program, padded, box, function), held
    values = [window_slice(program.geometry, padded, box, operand.offset) for operand in rule.operands]
    flags = [(True,) * box.ndim] * len(values)
    if held is None or not values:
        return vectorise_function(function, values, flags, box.shape), held
    return vectorise_guarded(function, held, values, flags, box.shape), held


def window_slice(geometry: Geometry, padded: jax.Array, box: Box, offset: tuple[int, ...]) -> jax.Array:
    """The entries at an offset from the centres of a box of windows."""
    parts = zip(box.start, geometry.first, geometry.strides, offset, geometry.zeros, strict=True)
    start = [first + p * stride + o + low for p, first, stride, o, (low, _) in parts]
    stop = [a + (n - 1) * s + 1 for a, n, s in zip(start, box.shape, geometry.strides, strict=True)]
    return lax.slice(padded, start, stop, geometry.strides)


def read_window(geometry: Geometry, relative: bool, padded: jax.Array, place: Any) -> jax.Array:
    """The whole window whose number is `place`, its centre first where `relative`."""
    parts = zip(place, geometry.first, geometry.strides, geometry.centre, geometry.zeros, strict=True)
    start = [first + p * stride - middle + low for p, first, stride, middle, (low, _) in parts]
    window = lax.dynamic_slice(padded, start, geometry.size)
    return roll_view(window) if relative else window


def _evaluate_whole(program: MapProgram, padded: jax.Array, box: Box, function: Any) -> jax.Array:
    def at(*place: Any) -> jax.Array:
        return function(read_window(program.geometry, program.relative, padded, place))

    numbers = [jnp.arange(a, b, dtype=jnp.int32) for a, b in zip(box.start, box.stop, strict=True)]
    for axis in reversed(range(box.ndim)):
        at = jax.vmap(at, in_axes=tuple(0 if a == axis else None for a in range(box.ndim)))
    return at(*numbers)


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

"""Functions of windows, one window after the other in row-major order, in place; as parallel as their reads allow.

An entry that the order visits before the centre has its new value, any other the one the array came with. So each
entry is one of two arrays' for good, and the planner may order the windows in any way that the new values allow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..kernels import (
    Arrays,
    Level,
    evaluate,
    is_plain,
    scan_axis,
    solve_recurrence,
    sweep,
    sweep_points,
    take_box,
    write,
)
from ..planning import Array, Extent, Parallel, Piece, Stage, Structure, Sweep, make_schedule
from ..region import Box
from ..stencil import NONLINEAR, Operand, ProfileRead, StateRead, Traced, make_traced
from ._arguments import Geometry
from ._map import window_slice
from ._point_scan import scan_points
from ._regions import Assignments, Lattice, Patch, split
from ._rules import check_scalar, offsets, scalar_rule, trace_function, without_consts
from ._window import describe

FIELD = "u"


@dataclass(frozen=True)
class ScanProgram:
    """All that decides what a scan computes, and no array: the new values are a field, the old ones profiles.

    With strides the old entries at offsets of one remainder make up one profile.
    """

    geometry: Geometry
    axes: tuple[str, ...]
    structure: Structure
    stages: tuple[Stage, ...]


def scan_windows(
    assignments: Assignments,
    geometry: Geometry,
    relative: bool,
    named_axis: Mapping[int, Any] | None,
    array: jax.Array,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    reverse: bool,
) -> jax.Array:
    """The new values of all windows' centres."""
    patches = split(assignments, geometry)
    used = sorted({patch.function for patch in patches})
    patches = tuple(Patch(p.box, used.index(p.function), p.within, p.without) for p in patches)
    functions = [assignments.functions[i] for i in used]
    traced = [trace_function(f, geometry, relative, named_axis, array.dtype, arguments) for f in functions]
    for function, closed in zip(functions, traced, strict=True):
        check_scalar(describe(function), closed, array.dtype)
    axes = tuple(f"axis {a}" for a in range(geometry.ndim))
    order = -1 if reverse else 1
    rules = []
    for closed in traced:
        rule = scalar_rule(
            closed, lambda: [_operand(o, geometry, axes, order) for o in offsets(geometry, relative)], array.dtype
        )
        if rule is None:
            return scan_points(traced, geometry, relative, patches, array, reverse)
        # Weights are derivatives, which integers do not have.
        rules.append(rule if jnp.issubdtype(array.dtype, jnp.inexact) else replace(rule, degree=NONLINEAR))
    program, numbered = _make_program(geometry, axes, rules, patches, array.dtype)
    return _run(program, array, tuple(rule.consts for rule in numbered))


def _operand(offset: tuple[int, ...], geometry: Geometry, axes: tuple[str, ...], order: int) -> Operand:
    """Where the entry at an offset from the centre is found: among the new values, or the old ones."""
    leading = next((o for o in offset if o), 0)
    aligned = all(o % s == 0 for o, s in zip(offset, geometry.strides, strict=True))
    steps = tuple(o // s for o, s in zip(offset, geometry.strides, strict=True))
    if aligned and leading * order < 0:
        return StateRead(FIELD, 0, steps)
    rest = tuple(o % s for o, s in zip(offset, geometry.strides, strict=True))
    return ProfileRead("old " + " ".join(map(str, rest)), axes, steps)


def _make_program(
    geometry: Geometry, axes: tuple[str, ...], rules: Sequence[Traced], patches: Sequence[Patch], dtype: Any
) -> tuple[ScanProgram, list[Traced]]:
    """The program, and its rules with their arrays: those of the functions, then those that select points."""
    operands = [operand for rule in rules for operand in rule.operands]
    ndim, counts = geometry.ndim, geometry.counts
    reached = [patch.box.shift(read.offset) for patch in patches for read in rules[patch.function].reads]
    lower = tuple(max(0, *(-box.start[a] for box in reached)) if reached else 0 for a in range(ndim))
    upper = tuple(max(0, *(box.stop[a] - counts[a] for box in reached)) if reached else 0 for a in range(ndim))
    extents = [Extent(f"index {axis}", (axis,), (0,)) for axis in axes]
    for name in sorted({o.name for o in operands if isinstance(o, ProfileRead)}):
        reads = [o.offset for o in operands if isinstance(o, ProfileRead) and o.name == name]
        extents.append(Extent(name, axes, tuple(min(o[a] for o in reads) for a in range(ndim))))
    numbered, pieces = [*rules], []
    for patch in patches:
        predicate = None
        if not patch.whole:
            predicate = len(numbered)
            numbered.append(_selection(patch, axes))
        pieces.append(Piece(FIELD, patch.box, patch.function, None, predicate, "value", False, "a function"))
    field = Array(FIELD, counts, lower, upper, np.dtype(dtype).str, 1)
    static = tuple(without_consts(rule) for rule in numbered)
    structure = Structure((field,), static, (), (), tuple(extents), (), None, None)  # type: ignore[arg-type]
    return ScanProgram(geometry, axes, structure, make_schedule(pieces, numbered, axes)), numbered


def _selection(patch: Patch, axes: tuple[str, ...]) -> Traced:
    """Membership in a patch as a rule of the indices."""

    def member(*place: jax.Array) -> jax.Array:
        held = jnp.ones((), bool) if patch.within is None else _holds(patch.within, place)
        for lattice in patch.without:
            held &= ~_holds(lattice, place)
        return held

    closed = jax.make_jaxpr(member)(*(jax.ShapeDtypeStruct((), jnp.int32) for _ in axes))
    operands = tuple(ProfileRead(f"index {axis}", (axis,), (0,)) for axis in axes)
    return make_traced(closed, operands, bool)


def _holds(lattice: Lattice, place: Sequence[jax.Array]) -> jax.Array:
    held = jnp.ones((), bool)
    for at, start, stop, step in zip(place, lattice.box.start, lattice.box.stop, lattice.step, strict=True):
        held &= (at >= start) & (at < stop) & ((at - start) % step == 0)
    return held


@partial(jax.jit, static_argnums=0)
def _run(program: ScanProgram, array: jax.Array, consts: tuple[tuple[Any, ...], ...]) -> jax.Array:
    geometry, structure, axes = program.geometry, program.structure, program.axes
    padded = jnp.pad(array, geometry.zeros)
    field = structure.array(FIELD)
    held = Box(field.origin, tuple(o + n for o, n in zip(field.origin, field.padded_shape, strict=True)))
    profiles = {}
    for extent in structure.extents:
        if extent.name.startswith("index"):
            (axis,) = extent.axes
            profiles[extent.name] = jnp.arange(geometry.counts[axes.index(axis)], dtype=jnp.int32)
        else:
            profiles[extent.name] = _old_values(geometry, padded, structure, extent)
    zero = (0,) * geometry.ndim
    start = window_slice(geometry, padded, held, zero, zero)
    level = Level(structure, Arrays(profiles, {}, consts), {FIELD: start}, {}, 0, 1.0, None)
    layers: list[tuple[Box, jax.Array]] = []
    for stage in program.stages:
        if isinstance(stage, Parallel) and _is_layer(structure, stage.piece):
            layers.append((stage.piece.box, evaluate(level, stage.piece, axes)))
            continue
        if isinstance(stage, Sweep) and is_plain(stage):
            level = scan_axis(level, stage, axes, partial(_layered, start, field.origin, tuple(layers)))
        else:
            level = _do(level.with_current(FIELD, _layered(start, field.origin, layers, held)), stage, axes)
        start, layers = level.current[FIELD], []
    return _layered(start, field.origin, layers, field.interior)


def _is_layer(structure: Structure, piece: Piece) -> bool:
    """Whether a piece stands by itself: all of a box, and no new value read."""
    return piece.predicate is None and not structure.rules[piece.rule].reads


def _layered(below: jax.Array, origin: tuple[int, ...], layers: Sequence[tuple[Box, jax.Array]], box: Box) -> jax.Array:
    """The values on a box: those of an array, with layers written over it."""
    values = take_box(below, origin, box)
    for place, layer in layers:
        common = place.intersect(box)
        if not common.empty:
            part = take_box(layer, place.start, common)
            values = lax.dynamic_update_slice(
                values, part, [a - b for a, b in zip(common.start, box.start, strict=True)]
            )
    return values


def _old_values(geometry: Geometry, padded: jax.Array, structure: Structure, extent: Extent) -> jax.Array:
    """The profile of the old entries at offsets of one remainder."""
    rest = tuple(int(part) for part in extent.name.split()[1:])
    reads = [
        o.offset
        for rule in structure.rules
        for o in rule.operands
        if isinstance(o, ProfileRead) and o.name == extent.name
    ]
    upper = [max(o[a] for o in reads) for a in range(geometry.ndim)]
    box = Box(extent.origin, tuple(n + high for n, high in zip(geometry.counts, upper, strict=True)))
    return window_slice(geometry, padded, box, rest, (0,) * geometry.ndim)


def _do(level: Level, stage: Stage, axes: tuple[str, ...]) -> Level:
    if isinstance(stage, Parallel):
        array = write(level, stage.piece, axes, level.current[FIELD], level.structure.array(FIELD))
        return level.with_current(FIELD, array)
    assert isinstance(stage, Sweep)  # windows declare no equations
    if stage.method == "associative":
        return solve_recurrence(level, stage, axes)
    return sweep_points(level, stage, axes) if stage.method == "points" else sweep(level, stage, axes)

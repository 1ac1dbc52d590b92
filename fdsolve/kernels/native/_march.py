"""The `native` march kernel: generated machine code as one call of XLA, many levels of time a pass."""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from ...planning import Extent
from ...stencil import ProfileRead, WholeRead
from .._level import Arrays, Level
from .._march_call import MarchCall
from .._slices import write
from ._handler import write_handler
from ._layout import LINE, Layout, Slots
from ._objects import load_function, object_key
from ._program import Program, Unserved, make_program
from ._rows import RowWriter
from ._schedule import make_schedule
from ._tile import TileWriter

Levels = Mapping[str, tuple[jax.Array, ...]]


@dataclass(frozen=True)
class Tiling:
    """How a march is cut: levels a pass, tiles along the first two axes, threads."""

    levels: int
    parts: int
    split: int
    threads: int


@dataclass(frozen=True)
class Generated:
    """A target of XLA's custom calls and what it works on."""

    target: str
    layout: Layout
    slots: Slots


@lru_cache(maxsize=256)
def layout_of(call: MarchCall) -> Layout:
    """The program of a march, scheduled; raises Unserved."""
    program = make_program(call)
    return Layout(program, make_schedule(program))


def refusal(call: MarchCall) -> str | None:
    """Why there is no code for a march; None if there is."""
    try:
        layout_of(call)
    except Unserved as reason:
        return str(reason)
    return None


@lru_cache(maxsize=256)
def generate(call: MarchCall, slots: Slots) -> Generated:
    """Generates, compiles and registers the code of a march."""
    layout = layout_of(call)
    module = ir.Module("fdsolve")
    axes = call.axes if len(call.axes) > 1 else ("", *call.axes)
    dtypes = {name: dtype for name, _, dtype in slots.shared}
    rows = [
        RowWriter(module, f"row_{k}", operation, axes, dtypes).write()
        for k, operation in enumerate(layout.program.operations)
    ]
    extents: dict[str, Extent] = {one.name: one for one in call.structure.extents}
    tile = TileWriter(module, layout, slots, rows, extents, axes, call.structure.time_axis).write()
    name = write_handler(module, tile, slots)
    source = str(module)
    key = object_key(source)
    target = f"fdsolve_{key[:32]}"
    _register(target, source, name, key)
    return Generated(target, layout, slots)


@cache
def _register(target: str, source: str, name: str, key: str) -> None:
    address = load_function(source, name, key)
    capsule = jax.ffi.pycapsule(ctypes.c_void_p(address))
    jax.ffi.register_ffi_target(target, capsule, platform="cpu")


def shared_arrays(call: MarchCall, program: Program, arrays: Arrays) -> dict[str, jax.Array]:
    """The arrays that a program reads beside its state, by name."""
    found: dict[str, jax.Array] = {}
    for operation in program.operations:
        for operand in operation.operands:
            if isinstance(operand, ProfileRead):
                found[operand.name] = arrays.profiles[operand.name]
            elif isinstance(operand, WholeRead) and operand.name == "t":
                found["times"] = arrays.wholes["times"]
                found["dt"] = arrays.wholes["dt"]
            elif isinstance(operand, WholeRead):
                name = "dt" if operand.name == "passed" else operand.name
                found[name] = arrays.wholes[name]
        if operation.mask is not None:
            found[operation.mask] = arrays.profiles[operation.mask]
        for rule, number in ((operation.rule, operation.number), (operation.predicate, operation.held)):
            if rule is not None and number is not None:
                for k, const in enumerate(arrays.consts[number]):
                    found[f"rule {number} {k}"] = jnp.asarray(const)
    return found


def march(call: MarchCall, arrays: Arrays, levels: Levels, start: Any, tiling: Tiling | None = None) -> dict[str, Any]:
    """Advances all fields by `call.steps` levels."""
    layout = layout_of(call)
    program = layout.program
    shared = shared_arrays(call, program, arrays)
    slots = Slots(
        tuple((one.name, behind) for one, kept in program.state for behind in range(kept)),
        tuple((name, tuple(array.shape), np.dtype(array.dtype).str) for name, array in shared.items()),
    )
    made = generate(call, slots)
    tiling = tiling or choose_tiling(layout, call.steps)
    share = -(-layout.ring_bytes(layout.width(tiling.split, tiling.levels), tiling.levels) // LINE) + 2
    settings = jnp.stack(
        [jnp.asarray(start, jnp.int32)]
        + [jnp.asarray(n, jnp.int32) for n in
           (call.steps, tiling.levels, tiling.parts, tiling.split, tiling.threads, share)]
    )  # fmt: skip
    state = [levels[name][behind] for name, behind in slots.state]
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in state]
    scratch = jax.ShapeDtypeStruct(((share * tiling.threads + 1) * LINE,), np.uint8)
    call_target = jax.ffi.ffi_call(
        made.target,
        (*shapes, *shapes, scratch),
        input_output_aliases={k: k for k in range(len(state))},
        vmap_method="sequential",
    )
    results = call_target(*state, *shared.values(), settings)
    passes = -(-call.steps // tiling.levels)  # the state goes there and back; where it ends is known
    chosen = results[len(state) : 2 * len(state)] if passes % 2 else results[: len(state)]
    new: dict[str, tuple[jax.Array, ...]] = {}
    for (name, _), array in zip(slots.state, chosen, strict=True):
        new[name] = (*new.get(name, ()), array)
    return _with_ghosts(call, program, arrays, new, start)


def _with_ghosts(call: MarchCall, program: Program, arrays: Arrays, levels: Levels, start: Any) -> dict[str, Any]:
    """The levels with the ghost rows that rows counted round do without."""
    found = dict(levels)
    for behind in range(max(kept for _, kept in program.state) if program.left else 0):
        current = {name: held[behind] for name, held in found.items() if len(held) > behind}
        level = Level(call.structure, arrays, current, {}, start + call.steps - 1 - behind, 1.0, None)
        for piece in program.left:
            if piece.field in level.current:
                storage = call.structure.array(piece.field)
                array = write(level, piece, call.axes, level.current[piece.field], storage)
                level = level.with_current(piece.field, array)
        for name, array in level.current.items():
            found[name] = (*found[name][:behind], array, *found[name][behind + 1 :])
    return found


def num_threads() -> int:
    """Threads that XLA's pool has: the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


CACHE = 384 * 1024
"""Bytes of one processor's own cache that rings may fill."""
SMALL = 2**15
"""Points below which one thread does all."""


def choose_tiling(layout: Layout, steps: int) -> Tiling:
    """Levels a pass so that rings stay in cache, and a tile for each thread."""
    points = prod(layout.program.arrays[0].shape)
    threads = num_threads() if points >= SMALL else 1
    rows = layout.size(0)
    parts = max(1, min(threads, rows // layout.schedule.least))
    threads = min(threads, parts)
    levels = 1
    for more in (2, 4, 8, 16, 32):
        margin = layout.margin(layout.schedule.rows, more)
        fits = layout.ring_bytes(layout.width(1, more), more) <= CACHE
        if more <= steps and fits and 8 * margin <= rows // parts and margin <= rows // 2:
            levels = more
    return Tiling(levels, parts, 1, threads)

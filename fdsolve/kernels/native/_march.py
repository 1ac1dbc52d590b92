"""The `native` march kernel: generated machine code as one call of XLA, many levels of time a pass."""

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from llvmlite import ir

from ...planning import Extent
from ...stencil import ProfileRead, WholeRead
from .._level import Arrays, Level
from .._linear_map import linear_map
from .._march_call import MarchCall
from .._registry import get
from .._slices import write
from ._adjoint import adjoint_program, tangent_program
from ._handler import write_handler
from ._layout import LINE, Layout, Slots
from ._objects import load_function, object_key
from ._program import Program, Unserved, make_program
from ._rows import write_rows
from ._schedule import MAX_REACH, make_schedule
from ._tile import TileWriter

Levels = Mapping[str, tuple[jax.Array, ...]]
Static = tuple[MarchCall, "Tiling | None", Any]
"""A march, its tiling, and the tree of its arrays."""


@dataclass(frozen=True)
class Tiling:
    """How a march is cut: levels a pass at most, tiles along the first axis, threads."""

    levels: int
    parts: int
    threads: int


@lru_cache(maxsize=256)
def layout_of(call: MarchCall, kind: str = "march") -> Layout:
    """The program of a march (or its "tangent", or "adjoint"), scheduled; raises Unserved."""
    program = make_program(call)
    if kind != "march":
        program = tangent_program(program)
    if kind == "adjoint":
        program = adjoint_program(program, _axes(call))
    return Layout(program, make_schedule(program))


def _axes(call: MarchCall) -> tuple[str, ...]:
    """The axes of a program's arrays, at least two."""
    return call.axes if len(call.axes) > 1 else ("", *call.axes)


def refusal(call: MarchCall, kind: str = "march") -> str | None:
    """Why there is no code for a march; None if there is."""
    try:
        layout = layout_of(call, kind)
    except Unserved as reason:
        return str(reason)
    least = layout.schedule.least
    if call.steps < least:
        return f"it takes at least {least} levels at a time, and this is {call.steps}"
    if layout.program.wraps and layout.halo(-(-call.steps // (call.steps // least))) > layout.size(0):
        return "the first axis is too short for what is read beyond its ends"
    return None


@lru_cache(maxsize=256)
def generate(call: MarchCall, kind: str, slots: Slots) -> str:
    """Generates, compiles and registers the code of a march; the name of its target among XLA's custom calls."""
    layout = layout_of(call, kind)
    module = ir.Module("fdsolve")
    dtypes = {name: dtype for name, _, dtype in slots.shared}
    rows = write_rows(module, layout.program.operations, _axes(call), dtypes)
    extents: dict[str, Extent] = {one.name: one for one in call.structure.extents}
    tile = TileWriter(module, layout, slots, rows, extents, _axes(call), call.structure.time_axis).write()
    name = write_handler(module, tile, layout, slots)
    source = str(module)
    key = object_key(source)
    target = f"fdsolve_{key[:32]}"
    _register(target, source, name, key)
    return target


@cache
def _register(target: str, source: str, name: str, key: str) -> None:
    address = load_function(source, name, key)
    capsule = jax.ffi.pycapsule(ctypes.c_void_p(address))
    jax.ffi.register_ffi_target(target, capsule, platform="cpu")


def shared_arrays(call: MarchCall, kind: str, arrays: Arrays) -> dict[str, Any]:
    """What a program reads beside its state, by name: arrays, or what stands in their places."""
    found: dict[str, Any] = {}
    for operation in layout_of(call, kind).program.operations:
        for operand in operation.operands:
            if isinstance(operand, ProfileRead):
                found[operand.name] = arrays.profiles[operand.name]
            elif isinstance(operand, WholeRead):
                found.update(_wholes(operand.name, arrays))
        if operation.mask is not None:
            found[operation.mask] = arrays.profiles[operation.mask]
        for rule, number in (
            (operation.rule, operation.number),
            (operation.predicate, operation.held),
        ):
            if rule is not None and number is not None:
                for k, const in enumerate(arrays.consts[number]):
                    found[f"rule {number} {k}"] = const
    return found


def _wholes(name: str, arrays: Arrays) -> dict[str, Any]:
    if name == "t":
        return {"times": arrays.wholes["times"], "dt": arrays.wholes["dt"]}
    if name.startswith("rule "):
        _, number, k = name.split()
        return {name: arrays.consts[int(number)][int(k)]}
    name = "dt" if name == "passed" else name
    return {name: arrays.wholes[name]}


def run(
    call: MarchCall,
    kind: str,
    arrays: Arrays,
    state: Sequence[jax.Array],
    start: Any,
    tiling: Tiling | None = None,
) -> list[jax.Array]:
    """The state of a program after `call.steps` levels, the first of which has number `start`."""
    layout = layout_of(call, kind)
    program = layout.program
    shared = {name: jnp.asarray(array) for name, array in shared_arrays(call, kind, arrays).items()}
    slots = Slots(
        tuple((one.name, behind) for one, kept in program.state for behind in range(kept)),
        tuple((name, tuple(array.shape), np.dtype(array.dtype).str) for name, array in shared.items()),
    )
    target = generate(call, kind, slots)
    tiling = tiling or choose_tiling(layout, call.steps)
    passes, tiling = _fitted(layout, call.steps, tiling)
    share = -(-layout.ring_bytes(tiling.levels) // LINE) + 2
    halos = 2 * tiling.parts * layout.halo(tiling.levels) * layout.halo_rows()
    numbers = (call.steps, passes, tiling.parts, tiling.threads, share)
    settings = jnp.stack([jnp.asarray(start, jnp.int32), *(jnp.asarray(n, jnp.int32) for n in numbers)])
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in state]
    scratch = jax.ShapeDtypeStruct(((share * tiling.threads + 1) * LINE + halos,), np.uint8)
    aliases = {k: k for k in range(len(state))}
    run_target = jax.ffi.ffi_call(
        target,
        (*shapes, scratch),
        input_output_aliases=aliases,
        vmap_method="sequential",
    )
    return list(run_target(*state, *shared.values(), settings)[: len(state)])


def _fitted(layout: Layout, steps: int, tiling: Tiling) -> tuple[int, Tiling]:
    """The number of passes, and the tiling as far as it can be: tiles no lower than the rows beside them."""
    rows, least, levels = (
        layout.size(0),
        layout.schedule.least,
        max(1, min(tiling.levels, steps)),
    )
    while layout.program.wraps and levels > least and layout.halo(levels) > rows:
        levels -= 1
    passes = max(1, min(-(-steps // levels), steps // least))
    levels = -(-steps // passes)
    room = max(layout.halo(levels), 2 * MAX_REACH)
    parts = max(1, min(tiling.parts, rows // room))
    return passes, Tiling(levels, parts, min(tiling.threads, parts))


def march(
    call: MarchCall,
    arrays: Arrays,
    levels: Levels,
    start: Any,
    tiling: Tiling | None = None,
) -> dict[str, Any]:
    """Advances all fields by `call.steps` levels."""
    program = layout_of(call).program
    names = [(one.name, behind) for one, kept in program.state for behind in range(kept)]
    leaves, form = jax.tree.flatten(arrays)
    state = [levels[name][behind] for name, behind in names]
    new = _march((call, tiling, form), leaves, state, jnp.asarray(start))
    found: dict[str, tuple[jax.Array, ...]] = {}
    for (name, _), array in zip(names, new, strict=True):
        found[name] = (*found.get(name, ()), array)
    return _with_ghosts(call, program, arrays, found, start)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _march(static: Static, leaves: list[jax.Array], state: list[jax.Array], start: jax.Array) -> Any:
    """The march; its arrays come as leaves, since tangents that stand in their places are no arrays."""
    call, tiling, form = static
    return run(call, "march", form.unflatten(leaves), state, start, tiling)


def _push(static: Static, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Where only the state moves, and levels are affine in it, the tangent is a march too, and has a transpose.

    Otherwise the tangent is that of the portable kernel.
    """
    call, tiling, form = static
    arrays, start = form.unflatten(primals[0]), primals[2]
    result = _march(static, *primals)
    moved = {id(leaf) for leaf, tangent in zip(primals[0], tangents[0], strict=True) if _moves(tangent)}
    fixed = not any(id(one) in moved for one in shared_arrays(call, "march", arrays).values())
    if not fixed or refusal(call, "adjoint") is not None:
        portable = partial(_portable, call, form)
        return result, jax.jvp(
            portable,
            tuple(primals),
            jax.tree.map(_instantiated, tuple(tangents), is_leaf=_is_zero),
        )[1]
    leaves, tree = jax.tree.flatten((arrays, start))

    def forward(kept: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
        held, first = tree.unflatten(kept)
        return run(call, "tangent", held, moving, first, tiling)

    def backward(kept: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        held, first = tree.unflatten(kept)
        found = run(call, "adjoint", held, cotangents, first + (call.steps - 1), tiling)
        return _without_ghost_rows(layout_of(call).program, found)

    moving = [_instantiated(t) for t in tangents[1]]
    return result, linear_map(forward, backward, leaves, moving)


_march.defjvp(_push, symbolic_zeros=True)


def _is_zero(tangent: Any) -> bool:
    return type(tangent) is SymbolicZero


def _moves(tangent: Any) -> bool:
    return not _is_zero(tangent) and getattr(tangent, "dtype", None) != jax.dtypes.float0


def _instantiated(tangent: Any) -> Any:
    if not _is_zero(tangent):
        return tangent
    if tangent.dtype == jax.dtypes.float0:
        return np.zeros(tangent.shape, jax.dtypes.float0)
    return jnp.zeros(tangent.shape, tangent.dtype)


def _portable(
    call: MarchCall, form: Any, leaves: Sequence[jax.Array], state: Sequence[jax.Array], start: Any
) -> list[jax.Array]:
    """The march by the portable kernel, on the state as a list."""
    program, levels, given = layout_of(call).program, {}, iter(state)
    for one, kept in program.state:
        levels[one.name] = tuple(next(given) for _ in range(kept))
    found = get("march", "slices").function(call, form.unflatten(leaves), levels, start)
    return [found[one.name][behind] for one, kept in program.state for behind in range(kept)]


def _without_ghost_rows(program: Program, state: Sequence[jax.Array]) -> list[jax.Array]:
    """Zeros on the ghost rows of a periodic first axis, which nothing writes."""
    if not program.wraps:
        return list(state)
    found = []
    for one, kept in program.state:
        for array in state[len(found) : len(found) + kept]:
            inner = jax.lax.slice_in_dim(array, one.lower[0], one.lower[0] + one.shape[0])
            around = [(one.lower[0], one.upper[0]), *((0, 0),) * (array.ndim - 1)]
            found.append(jnp.pad(inner, around))
    return found


def _with_ghosts(call: MarchCall, program: Program, arrays: Arrays, levels: Levels, start: Any) -> dict[str, Any]:
    """The levels with the ghost rows that rows counted round do without."""
    found = dict(levels)
    for behind in range(max(kept for _, kept in program.state) if program.left else 0):
        current = {name: held[behind] for name, held in found.items() if len(held) > behind}
        level = Level(
            call.structure,
            arrays,
            current,
            {},
            start + call.steps - 1 - behind,
            1.0,
            None,
        )
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


SMALL = 2**15
"""Points below which one thread does all."""


@cache
def shared_cache() -> int:
    """Bytes of the largest cache, which the processors have in common; 16 MiB where it is not known."""
    try:
        sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
        return max(int(size.removesuffix("K")) * 1024 for size in sizes)
    except (OSError, ValueError):
        return 16 * 2**20


def choose_tiling(layout: Layout, steps: int) -> Tiling:
    """A tile for each thread, and as many levels a pass as its share of the shared cache holds rings of."""
    points = prod(layout.program.arrays[0].shape)
    rows = layout.size(0)
    threads = num_threads() if points >= SMALL else 1
    parts = max(1, min(threads, rows // (2 * MAX_REACH)))
    levels, room = 1, shared_cache() // (4 * threads)
    for more in (2, 4, 8, 16, 32):
        if more <= steps and layout.ring_bytes(more) <= room and 16 * layout.halo(more) <= rows // parts:
            levels = more
    return Tiling(levels, parts, min(threads, parts))

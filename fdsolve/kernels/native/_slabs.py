"""A pull past levels that are computed again beside it: a slab of rows at a time, whose levels lie in cache.

A thread marches through a slab, and as many rows beside it as the pull reads, from a state that was kept; it writes the
levels down in its own scratch, and pulls cotangents back past them. So no level is written to memory, for some rows
computed twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from ...stencil import ProfileRead
from .._level import Arrays
from .._march_call import MarchCall
from ._bundles import make_bundles
from ._code import text_of
from ._layout import APART, LINE, Slots
from ._march import (
    axes_of,
    layout_of,
    num_threads,
    one_level,
    pulled_of,
    register_target,
    shared_arrays,
    shared_cache,
    stack_extents,
)
from ._objects import object_key
from ._operands import LEVELS, Alone, Pull, stack_name
from ._rows import write_rows
from ._schedule import MAX_REACH
from ._slab_handler import write_slab_handler
from ._tile import TileWriter


@dataclass(frozen=True)
class Slabs:
    """How many slabs, the rows beside one, the rows of the largest, and bytes of a thread's scratch."""

    parts: int
    wide: int
    height: int
    share: int


def cut_slabs(call: MarchCall, pull: Pull) -> Slabs | None:
    """Slabs for a pull of `call.steps` levels; None where one call a level's worth of memory is as well."""
    back, forth = layout_of(call, pull), layout_of(call)
    size, names = forth.size(0), [one.name for one, _ in forth.program.state]
    if forth.program.wraps or size < 4 * MAX_REACH:
        return None
    rows = sum(forth.pitches(name)[0] for name in names)
    wide = back.halo(call.steps) + _read_beside(call, pull)
    levels = call.steps + max(kept for _, kept in forth.program.state)
    threads, room = num_threads(), shared_cache()
    if levels * rows * size <= room // 4:
        return None  # all levels stay in cache anyway
    least = max(2 * MAX_REACH, 4 * wide)
    height = max(least, room // (4 * threads) // (levels * rows) - 2 * wide)
    if threads * levels * rows * (height + 2 * wide) > room or size < threads * least:
        return None
    parts = max(threads, size // height)
    parts = -(-parts // threads) * threads
    parts = parts if size // parts >= least else size // least // threads * threads
    around = max(one.lower[0] + one.upper[0] for one in forth.program.arrays)
    height = -(-size // parts) + 2 * wide + around
    stack = sum(APART + levels * height * forth.pitches(name)[0] for name in names)
    rings = max(back.ring_bytes(call.steps), forth.ring_bytes(call.steps))
    return Slabs(parts, wide, height, (APART * (len(names) + 4) + stack + rings) // LINE + 4)


def _read_beside(call: MarchCall, pull: Pull) -> int:
    """How many rows away the pull reads levels."""
    first = axes_of(call)[0]
    found = [0]
    for operation in pulled_of(call, pull).program.operations:
        for one in operation.operands:
            if isinstance(one, ProfileRead) and LEVELS in one.axes and first in one.axes:
                found.append(abs(one.offset[one.axes.index(first)]))
    return max(found)


def pull_slabs(
    call: MarchCall,
    pull: Pull,
    slabs: Slabs,
    arrays: Arrays,
    given: Sequence[jax.Array],
    rooms: Sequence[jax.Array],
    begin: Any,
    place: Any,
) -> list[jax.Array]:
    """Cotangents and sums before `call.steps` levels, the first of which has number `begin`, from those after them.

    The state before them stands at a `place` in `rooms`, which hold the kept levels of each array, the oldest first.
    """
    made, forth = pulled_of(call, pull), layout_of(call)
    back = layout_of(call, pull)
    names = tuple(one.name for one, _ in forth.program.state)
    levels = Alone(names, made.levels.last)
    steps = call.steps if made.levels.last else call.steps - 1
    going, coming = shared_arrays(call, levels, arrays), shared_arrays(call, pull, arrays)
    shared = {name: jnp.asarray(array) for name, array in (going | coming).items()}

    def shapes(names: Any) -> tuple[tuple[str, tuple[int, ...], str], ...]:
        return tuple((name, shared[name].shape, np.dtype(shared[name].dtype).str) for name in names)

    stacks = tuple(
        (stack_name(name), (1, *room.shape[1:]), np.dtype(room.dtype).str)
        for name, room in zip(names, rooms, strict=True)
    )
    states = tuple(tuple((one.name, behind) for one, kept in layout.program.state for behind in range(kept))
                   for layout in (back, forth))  # fmt: skip
    private = tuple(stack_name(name) for name in names)
    slots = (
        Slots(states[0], (*shapes(coming), *stacks), private=private),
        Slots(states[1], shapes(going), names, alone=True, private=names),
    )
    target = _generate(one_level(call), pull, levels, slots, tuple(shared))
    threads = num_threads()
    halos = 2 * slabs.parts * back.halo(call.steps) * back.halo_rows()
    settings = (begin, call.steps, steps, slabs.parts, threads, slabs.share, place, slabs.wide, slabs.height)
    results = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in given]
    scratch = jax.ShapeDtypeStruct(((slabs.share * threads + 1) * LINE + halos,), np.uint8)
    run_target = jax.ffi.ffi_call(
        target,
        (*results, scratch),
        input_output_aliases={k: k for k in range(len(results))},
        vmap_method="sequential",
    )
    numbers = jnp.stack([jnp.asarray(n, jnp.int32) for n in settings])
    return list(run_target(*given, *rooms, *shared.values(), numbers)[: len(results)])


@lru_cache(maxsize=256)
def _generate(call: MarchCall, pull: Pull, levels: Alone, slots: tuple[Slots, Slots], shared: tuple[str, ...]) -> str:
    """The code of both marches and of the call that joins them."""
    module = ir.Module("fdsolve")
    extents = {one.name: one for one in call.structure.extents} | stack_extents(call)
    tiles, layouts = [], (layout_of(call, pull), layout_of(call, levels))
    for layout, own, prefix in zip(layouts, slots, ("back", "forth"), strict=True):
        bundles = make_bundles(layout.program, layout.schedule)
        dtypes = {name: dtype for name, _, dtype in own.shared}
        made = write_rows(module, layout.program, layout.schedule, bundles, axes_of(call), dtypes, f"{prefix}_row")
        rows = dict(zip(bundles, made, strict=True))
        time = call.structure.time_axis
        tiles.append(TileWriter(module, layout, own, rows, extents, axes_of(call), time, f"{prefix}_tile").write())
    name = write_slab_handler(module, (tiles[0], tiles[1]), layouts, slots, shared)
    source = text_of(module)
    key = object_key(source)
    target = f"fdsolve_{key[:32]}"
    register_target(target, source, name, key)
    return target

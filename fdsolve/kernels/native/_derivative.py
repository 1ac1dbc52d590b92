"""The `native` march kernel: many levels of time a pass, with a derivative whose transpose is generated too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..._own_derivative import instantiated, own_derivative
from ..._tangents import moves, replaced
from .._level import Arrays, Level
from .._linear_map import linear_map
from .._march_call import MarchCall
from .._slices import write
from ._fold import Folding, folding_of
from ._march import is_shared, is_single, layout_of, pulled_of, run, run_level, stacked
from ._march import refusal as refusal
from ._nested import march_keeping, portable_by_blocks, pull_blocks
from ._operands import Levels, Pull
from ._program import Program
from ._pull import portable, pull_back, without_ghost_rows
from ._slabs import is_too_long, lies_near
from ._tiling import Tiling

Held = Mapping[str, tuple[jax.Array, ...]]
Static = tuple[MarchCall, Tiling | None, Any]
"""A march, its tiling, and the tree of its arrays."""
Writing = tuple[MarchCall, Tiling | None, Any, Levels]
"""The same, and what it writes down."""
FEW_BYTES = 2**29
"""Levels that are written down by the march itself; of more, a tangent alone would not want the memory."""


def why_not(call: MarchCall) -> str | None:
    """Why there is no code for a march; None if there is."""
    folding = _folding(call)
    call = call if folding is None else folding.of(call)
    reason = refusal(call)
    if reason is None and call.block and is_single(call):
        return "older levels are kept, and a block is a single one"
    if reason is None and 0 < call.block < min(call.steps, layout_of(call).most_kept):
        return f"a block of {call.block} levels is shorter than the {layout_of(call).most_kept} that are kept"
    if reason is None and _is_uneven(call):
        whole, rest = _parts(call)
        return why_not(whole) or why_not(rest)
    block = replace(call, steps=call.block, block=0, near=False, own=None)
    if reason is None and call.near and not lies_near(block):
        return "the levels of a block do not lie in cache while it is gone back through"
    if reason is None and call.near and is_too_long(block):
        return "shorter blocks are gone back through sooner"
    if reason is None and call.own is not None:  # last, since a transpose is long to find
        program = layout_of(block).program
        return refusal(block, _pull_by(call, (name for name in call.own if is_shared(program, name))))
    return reason


def march(call: MarchCall, arrays: Arrays, levels: Held, start: Any, tiling: Tiling | None = None) -> dict[str, Any]:
    """Advances all fields by `call.steps` levels."""
    if (folding := _folding(call)) is not None:
        storage, rows = call.structure, folding.of(call)
        levels = {name: tuple(folding.fold(one, storage.array(name)) for one in held) for name, held in levels.items()}
        found = march(rows, folding.arrays(arrays, storage.extents), levels, start, tiling)
        return {name: tuple(folding.unfold(one, storage.array(name)) for one in held) for name, held in found.items()}
    if _is_uneven(call):
        whole, rest = _parts(call)
        levels = march(whole, arrays, levels, start, tiling)
        return march(rest, arrays, levels, start + whole.steps, tiling)
    program = layout_of(call).program
    names = [(one.name, behind) for one, kept in program.state for behind in range(kept)]
    leaves, form = jax.tree.flatten(arrays)
    state = [levels[name][behind] for name, behind in names]
    new = _march((call, tiling, form), leaves, state, jnp.asarray(start))
    found: dict[str, tuple[jax.Array, ...]] = {}
    for (name, _), array in zip(names, new, strict=True):
        found[name] = (*found.get(name, ()), array)
    return _with_ghosts(call, program, arrays, found, start)


def _folding(call: MarchCall) -> Folding | None:
    """How a march is folded into rows; None where it is not, or there is no code for it then."""
    folding = folding_of(call)
    return folding if folding is not None and refusal(folding.of(call)) is None else None


def _is_uneven(call: MarchCall) -> bool:
    """Whether a march by blocks is no whole number of them, and what is left cannot be a block of its own."""
    left = call.steps % call.block if 0 < call.block < call.steps else 0
    return left == 1 or (left > 0 and why_not(replace(call, steps=left, block=left)) is not None)


def _parts(call: MarchCall) -> tuple[MarchCall, MarchCall]:
    """A march by blocks as one by whole blocks and what is left; with a block more where it is too short by itself."""
    left = call.steps % call.block
    rests = [replace(call, steps=steps, block=block) for steps in (left, left + call.block) for block in (steps, 0)]
    rest = next((one for one in rests if why_not(one) is None), rests[0])
    return replace(call, steps=call.steps - rest.steps), rest


@own_derivative
def _march(static: Static, leaves: list[jax.Array], state: list[jax.Array], start: jax.Array) -> Any:
    """The march; its arrays come as leaves, since tangents that stand in their places are no arrays."""
    call, tiling, form = static
    if is_single(call):
        return run_level(call, form.unflatten(leaves), state, start, tiling)
    return run(call, "march", form.unflatten(leaves), state, start, tiling)


def _push(static: Static, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Where only the state moves, and levels are affine in it, the tangent is a march too.

    Otherwise the tangent is that of the portable kernel, and its transpose a march back past the levels written down.
    Where there is neither, both are the portable kernel's.
    """
    call, _, form = static
    names, program = form.unflatten(primals[0]).leaf_names(), layout_of(call).program
    places = tuple(k for k, t in enumerate(tangents[0]) if moves(t) and is_shared(program, names[k]))
    if not places and not is_single(call) and refusal(call, "adjoint") is None:
        return _march(static, *primals), _along_affine(static, primals, tangents[1])
    pull = _pull_by(call, (names[k] for k in places))
    if refusal(call, pull) is None:
        return _along_any(static, pull, [names[k] for k in places], places, primals, tangents)
    moved = jax.tree.map(instantiated, tuple(tangents))
    run_portably = portable_by_blocks if call.block else portable
    return _march(static, *primals), jax.jvp(partial(run_portably, call, form), tuple(primals), moved)[1]


def _pull_by(call: MarchCall, names: Iterable[str]) -> Pull:
    return Pull(tuple(sorted(names)), written=not call.block and call.steps > 1)


_march.defjvp(_push)


@own_derivative
def _march_writing(writing: Writing, leaves: list[Any], state: list[Any], start: Any) -> tuple[list[Any], list[Any]]:
    """The march, and the levels that it writes down on its way; they count as constants where it is differentiated."""
    call, tiling, form, levels = writing
    found = run(call, levels, form.unflatten(leaves), state, start, tiling)
    return found[: len(state)], found[len(state) :]


def _push_writing(writing: Writing, primals: Any, tangents: Any) -> Any:
    out, moved = _push(writing[:3], primals, tangents)
    stacks = _march_writing(writing, *primals)[1]
    return (out, stacks), (moved, [jnp.zeros_like(one) for one in stacks])


_march_writing.defjvp(_push_writing)


def _along_affine(static: Static, primals: Any, tangents: Any) -> list[Any]:
    call, tiling, form = static
    leaves, tree = jax.tree.flatten((form.unflatten(primals[0]), primals[2]))

    def forward(kept: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
        held, first = tree.unflatten(kept)
        return run(call, "tangent", held, moving, first, tiling)

    def backward(kept: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        held, first = tree.unflatten(kept)
        found = run(call, "adjoint", held, cotangents, first + (call.steps - 1), tiling)
        return without_ghost_rows(layout_of(call).program, found)

    return linear_map(forward, backward, leaves, [instantiated(t) for t in tangents])


def _along_any(
    static: Static, pull: Pull, names: list[str], places: tuple[int, ...], primals: Any, tangents: Any
) -> tuple[list[Any], list[Any]]:
    """The march, and its tangent along the leaves at some places, of these names, and along the state."""
    call, tiling, form = static
    leaves, state, start = primals
    if call.block == call.steps:
        every = [one.name for one, _ in layout_of(call).program.state]
        result, stacks = _march(static, *primals), _stacked(static, every, state)
    elif call.block:
        result, stacks = march_keeping((*static, pull), *primals)
    else:
        result, stacks = _marched(static, pulled_of(call, pull).levels, primals)
    kept, tree = jax.tree.flatten((leaves, state, start, stacks))

    def forward(held: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
        leaves, state, start, _ = tree.unflatten(held)

        def moved(*given: Any) -> list[Any]:
            count = len(places)
            return portable(call, form, replaced(leaves, places, given[:count]), given[count:], start)

        return jax.jvp(moved, (*(leaves[k] for k in places), *state), tuple(moving))[1]

    def backward(held: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        static = call, tiling, form, pull, tuple(names), places
        back = pull_blocks if call.block else pull_back
        return back(static, *tree.unflatten(held), list(cotangents))

    moving = [*(tangents[0][k] for k in places), *map(instantiated, tangents[1])]
    return result, linear_map(forward, backward, kept, moving, result)


def _marched(static: Static, levels: Levels, primals: Any) -> tuple[list[Any], list[Any]]:
    """The march, and levels on its way: at once where they are few bytes.

    Else apart: where only the march is wanted (a block of checkpoints, a tangent), none is written.
    """
    writing = *static, levels
    if not levels.names:
        return _march(static, *primals), []
    if static[0].steps == 1 and not levels.last:
        return _march(static, *primals), _stacked(static, levels.names, primals[1])
    layout = layout_of(static[0])
    if sum(map(layout.bytes_of, levels.names)) * static[0].steps <= FEW_BYTES:
        return _march_writing(writing, *primals)
    return _march(static, *primals), _march_writing(writing, *primals)[1]


def _stacked(static: Static, names: Sequence[str], state: Sequence[Any]) -> list[Any]:
    """The levels kept before a march, as it would write them down."""
    found: dict[str, list[Any]] = {}
    given = iter(state)
    for one, kept in layout_of(static[0]).program.state:
        found[one.name] = [next(given) for _ in range(kept)]
    return [stacked(found[name][::-1]) for name in names]


def _with_ghosts(call: MarchCall, program: Program, arrays: Arrays, levels: Held, start: Any) -> dict[str, Any]:
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

"""A march whose derivative keeps the state before each block of levels alone, and pulls cotangents back block by block.

The march writes those states down on its way; going back, the levels of a block are written down again from there, and
cotangents are pulled past them. All of it is done where it stays: no state and no sum is copied between blocks.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..._own_derivative import instantiated, own_derivative
from .._march_call import MarchCall
from ._march import layout_of, pulled_of, run
from ._operands import Alone, Pull, Spread, stack_name
from ._program import Unserved
from ._pull import Carried, Pulling, cotangents_of, portable, pull_levels, start_of, tangent_of_pull
from ._slabs import Slabs, bytes_beside, cut_slabs, pull_slabs

Keeping = tuple[MarchCall, Any, Any, Pull]
"""A march by blocks, its tiling, the tree of its arrays, and what will be pulled back past it."""


@own_derivative
def march_keeping(static: Keeping, leaves: list[Any], state: list[Any], start: Any) -> tuple[list[Any], list[Any]]:
    """The march, and its state before each block; these count as constants where it is differentiated."""
    call, tiling, form, pull = static
    names = tuple(one.name for one, _ in layout_of(call).program.state)
    pull, slabs = _way_back(call, pull)
    block, cut = replace(call, steps=call.block, block=0), slabs.get(call.block)
    beside = _bytes_of_levels(block, pull) if cut is None else bytes_beside(block, pull, cut)
    found = run(call, Spread(names), form.unflatten(leaves), state, start, tiling, beside=beside)
    return found[: len(state)], found[len(state) :]


def _way_back(call: MarchCall, pull: Pull) -> tuple[Pull, dict[int, Slabs]]:
    """How all blocks of a march are gone back through, since they add to the same sums: the pull, and the slabs for
    blocks of so many levels; none where levels are written down again."""
    lengths = {min(call.block, call.steps), call.steps % call.block or call.block}
    if not pulled_of(call, pull).timed:
        cuts = {steps: cut_slabs(replace(call, steps=steps, block=0), pull) for steps in lengths}
        slabs = {steps: cut for steps, cut in cuts.items() if cut is not None}
        if slabs.keys() == lengths:
            return replace(pull, beside=True), slabs
    return _leaving(call, pull), {}


def _leaving(call: MarchCall, pull: Pull) -> Pull:
    """A pull past levels that are written down again, and with them derivatives that read much, if there are any; not
    where values live within a level, which it has the rules of their readers compute."""
    more, program = replace(pull, again=True), layout_of(call).program
    if not all(program.kept) or not any(one.rule.affine and len(one.reads) > 1 for one in program.operations):
        return pull  # without looking: a transpose is long to find
    try:
        layout_of(call, more)
    except Unserved:
        return pull
    return more if pulled_of(call, more).forth != program else pull


def _levels_of(call: MarchCall, pull: Pull) -> Alone:
    """What is written down again of a block: all levels of the state, and what they leave for the pull."""
    state, read = [one.name for one, _ in layout_of(call).program.state], pulled_of(call, pull).levels
    return Alone(tuple(dict.fromkeys([*state, *read.names])), read.last, pull if pull.again else None)


def _bytes_of_levels(block: MarchCall, pull: Pull) -> int:
    """Bytes of the levels of a block that are written down, and of the cotangents that are pulled past them."""
    levels = _levels_of(block, pull)
    forth, back = layout_of(block, levels), layout_of(block, pull)
    before = dict(zip((one.name for one in forth.program.arrays), forth.program.kept, strict=True))
    written = sum((block.steps + before[name]) * forth.bytes_of(name) for name in levels.names)
    return written + sum(kept * back.bytes_of(one.name) for one, kept in back.program.state)


@march_keeping.defjvp
def _push_keeping(static: Keeping, primals: Any, tangents: Any) -> Any:
    call, _, form, _ = static
    tangents = jax.tree.map(instantiated, tangents)
    out, rooms = march_keeping(static, *primals)
    moved = jax.jvp(partial(portable_by_blocks, call, form), tuple(primals), tuple(tangents))[1]
    return (out, rooms), (moved, [jnp.zeros_like(one) for one in rooms])


@own_derivative
def pull_blocks(
    static: Pulling, leaves: list[Any], state: list[Any], start: Any, rooms: list[Any], cotangents: list[Any]
) -> list[Any]:
    """The cotangents of the leaves that move and of the state, from those of the state after the march."""
    call, tiling, form, pull, names, places = static
    pull, cuts = _way_back(call, pull)
    static = call, tiling, form, pull, names, places
    made, arrays, length = pulled_of(call, pull), form.unflatten(leaves), call.block
    levels = _levels_of(call, pull)

    def past(steps: int) -> Any:
        block, slabs = replace(call, steps=steps, block=0), cuts.get(steps)
        wanted = replace(block, steps=steps if made.levels.last else steps - 1)

        def one(found: Carried, number: Any) -> tuple[Carried, None]:
            begin = start + number * length
            if slabs is not None:
                return (pull_slabs(block, pull, slabs, arrays, found[0], rooms, begin, number), found[1]), None
            stacks = run(wanted, levels, arrays, rooms, begin, tiling, place=number)
            given = {stack_name(name): stack for name, stack in zip(levels.names, stacks, strict=True)
                     if name in made.levels.names}  # fmt: skip
            return pull_levels((block, *static[1:]), leaves, found, given, begin), None

        return one

    blocks, left = divmod(call.steps, length)
    numbers, found = jnp.arange(blocks + 1, dtype=jnp.asarray(start).dtype), start_of(static, leaves, cotangents)
    if left:
        found = past(left)(found, numbers[blocks])[0]
    return cotangents_of(static, leaves, lax.scan(past(length), found, numbers[:blocks], reverse=True)[0])


@pull_blocks.defjvp
def _push_pull(static: Pulling, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    return pull_blocks(static, *primals), tangent_of_pull(portable_by_blocks, static, primals, tangents)


def portable_by_blocks(
    call: MarchCall, form: Any, leaves: Sequence[jax.Array], state: Sequence[jax.Array], start: Any
) -> list[jax.Array]:
    """The march by the portable kernel, on the state as a list; its derivative keeps the state before each block."""

    def past(steps: int) -> Any:
        block = replace(call, steps=steps, block=0)

        @partial(jax.checkpoint, prevent_cse=False)
        def one(leaves: Sequence[Any], held: Sequence[Any], begin: Any) -> list[Any]:
            return portable(block, form, leaves, held, begin)

        return one

    blocks, left = divmod(call.steps, call.block)
    begins, whole = start + jnp.arange(blocks + 1, dtype=jnp.asarray(start).dtype) * call.block, past(call.block)
    found = lax.scan(lambda held, begin: (whole(leaves, held, begin), None), list(state), begins[:blocks])[0]
    return past(left)(leaves, found, begins[blocks]) if left else found

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
from ._pull import Carried, Pulling, cotangents_of, portable, pull_levels, start_of, tangent_of_pull
from ._slabs import bytes_beside, cut_slabs, pull_slabs

Keeping = tuple[MarchCall, Any, Any, Pull]
"""A march by blocks, its tiling, the tree of its arrays, and what will be pulled back past it."""


@own_derivative
def march_keeping(static: Keeping, leaves: list[Any], state: list[Any], start: Any) -> tuple[list[Any], list[Any]]:
    """The march, and its state before each block; these count as constants where it is differentiated."""
    call, tiling, form, pull = static
    names = tuple(one.name for one, _ in layout_of(call).program.state)
    block = replace(call, steps=call.block, block=0)
    slabs = None if pulled_of(call, pull).timed else cut_slabs(block, pull)
    beside = _bytes_of_levels(block, pull) if slabs is None else bytes_beside(block, pull, slabs)
    found = run(call, Spread(names), form.unflatten(leaves), state, start, tiling, beside=beside)
    return found[: len(state)], found[len(state) :]


def _bytes_of_levels(block: MarchCall, pull: Pull) -> int:
    """Bytes of the levels of a block that are written down, and of the cotangents that are pulled past them."""
    forth, back = layout_of(block), layout_of(block, pull)
    levels = sum((block.steps + kept) * forth.bytes_of(one.name) for one, kept in forth.program.state)
    return levels + sum(kept * back.bytes_of(one.name) for one, kept in back.program.state)


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
    call, tiling, form, pull, _, _ = static
    made, arrays, length = pulled_of(call, pull), form.unflatten(leaves), call.block
    levels = Alone(tuple(one.name for one, _ in layout_of(call).program.state), made.levels.last)

    def past(steps: int) -> Any:
        block = replace(call, steps=steps, block=0)
        wanted = replace(block, steps=steps if made.levels.last else steps - 1)
        slabs = None if made.timed else cut_slabs(block, pull)

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

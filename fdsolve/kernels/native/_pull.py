"""The pull of cotangents through a march by generated code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..._own_derivative import instantiated, own_derivative
from ..._tangents import replaced
from .._march_call import MarchCall
from .._registry import get
from ._march import axes_of, layout_of, pulled_of, run
from ._operands import Pull, stack_name
from ._program import Program
from ._sums import gather_level, gather_sums, start_sums
from ._tiling import Tiling

Pulling = tuple[MarchCall, Tiling | None, Any, Pull, tuple[str, ...], tuple[int, ...]]
"""A march, its tiling, the tree of its arrays, what is pulled, the names and places of the leaves that move."""
Portable = Callable[..., list[Any]]
"""A march by JAX operations, of (call, tree of its arrays, their leaves, state, first level) to the state after it."""


@own_derivative
def pull_back(
    static: Pulling, leaves: list[Any], state: list[Any], start: Any, stacks: list[Any], cotangents: list[Any]
) -> list[Any]:
    """The cotangents of the leaves that move and of the state, from those of the state after the march."""
    call, _, _, pull, _, _ = static
    made = pulled_of(call, pull)
    held = dict(zip(map(stack_name, made.levels.names), stacks, strict=True))
    return cotangents_of(static, leaves, pull_levels(static, leaves, start_of(static, leaves, cotangents), held, start))


Carried = tuple[list[Any], dict[str, jax.Array]]
"""The state of a pull, cotangents and then sums; and cotangents of leaves along time, which levels add to."""


def start_of(static: Pulling, leaves: Sequence[Any], cotangents: Sequence[Any]) -> Carried:
    """What a pull starts with."""
    call, _, _, pull, names, places = static
    sums = pulled_of(call, pull).sums
    like = dict(zip(names, places, strict=True))
    timed = {one.operand.name for one in sums if one.timed}
    return [*cotangents, *start_sums(sums)], {name: jnp.zeros_like(leaves[like[name]]) for name in sorted(timed)}


def pull_levels(
    static: Pulling, leaves: Sequence[Any], found: Carried, stacks: Mapping[str, Any], start: Any
) -> Carried:
    """Cotangents pulled past the levels of a march, which begins at `start`: level by level where leaves along time
    move."""
    call, tiling, form, pull, _, _ = static
    made, arrays = pulled_of(call, pull), form.unflatten(leaves)
    held, totals = found
    if not made.timed:
        return run(call, pull, arrays, held, start + (call.steps - 1), tiling, stacks, start), totals
    one, count = replace(call, steps=1), len(held) - len(made.sums)
    extents = {extent.name: extent for extent in call.structure.extents}

    def level(found: Carried, number: Any) -> tuple[Carried, None]:
        held = run(one, pull, arrays, found[0], number, tiling, stacks, start)
        sums, totals = gather_level(made.sums, held[count:], found[1], number, extents, axes_of(call))
        return ([*held[:count], *sums], totals), None

    numbers = start + jnp.arange(call.steps, dtype=jnp.asarray(start).dtype)
    return lax.scan(level, (held, totals), numbers, reverse=True)[0]


def cotangents_of(static: Pulling, leaves: Sequence[Any], found: Carried) -> list[jax.Array]:
    """Those of the leaves that move and of the state, from what a pull ends with."""
    call, _, _, pull, names, places = static
    sums, (held, totals) = pulled_of(call, pull).sums, found
    count = len(held) - len(sums)
    like = {name: leaves[place] for name, place in zip(names, places, strict=True)}
    extents = {one.name: one for one in call.structure.extents}
    moved = gather_sums(sums, held[count:], like, extents, axes_of(call))
    moved = [one + totals[name] if name in totals else one for name, one in zip(like, moved, strict=True)]
    return [*moved, *without_ghost_rows(layout_of(call).program, held[:count])]


@pull_back.defjvp
def _push_pull(static: Pulling, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    return pull_back(static, *primals), tangent_of_pull(portable, static, primals, tangents)


def tangent_of_pull(march: Portable, static: Pulling, primals: Any, tangents: Any) -> list[Any]:
    """The tangent of a pull of (leaves, state, start, what a march kept, cotangents) by a march of JAX operations; what
    is kept is what the rest makes it."""
    call, _, form, _, _, places = static

    def pulled(leaves: list[Any], state: list[Any], start: Any, cotangents: list[Any]) -> list[Any]:
        def moved(*given: Any) -> list[Any]:
            count = len(places)
            return march(call, form, replaced(leaves, places, given[:count]), given[count:], start)

        return list(jax.vjp(moved, *(leaves[k] for k in places), *state)[1](list(cotangents)))

    along = jax.tree.map(instantiated, (*tangents[:3], tangents[4]))
    return jax.jvp(pulled, (*primals[:3], primals[4]), along)[1]


def portable(
    call: MarchCall, form: Any, leaves: Sequence[jax.Array], state: Sequence[jax.Array], start: Any
) -> list[jax.Array]:
    """The march by the portable kernel, on the state as a list."""
    program, levels, given = layout_of(call).program, {}, iter(state)
    for one, kept in program.state:
        levels[one.name] = tuple(next(given) for _ in range(kept))
    found = get("march", "slices").function(call, form.unflatten(leaves), levels, start)
    return [found[one.name][behind] for one, kept in program.state for behind in range(kept)]


def without_ghost_rows(program: Program, state: Sequence[jax.Array]) -> list[jax.Array]:
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

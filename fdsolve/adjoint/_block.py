"""The reversal of a block of steps, from the state before it."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._tangents import replaced
from ._base import March, Quick, Rooms, Step, split
from ._storage import Device


def rooms_of(quick: March) -> Rooms | None:
    """Those of a march that is gone back through sooner from the states before its steps."""
    return quick.rooms if isinstance(quick, Quick) else None


def block_reversed(
    step: Step, quick: March, consts: Any, of_consts: Sequence[int], whole: int = 0, near: bool = False
) -> Callable[..., Any]:
    """(state, level, steps, buffer, cotangents of the carry, of constants) ↦ the last three before these steps.

    `whole`: these many steps at once, by the derivative of the march; `near`: by blocks of its kernel. Where it has
    rooms, the state before a step is taken out of the buffer before its turn: loops that look into a buffer at a place
    not known before, XLA on a CPU computes one entry at a time.
    """
    const_leaves, form = jax.tree.flatten(consts)
    places = Device()

    def march(constants: Any, state: Any, level: Any) -> Any:
        if not whole:
            return step(constants, state, level)
        found = quick.by_blocks(constants, state, level, whole, whole) if near else None
        return quick(constants, state, level, whole) if found is None else found

    def pull(state: Any, level: Any, back: Any, sums: Any) -> tuple[Any, Any]:
        inner, join = split(state)

        def one(moved: list[Any], given: list[Any]) -> list[Any]:
            constants = form.unflatten(replaced(const_leaves, of_consts, given))
            return split(march(constants, join(moved), level))[0]

        back, more = jax.vjp(one, inner, [const_leaves[k] for k in of_consts])[1](back)
        return back, [a + b for a, b in zip(sums, more, strict=True)]

    def reverse(state: Any, level: Any, steps: Any, buffer: Any, back: Any, sums: Any) -> Any:
        if whole:
            return (buffer, *pull(state, level, back, sums))
        rooms = rooms_of(quick)
        state, buffer = _march_keeping(step, rooms or Rooms(), consts, state, level, steps, buffer)
        if rooms is None:

            def across(i: Any, held: Any) -> Any:
                k = steps - 1 - i
                return pull(places.get(buffer, k, state)[1], level + k, *held)

            return (buffer, *lax.fori_loop(*_from_none(steps), across, (back, sums)))

        def ahead(i: Any, held: Any) -> Any:
            k, (here, *others) = jnp.asarray(steps - 1 - i, level.dtype), held
            found = pull(here, level + k, *others)
            before = jnp.maximum(k - 1, 0) + _none_after(found, k.dtype)
            return places.get(buffer, before, here)[1], *found

        _, back, sums = lax.fori_loop(*_from_none(steps), ahead, (rooms.close(state), back, sums))
        return buffer, back, sums

    return reverse


def _march_keeping(
    step: Step, rooms: Rooms, consts: Any, state: Any, level: Any, steps: Any, buffer: Any
) -> tuple[Any, Any]:
    """The state before the last of these steps, with rooms, and the buffer with that before each of them."""
    places = Device()

    def along(k: Any, held: Any) -> Any:
        state = step(consts, held[0], level + k)
        return state, places.put(held[1], k + 1, rooms.close(state))

    buffer = places.put(buffer, 0, state)
    unroll = rooms.turn if isinstance(steps, int) else 1
    return lax.fori_loop(*_from_none(steps - 1), along, (rooms.open(state), buffer), unroll=unroll)


def _from_none(count: Any) -> tuple[Any, Any]:
    """The bounds of a loop of so many turns."""
    return (0, count) if isinstance(count, int) else (jnp.zeros_like(count), count)


def _none_after(tree: Any, dtype: Any) -> Any:
    """Zero, known when all arrays are: what is read then may lie where they were read from, without a copy."""
    arrays = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return sum((x[(0,) * x.ndim].real > jnp.inf).astype(dtype) for x in arrays if x.size)

"""The reversal of a block of steps, from the state before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._tangents import replaced
from ._base import March, Quick, Rooms, Step, split
from ._peak import inputs_read
from ._storage import Device

LONGEST, MOST_PIECES = 10, 100
"""Steps of a block that stand one after the other in a program, and the rules in them."""

Back = Callable[[Any, Any, Any, Any, Any, Any], Any]
"""(state, level, steps, buffer, cotangents of the carry, of constants) ↦ the last three before these steps."""


def rooms_of(quick: March) -> Rooms | None:
    """Those of a march that is gone back through sooner from the states before its steps."""
    return quick.rooms if isinstance(quick, Quick) else None


def longest_unrolled(quick: March) -> int:
    """The longest block whose steps may stand one after the other in a program; 0 where compiling so many is dear, and
    where a march is not gone back through so."""
    rooms = rooms_of(quick)
    longest = 0 if rooms is None else min(LONGEST, MOST_PIECES // max(rooms.pieces, 1))
    return longest if 2 * longest > LONGEST else 0


def march_block(quick: March, consts: Any, state: Any, level: Any, size: int, near: bool) -> Any:
    """The state after a block of so many steps; `near`: its derivative is by blocks of the march's kernel."""
    found = quick.by_blocks(consts, state, level, size, size) if near and isinstance(quick, Quick) else None
    return quick(consts, state, level, size) if found is None else found


@dataclass(frozen=True, eq=False)
class Block:
    """How cotangents go back through a block of steps: those of the state, and of the constants `of_consts`."""

    step: Step
    quick: March
    consts: Any
    of_consts: Sequence[int]

    def whole(self, size: int, near: bool) -> Back:
        """Back through `size` steps at once, by the derivative of the march; `near`: by blocks of its kernel."""

        def march(constants: Any, state: Any, level: Any) -> Any:
            return march_block(self.quick, constants, state, level, size, near)

        def reverse(state: Any, level: Any, steps: Any, buffer: Any, back: Any, sums: Any) -> Any:
            return (buffer, *self._pull(march, state, level, back, sums))

        return reverse

    def unrolled(self, size: int) -> Back:
        """Back through `size` steps that stand one after the other in the program.

        Their states are arrays of their own, written where those of the block before lay, and no loop looks into a
        buffer, which XLA on a CPU does one entry at a time and with copies.
        """
        rooms = rooms_of(self.quick)
        assert rooms is not None

        def reverse(state: Any, level: Any, steps: Any, buffer: Any, back: Any, sums: Any) -> Any:
            states, buffer = [state], list(buffer)
            for k in range(size - 1):
                state = rooms.close(self.step(self.consts, rooms.open(state, buffer[k]), level + k))
                buffer[k] = rooms.newest(state)
                states.append(state)
            # What steps and their derivatives have in common is computed again sooner than kept.
            states, back = lax.optimization_barrier((states, back))
            for k in reversed(range(size)):
                back, sums = self._pull(self.step, states[k], level + k, back, sums)
            return buffer, back, sums

        return reverse

    def looped(self, read: Sequence[int]) -> Back:
        """Back through steps of whose states a buffer holds the leaves that are `read`.

        Where the march has rooms, the state before a step is taken out of the buffer before its turn: loops that look
        into a buffer at a place not known before, XLA on a CPU computes one entry at a time.
        """
        rooms, places = rooms_of(self.quick), Device()

        def reverse(state: Any, level: Any, steps: Any, buffer: Any, back: Any, sums: Any) -> Any:
            leaves, form = jax.tree.flatten(state)
            last, buffer = _march_keeping(self.step, rooms or Rooms(), self.consts, read, state, level, steps, buffer)

            def pull(here: Any, number: Any, back: Any, sums: Any) -> Any:
                return self._pull(self.step, form.unflatten(replaced(leaves, read, here)), number, back, sums)

            def across(i: Any, held: Any) -> Any:
                k = steps - 1 - i
                return pull(places.get(buffer, k, ())[1], level + k, *held)

            def ahead(i: Any, held: Any) -> Any:
                k, (here, *others) = jnp.asarray(steps - 1 - i, level.dtype), held
                found = pull(here, level + k, *others)
                before = jnp.maximum(k - 1, 0) + none_after(found, k.dtype)
                return places.get(buffer, before, here)[1], *found

            if rooms is None:
                return (buffer, *lax.fori_loop(*_from_none(steps), across, (back, sums)))
            _, back, sums = lax.fori_loop(*_from_none(steps), ahead, (last, back, sums))
            return buffer, back, sums

        return reverse

    def read_of(self, state: Any, level: Any) -> list[int]:
        """The leaves of the state before a step that cotangents which go back through the step depend on."""
        leaves, form = jax.tree.flatten(state)
        given = [jax.tree.leaves(self.consts)[k] for k in self.of_consts]

        def pull(held: list[Any], *others: Any) -> Any:
            return self._pull(self.step, form.unflatten(held), *others)

        found = jax.make_jaxpr(pull)(leaves, level, split(state)[0], given)
        return [k for k, here in enumerate(inputs_read(found.jaxpr)[: len(leaves)]) if here]

    def _pull(self, march: Callable[..., Any], state: Any, level: Any, back: Any, sums: Any) -> tuple[Any, Any]:
        """The cotangents before a march of (constants, state, level) that comes from this state."""
        const_leaves, form = jax.tree.flatten(self.consts)
        inner, join = split(state)

        def one(moved: list[Any], given: list[Any]) -> list[Any]:
            constants = form.unflatten(replaced(const_leaves, self.of_consts, given))
            return split(march(constants, join(moved), level))[0]

        back, more = jax.vjp(one, inner, [const_leaves[k] for k in self.of_consts])[1](back)
        return back, [a + b for a, b in zip(sums, more, strict=True)]


def _march_keeping(
    step: Step, rooms: Rooms, consts: Any, read: Sequence[int], state: Any, level: Any, steps: Any, buffer: Any
) -> tuple[Any, Any]:
    """The leaves read of the state before the last of these steps, and the buffer with those before each of them."""
    places = Device()

    def kept(state: Any) -> list[Any]:
        leaves = jax.tree.leaves(state)
        return [leaves[k] for k in read]

    def along(k: Any, held: Any) -> Any:
        state = step(consts, held[0], level + k)
        return state, places.put(held[1], k + 1, kept(rooms.close(state)))

    buffer = places.put(buffer, 0, kept(state))
    unroll = rooms.turn if isinstance(steps, int) else 1
    first = rooms.open(state, rooms.fresh(state))
    state, buffer = lax.fori_loop(*_from_none(steps - 1), along, (first, buffer), unroll=unroll)
    return kept(rooms.close(state)), buffer


def _from_none(count: Any) -> tuple[Any, Any]:
    """The bounds of a loop of so many turns."""
    return (0, count) if isinstance(count, int) else (jnp.zeros_like(count), count)


def none_after(tree: Any, dtype: Any) -> Any:
    """Zero, known when all arrays are: what is read then may lie where they were read from, without a copy."""
    arrays = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return sum((x[(0,) * x.ndim].real > jnp.inf).astype(dtype) for x in arrays if x.size)

"""The levels that are saved on the way: at even distances, at a few, or anywhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..planning import Segment
from ._record import Records
from ._shown import Saved
from ._state import State

Carry = tuple[State, Records]
Keep = Callable[[Carry], tuple[Carry, Saved]]
"""What is kept of a level that is saved, and the carry that goes on."""
Advance = Callable[[Carry, Any, int], Carry]
"""Marches from a level on by a number of levels."""


@dataclass(frozen=True, eq=False)
class Leap:
    """A march under an adjoint by numbers of levels that differ: march(constants, carry, level, count) is one leg."""

    consts: Any
    march: Callable[[Any, Carry, Any, int], Carry]

    def over(self, largest: int) -> Callable[[Carry, Any, Any], Carry]:
        """(carry, level, number of levels) ↦ carry, for numbers up to `largest`, in legs of 2ᵏ levels.

        Its derivative keeps the start alone: the legs are marched again where they are reversed.
        """
        lengths = [1 << k for k in reversed(range(largest.bit_length()))]

        @partial(jax.checkpoint, prevent_cse=False)
        def run(consts: Any, carry: Carry, at: Any, number: Any) -> Carry:
            for length in lengths:
                leg = partial(_leg, self.march, length, consts)
                carry, at = lax.cond(number & length > 0, leg, lambda c, level: (c, level), carry, at)
            return carry

        return partial(run, self.consts)


def _leg(march: Any, length: int, consts: Any, carry: Carry, at: Any) -> tuple[Carry, Any]:
    return march(consts, carry, at, length), at + length


def march_leaping(keeping: Keep, leap: Leap, carry: Carry, start: int, wanted: Sequence[int]) -> tuple[Carry, Saved]:
    """Irregular saves under an adjoint: from each saved level to the next, up to the last of them."""
    gaps = [b - a for a, b in zip((start - 1, *wanted), wanted, strict=False)]
    onward = leap.over(max(gaps))

    def body(c: Carry, entry: Any) -> tuple[Carry, Saved]:
        return keeping(onward(c, *entry))

    begins = [one + 1 - gap for one, gap in zip(wanted, gaps, strict=True)]
    return lax.scan(body, carry, (jnp.asarray(begins), jnp.asarray(gaps)))


def find_gaps(start: int, wanted: Sequence[int]) -> list[tuple[int, int]]:
    """Steps to each saved level in runs: (steps between, how many times)."""
    runs: list[tuple[int, int]] = []
    last = start - 1
    for level in wanted:
        gap = level - last
        if runs and runs[-1][0] == gap:
            runs[-1] = (gap, runs[-1][1] + 1)
        else:
            runs.append((gap, 1))
        last = level
    return runs


def march_saving(
    keeping: Keep, advance: Advance, carry: Carry, start: int, gap: int, count: int, turn: int
) -> tuple[Carry, Saved]:
    """`count` times `gap` steps, the level after each kept."""

    def body(c: Carry, k: Any) -> tuple[Carry, Saved]:
        return keeping(advance(c, start + k * gap, gap))

    if count == 1:
        carry, kept = body(carry, 0)
        return carry, {name: array[None] for name, array in kept.items()}
    return lax.scan(body, carry, jnp.arange(count), unroll=min(turn, count) if gap == 1 else 1)


def march_flagged(
    keeping: Keep, step: Any, carry: Carry, segment: Segment, wanted: Sequence[int], turn: int
) -> tuple[Carry, Saved]:
    """Irregular saves: every level of the segment is computed in one scan, the wanted ones are written when reached."""
    marks = set(wanted)
    slots, at = [], 0
    for level in range(segment.start, segment.stop):
        slots.append(at if level in marks else -1)
        at += level in marks
    like = jax.eval_shape(keeping, carry)[1]
    history = {name: jnp.zeros((len(wanted), *one.shape), one.dtype) for name, one in like.items()}

    def body(both: Any, entry: Any) -> tuple[Any, None]:
        c, kept = both
        number, slot = entry

        def write(held: Any) -> Any:
            carry, new = keeping(held[0])
            return carry, {n: lax.dynamic_update_index_in_dim(held[1][n], new[n], slot, 0) for n in held[1]}

        return lax.cond(slot >= 0, write, lambda held: held, (step(c, number), kept)), None

    levels = jnp.arange(segment.start, segment.stop)
    (carry, history), _ = lax.scan(
        body, (carry, history), (levels, jnp.asarray(slots, jnp.int32)), unroll=min(turn, len(slots))
    )
    return carry, history

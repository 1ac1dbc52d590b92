"""A march in chunks: between two of them the one who runs it looks at the state, writes, and may stop.

A chunk is `turns` times `gap` steps; `turns` is a number at run time, so that one compiled program serves chunks of any
length. The values do not depend on where chunks end.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Arrays
from ..planning import Structure
from ._march import Carry, after_first, make_ready, march_kernel, marcher
from ._shown import Saved, is_finite, keep, shown
from ._spare import turn_of, with_spare, without_spare
from ._state import State

LEVELS_A_TURN, MOST_A_TURN, POINTS_A_TURN = 16, 1024, 2**30


@dataclass(frozen=True, eq=False)
class Ready:
    """What is made once for all steps: by the stepper, and for the systems of equations that `stages` name."""

    stages: tuple[Any, ...]
    prepared: Any
    systems: tuple[Any, ...]


jax.tree_util.register_dataclass(Ready, data_fields=["prepared", "systems"], meta_fields=["stages"])


def get_ready(structure: Structure, axes: tuple[str, ...], arrays: Arrays, carry: Carry) -> tuple[Carry, Ready]:
    """The carry from which chunks go on, after the first level, and what they use; its levels are those given."""
    memory, logs, records, ready = _get_ready(structure, axes, arrays, carry)
    return (State(carry[0].levels, memory, logs), records), ready


@partial(jax.jit, static_argnums=(0, 1))
def _get_ready(
    structure: Structure, axes: tuple[str, ...], arrays: Arrays, carry: Carry
) -> tuple[Any, Any, Any, Ready]:
    (state, records), prepared, systems = make_ready(structure, axes, arrays, carry)
    return state.memory, state.logs, records, Ready(tuple(systems), prepared, tuple(systems.values()))


@lru_cache(maxsize=64)
def steps_a_turn(structure: Structure, number: int, stride: int) -> tuple[int, ...]:
    """How many steps a turn may take where nothing is kept on the way, the most first.

    Kernels that take many levels at once want many, since a turn copies what it begins from: as many as divide
    `stride`, the levels between two looks (0: there are none), all of them for kernels that jump. Other marches want
    arrays to be back in their places.
    """
    segment = after_first(structure.segments[number])
    count = segment.stop - segment.start
    kernel = march_kernel(structure, segment)
    if kernel is None:
        return (turn_of(structure, segment), 1)
    if kernel.jumps:
        return (min(stride or count, count), 1)
    points = sum(prod(one.padded_shape) for one in structure.carried)
    most = int(min(MOST_A_TURN, count, max(LEVELS_A_TURN, POINTS_A_TURN // max(points, 1))))
    whole = count // -(-count // most)  # equal turns, so that hardly a step is left over
    divisor = max((k for k in range(1, most + 1) if stride % k == 0), default=1) if stride else whole
    return (max(divisor, min(LEVELS_A_TURN, count)), min(LEVELS_A_TURN, count), 1)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def march_chunk(
    structure: Structure,
    number: int,
    gap: int,
    room: int,
    axes: tuple[str, ...],
    arrays: Arrays,
    ready: Ready,
    carry: Carry,
    start: Any,
    turns: Any,
    check: Any,
) -> tuple[Carry, Saved, jax.Array, Any]:
    """`turns` times `gap` steps in segment `number`, from level `start` on.

    Gives the carry; the level after each turn, stacked in `room` places of which `turns` are filled (none where it is
    0); whether each declared field is finite at the end (without `check` nobody looked, and they are taken to be); and
    the level at which the stepper failed, or None.
    """
    segment = after_first(structure.segments[number])
    systems = dict(zip(ready.stages, ready.systems, strict=True))
    _, turn, advance = marcher(structure, segment, arrays, axes, ready.prepared, systems)
    spare = turn > 1 and gap % turn == 0

    def body(k: Any, held: tuple[Carry, Saved]) -> tuple[Carry, Saved]:
        carry, kept = held
        carry = advance(carry, start + k * gap, gap)
        carry, new = keep(structure, axes, arrays, carry) if room else (carry, {})
        return carry, {n: lax.dynamic_update_index_in_dim(kept[n], new[n], k, 0) for n in kept}

    like = jax.eval_shape(lambda c: shown(structure, axes, arrays, c[0]), carry) if room else {}
    kept = {name: jnp.zeros((room, *one.shape), one.dtype) for name, one in like.items()}
    carry = (with_spare(carry[0]), carry[1]) if spare else carry
    carry, kept = lax.fori_loop(0, turns, body, (carry, kept))
    carry = (without_spare(carry[0]), carry[1]) if spare else carry
    failed = structure.stepper.report(carry[0].memory) if structure.stepper is not None else None
    finite = lax.cond(check, lambda: is_finite(structure, carry[0]), lambda: jnp.ones(len(structure.declared), bool))
    return carry, kept, finite, failed

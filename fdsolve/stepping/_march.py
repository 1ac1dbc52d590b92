"""The march along time: segments of levels with one structure, and the levels that are saved on the way.

While marching over large arrays, the state holds one more than the levels kept: the new level is written into it, and
the oldest becomes the next spare. Unrolled by as many steps as there are arrays, every array is back in its place after
each turn of the loop, so that XLA copies none of them.
"""

from collections.abc import Sequence
from functools import partial
from math import lcm, prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Arrays, Level, selector, take_box
from ..planning import Parallel, Segment, Structure
from ._level import State, make_level

MAX_RUNS = 8
MIN_UNROLLED_POINTS = 2**14
MAX_UNROLLED_PIECES = 48
Saved = dict[str, jax.Array]


@partial(jax.jit, static_argnums=(0, 1))
def run(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> tuple[Saved, Saved, Saved]:
    """Runs a plan: the saved levels of each field, stacked, the last level, and where holes hide points of it."""
    state: State = {
        one.name: tuple(jnp.zeros(one.padded_shape, one.dtype) for _ in range(max(one.kept, 1)))
        for one in structure.arrays
    }
    parts: list[Saved] = []
    for segment in structure.segments:
        state, saved = _run_segment(structure, segment, arrays, state, axes)
        parts.extend(saved)
    history = {
        one.name: jnp.concatenate([part[one.name] for part in parts]) if len(parts) > 1 else parts[0][one.name]
        for one in structure.arrays
    }
    return history, _interiors(structure, state), _hidden_points(structure, axes, arrays)


@partial(jax.jit, static_argnums=(0, 1))
def run_initial(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> Saved:
    """The first level alone."""
    state: State = {
        one.name: tuple(jnp.zeros(one.padded_shape, one.dtype) for _ in range(max(one.kept, 1)))
        for one in structure.arrays
    }
    first = structure.phases[structure.segments[0].phases[0]]
    return _interiors(structure, _push(structure, state, make_level(structure, first, arrays, state, 0, axes)))


def _hidden_points(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> Saved:
    """By field, where holes lie whose shape depends on parameters."""
    level, hidden = Level(structure, arrays, {}, {}, 0, 1.0, None), {}
    for stage in structure.phases[structure.segments[-1].phases[-1]].stages:
        for piece in (stage.piece,) if isinstance(stage, Parallel) else stage.pieces:
            if piece.role == "hole" and piece.predicate is not None:
                held = selector(level, piece, axes, piece.box)
                assert held is not None
                shape = structure.array(piece.field).shape
                mask = hidden.get(piece.field, jnp.zeros(shape, bool))
                here = take_box(mask, (0,) * len(shape), piece.box) | held
                hidden[piece.field] = lax.dynamic_update_slice(mask, here, piece.box.start)
    return hidden


def _interiors(structure: Structure, state: State) -> Saved:
    return {one.name: take_box(state[one.name][0], one.origin, one.interior) for one in structure.arrays}


def _push(structure: Structure, state: State, new: dict[str, jax.Array]) -> State:
    """The levels held after one more: as many as before."""
    return {one.name: (new[one.name], *state[one.name][:-1]) for one in structure.arrays}


def _with_spare(state: State) -> State:
    return {name: (*levels, jnp.zeros_like(levels[0])) for name, levels in state.items()}


def _without_spare(state: State) -> State:
    return {name: levels[:-1] for name, levels in state.items()}


def _run_segment(
    structure: Structure, segment: Segment, arrays: Arrays, state: State, axes: tuple[str, ...]
) -> tuple[State, list[Saved]]:
    """Advances through a segment in runs between saves; returns the saved levels in order."""
    wanted = [n for n in structure.saved_levels if segment.start <= n < segment.stop]
    gaps = _gaps(segment.start, wanted)
    saved: list[Saved] = []
    at = segment.start
    step = partial(_step, structure, segment, arrays, axes)
    turn = _turn(structure, segment)
    if turn > 1:
        state = _with_spare(state)
    if len(gaps) > MAX_RUNS:
        state, kept = _march_flagged(structure, step, state, segment, wanted, turn)
        return _without_spare(state) if turn > 1 else state, [kept]
    for gap, count in gaps:
        state, kept = _march_saving(structure, step, state, at, gap, count, turn)
        saved.append(kept)
        at += gap * count
    if at < segment.stop:
        state = _march(step, state, at, segment.stop - at, turn)
    return _without_spare(state) if turn > 1 else state, saved


def _gaps(start: int, wanted: Sequence[int]) -> list[tuple[int, int]]:
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


def _step(
    structure: Structure, segment: Segment, arrays: Arrays, axes: tuple[str, ...], state: State, number: Any
) -> State:
    if len(segment.phases) == 1:
        phase = structure.phases[segment.phases[0]]
        return _push(structure, state, make_level(structure, phase, arrays, state, number, axes))
    used = sorted(set(segment.phases))
    table = jnp.asarray([used.index(p) for p in segment.phases], jnp.int32)
    branches = [
        lambda s, phase=structure.phases[p]: make_level(structure, phase, arrays, s, number, axes) for p in used
    ]
    return _push(structure, state, lax.switch(table[number - segment.start], branches, state))


def _march(step: Any, state: State, start: Any, count: int, turn: int) -> State:
    """`count` steps from level `start` on, `turn` of them unrolled."""
    if count == 1:
        return step(state, start)
    numbers = jnp.arange(count)
    state, _ = lax.scan(lambda s, k: (step(s, start + k), None), state, numbers, unroll=min(turn, count))
    return state


def _turn(structure: Structure, segment: Segment) -> int:
    """Steps after which every array, a spare one included, is back in its place.

    1, and then without a spare, where copies are cheap or compiling more steps is dear.
    """
    turn = lcm(*(max(one.kept, 1) + 1 for one in structure.arrays))
    pieces = 0
    for number in set(segment.phases):
        phase = structure.phases[number]
        repeats = len(structure.stepper.tableau.stages) if phase.rates and structure.stepper is not None else 1
        pieces += repeats * (len(phase.stages) + len(phase.rates))
    largest = max(prod(one.shape) for one in structure.arrays)
    pays = largest >= MIN_UNROLLED_POINTS and turn * pieces <= MAX_UNROLLED_PIECES
    return turn if pays and segment.stop - segment.start > 1 else 1


def _march_saving(
    structure: Structure, step: Any, state: State, start: int, gap: int, count: int, turn: int
) -> tuple[State, Saved]:
    """`count` times `gap` steps, the level after each kept."""

    def body(s: State, k: Any) -> tuple[State, Saved]:
        s = _march(step, s, start + k * gap, gap, turn)
        return s, _interiors(structure, s)

    if count == 1:
        state, kept = body(state, 0)
        return state, {name: array[None] for name, array in kept.items()}
    return lax.scan(body, state, jnp.arange(count), unroll=min(turn, count) if gap == 1 else 1)


def _march_flagged(
    structure: Structure, step: Any, state: State, segment: Segment, wanted: Sequence[int], turn: int
) -> tuple[State, Saved]:
    """Irregular saves: every level of the segment is computed in one scan, the wanted ones are written when reached."""
    marks = set(wanted)
    slots, at = [], 0
    for level in range(segment.start, segment.stop):
        slots.append(at if level in marks else -1)
        at += level in marks
    history = {one.name: jnp.zeros((len(wanted), *one.shape), one.dtype) for one in structure.arrays}

    def body(carry: Any, entry: Any) -> tuple[Any, None]:
        s, kept = carry
        number, slot = entry
        s = step(s, number)
        new = _interiors(structure, s)
        kept = lax.cond(
            slot >= 0,
            lambda h: {n: lax.dynamic_update_index_in_dim(h[n], new[n], slot, 0) for n in h},
            lambda h: h,
            kept,
        )
        return (s, kept), None

    levels = jnp.arange(segment.start, segment.stop)
    (state, history), _ = lax.scan(
        body, (state, history), (levels, jnp.asarray(slots, jnp.int32)), unroll=min(turn, len(slots))
    )
    return state, history

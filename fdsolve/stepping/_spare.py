"""Arrays for new levels.

While marching over large arrays, the state holds one more than the levels kept: the new level is written into it, and
the oldest becomes the next spare. Unrolled by as many steps as there are arrays, every array is back in its place after
each turn of the loop, so that XLA copies none of them.
"""

from collections.abc import Iterator
from math import lcm, prod

import jax
import jax.numpy as jnp

from ..planning import Piece, Segment, Stage, Structure, pieces_of
from ..stencil import count_operations
from ._state import State

MIN_UNROLLED_POINTS = 2**14
MAX_UNROLLED_PIECES = 48
USUAL_OPERATIONS = 10
"""Operations of a rule, as far as the time to compile it goes."""

Spare = dict[str, jax.Array]
"""An array for a new level, by field."""


def make_spare(state: State) -> Spare:
    """Fresh arrays for a new level."""
    return {name: jnp.zeros_like(levels[0]) for name, levels in state.levels.items()}


def newest(state: State) -> Spare:
    """The arrays of the newest level."""
    return {name: levels[0] for name, levels in state.levels.items()}


def with_spare(state: State, spare: Spare | None = None) -> State:
    """The state with arrays for a new level, fresh ones where none are given."""
    spare = make_spare(state) if spare is None else spare
    return State({name: (*held, spare[name]) for name, held in state.levels.items()}, state.memory, state.logs)


def without_spare(state: State) -> State:
    return State({name: levels[:-1] for name, levels in state.levels.items()}, state.memory, state.logs)


def turn_of(structure: Structure, segment: Segment) -> int:
    """Steps after which every array, a spare one included, is back in its place.

    1, and then without a spare, where copies are cheap or compiling more steps is dear.
    """
    turn = lcm(*(max(one.kept, 1) + 1 for one in structure.carried))
    largest = max(prod(one.shape) for one in structure.arrays)
    pays = largest >= MIN_UNROLLED_POINTS and turn * count_pieces(structure, segment) <= MAX_UNROLLED_PIECES
    return turn if pays and segment.stop - segment.start > 1 else 1


def count_pieces(structure: Structure, segment: Segment) -> int:
    """Pieces of rules in a step."""
    return sum(repeats for repeats, _ in _repeated(structure, segment))


def count_usual_pieces(structure: Structure, segment: Segment) -> int:
    """The same, where rules of many operations count as the several usual ones that take as long to compile."""
    operations = sum(
        repeats * count_operations(structure.rules[piece.rule].jaxpr)
        for repeats, one in _repeated(structure, segment)
        for piece in ((one,) if isinstance(one, Piece) else pieces_of(one))
    )
    return max(count_pieces(structure, segment), operations // USUAL_OPERATIONS)


def _repeated(structure: Structure, segment: Segment) -> Iterator[tuple[int, Stage | Piece]]:
    """The stages and rates of a step, with how often they are evaluated."""
    for number in set(segment.phases):
        phase = structure.phases[number]
        repeats = structure.stepper.evaluations if phase.rates and structure.stepper is not None else 1
        yield from ((repeats, one) for one in (*phase.every_stage, *phase.rates))

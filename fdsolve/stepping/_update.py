"""One step of a plan as a pure function of its operands, and a whole run as such."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..adjoint import Run, pairing
from ..errors import PlanningError
from ..kernels import Arrays, Level
from ..planning import Parallel, PhaseStructure, Piece, Segment, Stage, Structure, pieces_of, taken
from ._fill import complete
from ._march import Carry, after_first, begin, finish, make_prepared, make_ready, marcher
from ._shown import interiors
from ._state import State
from ._time import time_of

Step = Callable[[Arrays, Carry, Any], Carry]


def first_carry(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> Carry:
    """The carry at the first level, with the stepper's memory."""
    return make_ready(structure, axes, arrays, begin(structure, axes, arrays)[0])[0]


def make_step(structure: Structure, axes: tuple[str, ...]) -> Step:
    """Φ: (operands, carry, number of the level) ↦ the carry at that level, from the one before.

    Beyond the last level the structure is that of the last. Raises PlanningError where the stepper has no derivative
    that could be carried forward along it.
    """
    if structure.stepper is not None and (why := structure.stepper.why_not_forward("fd.online")):
        raise PlanningError(why)
    segments = [one for one in map(after_first, structure.segments) if one.start < one.stop]

    def step(arrays: Arrays, carry: Carry, number: Any) -> Carry:
        prepared, systems = make_prepared(structure, axes, arrays)
        branches = [marcher(structure, one, arrays, axes, prepared, systems)[0] for one in segments]
        if len(branches) == 1:
            return branches[0](carry, number)
        at = jnp.asarray(number)
        place = jnp.searchsorted(jnp.asarray([one.start for one in segments[1:]], at.dtype), at, side="right")
        return lax.switch(place, branches, carry, number)

    return step


def make_settled(structure: Structure, axes: tuple[str, ...]) -> Step:
    """(operands, carry, number of the level) ↦ the carry there, of whose newest level that made again which rules make
    of the level itself: ghosts, which copy or continue what lies between the ends, and hidden fields (fluxes)."""
    phase = structure.phases[_usual_segment(structure).phases[0]]
    made = replace(phase, stages=tuple(_remaking(structure, phase)))

    def settled(arrays: Arrays, carry: Carry, number: Any) -> Carry:
        state = carry[0]
        current = {one.name: state[one.name][0] for one in structure.carried}
        older = {name: (*held[1:], held[-1]) for name, held in state.levels.items()}
        level = Level(structure, arrays, current, older, number, 1.0, time_of(arrays, number))
        level = complete(structure, made, level, axes)
        levels = {name: (level.current[name], *held[1:]) for name, held in state.levels.items()}
        return State(levels, state.memory, state.logs), carry[1]

    return settled


def _remaking(structure: Structure, phase: PhaseStructure) -> list[Stage]:
    """The stages that set, of the level itself alone, hidden fields and points beyond the ends of others."""
    carried = {one.name for one in structure.carried}
    lost: set[str] = set()  # fields that are not carried, and not set at all points by what is left of them
    while True:
        known, found, missed = set(carried), [], set()
        for stage in phase.stages:
            names = {piece.field for piece in pieces_of(stage)}
            if isinstance(stage, Parallel) and not names & lost and _remakes(structure, stage.piece, known):
                known |= names
                found.append(stage)
            else:
                missed |= names - carried
        if missed <= lost:
            return found
        lost |= missed


def _remakes(structure: Structure, piece: Piece, known: Collection[str]) -> bool:
    """Whether a piece sets what is hidden, or lies beyond the ends, of known fields at the level itself."""
    storage, numbers = structure.array(piece.field), (piece.rule, piece.predicate)
    reads = [read for n in numbers if n is not None for read in structure.rules[n].reads]
    beyond = storage.hidden or piece.box.intersect(storage.interior).empty
    return beyond and not piece.adds and all(one.level == 0 and one.field in known for one in reads)


def usual_level(structure: Structure) -> int:
    """A level whose step is that of most levels."""
    return _usual_segment(structure).start


def _usual_segment(structure: Structure) -> Segment:
    return max(map(after_first, structure.segments), key=lambda one: one.stop - one.start)


def make_run(structure: Structure, axes: tuple[str, ...], repeats: Mapping[str, Sequence[np.ndarray | None]]) -> Run:
    """A whole run, for adjoints that act on it; `repeats` says which labelled arrays hold entries more than once.

    Raises PlanningError where a save keeps parts of levels.
    """
    if structure.showing is not None:
        raise PlanningError(
            "Forward and Online differentiate whole levels, and this save keeps parts or means of them. Take those "
            "after the solve, or take adjoint=fd.adjoint.Checkpointed()."
        )

    def run(which: Structure, arrays: Arrays) -> Any:
        return finish(which, axes, arrays, begin(which, axes, arrays)[0])

    bare = replace(structure, kernels=(), adjoint=None)
    last = structure.segments[-1].stop - 1
    slots = np.full(last + 1, -1, np.int32)
    slots[list(structure.saved_levels)] = np.arange(len(structure.saved_levels))

    once: dict[str, list[Any]] = {name: [] for name in repeats}
    spread: dict[str, list[Any]] = {name: [] for name in repeats}
    for name, entries in ((name, one) for name, along in repeats.items() for one in along):
        found = (None,) * 3 if entries is None else np.unique(entries, return_index=True, return_inverse=True)
        once[name].append(found[1])
        spread[name].append(found[2])

    def score(carry: Carry, number: Any, cotangents: Any) -> Any:
        history, at_last = cotangents[:2]
        slot = jnp.asarray(slots)[number]
        values, total = interiors(structure, carry[0]), jnp.where(number == last, pairing(at_last, carry), 0.0)
        for name, rows in history.items():
            row = lax.dynamic_index_in_dim(rows, jnp.maximum(slot, 0), keepdims=False)
            total = total + jnp.where(slot >= 0, jnp.sum(row * values[name]).real, 0.0)
        return total

    return Run(
        partial(run, structure),
        partial(run, bare),
        partial(first_carry, bare, axes),
        make_step(bare, axes),
        score,
        last,
        lambda carry: interiors(structure, carry[0]),
        structure.recording is not None,
        partial(_taken_from, once),
        partial(_taken_from, spread),
        usual=usual_level(structure),
        settled=make_settled(bare, axes),
    )


def _taken_from(indices: Mapping[str, Sequence[np.ndarray | None]], arrays: Arrays) -> Arrays:
    """The operands, of whose labelled arrays some are taken entry by entry along axes."""
    found = dict(arrays.profiles)
    for name, along in indices.items():
        for axis, index in enumerate(along):
            if index is not None:
                found[name] = taken(found[name], index, axis)
    return replace(arrays, profiles=found)

"""One level: its stages in order, or one step of its rates by the stepper."""

from typing import Any

import jax

from ..kernels import Arrays, Level
from ..planning import PhaseStructure, Structure
from ._fill import complete, spares
from ._state import State
from ._system import System
from ._time import time_of


def make_level(
    structure: Structure,
    phase: PhaseStructure,
    arrays: Arrays,
    state: State,
    number: Any,
    axes: tuple[str, ...],
    prepared: Any = None,
    starting: bool = False,
) -> tuple[dict[str, jax.Array], Any]:
    """The padded arrays of all fields at level `number`, from the levels kept in `state`; the stepper's memory then.

    `prepared` is what the stepper made before the march; `starting` says that it has not enough memory yet.
    """
    if not phase.rates:
        spare = spares(structure, state.levels)
        level = Level(structure, arrays, {}, state.levels, number, 1.0, time_of(arrays, number), spare)
        return complete(structure, phase, level, axes), state.memory
    assert structure.stepper is not None
    system = System(structure, phase, arrays, state, number, axes)
    advance = structure.stepper.first_step if starting else structure.stepper.step
    values, memory = advance(system, state.memory, prepared)
    return system.finish(values), memory

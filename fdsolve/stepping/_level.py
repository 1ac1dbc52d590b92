"""One level: its stages in order, or one step of its rates by the stepper."""

from typing import Any

import jax

from ..kernels import Arrays, Level
from ..planning import Parallel, PhaseStructure, Structure
from ._fill import complete, spares
from ._logs import Log, updated
from ._state import State
from ._system import System
from ._systems import Systems
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
    systems: Systems | None = None,
) -> tuple[dict[str, jax.Array], Any, tuple[Log, ...]]:
    """The padded arrays of all fields at level `number`, from the levels kept in `state`; the stepper's memory and the
    logs then.

    `prepared` is what the stepper made before the march, `systems` what the systems of equations did; `starting` says
    that the stepper has not enough memory yet.
    """
    systems = systems or {}
    if not phase.rates:
        spare = spares(structure, state.levels)
        level = Level(structure, arrays, {}, state.levels, number, 1.0, time_of(arrays, number), spare, systems)
        level = level.with_cuts([stage.piece for stage in phase.stages if isinstance(stage, Parallel)], axes)
        level = complete(structure, phase, level, axes)
        return level.current, state.memory, updated(structure, state.logs, level.reports, number)
    assert structure.stepper is not None
    system = System(structure, phase, arrays, state, number, axes, systems)
    advance = structure.stepper.first_step if starting else structure.stepper.step
    values, memory = advance(system, state.memory, prepared)
    level = system.finish(values)
    return level.current, memory, updated(structure, state.logs, level.reports, number)

"""One level: its stages in order, or one step of its rates by the stepper."""

from typing import Any

from ..kernels import Arrays, Level
from ..planning import Parallel, PhaseStructure, Structure
from ._fill import complete, spares
from ._logs import updated
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
) -> State:
    """The state at level `number`, from the one before: padded arrays of all fields, the stepper's memory, the logs.

    `prepared` is what the stepper made before the march, `systems` what the systems of equations did; `starting` says
    that the stepper has not enough memory yet.
    """
    systems = systems or {}
    if not phase.rates:
        spare = spares(structure, state.levels)
        level = Level(
            structure, arrays, {}, state.levels, number, 1.0, time_of(arrays, number), spare, systems, cuts=arrays.cuts
        )
        level = level.with_cuts([stage.piece for stage in phase.stages if isinstance(stage, Parallel)], axes)
        passed = {one.name: level.passed_on(one.name) for one in structure.carried}
        level = complete(structure, phase, level, axes)
        return State(
            {name: (level.current[name], *held) for name, held in passed.items()},
            state.memory,
            updated(structure, state.logs, level.reports, number),
        )
    assert structure.stepper is not None
    system = System(structure, phase, arrays, state, number, axes, systems)
    advance = structure.stepper.first_step if starting else structure.stepper.step
    values, memory = advance(system, state.memory, prepared)
    level = system.finish(values)
    levels = {one.name: (level.current[one.name], *state[one.name][:-1]) for one in structure.carried}
    return State(levels, memory, updated(structure, state.logs, level.reports, number))

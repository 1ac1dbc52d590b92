"""Systems of equations made ready before the march, where their matrix is the same at all levels."""

from typing import Any

from ..kernels import Arrays, Level
from ..planning import PhaseStructure, Solve, Structure
from ..solvers import AbstractNonlinearSolver
from ._fill import complete_inner
from ._implicit import prepare_stepper
from ._linear_system import Prepared
from ._state import State
from ._system import System
from ._systems import prepare_system


def prepare_systems(structure: Structure, arrays: Arrays, axes: tuple[str, ...]) -> dict[Solve, Prepared]:
    """By stage, the matrices and factors of the systems that are solved more than once with one matrix."""
    found: dict[Solve, Prepared] = {}
    if structure.segments[-1].stop <= 2:
        return found
    used = {number for segment in structure.segments for number in segment.phases if segment.stop > 1}
    for number in sorted(used):
        phase = structure.phases[number]
        for stage in phase.stages:
            if not isinstance(stage, Solve) or stage in found or not stage.fixed:
                continue
            if not isinstance(stage.solver, AbstractNonlinearSolver):
                found[stage] = _prepare(structure, phase, stage, arrays, axes)
    return found


def prepare_stages(
    structure: Structure, arrays: Arrays, axes: tuple[str, ...], begun: State, prepared: Any
) -> dict[Any, Prepared]:
    """The matrices of a stepper's implicit stages that are the same in all steps."""
    stepper, phases = structure.stepper, [phase for phase in structure.phases if phase.rates]
    if stepper is None or not stepper.solves or len(phases) != 1 or structure.segments[-1].stop <= 2:
        return {}
    system = System(structure, phases[0], arrays, begun, 1, axes)
    return prepare_stepper(system, begun.memory, prepared, stepper.starting_steps > 0)


def _prepare(
    structure: Structure, phase: PhaseStructure, stage: Solve, arrays: Arrays, axes: tuple[str, ...]
) -> Prepared:
    def complete(level: Level) -> Level:
        return complete_inner(structure, phase, stage, level, axes)

    return prepare_system(stage, structure, arrays, 1, axes, complete)

"""Completing a level: what holds beside given values, stage by stage, ghosts included."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Level, place, solve_recurrence, sweep, sweep_points, write
from ..planning import Array, Parallel, PhaseStructure, Solve, Stage, Structure, Sweep
from ..schemes import Walls
from ._state import Levels
from ._systems import solve_stage
from ._walls import timed_value


def complete(
    structure: Structure, phase: PhaseStructure, level: Level, axes: tuple[str, ...], walls: Walls | None = None
) -> Level:
    """Runs the stages of a level on what is given of it; `walls` says how timed boundary values stand there."""
    return _run(structure, phase.stages, {name for name, _ in phase.given}, level, axes, walls)


def complete_inner(
    structure: Structure,
    phase: PhaseStructure,
    stage: Solve,
    level: Level,
    axes: tuple[str, ...],
    walls: Walls | None = None,
) -> Level:
    """Runs what follows from the unknown values of a system, which stand in the level."""
    return _run(structure, stage.inner, {*(name for name, _ in phase.given), *stage.fields}, level, axes, walls)


def _run(
    structure: Structure,
    stages: Sequence[Stage],
    needs_base: set[str],
    level: Level,
    axes: tuple[str, ...],
    walls: Walls | None,
) -> Level:
    for stage in stages:
        if isinstance(stage, Solve):

            def inner(level: Level, stage: Solve = stage) -> Level:
                return _run(structure, stage.inner, needs_base | set(stage.fields), level, axes, walls)

            level, report = solve_stage(stage, level, axes, inner)
            level = replace(level, reports={**level.reports, stage: report})
        elif isinstance(stage, Parallel):
            level = _set(structure, stage, needs_base, level, axes, walls)
        else:
            level = _swept(structure, stage, needs_base, level, axes)
    return level


def _set(
    structure: Structure,
    stage: Parallel,
    needs_base: set[str],
    level: Level,
    axes: tuple[str, ...],
    walls: Walls | None,
) -> Level:
    piece = stage.piece
    storage, target = structure.array(piece.field), level.current.get(piece.field)
    if walls is not None and piece.field in needs_base and structure.is_timed(piece):
        array = place(level, piece, axes, target, storage, timed_value(level, piece, axes, walls))
    else:
        array = write(level, piece, axes, target, storage)
    return level.with_current(piece.field, array)


def _swept(structure: Structure, stage: Sweep, needs_base: set[str], level: Level, axes: tuple[str, ...]) -> Level:
    for piece in stage.pieces:
        if piece.field not in level.current:
            assert piece.field not in needs_base
            level = level.with_current(piece.field, _empty(structure.array(piece.field)))
    if stage.method == "associative":
        return solve_recurrence(level, stage, axes)
    if stage.method == "points":
        return sweep_points(level, stage, axes)
    return sweep(level, stage, axes)


def _empty(storage: Array) -> jax.Array:
    return jnp.zeros(storage.padded_shape, storage.dtype)


def spares(structure: Structure, levels: Levels) -> dict[str, jax.Array]:
    """The arrays that a new level may overwrite. Their values are not looked at, and carry no gradient."""
    kept = {one.name: max(one.kept, 1) for one in structure.arrays}
    return {name: lax.stop_gradient(held[-1]) for name, held in levels.items() if len(held) > kept[name]}

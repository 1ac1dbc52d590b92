"""Completing a level: what holds beside given values, stage by stage, ghosts included."""

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Level, place, solve_recurrence, sweep, sweep_points, write
from ..planning import Array, Parallel, PhaseStructure, Structure
from ..schemes import Walls
from ._state import Levels
from ._walls import timed_value


def complete(
    structure: Structure, phase: PhaseStructure, level: Level, axes: tuple[str, ...], walls: Walls | None = None
) -> dict[str, jax.Array]:
    """Runs the stages of a level on what is given of it; `walls` says how timed boundary values stand there."""
    needs_base = {name for name, _ in phase.given}
    for stage in phase.stages:
        if isinstance(stage, Parallel):
            piece = stage.piece
            storage, target = structure.array(piece.field), level.current.get(piece.field)
            if walls is not None and piece.field in needs_base and structure.is_timed(piece):
                array = place(level, piece, axes, target, storage, timed_value(level, piece, axes, walls))
            else:
                array = write(level, piece, axes, target, storage)
            level = level.with_current(piece.field, array)
            continue
        for piece in stage.pieces:
            if piece.field not in level.current:
                assert piece.field not in needs_base
                level = level.with_current(piece.field, _empty(structure.array(piece.field)))
        if stage.method == "associative":
            level = solve_recurrence(level, stage, axes)
        elif stage.method == "points":
            level = sweep_points(level, stage, axes)
        else:
            level = sweep(level, stage, axes)
    return level.current


def _empty(storage: Array) -> jax.Array:
    return jnp.zeros(storage.padded_shape, storage.dtype)


def spares(structure: Structure, levels: Levels) -> dict[str, jax.Array]:
    """The arrays that a new level may overwrite. Their values are not looked at, and carry no gradient."""
    kept = {one.name: max(one.kept, 1) for one in structure.arrays}
    return {name: lax.stop_gradient(held[-1]) for name, held in levels.items() if len(held) > kept[name]}

"""Completing a level: what holds beside given values, stage by stage, ghosts included."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import (
    Level,
    evaluate,
    evaluate_shared,
    place,
    put_boxes,
    sets_box,
    solve_recurrence,
    sweep,
    sweep_points,
)
from ..planning import Array, Parallel, PhaseStructure, Piece, Solve, Stage, Structure, Sweep, stages_for
from ..region import Box
from ..schemes import ALL, Part, Walls
from ..stencil import may_share
from ._state import Levels
from ._systems import solve_stage
from ._walls import timed_value


def complete(
    structure: Structure, phase: PhaseStructure, level: Level, axes: tuple[str, ...], walls: Walls | None = None
) -> Level:
    """Runs the stages of a level on what is given of it; `walls` says how timed boundary values stand there."""
    return _run(structure, phase.stages, {name for name, _ in phase.given}, level, axes, walls)


def complete_for_rates(
    structure: Structure,
    phase: PhaseStructure,
    level: Level,
    axes: tuple[str, ...],
    walls: Walls | None,
    part: Part = ALL,
) -> Level:
    """The same, and what rates alone read of the level; of no more than the rates of a part depend on."""
    stages = stages_for(structure, phase, part)
    return _run(structure, stages, {name for name, _ in phase.given}, level, axes, walls)


def with_views(structure: Structure, phase: PhaseStructure, level: Level, axes: tuple[str, ...]) -> Level:
    """A complete level with what rates alone read of it."""
    if not phase.views:
        return level
    pieces = [piece for stage in phase.views for piece in _pieces_at_once(stage)]
    level = level.with_cuts_now(level.current, pieces)
    return _run(structure, phase.views, set(), level, axes, None)


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
    groups = _grouped(structure, stages)
    last = {name: k for k, stage in enumerate(groups) for name in _written(stage)}
    ready: dict[Piece, jax.Array] = {}
    for k, stage in enumerate(groups):
        ready |= evaluate_shared(level, _alike(structure, groups[k:], ready), axes)
        if isinstance(stage, list):
            level = _set_together(structure, stage, needs_base, level, axes, walls, ready)
        elif isinstance(stage, Solve):

            def inner(level: Level, stage: Solve = stage) -> Level:
                return _run(structure, stage.inner, needs_base | set(stage.fields), level, axes, walls)

            level, report = solve_stage(stage, level, axes, inner)
            level = replace(level, reports={**level.reports, stage: report})
        elif isinstance(stage, Parallel):
            level = _set(structure, stage.piece, needs_base, level, axes, walls, ready)
        else:
            level = _swept(structure, stage, needs_base, level, axes)
        if done := {name for name in _written(stage) if last[name] == k}:
            level = level.with_cuts_now(done, [piece for later in groups[k + 1 :] for piece in _pieces_at_once(later)])
    return level


def _alike(structure: Structure, groups: Sequence[Stage | list[Piece]], ready: Mapping[Piece, Any]) -> list[Piece]:
    """The pieces of the first group, none of them ready, and those of later ones that read on the same boxes what they
    read, as it is before the first."""
    found: list[Piece] = []
    for piece in _pieces_at_once(groups[0]):
        rule = structure.rules[piece.rule]
        if piece in ready or not may_share(rule):
            continue
        read, operands = {one.field for one in rule.reads if one.level == 0}, set(rule.operands)
        found.append(piece)
        for later in groups[1:]:
            alike = (one for one in _pieces_at_once(later) if (one.box, one.mask) == (piece.box, piece.mask))
            found += [one for one in alike if set(structure.rules[one.rule].operands) == operands]
            if read & _written(later):
                break
    return found


def _written(stage: Stage | list[Piece]) -> set[str]:
    """The fields that a stage sets."""
    if isinstance(stage, Solve):
        return {*stage.fields, *(name for inner in stage.inner for name in _written(inner))}
    pieces = stage.pieces if isinstance(stage, Sweep) else _pieces_at_once(stage)
    return {piece.field for piece in pieces}


def _pieces_at_once(stage: Stage | list[Piece]) -> list[Piece]:
    """The pieces of a stage that are evaluated at all their points at once."""
    return stage if isinstance(stage, list) else [stage.piece] if isinstance(stage, Parallel) else []


def _grouped(structure: Structure, stages: Sequence[Stage]) -> list[Stage | list[Piece]]:
    """The stages; boxes of one field that come one after the other, apart from each other, none of which reads another,
    are one: each by itself would cost a gradient a copy of the field's array, with zeros where it stands."""
    found: list[Stage | list[Piece]] = []
    for stage in stages:
        if not isinstance(stage, Parallel) or not sets_box(stage.piece):
            found.append(stage)
            continue
        piece, last = stage.piece, found[-1] if found else None
        touched = [piece.box, *_read_now(structure, piece)]
        beside = isinstance(last, list) and all(box.intersect(one.box).empty for box in touched for one in last)
        if isinstance(last, list) and beside and last[0].field == piece.field:
            last.append(piece)
        else:
            found.append([piece])
    return found


def _read_now(structure: Structure, piece: Piece) -> list[Box]:
    """The boxes of its own field that a piece reads at the level itself."""
    reads = structure.rules[piece.rule].reads
    return [piece.box.shift(read.offset) for read in reads if read.field == piece.field and read.level == 0]


def _set_together(
    structure: Structure,
    pieces: Sequence[Piece],
    needs_base: set[str],
    level: Level,
    axes: tuple[str, ...],
    walls: Walls | None,
    ready: Mapping[Piece, jax.Array],
) -> Level:
    """Sets boxes of one field that do not depend on each other; `ready` are values that were computed with others."""
    if len(pieces) == 1:
        return _set(structure, pieces[0], needs_base, level, axes, walls, ready)
    name = pieces[0].field
    storage, target = structure.array(name), level.current.get(name, level.spare.get(name))
    values = [_value(structure, piece, needs_base, level, axes, walls, ready) for piece in pieces]
    boxes = [piece.box.shift(tuple(-o for o in storage.origin)) for piece in pieces]
    return level.with_current(name, put_boxes(_empty(storage) if target is None else target, values, boxes))


def _set(
    structure: Structure,
    piece: Piece,
    needs_base: set[str],
    level: Level,
    axes: tuple[str, ...],
    walls: Walls | None,
    ready: Mapping[Piece, jax.Array],
) -> Level:
    storage, target = structure.array(piece.field), level.current.get(piece.field)
    value = _value(structure, piece, needs_base, level, axes, walls, ready)
    return level.with_current(piece.field, place(level, piece, axes, target, storage, value))


def _value(
    structure: Structure,
    piece: Piece,
    needs_base: set[str],
    level: Level,
    axes: tuple[str, ...],
    walls: Walls | None,
    ready: Mapping[Piece, jax.Array],
) -> jax.Array:
    """What a piece gives on its box."""
    if walls is not None and piece.field in needs_base and structure.is_timed(piece):
        return timed_value(level, piece, axes, walls)
    return ready[piece] if piece in ready else evaluate(level, piece, axes)


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

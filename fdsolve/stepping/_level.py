"""One level: stages in order, ghosts included; and one step of a rate by its stepper."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import (
    Arrays,
    Level,
    evaluate,
    selector,
    solve_recurrence,
    sweep,
    sweep_points,
    take_box,
    write,
)
from ..planning import Array, Parallel, PhaseStructure, Structure
from ..region import Box

State = dict[str, tuple[jax.Array, ...]]
"""The kept levels of each field as padded arrays, the newest first; then, while marching, a spare one."""


def make_level(
    structure: Structure,
    phase: PhaseStructure,
    arrays: Arrays,
    state: State,
    number: Any,
    axes: tuple[str, ...],
) -> dict[str, jax.Array]:
    """The padded arrays of all fields at level `number`, from the levels kept in `state`."""
    time = _time_of(arrays, number)
    if not phase.rates:
        spare = _spares(structure, state)
        return _complete(structure, phase, Level(structure, arrays, {}, state, number, 1.0, time, spare), axes)
    return _take_step(structure, phase, arrays, state, number, axes)


def _spares(structure: Structure, state: State) -> dict[str, jax.Array]:
    """The arrays that a new level may overwrite. Their values are not looked at, and carry no gradient."""
    kept = {one.name: max(one.kept, 1) for one in structure.arrays}
    return {name: lax.stop_gradient(levels[-1]) for name, levels in state.items() if len(levels) > kept[name]}


def _time_of(arrays: Arrays, number: Any) -> Any:
    times = arrays.wholes.get("times")
    return None if times is None else lax.dynamic_index_in_dim(times, number, keepdims=False)


def _complete(structure: Structure, phase: PhaseStructure, level: Level, axes: tuple[str, ...]) -> dict[str, jax.Array]:
    """Runs the stages of a level on what is given of it."""
    needs_base = {name for name, _ in phase.given}
    for stage in phase.stages:
        if isinstance(stage, Parallel):
            piece = stage.piece
            target = level.current.get(piece.field)
            array = write(level, piece, axes, target, structure.array(piece.field))
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


def _take_step(
    structure: Structure,
    phase: PhaseStructure,
    arrays: Arrays,
    state: State,
    number: Any,
    axes: tuple[str, ...],
) -> dict[str, jax.Array]:
    assert structure.stepper is not None
    tableau, step = structure.stepper.tableau, arrays.wholes["dt"]
    before = {name: levels[0] for name, levels in state.items() if levels}
    start = _time_of(arrays, number - 1)
    base = {name: before[name] for name, _ in phase.given}
    slopes: list[dict[str, list[jax.Array]]] = []
    for row, fraction in zip(tableau.stages, tableau.times, strict=True):
        time = start + jnp.asarray(fraction, step.dtype) * step
        current = before
        if slopes:
            given = _advance(structure, phase, base, slopes, row, step, {})
            current = _complete(structure, phase, Level(structure, arrays, given, state, number, fraction, time), axes)
        level = Level(structure, arrays, current, state, number, fraction, time)
        slopes.append(_rates(structure, phase, level, axes))
    given = _advance(structure, phase, base, slopes, tableau.weights, step, _spares(structure, state))
    return _complete(
        structure, phase, Level(structure, arrays, given, state, number, 1.0, _time_of(arrays, number)), axes
    )


def _rates(
    structure: Structure, phase: PhaseStructure, level: Level, axes: tuple[str, ...]
) -> dict[str, list[jax.Array]]:
    """du/dt on every given box: the pieces that define it, then those that add to it."""
    result = {}
    for name, boxes in phase.given:
        values = []
        for box in boxes:
            total = None
            for piece in phase.rates:
                common = piece.box.intersect(box)
                if piece.field != name or common.empty:
                    continue
                value = evaluate(level, piece, axes)
                held = selector(level, piece, axes, piece.box)
                value = take_box(value, piece.box.start, common)
                held = None if held is None else take_box(held, piece.box.start, common)
                total = _merge(total, value, held, piece.adds, common, box)
            assert total is not None
            values.append(total)
        result[name] = values
    return result


def _merge(
    total: jax.Array | None, value: jax.Array, held: jax.Array | None, adds: bool, common: Box, box: Box
) -> jax.Array:
    if total is None and common == box and held is None:
        return value
    if total is None:
        total = jnp.zeros(box.shape, value.dtype)
    below = take_box(total, box.start, common)
    value = below + value if adds else value
    value = value if held is None else jnp.where(held, value, below)
    return lax.dynamic_update_slice(total, value, [a - o for a, o in zip(common.start, box.start, strict=True)])


def _advance(
    structure: Structure,
    phase: PhaseStructure,
    base: dict[str, jax.Array],
    slopes: list[dict[str, list[jax.Array]]],
    weights: tuple[float, ...],
    step: jax.Array,
    spare: Mapping[str, jax.Array],
) -> dict[str, jax.Array]:
    """Padded arrays with base + Δt Σ weight·slope on the given boxes; what lies outside them is set later."""
    result = {}
    for name, boxes in phase.given:
        storage, array = structure.array(name), spare.get(name)
        for number, box in enumerate(boxes):
            value = take_box(base[name], storage.origin, box)
            for weight, slope in zip(weights, slopes, strict=True):
                if weight:
                    value = value + (jnp.asarray(weight, step.dtype) * step).astype(value.dtype) * slope[name][number]
            start = [a - o for a, o in zip(box.start, storage.origin, strict=True)]
            if array is None:
                high = [n - a - s for n, a, s in zip(storage.padded_shape, start, box.shape, strict=True)]
                padding = [(a, b, 0) for a, b in zip(start, high, strict=True)]
                array = lax.pad(value, jnp.zeros((), value.dtype), padding)
            else:
                array = lax.dynamic_update_slice(array, value, start)
        assert array is not None
        result[name] = array
    return result

"""Levels of an affine march on the grid: the next one, and padded arrays from the values of the unknown points."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..planning import Parallel, Piece
from ..schemes import ALL, AbstractSystem, Part, Values, Walls
from ._affine_march import AffineMarch
from ._level import Arrays, Level, take_box
from ._march_call import MarchCall
from ._slices import evaluate, write

Levels = dict[str, tuple[jax.Array, ...]]
Slopes = Callable[[Values, Part], Values]


@dataclass(frozen=True, eq=False)
class Rates(AbstractSystem):
    """Rates that do not depend on time, given as a function: what one-step methods need to take a step."""

    number: Any
    step: Any
    start: Values
    slopes: Slopes

    def rates(self, values: Values, fraction: Any, walls: Walls | None = None, part: Part = ALL) -> Values:
        return self.slopes(values, part)

    def speeds(self, values: Values, fraction: Any) -> Any:
        raise NotImplementedError("methods that ask for speeds are refused")

    def symbol(self) -> Any:
        raise NotImplementedError("methods that ask for the symbol are refused")

    def constant_rates(self, fraction: Any) -> Values:
        raise NotImplementedError("methods that ask for sources are refused")


def next_level(call: MarchCall, march: AffineMarch, arrays: Arrays, levels: Levels) -> Levels:
    """The levels held after one step on the grid."""
    if march.rated:
        new = _step_rates(call, march, arrays, levels)
    else:
        level = Level(call.structure, arrays, {}, levels, 0, 1.0, None)
        for piece in _pieces(call):
            array = write(level, piece, call.axes, level.current.get(piece.field), call.structure.array(piece.field))
            level = level.with_current(piece.field, array)
        new = level.current
    return {name: (new[name], *held[:-1]) for name, held in levels.items()}


def unknowns(call: MarchCall, march: AffineMarch, levels: Levels) -> Levels:
    """The values of the unknown points, by field and age."""
    return {
        one.name: tuple(take_box(a, call.structure.array(one.name).origin, one.box) for a in levels[one.name])
        for one in march.fields
    }


def completed(
    call: MarchCall, march: AffineMarch, arrays: Arrays, values: dict[str, jax.Array]
) -> dict[str, jax.Array]:
    """Padded arrays with the given values at the unknown points, and all that holds around them."""
    current = {}
    for one in march.fields:
        storage = call.structure.array(one.name)
        low = [a - o for a, o in zip(one.box.start, storage.origin, strict=True)]
        high = [n - a - s for n, a, s in zip(storage.padded_shape, low, one.box.shape, strict=True)]
        padding = [(a, b, 0) for a, b in zip(low, high, strict=True)]
        current[one.name] = lax.pad(values[one.name], jnp.zeros((), values[one.name].dtype), padding)
    level = Level(call.structure, arrays, current, {}, 0, 1.0, None)
    for piece in _pieces(call):
        if piece in march.pieces:
            continue
        array = write(level, piece, call.axes, level.current[piece.field], call.structure.array(piece.field))
        level = level.with_current(piece.field, array)
    return level.current


def assembled(call: MarchCall, march: AffineMarch, arrays: Arrays, reached: dict[tuple[str, int], jax.Array]) -> Levels:
    """Padded arrays of all levels held."""
    result: dict[str, list[jax.Array]] = {one.name: [] for one in march.fields}
    for age in range(march.held):
        # A field of which this level is not held takes part with any values: no wall reads another field.
        here = {one.name: reached[one.name, min(age, one.held - 1)] for one in march.fields}
        whole = completed(call, march, arrays, here)
        for one in march.fields:
            if age < one.held:
                result[one.name].append(whole[one.name])
    return {name: tuple(arrays_of) for name, arrays_of in result.items()}


def constant_part(call: MarchCall, march: AffineMarch, arrays: Arrays) -> dict[str, jax.Array]:
    """What a step makes of zeros at the unknown points: sources, and walls that are not zero."""
    dtype = call.structure.arrays[0].dtype
    zeros = {one.name: jnp.zeros(one.box.shape, dtype) for one in march.fields}
    around = completed(call, march, arrays, zeros)
    levels = {one.name: (around[one.name],) * one.held for one in march.fields}
    found = unknowns(call, march, next_level(call, march, arrays, levels))
    return {name: values[0] for name, values in found.items()}


def _pieces(call: MarchCall) -> list[Piece]:
    return [stage.piece for stage in call.phase.stages if isinstance(stage, Parallel)]


def _step_rates(call: MarchCall, march: AffineMarch, arrays: Arrays, levels: Levels) -> dict[str, jax.Array]:
    """One step of the stepper; the level before stands as it is, those of inner stages are completed."""
    before = {name: held[0] for name, held in levels.items()}
    start = {name: (held[0],) for name, held in unknowns(call, march, levels).items()}
    structure = call.structure

    def slopes(values: Values, part: Part) -> Values:
        given = {name: boxes[0] for name, boxes in values.items()}
        current = before if values is start else completed(call, march, arrays, given)
        level = Level(structure, arrays, current, {}, 0, 1.0, None)
        found: dict[str, tuple[Any, ...]] = {}
        for piece in march.pieces:
            if part.has(piece.field, piece.group, structure.is_linear(piece.rule)):
                value = evaluate(level, piece, call.axes)
                found[piece.field] = (found[piece.field][0] + value if piece.field in found else value,)
        return found

    assert structure.stepper is not None
    values, _ = structure.stepper.step(Rates(0, arrays.wholes["dt"], start, slopes), None, None)
    return completed(call, march, arrays, {name: boxes[0] for name, boxes in values.items()})

"""The rates of one level as a stepper sees them: the one right-hand side that every method uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Arrays, Level, evaluate, evaluate_shared, put_boxes, selector, take_box
from ..planning import PhaseStructure, Structure, rates_of, stages_for
from ..region import Box
from ..schemes import ALL, AbstractSystem, Part, Values, Walls
from ._along import evaluate_along
from ._fill import complete, complete_for_rates, spares, with_views
from ._implicit import solve_along, solve_implicit
from ._linear import courant_number, linear_symbol
from ._state import State
from ._time import time_of

Evaluate = Callable[[Level, Any, tuple[str, ...]], jax.Array]
"""The values of a piece at a level."""


@dataclass(frozen=True, eq=False)
class System(AbstractSystem):
    """One step of the rates of a phase, from the levels kept in `state` to level `number`."""

    structure: Structure
    phase: PhaseStructure
    arrays: Arrays
    state: State
    number: Any
    axes: tuple[str, ...]
    systems: Mapping[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        before = {name: levels[0] for name, levels in self.state.levels.items() if levels}
        start = {
            name: tuple(take_box(before[name], self.structure.array(name).origin, box) for box in boxes)
            for name, boxes in self.phase.given
        }
        signs = next((own for name, own in self.structure.signs if name in start), ())
        own = (("before", before), ("start", start), ("step", self.arrays.wholes["dt"]), ("signs", signs))
        for name, value in own:
            object.__setattr__(self, name, value)

    def rates(self, values: Values, fraction: Any, walls: Walls | None = None, part: Part = ALL) -> Values:
        return self._slopes(self._level(values, fraction, walls, part), part)

    def speeds(self, values: Values, fraction: Any) -> Any:
        return courant_number(self.structure, self.phase, self._level(values, fraction, None), self.axes)

    def symbol(self) -> Any:
        return linear_symbol(self.structure, self.phase, self._moment({}, 0.0), tuple(self.start))

    def constant_rates(self, fraction: Any) -> Values:
        zeros = {name: jnp.zeros_like(array) for name, array in self.before.items()}  # type: ignore[attr-defined]
        return self._slopes(self._standing(zeros, fraction), Part(linear=True))

    def solve(
        self,
        base: Values,
        factor: Any,
        fraction: Any,
        guess: Values | None = None,
        part: Part = ALL,
        walls: Walls | None = None,
    ) -> tuple[Values, Any]:
        return solve_implicit(self, base, float(factor), fraction, guess, part, walls)

    def axis_solve(self, axis: str, factor: Any, rhs: Values, fraction: Any) -> Values:
        return solve_along(self, axis, float(factor), rhs, fraction)

    def axis_change(self, axis: str, fraction: Any) -> Values:
        moved = self._level(dict(self.start), fraction, None).current
        before = self._standing(self.before, 0.0).current  # type: ignore[attr-defined]
        return self._along(axis, {name: moved[name] - before[name] for name in moved if name in before}, fraction)

    def axis_rates(self, axis: str, change: Values, fraction: Any) -> Values:
        """The part along an axis of what a change of the values at the start adds to the rates; walls stay."""

        def padded(values: Values) -> dict[str, jax.Array]:
            return self._level(values, fraction, None).current

        return self._along(axis, jax.jvp(padded, (dict(self.start),), (change,))[1], fraction)

    def _along(self, axis: str, change: dict[str, jax.Array], fraction: Any) -> Values:
        level = self._standing(self.before, fraction)  # type: ignore[attr-defined]
        return self._slopes(level, ALL, lambda at, piece, axes: evaluate_along(at, change, piece, axes, axis))

    def finish(self, values: Values) -> Level:
        """The new level: what the stepper gave, and all that holds beside it."""
        given = self._padded(values, spares(self.structure, self.state.levels))
        level = replace(self._moment(given, 1.0), time=time_of(self.arrays, self.number))
        return complete(self.structure, self.phase, level, self.axes)

    def _level(self, values: Values, fraction: Any, walls: Walls | None, part: Part = ALL) -> Level:
        """The level of a stage, with all that rates read: the start of the step stands in the level before."""
        if values is self.start:
            return self._standing(self.before, fraction)  # type: ignore[attr-defined]
        level = self._moment(self._padded(values, {}), fraction)
        return complete_for_rates(self.structure, self.phase, level, self.axes, walls, part)

    def _standing(self, current: dict[str, jax.Array], fraction: Any) -> Level:
        """A level whose fields stand, with all that rates read."""
        return with_views(self.structure, self.phase, self._moment(current, fraction), self.axes)

    def _moment(self, current: dict[str, jax.Array], fraction: Any) -> Level:
        start = time_of(self.arrays, self.number - 1)
        time = start + jnp.asarray(fraction, self.step.dtype) * self.step
        levels = self.state.levels
        return Level(self.structure, self.arrays, current, levels, self.number, fraction, time, {}, self.systems)

    def _slopes(self, level: Level, part: Part, value: Evaluate = evaluate) -> Values:
        """du/dt on every given box: the pieces that define it, then those that add to it; `value` is that of one."""
        structure, result, rates = self.structure, {}, self.phase.rates
        if len(stages_for(structure, self.phase, part)) < len(self.phase.every_stage):
            rates = tuple(rates_of(structure, self.phase, part))  # others may read what is not solved for here
        level = level.with_cuts(rates, self.axes).with_cuts_now(level.current, rates)
        if value is evaluate:
            ready = evaluate_shared(level, rates, self.axes)
            value = lambda at, piece, axes: ready[piece] if piece in ready else evaluate(at, piece, axes)  # noqa: E731
        for name, boxes in self.phase.given:
            own = {
                p
                for p in self.phase.rates
                if p.field == name and part.has(name, p.group, structure.is_linear(p.rule), p.implicit)
            }
            if own:
                result[name] = tuple(self._slope(level, name, own, box, value) for box in boxes)
        return result

    def _slope(self, level: Level, name: str, own: set[Any], box: Box, evaluate: Evaluate) -> jax.Array:
        total, waiting, dtype = None, {}, self.structure.array(name).dtype
        for piece in (p for p in self.phase.rates if p in own or (p.field == name and p.replaces)):
            common = piece.box.intersect(box)
            if common.empty:
                continue
            # A rate that takes the place of others takes it in all parts: it is zero in those that it is none of.
            value = evaluate(level, piece, self.axes) if piece in own else jnp.zeros(piece.box.shape, dtype)
            held = selector(level, piece, self.axes, piece.box)
            value = take_box(value, piece.box.start, common)
            if any(not common.intersect(other).empty for other in waiting):
                total, waiting = _put(total, waiting, box), {}
            if held is None and not piece.adds:
                waiting[common] = value
                continue
            held = None if held is None else take_box(held, piece.box.start, common)
            total, waiting = _merge(_put(total, waiting, box), value, held, piece.adds, common, box), {}
        total = _put(total, waiting, box)
        if total is None:  # a part of the rates that has none here
            return jnp.zeros(box.shape, dtype)
        return total

    def _padded(self, values: Values, spare: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Padded arrays with the values on the given boxes; what lies outside them is set later."""
        result = {}
        for name, boxes in self.phase.given:
            storage, array = self.structure.array(name), spare.get(name)
            for value, box in zip(values[name], boxes, strict=True):
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


def _put(total: jax.Array | None, waiting: dict[Box, jax.Array], box: Box) -> jax.Array | None:
    """What holds on a box so far, with values on boxes within it that have no points in common."""
    if not waiting or box in waiting:
        return waiting.get(box, total)
    values = list(waiting.values())
    total = jnp.zeros(box.shape, values[0].dtype) if total is None else total
    return put_boxes(total, values, [one.shift(tuple(-o for o in box.start)) for one in waiting])


def _merge(
    total: jax.Array | None, value: jax.Array, held: jax.Array | None, adds: bool, common: Box, box: Box
) -> jax.Array:
    if total is None:
        total = jnp.zeros(box.shape, value.dtype)
    below = take_box(total, box.start, common)
    value = below + value if adds else value
    value = value if held is None else jnp.where(held, value, below)
    return lax.dynamic_update_slice(total, value, [a - o for a, o in zip(common.start, box.start, strict=True)])

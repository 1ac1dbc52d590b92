"""Taking steps back: levels of plain rules solved for the oldest one, and symmetric steppers with −Δt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..adjoint import AbstractAdjoint, AbstractWayBack, Full, Reversible, Step
from ..errors import PlanningError
from ..kernels import Arrays, Level, evaluate, place, selector, take_box, write
from ..planning import Array, PhaseStructure, Piece, Segment, Solve, Structure, index_key, pieces_of, weight_key
from ..region import Box, Points
from ..stencil import ProfileRead, WholeRead
from ._fill import complete
from ._record import recorded
from ._reverse import Reversal, find_reversal, refuse, restricted
from ._stand_in import stand_in
from ._state import State
from ._system import System
from ._time import time_of

MAX_PLAIN = 4
"""Segments of so few levels (initial states, first steps) are differentiated as they are."""


def adjoint_of(structure: Structure, segment: Segment, axes: tuple[str, ...]) -> AbstractAdjoint:
    """The adjoint of a segment: a reversible one told how the segment's steps are undone."""
    adjoint = structure.adjoint
    if not isinstance(adjoint, Reversible):
        return adjoint
    way = _way_back(structure, segment, axes, adjoint)
    return Full() if way is None else adjoint.bind(way)


def describe_adjoint(
    structure: Structure, axes: tuple[str, ...], adjoint: AbstractAdjoint, count: int, state_bytes: int
) -> str:
    """What the plan prints of an adjoint for so many steps."""
    if not isinstance(adjoint, Reversible):
        return adjoint.describe(count, state_bytes)
    found = [_way_back(structure, segment, axes, adjoint) for segment in structure.segments]
    ways = [way for way in found if way is not None]
    if not ways:
        return f"{adjoint!r}: differentiates so few steps ({count}) as they are, {state_bytes * count} bytes"
    kept = max((way.bytes_kept() for way in ways), default=0)
    beside = f"; keeps {kept} bytes at every step beside what is lost, {kept * count} in all" if kept else ""
    return adjoint.describe(count, state_bytes) + beside


def _way_back(
    structure: Structure, segment: Segment, axes: tuple[str, ...], adjoint: Reversible
) -> "_PlainWayBack | _SteppedWayBack | None":
    """How the steps of a segment are undone; None where it is too short to be."""
    count = segment.stop - max(segment.start, 1)
    if segment.starting or count <= MAX_PLAIN:
        return None
    way = _found_way(structure, segment, axes, adjoint.layer)
    adjoint.afford(way.bytes_kept(), count)
    return way


def _found_way(
    structure: Structure, segment: Segment, axes: tuple[str, ...], layer: str
) -> "_PlainWayBack | _SteppedWayBack":
    """How the steps of a segment are undone, whatever it keeps."""
    if len(set(segment.phases)) > 1:
        refuse("a problem whose rules change from level to level", "a step is undone by the rules of its own level")
    phase = structure.phases[segment.phases[0]]
    if phase.rates:
        return _stepped(structure, phase, axes, layer)
    return _PlainWayBack(structure, phase, axes, find_reversal(structure, phase, layer), layer == "frozen")


@dataclass(frozen=True, eq=False)
class _PlainWayBack(AbstractWayBack):
    """Levels of plain rules."""

    structure: Structure
    phase: PhaseStructure
    axes: tuple[str, ...]
    reversal: Reversal
    frozen: bool

    @property
    def reach(self) -> int:  # type: ignore[override]
        return max((one.kept for one in self.structure.carried), default=1)

    @property
    def keeps(self) -> bool:  # type: ignore[override]
        return bool(self.reversal.kept)

    def bytes_kept(self) -> int:
        """Bytes kept at every step."""
        return _bytes_of(self.structure, self.reversal.kept)

    def keep(self, carry: Any) -> Any:
        return _take(self.structure, self.reversal.kept, carry[0])

    def back(self, consts: Any, first: Any, carry: Any, kept: Any, place: Any, number: Any) -> Any:
        (state, records), start, arrays = carry, first[0], consts[0]
        current = {one.name: state[one.name][0] for one in self.structure.carried if one.kept}
        older: dict[str, jax.Array] = {}
        for name in self.reversal.order:
            depth = self.structure.array(name).kept
            level = self._level(arrays, current, state, older, number)
            if not depth:
                current[name] = self._beside(level, name)
                continue
            own = tuple(lax.dynamic_index_in_dim(one, place - depth, keepdims=False) for one in kept.get(name, ()))
            found = self._found(level, name, own, state, older, number - depth)
            for step, held in enumerate(reversed(start[name])):  # the first state holds these levels itself
                found = jnp.where(place == step, held, found)
            older[name] = found
        levels = {name: (*held[1:], older[name]) if name in older else held for name, held in state.levels.items()}
        return State(levels, state.memory, state.logs), records

    def _level(self, arrays: Arrays, current: Any, state: State, older: Any, number: Any) -> Level:
        held = {name: (*levels[1:], older[name]) for name, levels in state.levels.items() if name in older}
        held |= {name: (*v[1:], jnp.zeros_like(v[0])) for name, v in state.levels.items() if name not in older}
        return Level(self.structure, arrays, dict(current), held, number, 1.0, time_of(arrays, number))

    def _beside(self, level: Level, name: str) -> jax.Array:
        """A field that is not kept, computed at its level."""
        stages = tuple(s for s in self.phase.stages if all(piece.field == name for piece in pieces_of(s)))
        return complete(self.structure, replace(self.phase, stages=stages), level, self.axes).current[name]

    def _found(self, level: Level, name: str, kept: Any, state: State, older: Any, number: Any) -> jax.Array:
        """The oldest level of a field, which the level given was computed from."""
        structure, reversal, axes = self.structure, self.reversal, self.axes
        storage, new = structure.array(name), level.current[name]
        found = jnp.zeros(storage.padded_shape, storage.dtype)
        for piece in self._own(name):
            if piece.adds:
                continue
            weight = reversal.inverted[name].get(piece)
            if weight is not None:
                value = _less(take_box(new, storage.origin, piece.box), self._rest(level, piece), weight)
                found = place(level, piece, axes, found, storage, value)
            elif piece in reversal.lost[name] and (piece.mask is not None or piece.predicate is not None):
                found = place(level, piece, axes, found, storage, jnp.zeros(piece.box.shape, found.dtype))
        found = _put(storage, reversal.kept.get(name, ()), kept, found)
        known = {other: array for other, array in older.items() if structure.array(other).kept == storage.kept}
        known |= {n: v[storage.kept] for n, v in state.levels.items() if structure.array(n).kept > storage.kept}
        before = Level(structure, level.arrays, {**known, name: found}, {}, number, 1.0, time_of(level.arrays, number))
        for piece in reversal.again[name]:
            before = before.with_current(name, write(before, piece, axes, before.current[name], storage))
            for one in self._own(name):
                common = one.box.intersect(piece.box)
                if one.adds and not common.empty:
                    part = restricted(one, common)
                    before = before.with_current(name, write(before, part, axes, before.current[name], storage))
        return before.current[name]

    def _own(self, name: str) -> list[Piece]:
        return [piece for stage in self.phase.stages for piece in pieces_of(stage) if piece.field == name]

    def _rest(self, level: Level, piece: Piece) -> jax.Array:
        """What a piece and those that add to it give for an old value of zero."""
        value = evaluate(level, piece, self.axes)
        for one in self._own(piece.field):
            common = one.box.intersect(piece.box)
            if not one.adds or common.empty:
                continue
            part = restricted(one, common)
            more, held = evaluate(level, part, self.axes), selector(level, part, self.axes, common)
            more = more if held is None else jnp.where(held, more, jnp.zeros((), more.dtype))
            start = [a - o for a, o in zip(common.start, piece.box.start, strict=True)]
            value = lax.dynamic_update_slice(value, take_box(value, piece.box.start, common) + more, start)
        return value

    def step(self, step: Step, consts: Any, carry: Any, number: Any, after: Any = None) -> Any:
        if not self.reversal.loses:
            return step(consts, carry, number)
        arrays = consts[0]
        advance = partial(self._advance, arrays, None if after is None else after[0])
        return recorded(self.structure, self.axes, arrays, advance)(carry, number)

    def _advance(self, arrays: Arrays, after: State | None, state: State, number: Any) -> State:
        """One level; values in layers are those known, with the derivative of what the state gives."""
        structure, reversal = self.structure, self.reversal
        level = Level(structure, arrays, {}, state.levels, number, 1.0, time_of(arrays, number))
        for stage in self.phase.stages:
            first = pieces_of(stage)[0]
            held = self._constant(arrays, first) if self.frozen and first in reversal.blind else arrays
            level = replace(level, arrays=held)
            level = complete(structure, replace(self.phase, stages=(stage,)), level, self.axes)
            level = replace(level, arrays=arrays)
            level = level if after is None else self._known(level, pieces_of(stage), after)
        new = {one.name: (level.current[one.name], *state[one.name][:-1]) for one in structure.carried}
        return State(new, state.memory, state.logs)

    def _known(self, level: Level, pieces: Sequence[Piece], after: State) -> Level:
        """The level with the points of some pieces that lose set to what is known of them."""
        for name in dict.fromkeys(piece.field for piece in pieces):
            storage, lost = self.structure.array(name), self.reversal.lost[name]
            pairs = [(one, p) for p in pieces if p.field == name for one in lost if one == p or p.adds]
            boxes = [b for b in dict.fromkeys(one.box.intersect(p.box) for one, p in pairs) if not b.empty]
            if boxes:
                known = [take_box(after[name][0], storage.origin, box) for box in boxes]
                starts = tuple(tuple(a - o for a, o in zip(b.start, storage.origin, strict=True)) for b in boxes)
                level = level.with_current(name, stand_in(starts, level.current[name], known))
        return level

    def _constant(self, arrays: Arrays, piece: Piece) -> Arrays:
        """The arrays, without derivatives of those that the weights of a piece depend on."""
        operands, on_consts = self.reversal.blind[piece]
        profiles = {one.name for one in operands if isinstance(one, ProfileRead)}
        wholes = {one.name for one in operands if isinstance(one, WholeRead)}
        stop = lax.stop_gradient
        return Arrays(
            {name: stop(array) if name in profiles else array for name, array in arrays.profiles.items()},
            {name: stop(array) if name in wholes else array for name, array in arrays.wholes.items()},
            [stop(c) if on_consts and k == piece.rule else c for k, c in enumerate(arrays.consts)],
        )

    def check(self, consts: Any, moving: Sequence[bool]) -> None:
        if not self.reversal.blind:
            return
        profiles, wholes, rules = _moving(consts, moving)
        for piece, (operands, on_consts) in self.reversal.blind.items() if not self.frozen else ():
            found = [one.name for one in operands if isinstance(one, ProfileRead) and one.name in profiles]
            found += [one.name for one in operands if isinstance(one, WholeRead) and one.name in wholes]
            found += ["an array it closes over"] if on_consts and piece.rule in rules else []
            if found:
                raise PlanningError(
                    f"Reversible(): {piece.label} on {piece.field}{piece.box} lies in an absorbing layer, where the "
                    f"state is not known on the way back, and the derivative by {found[0]} needs it. Take "
                    f"Reversible(layer='frozen'), which leaves that part of the derivative out; Reversible(layer="
                    f"'saved'), which keeps the layer at every step; or Checkpointed()."
                )
        for one in self.structure.declared if self.structure.recording else ():
            if any(key(one.name, axis) in wholes for key in (index_key, weight_key) for axis in self.axes):
                raise PlanningError(
                    "Reversible(): the derivative by places of receivers needs the state there, which is not known in "
                    "absorbing layers. Take Reversible(layer='saved') or Checkpointed()."
                )


def _moving(consts: Any, moving: Sequence[bool]) -> tuple[set[str], set[str], set[int]]:
    """Which profiles, whole arrays and rules with constants are differentiated by."""
    found: dict[str, set[Any]] = dict(profiles=set(), wholes=set(), consts=set())
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(consts)[0]]
    for path, moves in zip(paths, moving, strict=True):
        if moves and path[0].idx == 0:  # of the arrays; the others are what steppers and systems made of them
            found[path[1].name].add(path[2].key if path[1].name != "consts" else path[2].idx)
    return found["profiles"], found["wholes"], found["consts"]


def _less(new: jax.Array, rest: jax.Array, weight: complex) -> jax.Array:
    """(new − rest) / weight, for a weight of modulus 1."""
    if weight == 1:
        return new - rest
    if weight == -1:
        return rest - new
    return (new - rest) * np.asarray(1 / weight, new.dtype)


def _bytes_of(structure: Structure, kept: Mapping[str, Sequence[Box]]) -> int:
    """Bytes of the values on some boxes of fields."""
    return sum(box.size * np.dtype(structure.array(name).dtype).itemsize for name in kept for box in kept[name])


def _take(structure: Structure, kept: Mapping[str, Sequence[Box]], state: State) -> dict[str, tuple[jax.Array, ...]]:
    """The newest values on some boxes of fields."""
    origins = {name: structure.array(name).origin for name in kept}
    return {name: tuple(take_box(state[name][0], origins[name], box) for box in boxes) for name, boxes in kept.items()}


def _put(storage: Array, boxes: Sequence[Box], values: Sequence[jax.Array], array: jax.Array) -> jax.Array:
    """A padded array with values on some boxes."""
    for box, value in zip(boxes, values, strict=True):
        start = [a - o for a, o in zip(box.start, storage.origin, strict=True)]
        array = lax.dynamic_update_slice(array, value, start)
    return array


def _stepped(structure: Structure, phase: PhaseStructure, axes: tuple[str, ...], layer: str) -> "_SteppedWayBack":
    stepper = structure.stepper
    assert stepper is not None
    if not stepper.steps_back:
        refuse(
            f"{phase.rates[0].label} under {stepper!r}",
            "only symmetric steppers lose nothing (StormerVerlet, Leapfrog without a filter)",
        )
    for stage in phase.stages:
        if isinstance(stage, Solve):
            refuse(f"the equations for {', '.join(stage.fields)}", "they are solved anew at every level")
        for piece in pieces_of(stage):
            memory = piece.stretched and structure.array(piece.field).hidden
            if not memory and any(read.level for read in structure.rules[piece.rule].reads):
                reason = "it reads older levels beside rates; write the waves as plain rules to have them undone"
                refuse(piece.label, reason)
    return _SteppedWayBack(structure, phase, axes, _layers_kept(structure, phase, layer))


def _layers_kept(structure: Structure, phase: PhaseStructure, layer: str) -> dict[str, tuple[Box, ...]]:
    """What is kept of absorbing layers under a stepper: all of them, and around them as far as a step reaches.

    The stages of a step read each other, so that what a step back makes of a layer spreads as far; there it is put
    right by what was kept. Raises PlanningError for layers that are not to be kept.
    """
    lost = [piece for piece in phase.rates if piece.stretched]
    if not lost:
        return {}
    stepper, every = structure.stepper, [*phase.rates, *phase.values]
    assert stepper is not None
    if layer != "saved":
        raise PlanningError(
            f"Reversible(): {lost[0].label} on {lost[0].field}{lost[0].box} lies in an absorbing layer, and the stages "
            f"of {stepper!r} read it several times in a step: it is kept whole, or not at all. Take Reversible(layer="
            f"'saved'), which keeps it at every step; the same waves as plain rules; or Checkpointed()."
        )
    if lines := [piece for piece in every if piece.operation is not None]:
        refuse(lines[0].label, "it acts on whole lines, through an absorbing layer that loses")
    reach: dict[str, list[int]] = {}
    for piece in every:
        far = reach.setdefault(piece.field, [0] * piece.box.ndim)
        for read in structure.rules[piece.rule].reads:
            far[:] = map(max, far, map(abs, read.offset))
    around = tuple((stepper.evaluations + 1) * (1 + sum(far)) for far in zip(*reach.values(), strict=True))
    points = Points()
    for piece in lost:
        points = points.union(Points.of_box(piece.box.grow(around, around)))
    kept = {}
    for one in structure.carried:
        memory = all(piece.stretched for piece in every if piece.field == one.name) and one.hidden
        whole = Box(one.origin, tuple(n + up for n, up in zip(one.shape, one.upper, strict=True)))
        parts = [whole] if memory else [part.box.intersect(whole) for part in points.parts]
        kept[one.name] = tuple(box for box in parts if not box.empty)
    return kept


@dataclass(frozen=True, eq=False)
class _SteppedWayBack(AbstractWayBack):
    """Steps of a symmetric stepper; `kept` are the boxes that are not found again."""

    structure: Structure
    phase: PhaseStructure
    axes: tuple[str, ...]
    kept: Mapping[str, tuple[Box, ...]]

    reach = 1

    @property
    def keeps(self) -> bool:  # type: ignore[override]
        return bool(self.kept)

    def bytes_kept(self) -> int:
        """Bytes kept at every step."""
        return _bytes_of(self.structure, self.kept)

    def keep(self, carry: Any) -> Any:
        return _take(self.structure, self.kept, carry[0])

    def back(self, consts: Any, first: Any, carry: Any, kept: Any, place: Any, number: Any) -> Any:
        structure, stepper, arrays, (state, records) = self.structure, self.structure.stepper, consts[0], carry
        assert stepper is not None

        def at(values: Any) -> System:
            """The step from given values."""
            given = System(structure, self.phase, arrays, state, number, self.axes)._padded(values, {})
            older = state.levels if self.kept else {}  # memories are made of those before, and put right below
            level = Level(structure, arrays, given, older, number - 1, 1.0, time_of(arrays, number - 1))
            found = complete(structure, self.phase, level, self.axes).current
            for name, boxes in self.kept.items():
                own = tuple(lax.dynamic_index_in_dim(one, place - 1, keepdims=False) for one in kept[name])
                found = {**found, name: _put(structure.array(name), boxes, own, found[name])}
            levels = {one.name: (found[one.name],) for one in structure.carried}
            return System(structure, self.phase, arrays, State(levels), number, self.axes)

        here = System(structure, self.phase, arrays, state, number, self.axes)
        system, memory = stepper.step_back(here, state.memory, at)
        assert isinstance(system, System)
        found = (system.state.levels, memory)
        begun = (first[0].levels, first[0].memory)
        levels, memory = jax.tree.map(lambda a, b: jnp.where(place < 1, a, b), begun, found)
        return State(levels, memory, state.logs), records

    def step(self, step: Step, consts: Any, carry: Any, number: Any, after: Any = None) -> Any:
        return step(consts, carry, number)

    def check(self, consts: Any, moving: Sequence[bool]) -> None:
        return None

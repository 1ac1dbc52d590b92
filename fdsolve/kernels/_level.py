"""The values known while one level is computed, and how operands are taken from them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..planning import Piece, Structure
from ..region import Box
from ..stencil import Operand, ProfileRead, StateRead, Traced
from ._boxes import cut_boxes

Taken = tuple[Any, jax.Array, tuple[int, ...], Box]
"""What is read of an array: a key, the array, the index where it begins, and where it is read."""


@dataclass(frozen=True, eq=False)
class Arrays:
    """The arrays of a run: profiles and whole arrays by name, and the constants of each rule.

    `cuts` holds boxes of profiles that were cut out before all steps, by name and where they are read.
    """

    profiles: Mapping[str, jax.Array]
    wholes: Mapping[str, jax.Array]
    consts: Sequence[tuple[jax.Array, ...]]
    cuts: Mapping[tuple[str, Box], jax.Array] = field(default_factory=dict)

    def leaf_names(self) -> list[str]:
        """What its leaves are called by operands; boxes that were cut out go by names of their own."""
        found = []
        for (group, *keys), _ in jax.tree_util.tree_flatten_with_path(self)[0]:
            if group.name == "consts":
                found.append(" ".join(["rule", *(str(key.idx) for key in keys)]))
            else:
                found.append(f"cut {keys[0].key[0]}" if group.name == "cuts" else keys[0].key)
        return found

    def with_cuts(self, structure: Structure, pieces: Sequence[Piece], axes: tuple[str, ...]) -> "Arrays":
        """The arrays with what pieces read of profiles cut out: what comes back to it in each step is summed up box by
        box, and put together once. Where boxes overlap, so that they hold more than the profile, they are not."""
        cuts = Level(structure, self, {}, {}, 0, 1.0, None).with_profiles_cut(pieces, axes).cuts
        held = Counter[str]()
        for (name, _), cut in cuts.items():
            held[name] += cut.size
        return replace(self, cuts={key: cut for key, cut in cuts.items() if held[key[0]] <= self.profiles[key[0]].size})


jax.tree_util.register_dataclass(Arrays, data_fields=["profiles", "wholes", "consts", "cuts"], meta_fields=[])


@dataclass(frozen=True, eq=False)
class Level:
    """One level (or stage) being computed.

    `current` holds padded arrays by field, `older[name][0]` the level before; `number` is the level's index and
    `fraction` how far a stage lies from the level before (1.0) to it; arrays along time are interpolated between.
    `spare` holds arrays whose values are no longer needed, for the new level to be written into; `systems`, by stage,
    what was made ready to solve it, `reports` how solving it went. `cuts` holds boxes of arrays that were cut out
    together, by what is read and where; who puts other arrays in their places leaves them out.
    """

    structure: Structure
    arrays: Arrays
    current: dict[str, jax.Array]
    older: Mapping[str, tuple[jax.Array, ...]]
    number: Any
    fraction: Any
    time: Any
    spare: Mapping[str, jax.Array] = field(default_factory=dict)
    systems: Mapping[Any, Any] = field(default_factory=dict)
    reports: Mapping[Any, Any] = field(default_factory=dict)
    cuts: Mapping[Any, jax.Array] = field(default_factory=dict)

    def with_cuts(self, pieces: Sequence[Piece], axes: tuple[str, ...]) -> "Level":
        """The level with what pieces read cut out together, of levels before and profiles.

        Slices of an array, one by one, transpose to as many sums over all of it. A level that the next one keeps is
        itself among them: what comes back to it is added where the others are.
        """
        level = self.with_profiles_cut(pieces, axes)
        return level._with_cut((piece, one) for piece in pieces for one in self._reads_before(piece))

    def with_profiles_cut(self, pieces: Sequence[Piece], axes: tuple[str, ...]) -> "Level":
        """The level with what pieces read of profiles that do not change in time cut out together."""
        return self._with_cut((piece, one) for piece in pieces for one in self._profiles_read(piece, axes))

    def with_cuts_now(self, names: Collection[str], pieces: Sequence[Piece]) -> "Level":
        """The level with what pieces read of some fields at the level itself cut out together: of these, nothing
        changes meanwhile."""
        return self._with_cut((piece, one) for piece in pieces for one in self._reads_now(piece) if one[0][0] in names)

    def _with_cut(self, reads: Iterable[tuple[Piece, Taken]]) -> "Level":
        wanted: dict[Any, tuple[jax.Array, dict[Box, Box]]] = {}
        largest: dict[Any, Piece] = {}
        for piece, (key, array, origin, at) in reads:
            if (key, at) not in self.cuts:
                here = at.shift(tuple(-o for o in origin))
                inside = all(a >= 0 and b <= n for a, b, n in zip(here.start, here.stop, array.shape, strict=True))
                if inside and jnp.issubdtype(array.dtype, jnp.inexact):
                    wanted.setdefault(key, (array, {}))[1][at] = here
                    largest[key] = max(largest.get(key, piece), piece, key=lambda one: one.box.size)
        cuts = {}
        for key, (array, boxes) in wanted.items():
            if len(boxes) > 1:
                if key in self._passed_on:
                    boxes[self._whole(key[0], array)] = Box((0,) * array.ndim, array.shape)
                found = cut_boxes(array, list(boxes.values()), weighed=self._weighs(largest[key]))
                cuts |= {(key, at): part for at, part in zip(boxes, found, strict=True)}
        return replace(self, cuts={**self.cuts, **cuts}) if cuts else self

    def _weighs(self, piece: Piece) -> bool:
        """Whether a piece multiplies what it reads of fields by arrays, and by nothing else that changes."""
        rule = self.structure.rules[piece.rule]
        return rule.affine and weights_vary(rule)

    @property
    def _passed_on(self) -> set[tuple[str, int]]:
        """The levels that the next one keeps, by field and number from it."""
        return {(one.name, -k) for one in self.structure.carried for k in range(1, one.kept)}

    def _whole(self, name: str, array: jax.Array) -> Box:
        """All points of a field's array."""
        return Box((0,) * array.ndim, array.shape).shift(self.structure.array(name).origin)

    def passed_on(self, name: str) -> tuple[jax.Array, ...]:
        """The levels of a field that stand behind this one in the next state: all but the oldest."""
        held = self.older[name][:-1]
        return tuple(self.cuts.get(((name, -k), self._whole(name, one)), one) for k, one in enumerate(held, start=1))

    def _operands_of(self, piece: Piece) -> Iterator[Operand]:
        for number in (piece.rule, piece.predicate):
            yield from () if number is None else self.structure.rules[number].operands

    def _reads_now(self, piece: Piece) -> Iterator[Taken]:
        """What a piece reads of fields at the level itself."""
        reads = (one for one in self._operands_of(piece) if isinstance(one, StateRead) and one.level == 0)
        yield from (self._taken(one, piece) for one in reads if one.field in self.current)

    def _taken(self, read: StateRead, piece: Piece) -> Taken:
        origin = self.structure.array(read.field).origin
        return (read.field, read.level), self._array_of(read), origin, piece.box.shift(read.offset)

    def _reads_before(self, piece: Piece) -> Iterator[Taken]:
        """What a piece reads of fields at levels before."""
        reads = (one for one in self._operands_of(piece) if isinstance(one, StateRead) and one.level < 0)
        yield from (self._taken(one, piece) for one in reads)

    def _profiles_read(self, piece: Piece, axes: tuple[str, ...]) -> Iterator[Taken]:
        """What a piece reads of profiles that do not change in time."""
        for operand in self._operands_of(piece):
            if isinstance(operand, ProfileRead) and self.structure.time_axis not in operand.axes:
                at = _moved(operand.axes, operand.offset, piece.box, axes)
                yield operand.name, self.arrays.profiles[operand.name], self.structure.extent(operand.name).origin, at

    def _array_of(self, read: StateRead) -> jax.Array:
        return self.current[read.field] if read.level == 0 else self.older[read.field][-read.level - 1]

    def with_current(self, name: str, array: jax.Array) -> "Level":
        """The level with one field's array replaced."""
        cuts = {key: part for key, part in self.cuts.items() if key[0] != (name, 0)}
        return replace(self, current={**self.current, name: array}, cuts=cuts)

    def take(self, operand: Operand, box: Box, axes: tuple[str, ...]) -> tuple[jax.Array, tuple[bool, ...]]:
        """The operand's values at the points of a box, and which of the space axes its array has."""
        if isinstance(operand, StateRead):
            return self._take_state(operand, box), (True,) * len(axes)
        if isinstance(operand, ProfileRead):
            return self._take_profile(operand, box, axes)
        if operand.name == "passed":  # since the level before
            step = self.arrays.wholes["dt"]
            return step * jnp.asarray(self.fraction, step.dtype), (False,) * len(axes)
        value = self.time if operand.name == "t" else self.arrays.wholes[operand.name]
        return value, (False,) * len(axes)

    def source(self, operand: Operand, box: Box, axes: tuple[str, ...]) -> tuple[jax.Array, tuple[int, ...]] | None:
        """The array that an operand's values at the points of a box lie in, and the index where they begin; None for a
        number, and where they are not all in it."""
        if isinstance(operand, StateRead):
            array, origin = self._array_of(operand), self.structure.array(operand.field).origin
            at = box.shift(operand.offset)
        elif isinstance(operand, ProfileRead) and operand.axes[:1] != (self.structure.time_axis,):
            array, origin = self.arrays.profiles[operand.name], self.structure.extent(operand.name).origin
            at = _moved(operand.axes, operand.offset, box, axes)
        else:
            return None
        start, extent = tuple(a - o for a, o in zip(at.start, origin, strict=True)), at.shape
        inside = all(0 <= a <= n - size for a, size, n in zip(start, extent, array.shape, strict=True))
        return (array, start) if inside else None

    def _take_state(self, read: StateRead, box: Box) -> jax.Array:
        at = box.shift(read.offset)
        cut = self.cuts.get(((read.field, read.level), at))
        if cut is not None:
            return cut
        return take_box(self._array_of(read), self.structure.array(read.field).origin, at)

    def _take_profile(self, read: ProfileRead, box: Box, axes: tuple[str, ...]) -> tuple[jax.Array, tuple[bool, ...]]:
        array, extent = self.arrays.profiles[read.name], self.structure.extent(read.name)
        names, origin, offset = read.axes, extent.origin, read.offset
        if names and names[0] == self.structure.time_axis:
            array = self._at_time(array, offset[0] - origin[0])
            names, origin, offset = names[1:], origin[1:], offset[1:]
        at, flags = _moved(names, offset, box, axes), tuple(axis in names for axis in axes)
        cut = self.cuts.get((read.name, at))
        return (take_box(array, origin, at) if cut is None else cut), flags

    def _at_time(self, array: jax.Array, offset: int) -> jax.Array:
        here = lax.dynamic_index_in_dim(array, self.number + offset, keepdims=False)
        whole = isinstance(self.fraction, float) and self.fraction == 1.0
        if whole or not jnp.issubdtype(array.dtype, jnp.inexact):
            return here
        before = lax.dynamic_index_in_dim(array, jnp.maximum(self.number + offset - 1, 0), keepdims=False)
        share = jnp.asarray(self.fraction, here.dtype)
        return before * (1 - share) + here * share


def _moved(names: tuple[str, ...], offset: tuple[int, ...], box: Box, axes: tuple[str, ...]) -> Box:
    """Where an array along some of the axes is read at the points of a box."""
    ranges = {axis: (a, b) for axis, a, b in zip(axes, box.start, box.stop, strict=True)}
    start = tuple(ranges[axis][0] + o for axis, o in zip(names, offset, strict=True))
    return Box(start, tuple(ranges[axis][1] + o for axis, o in zip(names, offset, strict=True)))


@lru_cache(maxsize=256)
def weights_vary(rule: Traced) -> bool:
    """Whether the weights of an affine rule depend on the point; what it adds beside them may."""
    return rule.weights_depend_on(lambda operand: isinstance(operand, ProfileRead))


def take_box(array: jax.Array, origin: tuple[int, ...], box: Box) -> jax.Array:
    """The entries of a box; zeros where it leaves the array (only points that are masked out read those)."""
    start = [a - o for a, o in zip(box.start, origin, strict=True)]
    stop = [b - o for b, o in zip(box.stop, origin, strict=True)]
    padding = [(max(0, -a), max(0, b - n)) for a, b, n in zip(start, stop, array.shape, strict=True)]
    if any(a or b for a, b in padding):
        array = jnp.pad(array, padding)
        start = [a + low for a, (low, _) in zip(start, padding, strict=True)]
        stop = [b + low for b, (low, _) in zip(stop, padding, strict=True)]
    if not any(start) and tuple(stop) == array.shape:
        return array  # outside a program a slice would copy it
    return lax.slice(array, start, stop)


def vectorise(
    rule: Traced,
    consts: tuple[Any, ...],
    values: Sequence[Any],
    flags: Sequence[tuple[bool, ...]],
    shape: tuple[int, ...],
) -> jax.Array:
    """The rule at all points of a box: values[i] has the axes of the box that flags[i] marks, in order."""
    return vectorise_function(rule.function(consts), values, flags, shape)


def vectorise_function(
    function: Any, values: Sequence[Any], flags: Sequence[tuple[bool, ...]], shape: tuple[int, ...]
) -> Any:
    """A scalar function of several values at all points of a box."""
    for axis in reversed(range(len(shape))):
        in_axes = tuple(0 if flag[axis] else None for flag in flags)
        if any(place is not None for place in in_axes):
            function = jax.vmap(function, in_axes=in_axes)
        else:
            function = _repeated(function, shape[axis])
    return function(*values)


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of where it holds and its values, with no derivative where it does not."""

    def within(here: Any, *inputs: Any) -> Any:
        safe = [jnp.where(here, x, lax.stop_gradient(x)) if jnp.issubdtype(x.dtype, jnp.inexact) else x for x in inputs]
        return function(*safe)

    return within


def _repeated(function: Any, size: int) -> Any:
    return lambda *values: jax.tree.map(lambda out: jnp.broadcast_to(out, (size, *jnp.shape(out))), function(*values))

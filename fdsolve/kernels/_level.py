"""The values known while one level is computed, and how operands are taken from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..planning import Structure
from ..region import Box
from ..stencil import Operand, ProfileRead, StateRead, Traced


@dataclass(frozen=True, eq=False)
class Arrays:
    """The arrays of a run: profiles and whole arrays by name, and the constants of each rule."""

    profiles: Mapping[str, jax.Array]
    wholes: Mapping[str, jax.Array]
    consts: Sequence[tuple[jax.Array, ...]]


jax.tree_util.register_dataclass(Arrays, data_fields=["profiles", "wholes", "consts"], meta_fields=[])


@dataclass(frozen=True, eq=False)
class Level:
    """One level (or stage) being computed.

    `current` holds padded arrays by field, `older[name][0]` the level before; `number` is the level's index and
    `fraction` how far a stage lies from the level before (1.0) to it; arrays along time are interpolated between.
    `spare` holds arrays whose values are no longer needed, for the new level to be written into; `systems`, by stage,
    what was made ready to solve it, `reports` how solving it went.
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

    def with_current(self, name: str, array: jax.Array) -> "Level":
        """The level with one field's array replaced."""
        return replace(self, current={**self.current, name: array})

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

    def _take_state(self, read: StateRead, box: Box) -> jax.Array:
        storage = self.structure.array(read.field)
        array = self.current[read.field] if read.level == 0 else self.older[read.field][-read.level - 1]
        return take_box(array, storage.origin, box.shift(read.offset))

    def _take_profile(self, read: ProfileRead, box: Box, axes: tuple[str, ...]) -> tuple[jax.Array, tuple[bool, ...]]:
        array, extent = self.arrays.profiles[read.name], self.structure.extent(read.name)
        names, origin, offset = read.axes, extent.origin, read.offset
        if names and names[0] == self.structure.time_axis:
            array = self._at_time(array, offset[0] - origin[0])
            names, origin, offset = names[1:], origin[1:], offset[1:]
        ranges = {axis: (a, b) for axis, a, b in zip(axes, box.start, box.stop, strict=True)}
        start = tuple(ranges[axis][0] + o for axis, o in zip(names, offset, strict=True))
        stop = tuple(ranges[axis][1] + o for axis, o in zip(names, offset, strict=True))
        return take_box(array, origin, Box(start, stop)), tuple(axis in names for axis in axes)

    def _at_time(self, array: jax.Array, offset: int) -> jax.Array:
        here = lax.dynamic_index_in_dim(array, self.number + offset, keepdims=False)
        whole = isinstance(self.fraction, float) and self.fraction == 1.0
        if whole or not jnp.issubdtype(array.dtype, jnp.inexact):
            return here
        before = lax.dynamic_index_in_dim(array, jnp.maximum(self.number + offset - 1, 0), keepdims=False)
        share = jnp.asarray(self.fraction, here.dtype)
        return before * (1 - share) + here * share


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


def _repeated(function: Any, size: int) -> Any:
    return lambda *values: jax.tree.map(lambda out: jnp.broadcast_to(out, (size, *jnp.shape(out))), function(*values))

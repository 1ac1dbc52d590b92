"""A level at the points of a tile: values asked for by array, level and shift, each computed once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...region import Box
from ...stencil import Operand, ProfileRead, StateRead, Traced
from ._operations import Program, stored_box
from ._scalar import compute, spread

Key = tuple[Any, ...]
"""An operand of the kernel: ("state", array, levels back), ("profile", name, level), ("scalar", name, level) or
("const", rule, which); level 0 for what does not change in time."""


@dataclass(frozen=True)
class Stored:
    """A reference to an array in memory, the box of its entries, and which axes of the grid it has."""

    ref: Any
    box: Box
    flags: tuple[bool, ...]


class Evaluator:
    """Values at the points start + i of a tile, all of which lie in `bounds`.

    Levels are counted from the newest one that is known, 0; level −1 is the one before. A value at a level that is not
    known is computed from the values that its rules read, at other levels and other points.
    """

    def __init__(
        self,
        program: Program,
        axes: tuple[str, ...],
        refs: Mapping[Key, Stored],
        start: tuple[Any, ...],
        tile: tuple[int, ...],
        bounds: Box,
    ):
        self.program, self.axes, self.refs = program, axes, refs
        self.start, self.tile, self.bounds = start, tile, bounds
        self._known: dict[Any, Any] = {}

    def value(self, name: str, level: int, shift: tuple[int, ...], need: Box, before: int | None = None) -> Any:
        """An array at the tile's points moved by `shift`, after all operations of its level or those before one.

        Right at the points of `need` alone, a part of `bounds`: elsewhere it is some number.
        """
        if level <= 0:
            return self.load(("state", name, -level), shift)
        numbers = self._deciding(self.program.setting(name, before), shift, need)
        key = (name, level, shift, need, tuple(numbers))
        return self._once(key, lambda: self._fold(name, numbers, level, shift, need))

    def _deciding(self, numbers: list[int], shift: tuple[int, ...], need: Box) -> list[int]:
        """Those of the operations that decide on a value that is needed."""
        here, deciding = need.shift(shift), []
        for number in reversed(numbers):
            op = self.program.operations[number]
            common = op.box.intersect(here)
            if common.empty:
                continue
            deciding.append(number)
            if op.overwrites and common == here:
                break
        return deciding[::-1]

    def _fold(self, name: str, numbers: list[int], level: int, shift: tuple[int, ...], need: Box) -> Any:
        back = tuple(-s for s in shift)
        zeros = lax.full(self.tile, 0, self.program.array(name).dtype)
        result: Any = None
        for number in numbers:
            op = self.program.operations[number]
            within = need.intersect(op.box.shift(back))
            value = self._compute(op.rule, op.number, number, level, shift, within)
            if op.adds and result is not None:
                value = result + value
            held = self.inside(op.box, shift, need)
            if op.mask is not None:
                held = _both(held, self.load(("profile", op.mask, 0), shift))
            if op.predicate is not None:
                held = _both(held, self._compute(op.predicate, op.held, number, level, shift, within))
            value = spread(value, self.tile)
            below = zeros if result is None else result
            result = value if held is None else lax.select(spread(held, self.tile), value, below)
        return zeros if result is None else result

    def _compute(
        self, rule: Traced, which: int | None, number: int, level: int, shift: tuple[int, ...], need: Box
    ) -> Any:
        """A rule of operation `number`, whose constants are those of the plan's rule `which`."""
        zero = (0,) * len(self.tile)
        consts = [self.load(("const", which, i), zero) for i in range(len(rule.consts))]
        return compute(rule.jaxpr, consts, [self.operand(one, number, level, shift, need) for one in rule.operands])

    def operand(self, operand: Operand, number: int, level: int, shift: tuple[int, ...], need: Box) -> Any:
        """What operation `number` reads at the tile's points moved by `shift`."""
        if isinstance(operand, StateRead):
            moved = tuple(a + b for a, b in zip(shift, operand.offset, strict=True))
            before = number if operand.level == 0 else None
            return self.value(operand.field, level + operand.level, moved, need, before)
        if isinstance(operand, ProfileRead):
            timed = operand.axes and operand.axes[0] not in self.axes
            names, offsets = (operand.axes[1:], operand.offset[1:]) if timed else (operand.axes, operand.offset)
            moves = dict(zip(names, offsets, strict=True))
            moved = tuple(a + moves.get(axis, 0) for a, axis in zip(shift, self.axes, strict=True))
            return self.load(("profile", operand.name, (level, operand.offset[0]) if timed else 0), moved)
        name = "dt" if operand.name == "passed" else operand.name  # since the level before
        return self.load(("scalar", name, level if name == "t" else 0), (0,) * len(self.tile))

    def load(self, key: Key, shift: tuple[int, ...]) -> Any:
        """Entries of an array in memory; some entry where a point lies outside it."""
        return self._once((key, shift), lambda: self._load(self.refs[key], shift))

    def _load(self, stored: Stored, shift: tuple[int, ...]) -> Any:
        places = [a for a, flag in enumerate(stored.flags) if flag]
        if not places:
            return stored.ref[0]
        here = self.bounds.shift(shift)
        index = self.index(places, shift, stored.box, here)
        value = stored.ref[index]
        return value if len(places) == len(self.tile) else lax.broadcast_in_dim(value, self.tile, places)

    def index(self, places: list[int], shift: tuple[int, ...], box: Box, here: Box) -> tuple[Any, ...]:
        """Where the tile's points are in an array on the axes `places`; clamped unless all are known to be in it."""
        from jax.experimental import pallas as pl

        moves = [shift[a] - first for a, first in zip(places, box.start, strict=True)]
        leaves = [box.start[i] > here.start[a] or here.stop[a] > box.stop[i] for i, a in enumerate(places)]
        if not any(leaves):
            return tuple(pl.ds(self._first(a, move), self.tile[a]) for a, move in zip(places, moves, strict=True))
        shape = tuple(self.tile[a] for a in places)
        sizes = [size if outside else None for size, outside in zip(box.shape, leaves, strict=True)]
        return tuple(self._indices(a, i, moves[i], sizes[i], shape) for i, a in enumerate(places))

    def _first(self, axis: int, move: int) -> Any:
        return self._once(("first", axis, move), lambda: self.start[axis] + np.int32(move))

    def _indices(self, axis: int, place: int, move: int, size: int | None, shape: tuple[int, ...]) -> jax.Array:
        """The tile's points along an axis, moved, as indices; clamped to those below `size` where that is given."""

        def make() -> jax.Array:
            moved = self.points(axis) + np.int32(move)
            if size is not None:
                moved = lax.clamp(np.int32(0), moved, np.int32(size - 1))
            return lax.broadcast_in_dim(moved, shape, (place,))

        return self._once(("index", axis, place, move, size, shape), make)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def points(self, axis: int) -> jax.Array:
        """Indices of the tile's points along an axis."""
        return self._once(("points", axis), lambda: self.start[axis] + lax.iota(jnp.int32, self.tile[axis]))

    def inside(self, box: Box, shift: tuple[int, ...], need: Box) -> Any:
        """Which of the points of `need`, moved by `shift`, lie in a box; None for all."""
        here, held = need.shift(shift), None
        for a in range(len(self.tile)):
            if here.start[a] < box.start[a]:
                held = _both(held, self._side(a, box.start[a] - shift[a], False))
            if here.stop[a] > box.stop[a]:
                held = _both(held, self._side(a, box.stop[a] - shift[a], True))
        return held

    def _side(self, axis: int, edge: int, below: bool) -> jax.Array:
        """Which points lie below an edge, or not below it."""

        def make() -> jax.Array:
            points, limit = self.points(axis), np.int32(edge)
            return lax.broadcast_in_dim(points < limit if below else points >= limit, self.tile, (axis,))

        return self._once(("side", axis, edge, below), make)

    def store(self, ref: Any, name: str, value: Any) -> None:
        """Writes the tile into an array, where it has entries."""
        from jax.experimental.pallas import triton

        box = stored_box(self.program.array(name))
        places, zero = list(range(len(self.tile))), (0,) * len(self.tile)
        held = self.inside(box, zero, self.bounds)
        if held is None:
            ref[self.index(places, zero, box, self.bounds)] = value
            return
        # Beyond the end, not clamped to it, so that no point outside shares an entry with one inside.
        index = tuple(
            lax.select(
                held,
                lax.broadcast_in_dim(self.points(a) - np.int32(box.start[a]), self.tile, (a,)),
                lax.full(self.tile, box.shape[a], jnp.int32),
            )
            for a in places
        )
        triton.store(ref.at[index], value, mask=held)


def _both(first: Any, second: Any) -> Any:
    return second if first is None else first & second

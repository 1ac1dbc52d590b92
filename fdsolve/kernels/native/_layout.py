"""Where everything lies: arguments of the generated function, control blocks, rings and their sizes in bytes."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ._code import Number
from ._program import Program
from ._schedule import Schedule

LINE = 64
"""Bytes of a cache line."""

APART = 256
"""Bytes; rows of rings lie multiples of it apart. A store whose address ends in the same 12 bits as that of a load a
little behind it keeps the load waiting, so rows must not lie just before others (modulo 4096)."""

NEXT, DONE, HOLDERS, PARTS, WORKERS, START, LEVELS, SCRATCH, SHARE, HALOS, BASE, STORED, BLOCK, WIDE, ROWS, FALL = (
    8 * k for k in range(16)
)
WIDTH = 8 * 16
"""Entries of the control block of a pass, in bytes: tiles taken and done, who holds the block, …

The first level of all passes has number BASE, and so many levels are STORED from there on, or states before blocks of
BLOCK levels. Tiles are WIDE rows wider on both sides than their own part; the ring of the first level that is left for
a pull has at least so many ROWS, that of each further one may FALL short of the one before by so many. Blocks of the
second axis have a WIDTH.
"""
POINTERS = 8 * 17
"""Where the control block's table of pointers starts: state, shared arrays."""


@dataclass(frozen=True)
class Slots:
    """The order of the arrays that a program works on: its state, then shared arrays with shape and dtype.

    `stored` are the arrays whose levels are written down: all; or those `spread` along the march, before each block;
    or all, and the state is not wanted: then it is `alone`, and what comes first is a place among such states, of which
    all are written down, before what lives within a level.
    `private` are arrays whose levels go past in a thread's own scratch: a march that is `alone` leaves them there, in
    rings of rows, and a pull beside it reads them, by these names of shared arrays.
    """

    state: tuple[tuple[str, int], ...]
    shared: tuple[tuple[str, tuple[int, ...], str], ...]
    stored: tuple[str, ...] = ()
    spread: bool = False
    alone: bool = False
    private: tuple[str, ...] = ()

    @property
    def leaves(self) -> bool:
        """Whether levels are left for a pull that goes on beside this march."""
        return self.alone and bool(self.private)

    @property
    def reads(self) -> bool:
        """Whether levels are read that a march beside this one leaves."""
        return bool(self.private) and not self.alone

    @property
    def first(self) -> int:
        """How many arguments come before shared arrays: of one that is `alone`, states before blocks."""
        return len({name for name, _ in self.state if name in self.stored}) if self.alone else len(self.state)

    @property
    def results(self) -> int:
        """How many results come before the scratch."""
        return 0 if self.alone else len(self.state)

    def state_slot(self, name: str, behind: int) -> int:
        """The place of a level of an array of the state."""
        return self.state.index((name, behind))

    def stored_slot(self, name: str) -> int:
        """The place of the levels of an array among all pointers."""
        return len(self.state) + len(self.shared) + self.stored.index(name)

    def shared_slot(self, name: str) -> int:
        """The place of a shared array."""
        return next(k for k, (one, _, _) in enumerate(self.shared) if one == name)

    def private_at(self, name: str) -> int:
        """Where a thread's scratch says where the entry of the first of such levels stands, in a table of them."""
        return 8 + 8 * self.private.index(name)

    @property
    def private_end(self) -> int:
        """Where these tables start."""
        return 8 + 8 * len(self.private)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a shared array."""
        return self.shared[self.shared_slot(name)][1]

    def itemsize(self, name: str) -> int:
        """Bytes of an entry of a shared array."""
        return np.dtype(self.shared[self.shared_slot(name)][2]).itemsize


FEW = 8
"""The part of all rows, one of so many, below which an array's are few."""


@dataclass(frozen=True)
class Layout:
    """Sizes of a program's arrays and rings in bytes."""

    program: Program
    schedule: Schedule

    @cached_property
    def item(self) -> int:
        """Bytes of one number."""
        return self.program.dtype.itemsize

    @cached_property
    def rank(self) -> int:
        """Number of axes, at least two."""
        return len(self.program.arrays[0].shape)

    @property
    def most_kept(self) -> int:
        """Kept levels of the array of which most are."""
        return max(kept for _, kept in self.program.state)

    def pitches(self, name: str) -> tuple[int, ...]:
        """Bytes from entry to entry of an array of the state, along all axes but the last."""
        shape = self.program.array(name).padded_shape
        return tuple(self.item * prod(shape[axis + 1 :]) for axis in range(self.rank - 1))

    def bytes_of(self, name: str) -> int:
        """Bytes of a level of an array of the state."""
        return self.item * prod(self.program.array(name).padded_shape)

    def start(self, name: str) -> int:
        """Bytes from an array's first entry to that of index 0."""
        one = self.program.array(name)
        return sum(a * p for a, p in zip(one.lower, (*self.pitches(name), self.item), strict=True))

    def low(self, axis: int) -> int:
        """The least index on an axis."""
        return min(-one.lower[axis] for one in self.program.arrays)

    def high(self, axis: int) -> int:
        """One past the largest index on an axis."""
        return max(one.shape[axis] + one.upper[axis] for one in self.program.arrays)

    def size(self, axis: int) -> int:
        """Points along an axis, of the array that has most."""
        return max(one.shape[axis] for one in self.program.arrays)

    def width(self, name: str, axis: int) -> int:
        """Entries of an array along an axis."""
        return self.program.array(name).padded_shape[axis]

    @cached_property
    def widest(self) -> str:
        """The array whose rows are longest."""
        return max((one.name for one in self.program.arrays), key=self.ring_pitch)

    def inner_pitches(self, name: str) -> tuple[int, ...]:
        """Bytes from entry to entry of an array's ring, along the axes from the second to the last but one."""
        if self.rank == 2:
            return ()
        found = [_spread(self.item * self.width(name, self.rank - 1) + LINE, LINE)]
        for axis in range(self.rank - 2, 1, -1):
            found.insert(0, found[0] * self.width(name, axis))
        return tuple(found)

    def halo(self, levels: Number) -> Number:
        """Rows beyond a tile that it reads of the state, with as many levels a pass."""
        rows = self.schedule.rows
        return levels * rows.growth + max((*rows.below, *rows.above), default=0) + rows.reads

    def least_rows(self, levels: int, wide: int = 0) -> int:
        """The fewest rows of a tile, for as many levels a pass; `wide` is how many more a slab has on both sides."""
        rows = self.schedule.rows
        return max(rows.least, self.halo(levels), rows.apart + wide + self.halo(levels) if rows.apart else 0)

    def halo_rows(self) -> int:
        """Bytes of one row of each array of the state."""
        return sum(kept * self.pitches(one.name)[0] for one, kept in self.program.state)

    def ring_bytes(self, levels: int) -> int:
        """Bytes of the rings of a tile."""
        return sum(rows * self.ring_pitch(name) for name, rows in self.schedule.rings.items()) * levels + 2 * APART

    def used_bytes(self, levels: int) -> int:
        """The same of those that most of a tile's rows use."""
        used = ((name, rows) for name, rows in self.schedule.rings.items() if not self.is_beside_wall(name))
        return sum(rows * self.ring_pitch(name) for name, rows in used) * levels + 2 * APART

    def is_beside_wall(self, name: str) -> bool:
        """Whether an array has few rows, beside a wall."""
        return FEW * self.program.array(name).padded_shape[0] < self.size(0)

    def whole_bytes(self) -> int:
        """Bytes of all levels of the state that are in use where a level is computed whole."""
        return sum((1 + depth) * self.bytes_of(name) for name, depth in (self.schedule.depths or {}).items())

    def spare_bytes(self, name: str) -> int:
        """Bytes of a level of an array that is computed whole beside the state."""
        return self.program.array(name).padded_shape[0] * self.ring_pitch(name) + APART

    def beside_bytes(self, levels: int, parts: int) -> int:
        """Bytes of the levels of a tile that stand beside the state's own arrays; none where there are no blocks."""
        blocks = self.schedule.blocks
        if blocks is None:
            return 0
        kept = {one.name: kept for one, kept in self.program.state}
        rows = -(-self.size(0) // parts) + self.high(0) - self.low(0) - self.size(0) + 2 * self.halo(levels)
        counts = {name: depth - kept.get(name, 0) for name, depth in blocks.depths.items()}
        return sum(count * (rows * self.ring_pitch(name) + 2 * APART) for name, count in counts.items())

    def block_bytes(self, levels: int, width: int) -> int:
        """Bytes that the wavefront of a block has in use: of all arrays the rows of both axes from the newest to the
        oldest level; arrays that are only read count as one more."""
        blocks = self.schedule.blocks
        assert blocks is not None
        planes = (levels + 1) * self.schedule.skew + max(self.schedule.delays) + 1
        rows = (levels + 1) * blocks.skew + max(blocks.delays) + width
        each = sum(depth * self.inner_pitches(name)[0] for name, depth in blocks.depths.items())
        return (each + self.inner_pitches(self.widest)[0]) * planes * min(rows, self.size(1))

    def ring_pitch(self, name: str) -> int:
        """Bytes from row to row of an array's ring."""
        inner = self.inner_pitches(name)
        if inner:
            return inner[0] * self.width(name, 1) + APART
        return _spread(self.item * self.width(name, 1) + LINE)

    def row_bytes(self) -> int:
        """Bytes of cache lines in a row of the widest ring."""
        shape = self.program.array(self.widest).padded_shape
        return round_up(self.item * shape[-1], LINE) * prod(shape[1:-1])

    def alignment(self) -> int:
        """The index along the last axis whose entries rings align: that with which rows of the state begin."""
        return -self.program.arrays[0].lower[-1]


def _spread(size: int, apart: int = APART) -> int:
    """The next odd multiple of `apart`: rows one after the other fall into different sets of a cache."""
    return round_up(size + apart, 2 * apart) - apart


def round_up(number: int, multiple: int) -> int:
    """The next multiple."""
    return -(-number // multiple) * multiple

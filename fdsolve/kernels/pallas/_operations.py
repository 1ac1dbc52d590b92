"""One level as a list of operations: which rule sets which points of which array, in order."""

from dataclasses import dataclass

import numpy as np

from ...planning import Array, Parallel, Piece
from ...region import Box
from ...stencil import Traced
from .._march_call import MarchCall, why_in_turn
from ._scalar import unsupported

MAX_RANK = 3
MAX_ENTRIES = 2**31 - 1
"""Entries of an array; offsets into it are 32-bit integers."""

MAX_COPIES = 400
"""Reads in the code of a rule and of its copies beyond periodic ends: a limit on the time to compile it."""


class Unserved(Exception):
    """Why a march cannot run here."""


@dataclass(frozen=True)
class Operation:
    """A rule on the points of a box of an array.

    `number` and `held` say which constants of the plan the rule and the predicate have.
    """

    array: str
    box: Box
    rule: Traced
    number: int
    mask: str | None = None
    predicate: Traced | None = None
    held: int | None = None
    adds: bool = False

    @property
    def overwrites(self) -> bool:
        """Whether it sets all points of its box, whatever stood there."""
        return self.mask is None and self.predicate is None and not self.adds


@dataclass(frozen=True)
class Program:
    """The operations of a level in order; `kept` says how many levels of an array are held (0: none but its own)."""

    arrays: tuple[Array, ...]
    kept: tuple[int, ...]
    operations: tuple[Operation, ...]

    def array(self, name: str) -> Array:
        """An array by name."""
        return next(one for one in self.arrays if one.name == name)

    @property
    def state(self) -> tuple[tuple[Array, int], ...]:
        """The arrays that live from level to level, and how many levels of each are held."""
        return tuple((one, kept) for one, kept in zip(self.arrays, self.kept, strict=True) if kept)

    @property
    def wraps(self) -> bool:
        """Whether points of one level read others far away, as beyond periodic ends."""
        return any(
            2 * abs(offset) > size
            for op in self.operations
            for read in op.rule.reads
            if read.level == 0
            for offset, size in zip(read.offset, self.array(read.field).shape, strict=True)
        )

    def setting(self, name: str, before: int | None = None) -> list[int]:
        """The operations that set an array, all of them or those before a certain one."""
        return [i for i, op in enumerate(self.operations[:before]) if op.array == name]


def stored_box(one: Array) -> Box:
    """All points for which an array has an entry, ghosts included."""
    return Box(one.origin, tuple(o + n for o, n in zip(one.origin, one.padded_shape, strict=True)))


def make_program(call: MarchCall) -> Program:
    """The operations of one level of a march; raises Unserved where there is no such list."""
    structure = call.structure
    if structure.recording is not None:
        raise Unserved("receivers record every level")
    if call.phase.rates:
        raise Unserved("rates are stepped in time by a stepper")
    if not 1 <= len(call.axes) <= MAX_RANK:
        raise Unserved(f"the grid has {len(call.axes)} space axes")
    for one in structure.arrays:
        if np.dtype(one.dtype) not in (np.float32, np.float64):
            raise Unserved(f"`{one.name}` has dtype {np.dtype(one.dtype)}")
        if np.prod(one.padded_shape, dtype=np.int64) > MAX_ENTRIES:
            raise Unserved(f"`{one.name}` has more than {MAX_ENTRIES} entries")
    carried = {one.name: max(one.kept, 1) for one in structure.carried}
    operations = tuple(_operation(call, piece) for piece in _parallel(call))
    program = Program(structure.arrays, tuple(carried.get(one.name, 0) for one in structure.arrays), operations)
    copies = 3 ** len(call.axes) * max(len(op.rule.reads) for op in operations)
    if program.wraps and copies > MAX_COPIES:
        raise Unserved(f"its code would hold {copies} reads, most of them beyond periodic ends; {MAX_COPIES} may be")
    return program


def _parallel(call: MarchCall) -> list[Piece]:
    found = []
    for stage in call.phase.stages:
        if not isinstance(stage, Parallel):
            raise Unserved(why_in_turn(stage))
        if stage.piece.operation is not None:
            raise Unserved("a derived field is an operation on a whole line")
        found.append(stage.piece)
    return found


def _operation(call: MarchCall, piece: Piece) -> Operation:
    rules = call.structure.rules
    predicate = None if piece.predicate is None else rules[piece.predicate]
    for rule in (rules[piece.rule], predicate):
        if rule is not None:
            _check(piece.field, rule)
    return Operation(
        piece.field, piece.box, rules[piece.rule], piece.rule, piece.mask, predicate, piece.predicate, piece.adds
    )


def _check(field: str, rule: Traced) -> None:
    if reason := unsupported(rule.jaxpr):
        raise Unserved(f"a rule of `{field}`: {reason}")

"""What operations read at their level, as the operations of a transpose find it."""

from collections.abc import Collection
from dataclasses import replace

from ...stencil import Operand, ProfileRead, StateRead, Traced
from ._linear import with_named_constants
from ._operands import LEVELS, Levels, TurnedRead, stack_name
from ._program import Operation, Program, Unserved

Offset = tuple[int, ...]


class Values:
    """Operands of a program's operations, moved: kept levels are profiles, and what lives within a level is computed
    again, by the operations that did it.

    `axes` are those of the program's arrays ("" for one that is not the grid's). `left` are arrays that live within a
    level which the march leaves too, as it leaves kept levels.
    """

    def __init__(self, program: Program, axes: tuple[str, ...], left: Collection[str] = ()):
        self.program, self.axes, self.left = program, axes, left
        self.kept = {one.name: kept for one, kept in program.state}
        self.stacked: dict[str, None] = {}
        self.again: dict[str, None] = {}
        self.last = False

    @property
    def levels(self) -> Levels:
        """The levels of the march that are read."""
        return Levels(tuple(self.stacked), self.last)

    def leave(self, name: str, back: Offset) -> ProfileRead:
        """An array that the march leaves at each of its levels, at the entry `back` from here."""
        self.last = True
        return self._of_level(name, 0, back)

    def read(self, operand: Operand, back: Offset) -> Operand:
        """An operand of the operation at the entry that lies `back` from here."""
        if isinstance(operand, StateRead):
            return self._value(operand, back)
        if not isinstance(operand, ProfileRead):
            return operand
        moves, turn = dict(zip(self.axes, back, strict=True)), 0
        if self.program.wraps and self.axes[0] in operand.axes:
            turn = moves.pop(self.axes[0])
        moved = tuple(o + moves.get(axis, 0) for axis, o in zip(operand.axes, operand.offset, strict=True))
        return self._turned(operand.name, operand.axes, moved, turn)

    def _value(self, read: StateRead, back: Offset) -> Operand:
        total = tuple(o + b for o, b in zip(read.offset, back, strict=True))
        if read.field not in self.kept and (read.level or read.field not in self.left):
            if read.level:
                raise Unserved(f"`{read.field}` is read at levels that are not kept")
            self.again[read.field] = None
            return StateRead(read.field, 0, total)
        self.last |= read.level == 0
        return self._of_level(read.field, self.kept.get(read.field, 0) + read.level, total)

    def _of_level(self, name: str, level: int, offset: Offset) -> ProfileRead:
        """An entry of an array that the march leaves, at one of its levels."""
        self.stacked[name] = None
        axes = (LEVELS, *(axis for axis in self.axes if axis))
        inner, turn = tuple(o for axis, o in zip(self.axes, offset, strict=True) if axis), 0
        if self.program.wraps:
            turn, inner = inner[0], (0, *inner[1:])
        return self._turned(stack_name(name), axes, (level, *inner), turn)

    def _turned(self, name: str, axes: tuple[str, ...], offset: Offset, turn: int) -> ProfileRead:
        if abs(turn) > self.program.arrays[0].shape[0]:
            raise Unserved("the first axis is shorter than rules reach")
        return TurnedRead(name, axes, offset, turn) if turn else ProfileRead(name, axes, offset)

    def operations(self) -> list[Operation]:
        """The operations that compute again what lives within the level, in order."""
        found: dict[int, Operation] = {}
        while missing := [
            k for k, op in enumerate(self.program.operations) if op.array in self.again and k not in found
        ]:
            found |= {k: self._computed(self.program.operations[k]) for k in missing}
        return [found[k] for k in sorted(found)]

    def _computed(self, operation: Operation) -> Operation:
        here = (0,) * len(self.axes)

        def taken(rule: Traced, number: int | None) -> Traced:
            named = with_named_constants(rule, number)
            return replace(named, operands=tuple(self.read(operand, here) for operand in named.operands))

        predicate = None if operation.predicate is None else taken(operation.predicate, operation.held)
        rule = taken(operation.rule, operation.number)
        return replace(operation, rule=rule, number=None, predicate=predicate, held=None)

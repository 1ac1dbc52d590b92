"""A single level of a march as a program that keeps one level of each array.

The new level is written where the oldest stood. The levels between are not moved: they are read as profiles, and are
the older ones of the state after it.
"""

from dataclasses import replace

from ...stencil import Operand, ProfileRead, StateRead, Traced
from ._operands import LEVELS, TurnedRead, stack_name
from ._program import Operation, Program, Unserved


def single_program(program: Program, axes: tuple[str, ...]) -> Program:
    """The program of one level; `axes` are those of its arrays ("" for one that is not the grid's)."""
    kept = dict(zip((one.name for one in program.arrays), program.kept, strict=True))

    def read(operand: Operand) -> Operand:
        if not isinstance(operand, StateRead) or operand.level == 0 or kept[operand.field] < 2:
            return operand
        level = kept[operand.field] + operand.level - 1
        if level < 0:
            return StateRead(operand.field, -1, operand.offset)
        inner = tuple(o for axis, o in zip(axes, operand.offset, strict=True) if axis)
        turn = 0
        if program.wraps:
            turn, inner = inner[0], (0, *inner[1:])
            if abs(turn) > program.arrays[0].shape[0]:
                raise Unserved("the first axis is shorter than rules reach")
        space, name = (LEVELS, *(axis for axis in axes if axis)), stack_name(operand.field)
        return TurnedRead(name, space, (level, *inner), turn) if turn else ProfileRead(name, space, (level, *inner))

    def taken(rule: Traced) -> Traced:
        return replace(rule, operands=tuple(map(read, rule.operands)))

    def moved(operation: Operation) -> Operation:
        predicate = None if operation.predicate is None else taken(operation.predicate)
        return replace(operation, rule=taken(operation.rule), predicate=predicate)

    operations = tuple(map(moved, program.operations))
    return replace(program, kept=tuple(min(one, 1) for one in program.kept), operations=operations)

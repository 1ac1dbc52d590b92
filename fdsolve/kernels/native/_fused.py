"""Long values that are read at their own point alone, computed within the rules that read them.

The sides of a face are computed apart from its flux, which is sooner done going forward: loops hold fewer numbers at a
time. Going back, each would be computed twice, as a value that the flux reads and on the way to what it is of itself,
and give to all the points that it reads as the flux does too. As one rule they are computed once, and give once.
"""

from collections.abc import Mapping
from dataclasses import replace

from ...stencil import Splice, StateRead, Traced, count_equations, operand_specs
from ._program import Operation, Program

LEAST, MOST = 64, 4000
"""Equations of a value that is computed within a rule, or of that rule, so that it is worth it; and of both at most."""


def fuse_values(program: Program) -> Program:
    """The program with such values in their readers' rules, and without their arrays."""
    readers = _readers_of(program)
    found, gone = list(program.operations), set[str]()
    for number, one in enumerate(program.operations):
        reading = readers.get(one.array, [])
        if reading and _is_apart(program, found[number]) and all(_can_take(found[k], found[number]) for k in reading):
            for k in reading:
                found[k] = replace(found[k], rule=_within(found[k].rule, one.array, found[number].rule))
            gone.add(one.array)
    kept = [(one, k) for one, k in zip(program.arrays, program.kept, strict=True) if one.name not in gone]
    arrays, counts = zip(*kept, strict=True)
    return replace(program, arrays=arrays, kept=counts, operations=tuple(o for o in found if o.array not in gone))


def _readers_of(program: Program) -> Mapping[str, list[int]]:
    """The operations that read arrays at their own level."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(program.operations):
        for name in {read.field for read in one.operands if isinstance(read, StateRead) and not read.level}:
            found.setdefault(name, []).append(number)
    return found


def _is_apart(program: Program, one: Operation) -> bool:
    """Whether an operation alone computes an array that lives within a level, by a rule of what stays in it."""
    rule, held = one.rule, {array.name for array, _ in program.state}
    if rule.affine or rule.consts or one.array in held or not program.written_once(one.array):
        return False
    alone = sum(other.array == one.array for other in program.operations) == 1
    now = {read.field for read in rule.reads if not read.level}
    return alone and held.isdisjoint(now) and all(map(program.written_once, now))


def _can_take(reader: Operation, value: Operation) -> bool:
    """Whether a rule reads a value at its own point and time alone, and both together are long, but not too long."""
    rule, reads = reader.rule, [read for read in reader.operands if isinstance(read, StateRead)]
    here = all(not any(read.offset) for read in reads if read.field == value.array)
    plain = reader.mask is None and reader.predicate is None and not rule.consts and not rule.affine
    lengths = count_equations(rule.jaxpr), count_equations(value.rule.jaxpr)
    fits = max(lengths) >= LEAST and sum(lengths) <= MOST
    return here and plain and fits and reader.fraction == value.fraction and value.box.contains(reader.box)


def _within(rule: Traced, name: str, value: Traced) -> Traced:
    """A rule with another in it, in place of what it reads of an array."""
    (read,) = {one for one in rule.reads if one.field == name}
    specs = [pair for each in (rule, value) for pair in zip(each.operands, operand_specs(each), strict=True)]
    made = Splice({one: spec.dtype for one, spec in specs if one != read})
    made.known[read] = made.call(value, *(made.known[one] for one in value.operands))
    return made.made(made.call(rule, *(made.known[one] for one in rule.operands)), rule.dtype)

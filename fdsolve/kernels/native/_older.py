"""What is computed at a point from an older level alone is not written down: who reads it computes it from there.

The transpose of a level that reads two levels back carries a cotangent along, and hands it on a level later: with
u⁺ = 2u − u⁻ + …, that of u⁻ is −λ, which is added to λ's own at the next level. Written down, each is an array that is
filled and read again at every level, as long as the stencil's own. So only the last level of a pass writes it, and only
the first reads it where it stands; between them it is computed from λ two levels back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax

from ...planning import Array
from ...stencil import Operand, ProfileRead, StateRead, WholeRead, make_traced
from ._lanes import has_lanes
from ._operands import TIME_BEFORE, PartRead, are_ragged
from ._program import At, Operation

LARGE = 4
"""It is worth code of its own where it fills an array but for a part, one of so many."""


def without_copies(operations: Sequence[Operation], state: Sequence[Array], axes: tuple[str, ...]) -> list[Operation]:
    """The same operations on a state of one level, with these axes, without what an older level gives."""
    found = list(operations)
    for one in state:
        writers, reads = [op for op in found if op.array == one.name], _reads_of(one, found)
        apart = any(op.at is not At.EVERY for op in (*writers, *(op for op, _ in reads)))
        if apart or any(read.level != -1 or any(read.offset) or isinstance(read, PartRead) for _, read in reads):
            continue
        for made in writers:
            added = any(op.adds and op.box.meets(made.box) for op in writers)  # then it is not all that is there
            plain = has_lanes(made.rule, axes[-1]) or not any(are_ragged(op.operands) for op, _ in reads)
            if not added and plain and _is_copy(made, one, axes):
                found = [new for op in found for new in _reading_older(op, made)]
    return found


def _reads_of(one: Array, operations: Sequence[Operation]) -> list[tuple[Operation, StateRead]]:
    """Who reads an array, and how."""
    every = ((op, read) for op in operations for read in op.operands)
    return [(op, read) for op, read in every if isinstance(read, StateRead) and read.field == one.name]


def _is_copy(operation: Operation, array: Array, axes: tuple[str, ...]) -> bool:
    """Whether an operation computes most of an array from the same point of another a level before, by what is the same
    at all levels."""
    size = prod(array.shape)
    plain = operation.mask is None and operation.predicate is None and not operation.in_lanes and not operation.adds
    reads = operation.reads
    return (
        plain
        and not are_ragged(operation.operands)
        and LARGE * operation.box.size >= (LARGE - 1) * size
        and len(reads) == 1
        and reads[0].field != operation.array
        and reads[0].level == -1
        and not any(reads[0].offset)
        and all(isinstance(one, StateRead) or _is_steady(one, axes) for one in operation.operands)
    )


def _is_steady(operand: Operand, axes: tuple[str, ...]) -> bool:
    """Whether an operand is the same at all levels."""
    if isinstance(operand, ProfileRead):
        return set(operand.axes) <= set(axes)
    return isinstance(operand, WholeRead) and operand not in (WholeRead("t"), TIME_BEFORE)


def _reading_older(operation: Operation, made: Operation) -> Iterator[Operation]:
    """An operation, as it is where what it reads of `made` is no longer written down."""
    if operation is made:
        yield replace(operation, at=At.LAST)
        return
    there = operation.box.intersect(made.box)
    if there.empty or all(read.field != made.array for read in operation.reads):
        yield operation
        return
    for box in operation.box.subtract(made.box):
        yield replace(operation, box=box)
    yield replace(operation, box=there, at=At.FIRST)
    yield replace(operation, box=there, at=At.LATER, rule=_composed(operation, made))


def _composed(operation: Operation, made: Operation) -> Any:
    """The rule of an operation with the rule by which `made` gives what it reads."""
    outer, inner = operation.rule, made.rule
    own = [one for one in outer.operands if not (isinstance(one, StateRead) and one.field == made.array)]
    older = [replace(one, level=one.level - 1) if isinstance(one, StateRead) else one for one in inner.operands]
    order = tuple(dict.fromkeys([*own, *older]))
    dtypes = {one: v.aval.dtype for rule, names in ((outer, outer.operands), (inner, older))
              for one, v in zip(names, rule.jaxpr.invars, strict=True)}  # fmt: skip

    def run(*values: Any) -> Any:
        known = dict(zip(order, values, strict=True))
        value = inner.function(inner.consts)(*(known[one] for one in older))
        return outer.function(outer.consts)(*(known.get(one, value) for one in outer.operands))

    closed = jax.make_jaxpr(run)(*[jax.ShapeDtypeStruct((), dtypes[one]) for one in order])
    return make_traced(closed, order, outer.dtype)

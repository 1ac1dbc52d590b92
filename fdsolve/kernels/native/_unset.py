"""Hidden arrays where nothing ever sets them, which is zero, as beyond an absorbing layer its memory is; and where
nothing ever reads them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from ...planning import Array
from ...region import Points
from ...stencil import Operand, StateRead, Traced, rewritten


def without_unset(arrays: Sequence[Array], operations: Sequence[Any]) -> list[Any]:
    """Operations cut where they start to read what no operation writes; there they go without."""
    written = {one.name: Points() for one in arrays if one.hidden}
    for one in operations:
        if one.array in written:
            written[one.array] = written[one.array].union(Points.of_box(one.box))
    found: list[Any] = []
    for operation in operations:
        parts = [operation]
        for read in dict.fromkeys(one for one in operation.reads if one.field in written):
            there = written[read.field].shift(tuple(-o for o in read.offset))
            parts = [new for one in parts for new in _cut(one, read, there)]
        found += parts
    return found


def without_unread(operations: Sequence[Any], kept: Collection[str]) -> list[Any]:
    """Operations without those that set what none reads, of arrays that are not kept."""
    found: list[Any] = []
    read: dict[str, list[Any]] = {}
    for one in reversed(operations):
        if one.array in kept or any(one.box.meets(box) for box in read.get(one.array, ())):
            found.append(one)
            for each in dict.fromkeys(o for o in one.operands if isinstance(o, StateRead) and not o.level):
                read.setdefault(each.field, []).append(one.box.shift(each.offset))
    return found[::-1]


def _cut(operation: Any, read: StateRead, there: Points) -> list[Any]:
    """An operation at the points from which a read finds something, and without it at the others."""
    here = Points.of_box(operation.box)
    others = here.subtract(there)
    if others.empty or read not in operation.rule.operands:  # that may have gone with another read
        return [operation]
    bare = replace(operation, rule=_without(operation.rule, read))
    both = (operation, here.intersect(there)), (bare, others)
    return [replace(one, box=part.box) for one, points in both for part in points.parts]


def _without(rule: Traced, read: StateRead) -> Traced:
    """A rule with zero in place of what it reads."""
    specs = {
        operand: jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype)
        for operand, variable in zip(rule.operands, rule.jaxpr.invars, strict=True)
    }
    nothing = specs.pop(read)

    def call(known: Mapping[Operand, Any], function: Callable[..., Any]) -> Any:
        zero = jnp.zeros(nothing.shape, nothing.dtype)
        return function(*(zero if operand == read else known[operand] for operand in rule.operands))

    return rewritten(rule, specs, call)

"""Functions of arrays that a rule applies to the one number it reads, which they would leave as it is, silently."""

from collections.abc import Sequence
from typing import Any

import jax.extend.core as jex

from ..errors import DeclarationError
from ._equations import ALL_CALLS, follow, inner_of
from ._operands import Operand, ProfileRead, StateRead

AT_A_POINT = (
    'Fields are numbers at one point there, of shape (): read neighbours, u["x-1"] + u["x+1"]; of all values '
    "fd.reduce makes a number."
)
"""What to do about a field that is taken for an array."""
_OF_THE_GRID = "Coordinates are numbers at one point there, of shape (): take what all have in common from `grid`."
_FIELD, _PROFILE, _RAVELLED = 1, 2, 4
_OF_ARRAYS = {
    "reduce_sum": "a sum, mean or norm", "reduce_max": "a maximum", "reduce_min": "a minimum",
    "reduce_prod": "a product", "reduce_and": "`all`", "reduce_or": "`any` or a median", "argmax": "`argmax`",
    "argmin": "`argmin`", "cumsum": "a running sum", "cumprod": "a running product", "cummax": "a running maximum",
    "cummin": "a running minimum", "rev": "a flip", "sort": "an order", "slice": "a roll or part", "gather": "an entry",
    "dynamic_slice": "a roll or entry",
}  # fmt: skip
"""Operations that mean nothing for one number, in words."""
_JOINS = frozenset({"stack", "concatenate", "broadcast_in_dim", "dot_general", "dynamic_update_slice", "scatter"})


def check_one_point(closed: jex.ClosedJaxpr, operands: Sequence[Operand], what: str) -> None:
    """Refuses sums, maxima, rolls and their kin of single numbers that a rule reads at its point; `what` names it.

    Arrays stacked of several reads, and parameters that come whole, are what such functions are for. Loops that end by
    a test are not entered, nor functions that have one: solvers of other libraries take norms of single numbers there.
    """
    misused: list[tuple[str, int]] = []

    def marks(eqn: Any, given: list[int]) -> list[int]:
        read, name = _union(given) & (_FIELD | _PROFILE), eqn.primitive.name
        if not read:
            return [0] * len(eqn.outvars)
        if name in ALL_CALLS and (inner := inner_of(eqn)) is not None:
            if eqn.params.get("name") == "_pad" and given[0] and eqn.outvars[0].aval.shape == ():
                misused.append(("a border", read))  # which leaves a number as it is, and no equation
            solves = any(one.primitive.name == "while" for one in inner.jaxpr.eqns)
            return [read] * len(eqn.outvars) if solves else within(inner, given)
        if name == "scan":
            return through_loop(eqn, given)
        if name == "cond":
            every = [within(one, given[1:]) for one in eqn.params["branches"]]
            return [_union(found) for found in zip(*every, strict=True)]
        single = [
            bool(mark) and (v.aval.shape == () or mark >= _RAVELLED) for v, mark in zip(eqn.invars, given, strict=True)
        ]
        if name in _OF_ARRAYS and single[0]:
            misused.append((_OF_ARRAYS[name], read))
        elif name == "dot_general" and all(single):
            misused.append(("a dot product", read))
        ravelled = (name == "reshape" and single[0]) or (name not in _JOINS and _union(given) >= _RAVELLED)
        return [read | (_RAVELLED if ravelled and v.aval.shape == (1,) else 0) for v in eqn.outvars]

    def within(inner: jex.ClosedJaxpr, given: list[int]) -> list[int]:
        return follow(inner.jaxpr, [0] * len(inner.consts) + given, marks, lambda literal: 0)

    def through_loop(eqn: Any, given: list[int]) -> list[int]:
        """What a loop carries is marked by what any turn makes of it; entries of arrays that it goes along are not."""
        inner = eqn.params["jaxpr"]
        # Arrays that it goes along, or puts together, have an axis more than their entries.
        count = sum(v.aval.ndim == w.aval.ndim for v, w in zip(eqn.outvars, inner.jaxpr.outvars, strict=True))
        fixes = sum(v.aval.ndim == w.aval.ndim for v, w in zip(eqn.invars, inner.jaxpr.invars, strict=True)) - count
        fixed, carried = given[:fixes], given[fixes : fixes + count]
        entries = [0] * (len(given) - fixes - count)
        while True:
            found = within(inner, [*fixed, *carried, *entries])
            after = [a | b for a, b in zip(carried, found, strict=False)]
            if after == carried:
                return found
            carried = after

    of = {StateRead: _FIELD, ProfileRead: _PROFILE}
    read = [_FIELD if _is_parameter(one) else of.get(type(one), 0) for one in operands]
    follow(closed.jaxpr, [0] * len(closed.jaxpr.constvars) + read, marks, lambda literal: 0)
    if misused:
        operation, read = misused[0]
        raise DeclarationError(
            f"{what} takes {operation} of one number. {AT_A_POINT if read & _FIELD else _OF_THE_GRID}"
        )


def _is_parameter(operand: Operand) -> bool:
    """Whether an operand is an entry of a parameter labelled by axes, which is read like a field."""
    return isinstance(operand, ProfileRead) and operand.name.startswith("parameter ")


def _union(marks: Sequence[int]) -> int:
    found = 0
    for mark in marks:
        found |= mark
    return found

"""A function that goes through all branches at once: what depends on what, whichever way a choice falls.

A number known at one point alone says which way a rule turns there: upwind of a speed, inside of a mask, before a time.
Patterns hold for the whole run. So where a choice depends on what may change, its cases are added up instead.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

from ._sites import CALLS, bind_equation, inner_of
from ._update import Update

_LOOPS = frozenset({"while", "custom_linear_solve", "custom_vjp_call", "custom_vjp_call_jaxpr"})
_LOOKS = frozenset({"dynamic_slice", "gather"})
"""What looks into an array where it is told to: what is there at another time need not be zero."""
Marked = tuple[Any, bool]
"""A value, and whether it may change from step to step."""


def all_branches(update: Update, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of (θ, u, aside, (constants, inputs)) with the cases of every choice added up that rests on what may
    change: all but constants that are known. Loops without a known number of turns, and solves, stay as they are."""

    def run(*arguments: Any) -> Any:
        leaves, form = jax.tree.flatten(arguments)
        theta, state, aside, (_, inputs) = jax.tree.map(lambda leaf: True, arguments)
        marks = jax.tree.leaves((theta, state, aside, (update.unknown, inputs)))
        closed, shape = jax.make_jaxpr(lambda *given: function(*form.unflatten(given)), return_shape=True)(*leaves)
        found = _walk(closed.jaxpr, closed.consts, list(zip(leaves, marks, strict=True)))
        return jax.tree.unflatten(jax.tree.structure(shape), [value for value, _ in found])

    return run


def _walk(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Marked]) -> list[Marked]:
    known: dict[Any, Marked] = dict(zip(jaxpr.constvars, ((const, False) for const in consts), strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Marked:
        return (variable.val, False) if isinstance(variable, jex.Literal) else known[variable]

    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _evaluate(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _evaluate(eqn: Any, given: list[Marked]) -> list[Marked]:
    name, inner = eqn.primitive.name, inner_of(eqn)
    values, marks = [value for value, _ in given], [mark for _, mark in given]
    if not any(marks):
        return [(one, False) for one in bind_equation(eqn, values)]
    if inner is not None and name in CALLS and (name != "custom_jvp_call" or not _has_loops(inner.jaxpr)):
        return _walk(inner.jaxpr, inner.consts, given)
    if name == "cond":
        return _cond(eqn, given)
    if name == "scan" and not _has_loops(eqn.params["jaxpr"].jaxpr):
        return [(one, True) for one in _scan(eqn, values, marks)]
    if jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.inexact):
        if name == "select_n" and marks[0]:
            return [(sum(values[2:], values[1]), True)]
        if name in ("max", "min"):
            return [(values[0] + values[1], True)]
        if name in ("reduce_max", "reduce_min"):
            return [(jnp.sum(values[0], eqn.params["axes"]), True)]
        if name in _LOOKS and not marks[0]:
            (found,) = bind_equation(eqn, values)
            return [(found + jnp.max(jnp.abs(values[0]), initial=0), True)]
        if name == "clamp":
            return [(values[0] + values[1] + values[2], True)]
        if name == "convert_element_type" and jnp.issubdtype(jnp.result_type(values[0]), jnp.bool_):
            return [(jnp.ones(eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype), True)]
    return [(one, True) for one in bind_equation(eqn, values)]


def _cond(eqn: Any, given: list[Marked]) -> list[Marked]:
    (index, changes), rest = given[0], given[1:]
    branches = eqn.params["branches"]
    if not changes:
        runs = [
            lambda *own, one=one: [v for v, _ in _walk(one.jaxpr, one.consts, _marked(own, rest))] for one in branches
        ]
        return [(one, True) for one in lax.switch(index, runs, *(value for value, _ in rest))]
    found = [[value for value, _ in _walk(one.jaxpr, one.consts, rest)] for one in branches]
    joined = [
        sum(cases[1:], cases[0]) if jnp.issubdtype(jnp.result_type(cases[0]), jnp.inexact) else cases[0]
        for cases in zip(*found, strict=True)
    ]
    return [(one, True) for one in joined]


def _scan(eqn: Any, values: list[Any], marks: list[bool]) -> list[Any]:
    """A loop over what is known to be so long; all that it carries may change."""
    body, fixed, carried = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
    consts = list(zip(values[:fixed], marks[:fixed], strict=True))

    def turn(carry: Any, slices: Any) -> tuple[list[Any], list[Any]]:
        own = [*consts, *((one, True) for one in (*carry, *slices))]
        found = [value for value, _ in _walk(body.jaxpr, body.consts, own)]
        kept = [one.astype(jnp.result_type(old)) for one, old in zip(found, carry, strict=False)]
        return kept, found[carried:]

    carry, stacks = lax.scan(
        turn,
        values[fixed : fixed + carried],
        values[fixed + carried :],
        length=eqn.params["length"],
        reverse=eqn.params["reverse"],
    )
    return [*carry, *stacks]


def _marked(own: Sequence[Any], like: Sequence[Marked]) -> list[Marked]:
    return [(value, mark) for value, (_, mark) in zip(own, like, strict=True)]


def _has_loops(jaxpr: Any) -> bool:
    """Whether there is something in it that stays as it is, at any depth."""
    for eqn in jaxpr.eqns:
        inside = [one for one in (inner_of(eqn), *eqn.params.get("branches", ())) if one is not None]
        if eqn.primitive.name in _LOOPS or any(_has_loops(one.jaxpr) for one in inside):
            return True
    return False

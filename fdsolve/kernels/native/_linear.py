"""Rules made ready to be differentiated: constants and times as operands; and the linear part of a level."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from ...stencil import Operand, StateRead, Traced, WholeRead, make_traced, rewritten
from ._operands import TIME_BEFORE
from ._program import Operation, Program, Unserved


def tangent_program(program: Program) -> Program:
    """The linear part of every operation; raises Unserved where one is not affine."""
    for operation in program.operations:
        check_affine(operation)
    operations = tuple(replace(op, rule=_linear_part(op), number=None) for op in program.operations)
    return replace(program, operations=operations)


def check_affine(operation: Operation) -> None:
    """Raises Unserved for an operation that is not affine in what it reads of the state."""
    if not operation.rule.affine:
        raise Unserved(f"a rule of `{operation.array}` is not affine")


def _linear_part(operation: Operation) -> Traced:
    rule = with_named_constants(operation.rule, operation.number)
    reads = [k for k, o in enumerate(rule.operands) if isinstance(o, StateRead)]

    def run(*values: Any) -> Any:
        if not reads:
            return jnp.zeros((), rule.dtype)

        def of_reads(*given: Any) -> Any:
            every = list(values)
            for k, value in zip(reads, given, strict=True):
                every[k] = value
            return rule.function(rule.consts)(*every)

        zeros = [jnp.zeros_like(values[k]) for k in reads]
        return jax.jvp(of_reads, zeros, [values[k] for k in reads])[1]

    closed = jax.make_jaxpr(run)(*[jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in rule.jaxpr.invars])
    return make_traced(closed, rule.operands, rule.dtype)


def with_named_constants(rule: Traced, number: int | None) -> Traced:
    """A rule, or predicate, of that number with its constants as operands."""
    if not rule.consts:
        return rule
    operands = tuple(WholeRead(f"rule {number} {k}") for k in range(len(rule.consts)))
    jaxpr = rule.jaxpr.replace(
        constvars=[], invars=[*rule.jaxpr.constvars, *rule.jaxpr.invars],
        debug_info=rule.jaxpr.debug_info._replace(arg_names=None),
    )  # fmt: skip
    return make_traced(jex.ClosedJaxpr(jaxpr, []), (*operands, *rule.operands), rule.dtype)


def with_plain_times(rule: Traced, fraction: float) -> Traced:
    """A rule at a fraction of the step as one at its end: of the time before and Δt instead."""
    times = [o for o in rule.operands if _is_within(o, fraction)]
    if not times:
        return rule
    wanted: dict[Operand, Any] = {}
    for operand, variable in zip(rule.operands, rule.jaxpr.invars, strict=True):
        spec = jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype)
        if operand not in times:
            wanted[operand] = spec
            continue
        wanted[WholeRead("dt")] = spec
        if operand == WholeRead("t"):
            wanted[TIME_BEFORE] = spec

    def call(known: Mapping[Operand, Any], function: Callable[..., Any]) -> Any:
        def passed() -> Any:
            step = known[WholeRead("dt")]
            return step if fraction == 1.0 else step * jnp.asarray(fraction, step.dtype)

        def value(operand: Operand) -> Any:
            if operand not in times:
                return known[operand]
            return passed() if operand == WholeRead("passed") else known[TIME_BEFORE] + passed()

        return function(*(value(operand) for operand in rule.operands))

    return rewritten(rule, wanted, call)


def _is_within(operand: Operand, fraction: float) -> bool:
    return operand == WholeRead("passed") or (operand == WholeRead("t") and fraction != 1.0)

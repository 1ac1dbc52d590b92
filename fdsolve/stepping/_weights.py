"""Weights read off traced rules: with which a rule takes its own old value, and what weights depend on."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..stencil import (
    AFFINE,
    CONSTANT,
    Operand,
    StateRead,
    Traced,
    depends_on,
    operand_specs,
    output_degrees,
)


def old_weight(rule: Traced, own: StateRead) -> complex | str:
    """The weight of a rule's own old value, with which it is solved for that; or why it cannot be."""
    if not np.issubdtype(rule.dtype, np.inexact):
        return f"`{own.field}` holds {rule.dtype}, and a step is undone in real and complex numbers"
    old = f"its own old value, t{own.level}"
    if not is_affine_in(rule, own):
        told = " (conj and real are not, of a complex one)" if np.issubdtype(rule.dtype, np.complexfloating) else ""
        return f"it is not affine in {old}{told}: only ±1 times it, plus the rest, loses nothing"
    weight = find_weight(rule, own)
    if weight is None:
        return f"it takes {old}, times a weight that is not a number: only ±1 loses nothing"
    if abs(abs(weight) - 1) > 1e-6:
        return f"it takes {old}, times {weight.real:.6g}: only ±1 loses nothing"
    return weight


def is_affine_in(rule: Traced, own: StateRead) -> bool:
    """Whether a rule is affine in one of its operands, whatever the others are.

    Its derivative does not tell: that of sign and floor is a number too, and along 1 that of conj is 1.
    """
    degrees = [CONSTANT] * len(rule.jaxpr.constvars) + [AFFINE if o == own else CONSTANT for o in rule.operands]
    return output_degrees(rule.jaxpr, degrees)[0] <= AFFINE


def find_weight(rule: Traced, own: StateRead) -> complex | None:
    """The derivative of a rule with respect to one of its operands where that is a number; None elsewhere."""
    place = rule.operands.index(own)
    consts = [jax.ShapeDtypeStruct(jnp.shape(const), jnp.result_type(const)) for const in rule.consts]

    def derivative(arrays: Sequence[jax.Array], *values: jax.Array) -> jax.Array:
        run = rule.function(tuple(arrays))

        def of(one: jax.Array) -> jax.Array:
            return run(*values[:place], one, *values[place + 1 :])

        return jax.jvp(of, (values[place],), (jnp.ones_like(values[place]),))[1]

    specs = operand_specs(rule)
    closed = jax.make_jaxpr(derivative)(consts, *specs)
    inner = closed.jaxpr
    if depends_on(inner, [False] * len(inner.constvars) + [True] * len(inner.invars))[0]:
        return None
    with jax.ensure_compile_time_eval():
        zeros = [jnp.zeros(one.shape, one.dtype) for one in (*consts, *specs)]
        return complex(np.asarray(derivative(zeros[: len(consts)], *zeros[len(consts) :])))


def weight_operands(rule: Traced) -> tuple[frozenset[Operand], bool]:
    """The operands that an affine rule's weights depend on, and whether they depend on its constants."""
    specs, found, on_consts = operand_specs(rule), set(), False
    consts = [jax.ShapeDtypeStruct(jnp.shape(const), jnp.result_type(const)) for const in rule.consts]
    reads = [k for k, operand in enumerate(rule.operands) if isinstance(operand, StateRead)]

    def derivative(arrays: Sequence[jax.Array], *values: jax.Array) -> jax.Array:
        def of(*state: jax.Array) -> jax.Array:
            given = list(values)
            for place, one in zip(reads, state, strict=True):
                given[place] = one
            return rule.function(tuple(arrays))(*given)

        state = tuple(values[k] for k in reads)
        return jax.jvp(of, state, tuple(jnp.ones_like(one) for one in state))[1]

    if not reads:
        return frozenset(), False
    inner = jax.make_jaxpr(derivative)(consts, *specs).jaxpr
    hidden = len(inner.constvars)
    for k in range(len(inner.invars)):
        marks = [False] * hidden + [j == k for j in range(len(inner.invars))]
        if depends_on(inner, marks)[0]:
            on_consts |= k < len(consts)
            found |= {rule.operands[k - len(consts)]} if k >= len(consts) else set()
    return frozenset(found), on_consts

"""Bytes that a march and its derivative take, told while they are traced."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from .._tangents import replaced
from ..stencil import programs_in

Leaves = Callable[[Sequence[Any]], list[Any]]
"""A march, of the leaves of constants, carry and start to those of the carry."""
OURS = "fdsolve_"
"""How primitives of this package are called, whose programs stand in no parameter: what computes them shows them."""


def count_bytes(tree: Any) -> int:
    """Bytes of all arrays in a tree."""
    return sum(int(np.prod(jnp.shape(x))) * jnp.result_type(x).itemsize for x in jax.tree.leaves(tree))


def differentiable(leaves: Sequence[Any]) -> list[Any]:
    """Those that cotangents come back to."""
    return [one for one in leaves if jnp.issubdtype(jnp.result_type(one), jnp.inexact)]


def bytes_kept(march: Leaves, leaves: Sequence[Any], moving: Sequence[int]) -> int:
    """What the derivative of a march by the `moving` ones of its leaves keeps, in bytes, beside what it is given."""
    shapes = _shapes_of(leaves)

    def pull(*given: Any) -> Any:
        return jax.vjp(_along(march, given, moving), *(given[k] for k in moving))[1]

    return max(0, count_bytes(jax.eval_shape(pull, *shapes)) - count_bytes(shapes))


def bytes_taken(march: Leaves, leaves: Sequence[Any], moving: Sequence[int]) -> int:
    """What a march and its transpose take at once, in bytes, beside what they are given."""
    shapes = _shapes_of(leaves)

    def both(given: Any, back: Any) -> Any:
        return jax.vjp(_along(march, given, moving), *(given[k] for k in moving))[1](back)

    return peak_bytes(jax.make_jaxpr(both)(shapes, differentiable(jax.eval_shape(march, shapes))).jaxpr)


def _along(march: Leaves, given: Sequence[Any], moving: Sequence[int]) -> Callable[..., list[Any]]:
    return lambda *moved: differentiable(march(replaced(list(given), moving, moved)))


def _shapes_of(leaves: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in leaves]


def peak_bytes(program: jex.Jaxpr) -> int:
    """Bytes of the arrays that a program makes and needs at once: each from where it is made to where it is last read.

    That is near to what XLA takes where most of it is made by calls that XLA cannot look into, as those of generated
    code; operations that it fuses take less.
    """
    equations = list(_needed(program))
    last = {one: k for k, equation in enumerate(equations) for one in _variables(equation.invars)}
    last |= dict.fromkeys(_variables(program.outvars), len(equations))
    held: dict[jex.Var, int] = {}
    most = 0
    for k, equation in enumerate(equations):
        within = max((peak_bytes(inner) for inner in _programs_in(equation)), default=0)
        before = sum(held.values())
        for number, _ in equation.params.get("input_output_aliases") or ():
            if last[equation.invars[number]] == k:  # written over; what the program is given is copied
                held.pop(equation.invars[number], None)
        new = {one: _size(one) for one in equation.outvars}
        most = max(most, before + within, sum(held.values()) + sum(new.values()))
        held |= new
        held = {one: size for one, size in held.items() if last.get(one, -1) > k}
    return most


def inputs_read(program: jex.Jaxpr) -> list[bool]:
    """Which of its inputs what a program gives depends on."""
    read = {*_variables(program.outvars), *(one for made in _needed(program) for one in _variables(made.invars))}
    return [one in read for one in program.invars]


def _needed(program: jex.Jaxpr) -> Iterator[jex.JaxprEqn]:
    """The equations that what a program gives depends on, in their order."""
    wanted, found = set(_variables(program.outvars)), []
    for equation in reversed(program.eqns):
        if wanted.intersection(equation.outvars):
            found.append(equation)
            wanted.update(_variables(equation.invars))
    return reversed(found)


def _variables(atoms: Sequence[Any]) -> list[jex.Var]:
    return [one for one in atoms if not isinstance(one, jex.Literal)]


def _size(one: jex.Var) -> int:
    shape, dtype = getattr(one.aval, "shape", None), getattr(one.aval, "dtype", None)
    return 0 if shape is None else int(np.prod(shape)) * getattr(dtype, "itemsize", 0)


def _programs_in(equation: jex.JaxprEqn) -> Iterator[jex.Jaxpr]:
    """The programs that an equation runs."""
    if equation.primitive.name.startswith(OURS):
        run = partial(equation.primitive.impl, **equation.params)
        yield jax.make_jaxpr(run)(*(one.aval for one in equation.invars)).jaxpr
        return
    yield from programs_in(equation.params.values())

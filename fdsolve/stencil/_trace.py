"""Tracing: a rule becomes a scalar function of the operands it reads."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from ..errors import DeclarationError, PlanningError
from ..field import OF_KEYS, are_keys
from ..units import is_quantity
from ._context import Reader
from ._failures import explained
from ._key import jaxpr_key
from ._linearity import AFFINE, CONSTANT, NONLINEAR, depends_on, output_degrees, weights_depend_on
from ._one_point import AT_A_POINT, check_one_point
from ._operands import Misplaced, Operand, ProfileRead, StateRead, WholeRead
from ._results import describe_result
from ._scalarise import needs_scalarising, scalarise


@dataclass(frozen=True, eq=False)
class Traced:
    """A rule as data: a jaxpr from its operands to one scalar. Equal and hashed by structure; `consts` are arrays.

    `degree` tells whether it is constant, affine or nonlinear in the fields it reads.
    """

    operands: tuple[Operand, ...]
    jaxpr: Any
    consts: tuple[Any, ...]
    dtype: Any
    degree: int
    key: Hashable = field(repr=False)

    @cached_property
    def reads(self) -> tuple[StateRead, ...]:
        """The operands that are values of fields."""
        return tuple(o for o in self.operands if isinstance(o, StateRead))

    @property
    def affine(self) -> bool:
        """Whether the rule is affine in the fields it reads."""
        return self.degree <= AFFINE

    def weights_depend_on(self, marked: Callable[[Operand], bool]) -> bool:
        """Whether the weights of an affine rule by what it reads depend on marked operands."""
        reads = [False] * len(self.consts) + [isinstance(one, StateRead) for one in self.operands]
        return weights_depend_on(self.jaxpr, reads, [False] * len(self.consts) + [marked(one) for one in self.operands])

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Traced):
            return self is other
        return self._hash == other._hash and self.operands == other.operands and self.key == other.key

    def function(self, consts: tuple[Any, ...]) -> Callable[..., jax.Array]:
        """The rule as a function of its operands' scalar values."""
        run = jex.jaxpr_as_fun(jex.ClosedJaxpr(self.jaxpr, list(consts)))
        return lambda *values: run(*values)[0]


@dataclass
class _Found:
    shape: tuple[int, ...]
    dtype: Any


def trace(call: Callable[[Reader], tuple[Any, list[Any]]], what: str, dtype: Any, infer: bool = False) -> Traced:
    """Traces a rule.

    `call(reader)` evaluates it, asking `reader` for operands, and returns its value and the plain values it used at
    offsets. `dtype` is that of the field it defines. Where functions within the rule that JAX traces apart (a loop's
    body) ask for what was not read before, the rule is evaluated again, with that at hand.
    """
    ahead: dict[Operand, _Found] = {}
    rule = None
    while rule is None:
        rule = _traced(call, what, None if infer else dtype, dtype, ahead)
    return rule


_read_p = jex.Primitive("fdsolve_read")
_read_p.def_abstract_eval(lambda *, number, aval: aval)


def _traced(
    call: Callable[[Reader], tuple[Any, list[Any]]],
    what: str,
    dtype: Any,
    of_field: Any,
    ahead: dict[Operand, _Found],
) -> Traced | None:
    """A rule in one evaluation; `dtype` None: that of its value. What stands in `ahead` is read before all else; None
    where something was read within a function that was not: it stands there now."""
    expected = len(ahead)
    found: dict[Operand, _Found] = {}
    known: dict[Operand, Any] = {}
    real = jnp.finfo(of_field).dtype if jnp.issubdtype(of_field, jnp.complexfloating) else None
    num_shifted = 0

    def is_weak(operand: Operand) -> bool:
        """Real scalars (time, coordinates, coefficients) mix with complex fields as Python numbers do."""
        spec = found[operand]
        return real is not None and spec.shape == () and spec.dtype == real and not isinstance(operand, StateRead)

    def record() -> tuple[Any, ...]:
        nonlocal dtype, num_shifted
        outside = jex.get_opaque_trace_state()

        def reader(operand: Operand, shape: tuple[int, ...], of: Any) -> jax.Array:
            if operand in known:
                return known[operand]
            found[operand] = _Found(shape, of)
            aval = ShapedArray(shape, np.dtype(of), weak_type=is_weak(operand))
            value = _read_p.bind(number=len(known), aval=aval)
            if jex.get_opaque_trace_state() == outside:
                known[operand] = value
            else:
                ahead[operand] = found[operand]
            return value

        for operand, one in list(ahead.items()):
            reader(operand, one.shape, one.dtype)
        with explained(what):
            result, shifted = call(reader)
        num_shifted = len(shifted)
        dtype = jnp.asarray(result).dtype if dtype is None else dtype
        return (_checked_scalar(result, what, dtype, found), *shifted)

    traced = jax.make_jaxpr(record)()
    if len(ahead) > expected:
        return None
    numbers = {one: number for number, one in enumerate(known)}
    operands = tuple(sorted(known, key=lambda o: (type(o).__name__, repr(o))))
    closed = _of_reads(traced, [numbers[one] for one in operands])
    specs = [jax.ShapeDtypeStruct(found[o].shape, found[o].dtype, weak_type=is_weak(o)) for o in operands]
    if num_shifted:
        _check_shifted(closed, operands, what)
    check_one_point(closed, operands, what)
    rule = make_traced(_simplify(closed, specs), operands, dtype)
    for one in rule.operands:
        if isinstance(one, Misplaced):
            raise PlanningError(one.name)
    return rule


def _of_reads(closed: jex.ClosedJaxpr, order: Sequence[int]) -> jex.ClosedJaxpr:
    """A jaxpr as one of what it reads, in this order of the reads' numbers."""
    reads = {eqn.params["number"]: eqn.outvars[0] for eqn in closed.jaxpr.eqns if eqn.primitive is _read_p}
    rest = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive is not _read_p]
    info = closed.jaxpr.debug_info._replace(arg_names=None)
    return jex.ClosedJaxpr(
        closed.jaxpr.replace(invars=[reads[number] for number in order], eqns=rest, debug_info=info), closed.consts
    )


def trace_window(closed: jex.ClosedJaxpr, operands: Sequence[Operand], dtype: Any) -> Traced:
    """The rule of a traced function of one window array, whose entries in row-major order are the operands.

    Its result, of any shape, is converted to `dtype`. Entries that it does not use are no operands of the rule.
    """
    (window,) = closed.in_avals
    # Arrays the function closed over stay arrays; only integers, which may be indices, are kept as numbers.
    moved = [isinstance(c, jax.Array) or jnp.issubdtype(c.dtype, jnp.inexact) for c in closed.consts]

    def run(arrays: list[Any], *entries: Any) -> jax.Array:
        given = iter(arrays)
        consts = [next(given) if move else const for const, move in zip(closed.consts, moved, strict=True)]
        (value,) = scalarise(jex.ClosedJaxpr(closed.jaxpr, consts), [window.shape])(*entries)
        return jax.lax.convert_element_type(value, dtype)

    arrays = [const for const, move in zip(closed.consts, moved, strict=True) if move]
    scalars = [jax.ShapeDtypeStruct((), window.dtype)] * int(np.prod(window.shape))
    scalar = jax.make_jaxpr(run)(arrays, *scalars)
    inputs, count = scalar.jaxpr.invars, len(arrays)
    jaxpr = scalar.jaxpr.replace(
        constvars=[*scalar.jaxpr.constvars, *inputs[:count]],
        invars=inputs[count:],
        debug_info=_debug_info(scalar.jaxpr, list(range(count, len(inputs)))),
    )
    return make_traced(jex.ClosedJaxpr(jaxpr, [*scalar.consts, *arrays]), tuple(operands), dtype)


def operand_specs(rule: Traced) -> tuple[jax.ShapeDtypeStruct, ...]:
    """What a rule's operands are: shapes and dtypes."""
    return tuple(
        jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type) for v in rule.jaxpr.invars
    )


def rewritten(
    rule: Traced, wanted: Mapping[Operand, Any], call: Callable[[Mapping[Operand, Any], Callable[..., Any]], Any]
) -> Traced:
    """A rule made of another one: `call(known, rule)` gives its value, from the operands wanted (by what they are)."""
    operands = tuple(wanted)
    arrays = [jax.ShapeDtypeStruct(jnp.shape(const), jnp.result_type(const)) for const in rule.consts]

    def run(consts: Any, *values: Any) -> Any:
        found = call(dict(zip(operands, values, strict=True)), rule.function(tuple(consts)))
        return jax.lax.convert_element_type(found, rule.dtype)

    closed = jax.make_jaxpr(run)(arrays, *wanted.values())
    inputs, count = closed.jaxpr.invars, len(arrays)
    jaxpr = closed.jaxpr.replace(
        constvars=[*closed.jaxpr.constvars, *inputs[:count]],
        invars=inputs[count:],
        debug_info=_debug_info(closed.jaxpr, list(range(count, len(inputs)))),
    )
    return make_traced(jex.ClosedJaxpr(jaxpr, [*closed.consts, *rule.consts]), operands, rule.dtype)


def constant_rule(value: int | float | complex, dtype: Any) -> Traced:
    """The rule that gives one number everywhere."""
    return trace(lambda reader: (np.asarray(value, dtype), []), "a constant", dtype)


def make_traced(closed: jex.ClosedJaxpr, operands: tuple[Operand, ...], dtype: Any) -> Traced:
    """The rule of a jaxpr from operands to one result, without the operands that it does not need."""
    jaxpr, used = _drop_unused(closed.jaxpr)
    operands = tuple(operands[i] for i in used)
    degrees = [CONSTANT] * len(jaxpr.constvars) + [AFFINE if isinstance(o, StateRead) else CONSTANT for o in operands]
    degree = max(output_degrees(jaxpr, degrees), default=NONLINEAR)
    return Traced(operands, jaxpr, tuple(closed.consts), np.dtype(dtype), degree, jaxpr_key(jaxpr))


def make_traced_each(closed: jex.ClosedJaxpr, operands: tuple[Operand, ...], dtype: Any) -> list[Traced]:
    """The rules of a jaxpr from operands to several results, one for each."""
    jaxpr, info = closed.jaxpr, _one_result(closed.jaxpr.debug_info)
    parts = (jaxpr.replace(outvars=[one], debug_info=info) for one in jaxpr.outvars)
    return [make_traced(jex.ClosedJaxpr(one, closed.consts), operands, dtype) for one in parts]


def _drop_unused(jaxpr: jex.Jaxpr) -> tuple[jex.Jaxpr, list[int]]:
    """The jaxpr without equations that nothing needs, and without the inputs that are then unused."""
    needed = {v for v in jaxpr.outvars if not isinstance(v, jex.Literal)}
    kept = []
    for eqn in reversed(jaxpr.eqns):  # of long rules there are very many
        if eqn.effects or not needed.isdisjoint(eqn.outvars):
            kept.append(eqn)
            needed.update([v for v in eqn.invars if not isinstance(v, jex.Literal)])
    used = [i for i, v in enumerate(jaxpr.invars) if v in needed]
    inputs = [jaxpr.invars[i] for i in used]
    return jaxpr.replace(invars=inputs, eqns=kept[::-1], debug_info=_debug_info(jaxpr, used)), used


def _debug_info(jaxpr: jex.Jaxpr, used: list[int]) -> Any:
    info = jaxpr.debug_info
    names = getattr(info, "arg_names", None)
    if names is None or len(names) != len(jaxpr.invars):
        return info
    return info._replace(arg_names=tuple(names[i] for i in used))


def _simplify(closed: jex.ClosedJaxpr, specs: list[jax.ShapeDtypeStruct]) -> jex.ClosedJaxpr:
    """The jaxpr of the first output with small inner arrays taken apart."""
    jaxpr = closed.jaxpr
    first = jaxpr.replace(outvars=jaxpr.outvars[:1], debug_info=_one_result(jaxpr.debug_info))
    whole = jex.ClosedJaxpr(first, closed.consts)
    if not needs_scalarising(first):
        return whole
    shapes = [None if spec.shape else () for spec in specs]
    return jax.make_jaxpr(lambda *values: scalarise(whole, shapes)(*values))(*specs)


def _one_result(info: Any) -> Any:
    paths = getattr(info, "result_paths", None)
    return info._replace(result_paths=paths[:1]) if isinstance(paths, tuple) else info


def _check_shifted(closed: jex.ClosedJaxpr, operands: tuple[Operand, ...], what: str) -> None:
    local = [isinstance(o, StateRead | ProfileRead) for o in operands]
    if any(depends_on(closed.jaxpr, [False] * len(closed.jaxpr.constvars) + local)[1:]):
        raise PlanningError(
            f"{what} differences a product of a view and a value taken at one point (a coordinate, or `u[...]`): the "
            f"value would not move with the point. Use views throughout: `u` instead of `u[...]`, "
            f"`fd.apply(jnp.sin, fd.coordinate(u, 'x'))` instead of `jnp.sin(x)`."
        )


def _show_wholes(found: Mapping[Operand, _Found]) -> str:
    """Which parameters a rule gets as arrays, as a sentence."""
    arrays = [(one.name, of.shape) for one, of in found.items() if isinstance(one, WholeRead) and of.shape]
    named = (f"`{name.removeprefix('parameter ')}`, of shape {shape}," for name, shape in arrays)
    return f" It gets {' and '.join(named)} whole." if arrays else ""


def _checked_scalar(result: Any, what: str, dtype: Any, found: Mapping[Operand, _Found]) -> jax.Array:
    if result is None:
        raise DeclarationError(f"{what} returned nothing; a rule returns the value at its point. Is there a `return`?")
    if is_quantity(result):
        raise DeclarationError(
            f"{what} returned a quantity; inside a rule all are magnitudes, and units are followed through it. Give a "
            f"quantity as a parameter, by the name of an argument: solve(u, kappa=kappa)."
        )
    if isinstance(result, tuple | list | dict):
        raise DeclarationError(
            f"{what} returned a {type(result).__name__}; a rule returns one value. To set several fields by one "
            f"function "
            f"use `fd.together`."
        )
    try:
        value = jnp.asarray(result)
    except (TypeError, ValueError):
        raise DeclarationError(
            f"{what} returned {describe_result(result)}; a rule returns the value at its point, a number. A field is "
            f"read "
            f"through the argument of its name, `u[...]`."
        ) from None
    if value.shape != ():
        single = AT_A_POINT if value.size == 1 else None
        remedy = 'Read single entries of an array, or label it by the grid\'s axes and name it: k=fd.along(array, "x").'
        raise DeclarationError(
            f"{what} returned an array of shape {value.shape}; a rule gives one number, the value at its point."
            f"{_show_wholes(found)} {single or remedy}"
        )
    if are_keys(value):
        raise DeclarationError(f"{what} returned a random key; a rule gives a number. {OF_KEYS}")
    if jnp.issubdtype(value.dtype, jnp.complexfloating) and not jnp.issubdtype(dtype, jnp.complexfloating):
        raise DeclarationError(
            f"{what} returned a complex value for a real field; declare the field with dtype=complex."
        )
    if jnp.issubdtype(value.dtype, jnp.inexact) and not jnp.issubdtype(dtype, jnp.inexact):
        raise DeclarationError(
            f"{what} returned {value.dtype} for a field of dtype {np.dtype(dtype)}, which would cut it off; declare "
            f"the "
            f"field with dtype=float, or round in the rule."
        )
    if np.dtype(dtype) == bool and value.dtype != bool:
        raise DeclarationError(f"{what} returned {value.dtype} for a field of dtype bool; return a comparison.")
    return value.astype(dtype)

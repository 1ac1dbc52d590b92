"""Weights of affine rules: what is known of them whatever the parameters are, and their values in a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ..planning import Structure, varies, weight_function
from ..stencil import ALL_CALLS, ProfileRead, StateRead, Traced, WholeRead, depends_on, inner_of
from ._level import Arrays

_ANALYTIC = frozenset(
    {
        "add", "add_any", "sub", "mul", "div", "neg", "pow", "integer_pow", "square", "sqrt", "rsqrt", "cbrt", "exp",
        "one_minus_square", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
        "acos", "atan", "logistic", "erf", "erfc", "convert_element_type", "broadcast_in_dim", "reshape", "squeeze",
        "expand_dims", "slice", "concatenate", "transpose", "rev", "reduce_sum", "reduce_prod", "dot_general",
        "cumsum", "copy", "copy_p", "real", "imag", "conj", "complex", "pad", "split", "symbolic_zeros",
    }
)  # fmt: skip
_DRAWS = 6


@dataclass(frozen=True, eq=False)
class Facts:
    """What an affine rule is, as a function of its parameters.

    `samples` are its weights for some made-up values, shape (draws, reads); `fixed` says that they do not depend on
    them, `analytic` that they depend on them without branches, so that what holds of the samples holds always.
    `linear` says that the rule vanishes where all it reads does.
    """

    samples: np.ndarray
    fixed: bool
    analytic: bool
    linear: bool


@lru_cache(maxsize=512)
def facts_of(rule: Traced) -> Facts:
    """The facts of an affine rule."""
    others = other_operands(rule)
    avals = dict(zip(rule.operands, (v.aval for v in rule.jaxpr.invars), strict=True))
    specs = [jax.ShapeDtypeStruct(avals[o].shape, avals[o].dtype) for o in others]
    consts = [jax.ShapeDtypeStruct(np.shape(c), jnp.result_type(c)) for c in rule.consts]
    weigh = weight_function(rule)

    def all_of(values: list[Any], own: list[Any]) -> list[Any]:
        zeros = {o: jnp.zeros((), avals[o].dtype) for o in rule.reads}
        known = {**dict(zip(others, values, strict=True)), **zeros}
        return [*weigh(values, own), rule.function(tuple(own))(*(known[o] for o in rule.operands))]

    closed = jax.make_jaxpr(all_of)(specs, consts)
    moving = [False] * len(closed.jaxpr.constvars) + [True] * len(closed.jaxpr.invars)
    depends = depends_on(closed.jaxpr, moving)
    analytic = _is_analytic(closed.jaxpr, closed.jaxpr.outvars[:-1])
    constant_analytic = _is_analytic(closed.jaxpr, closed.jaxpr.outvars[-1:])
    rows = np.array([_sample(closed, [*specs, *consts], draw) for draw in range(_DRAWS)])
    defined = ~np.isnan(rows).any(axis=1)
    rows = rows[defined] if defined.any() else rows
    return Facts(rows[:, :-1], not any(depends[:-1]), analytic, constant_analytic and not rows[:, -1].any())


def _sample(closed: jex.ClosedJaxpr, specs: Sequence[Any], draw: int) -> np.ndarray:
    """The outputs of a jaxpr for made-up inputs: positive ones in the first half of the draws, then of either sign,
    since a root of a square takes no notice of it; nan where they are not defined."""
    random = np.random.default_rng(draw)

    def some(place: int, spec: jax.ShapeDtypeStruct) -> jax.Array:
        if not jnp.issubdtype(spec.dtype, jnp.inexact):
            return jnp.asarray(random.integers(2, 30, spec.shape), spec.dtype)
        turned = draw >= _DRAWS // 2 and place >> draw - _DRAWS // 2 & 1 == 0
        value = random.uniform(0.6, 1.4, spec.shape) * (-1 if turned else 1)
        if jnp.issubdtype(spec.dtype, jnp.complexfloating):
            value = value + 1j * random.uniform(-1.4, 1.4, spec.shape)
        return jnp.asarray(value, spec.dtype)

    with jax.ensure_compile_time_eval():
        found = jex.jaxpr_as_fun(closed)(*(some(place, spec) for place, spec in enumerate(specs)))
        return np.array([complex(v) for v in found])


def _is_analytic(jaxpr: jex.Jaxpr, outputs: Sequence[Any]) -> bool:
    """Whether some outputs follow from the inputs by analytic functions alone."""
    return all(eqn.primitive.name in _ANALYTIC and not _branches(eqn) for eqn in _equations(jaxpr, outputs))


def _branches(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation reads what is true or false."""
    return any(jnp.issubdtype(jnp.result_type(variable.aval), jnp.bool_) for variable in eqn.invars)


def _equations(jaxpr: jex.Jaxpr, outputs: Sequence[Any]) -> Iterator[jex.JaxprEqn]:
    """The equations that some outputs need; of inner functions all."""
    needed = {v for v in outputs if not isinstance(v, jex.Literal)}
    for eqn in reversed(jaxpr.eqns):
        if not any(v in needed for v in eqn.outvars):
            continue
        needed.update(v for v in eqn.invars if not isinstance(v, jex.Literal))
        inner = inner_of(eqn) if eqn.primitive.name in ALL_CALLS else None
        if inner is None:
            yield eqn
        else:
            yield from _equations(inner.jaxpr, inner.jaxpr.outvars)


def other_operands(rule: Traced) -> list[Any]:
    """What a rule reads beside the fields."""
    return [o for o in rule.operands if not isinstance(o, StateRead)]


def why_not_constant(rule: Traced, time_axis: str | None) -> str:
    """Why a rule is not affine with constant weights and a constant that stays as it is in time; "" where it is."""
    if not rule.affine:
        return "is not affine"
    for operand in other_operands(rule):
        timed = isinstance(operand, ProfileRead) and time_axis in operand.axes
        if timed or operand in (WholeRead("t"), WholeRead("passed")):
            return "depends on time"
    return "has weights that vary in space" if varies(rule) else ""


def weights_in(structure: Structure, arrays: Arrays, number: int, along: Any = None) -> list[jax.Array]:
    """The weights of a rule with constant ones, in the order of its reads; functions of the parameters of the run.

    `along`: sums of them instead, along rows of numbers, one a read.
    """
    rule = structure.rules[number]
    avals = dict(zip(rule.operands, (v.aval for v in rule.jaxpr.invars), strict=True))

    def value(operand: Any) -> Any:
        if isinstance(operand, ProfileRead):  # the weights do not depend on it
            return jnp.ones(avals[operand].shape, avals[operand].dtype)
        return arrays.wholes[operand.name]

    return weight_function(rule, along)([value(o) for o in other_operands(rule)], arrays.consts[number])

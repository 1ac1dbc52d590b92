"""Follows units through a traced rule: a table of what each operation does to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import jax.extend.core as jex
import numpy as np
from jax.core import Tracer

from ._measure import ONE, Measure

SCALE = 4.0
"""By how much lengths grow from a rule to its copy: the root of a length doubles, and both are exact."""


@dataclass(frozen=True)
class Worth:
    """What is known of a value: its unit, and what it was made from.

    `measure` is None for what has any unit (numbers that a rule writes out; zero) and, where `known` is False, for
    what could not be followed. `number` is its value where that stands in the rule.
    """

    measure: Measure | None = None
    known: bool = True
    sources: frozenset[str] = frozenset()
    number: float | None = None

    @property
    def is_zero(self) -> bool:
        """Whether it is zero, which has any unit."""
        return self.number == 0.0


class UnitsDiffer(Exception):
    """Two terms that are added, compared or chosen between are in different units."""

    def __init__(self, first: Worth, second: Worth):
        super().__init__("units differ")
        self.first, self.second = first, second


class UnitsNotTaken(Exception):
    """A function of pure numbers got what has a unit."""

    def __init__(self, function: str, argument: Worth):
        super().__init__(function)
        self.function, self.argument = function, argument


class NotFollowed(Exception):
    """A rule whose units cannot be told; the message says why."""


@dataclass(frozen=True)
class Follower:
    """Follows units through the jaxpr of a rule, beside copies of it with longer lengths.

    `lengths` are the units that were stretched, one for each copy: numbers of the rule that change with them are
    powers of that unit (unknown where it is None).
    """

    lengths: tuple[Measure | None, ...]

    def follow(self, jaxprs: Sequence[Any], consts: Sequence[Sequence[Any]], inputs: Sequence[Worth]) -> list[Worth]:
        """What the results of a jaxpr are worth. Raises UnitsDiffer, UnitsNotTaken, NotFollowed."""
        own, copies = jaxprs[0], jaxprs[1:]
        if any([e.primitive.name for e in one.eqns] != [e.primitive.name for e in own.eqns] for one in copies):
            raise NotFollowed("its form depends on the spacing")
        known: dict[Any, Worth] = dict(zip(own.invars, inputs, strict=True))
        for position, var in enumerate(own.constvars):
            known[var] = self.number([one[position] for one in consts])

        def worth(atom: Any, others: Sequence[Any]) -> Worth:
            if not isinstance(atom, jex.Literal):
                return known.get(atom, Worth())
            if not all(isinstance(other, jex.Literal) for other in others):
                raise NotFollowed("its form depends on the spacing")
            return self.number([atom.val, *(other.val for other in others)])

        for index, eqn in enumerate(own.eqns):
            beside = [one.eqns[index] for one in copies]
            given = [worth(atom, [b.invars[i] for b in beside]) for i, atom in enumerate(eqn.invars)]
            results = self._apply([eqn, *beside], given)
            known.update(zip(eqn.outvars, results, strict=True))
        return [worth(atom, [one.outvars[i] for one in copies]) for i, atom in enumerate(own.outvars)]

    def number(self, values: Sequence[Any]) -> Worth:
        """What numbers written into a rule are worth, from their values in the rule and in its copies."""
        if any(isinstance(value, Tracer) for value in values):
            return Worth()
        own, *others = (np.asarray(value) for value in values)
        if own.dtype.kind not in "fc" or any(other.shape != own.shape for other in others):
            return Worth(number=float(own) if own.ndim == 0 and own.dtype.kind in "iub" else None)
        measure, filled = ONE, own != 0
        for other, length in zip(others, self.lengths, strict=True):
            with np.errstate(all="ignore"):
                powers = 2 * np.log(np.abs(other[filled] / own[filled])) / np.log(SCALE)
            halves = np.round(powers[:1])
            if powers.size and not (np.isfinite(powers).all() and np.allclose(powers, halves, rtol=0, atol=1e-3)):
                return Worth(known=False)
            if powers.size and halves[0]:
                if length is None:
                    return Worth(known=False)
                measure = measure * length ** Fraction(int(halves[0]), 2)
        number = float(own) if own.ndim == 0 and own.dtype.kind == "f" else None
        return Worth(None if measure.is_one else measure, number=0.0 if not filled.any() else number)

    def _apply(self, eqns: Sequence[Any], given: list[Worth]) -> list[Worth]:
        eqn = eqns[0]
        name = eqn.primitive.name
        if name in _TABLE:
            result = _TABLE[name](eqn, given)
            return [result] * len(eqn.outvars)
        if name in _SPECIAL:
            return _SPECIAL[name](self, eqns, given)
        inner = [_inner(one.params) for one in eqns]
        if inner[0] is not None:
            return self._enter(inner, given)
        known = all(one.measure is None or one.measure.is_one for one in given) and all(one.known for one in given)
        free = all(one.measure is None for one in given)
        found = Worth(None if free else ONE, sources=_sources(given)) if known else replace(_lost(given))
        return [found] * len(eqn.outvars)

    def _enter(self, inner: Sequence[Any], given: Sequence[Worth]) -> list[Worth]:
        return self.follow([one.jaxpr for one in inner], [one.consts for one in inner], given)

    def loop(self, inner: Sequence[Any], fixed: list[Worth], carry: list[Worth], rest: list[Worth]) -> list[Worth]:
        """What a loop's body gives once its carry no longer changes."""
        for _ in range(3):
            results = self._enter(inner, [*fixed, *carry, *rest])
            after = [same([a, b]) for a, b in zip(carry, results[: len(carry)], strict=True)]
            if [one.measure for one in after] == [one.measure for one in carry]:
                break
            carry = after
        return [*after, *results[len(carry) :]]


def same(given: Sequence[Worth]) -> Worth:
    """What terms that must be in one unit are worth together."""
    first = next((one for one in given if one.measure is not None), None)
    if first is None or first.measure is None:
        return Worth(known=all(one.known for one in given), sources=_sources(given))
    for other in given:
        if other.measure is not None and not other.measure.is_like(first.measure) and not other.is_zero:
            if first.is_zero:
                return same([one for one in given if one is not first])
            raise UnitsDiffer(first, other)
    return Worth(first.measure, sources=_sources(given))


def _sources(given: Sequence[Worth]) -> frozenset[str]:
    return frozenset().union(*(one.sources for one in given))


def _lost(given: Sequence[Worth]) -> Worth:
    return Worth(known=False, sources=_sources(given))


def _product(given: Sequence[Worth], powers: Sequence[Fraction]) -> Worth:
    if any(one.is_zero for one, power in zip(given, powers, strict=True) if power > 0):
        return Worth(number=0.0, sources=_sources(given))
    if not all(one.known for one in given):
        return _lost(given)
    if all(one.measure is None for one in given):
        return Worth(sources=_sources(given))
    measure = ONE
    for one, power in zip(given, powers, strict=True):
        measure = measure * one.measure**power if one.measure is not None else measure
    return Worth(measure, sources=_sources(given))


def _power(one: Worth, power: Fraction) -> Worth:
    number = None if one.number is None or (one.number == 0 and power <= 0) else one.number ** float(power)
    number = number if isinstance(number, float) else None
    return replace(one, measure=None if one.measure is None else one.measure**power, number=number)


def _pure(eqn: Any, given: list[Worth]) -> Worth:
    """Functions of pure numbers."""
    for one in given:
        if one.measure is not None and not one.measure.is_one and not one.is_zero:
            raise UnitsNotTaken(eqn.primitive.name, one)
    if not all(one.known for one in given):
        return _lost(given)
    return Worth(None if all(one.measure is None for one in given) else ONE, sources=_sources(given))


def _pow(eqn: Any, given: list[Worth]) -> Worth:
    base, exponent = given
    if exponent.number is not None:
        return _power(base, Fraction(exponent.number).limit_denominator(64))
    return _pure(eqn, given)


def _kept(eqn: Any, given: list[Worth]) -> Worth:
    return given[0] if given[0].is_zero else replace(given[0], number=None)


def _moved(eqn: Any, given: list[Worth]) -> Worth:
    return given[0]


def _free(eqn: Any, given: list[Worth]) -> Worth:
    return Worth(sources=_sources(given))


def _compared(eqn: Any, given: list[Worth]) -> Worth:
    return Worth(sources=same(given).sources)


def _chosen(eqn: Any, given: list[Worth]) -> Worth:
    return same(given[1:])


def _angle(eqn: Any, given: list[Worth]) -> Worth:
    return Worth(ONE if same(given).measure is not None else None, sources=_sources(given))


def _reduce_product(eqn: Any, given: list[Worth]) -> Worth:
    count = int(np.prod([eqn.invars[0].aval.shape[axis] for axis in eqn.params["axes"]]))
    return _power(given[0], Fraction(count))


def _together(eqn: Any, given: list[Worth]) -> Worth:
    return same(given[:2])


def _scattered(eqn: Any, given: list[Worth]) -> Worth:
    return same([given[0], given[2]])


Rule = Callable[[Any, list[Worth]], Worth]
_ONE_FACTOR = Fraction(1)
_TABLE: dict[str, Rule] = {
    **dict.fromkeys(("add", "sub", "max", "min", "add_any", "rem", "nextafter", "concatenate", "complex"),
                    lambda eqn, given: same(given)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compared),
    **dict.fromkeys(("and", "or", "not", "xor", "is_finite", "sign", "argmax", "argmin", "iota", "reduce_and",
                     "reduce_or", "reduce_xor"), _free),
    **dict.fromkeys(("convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "copy", "copy_p",
                     "stop_gradient", "reduce_precision"), _moved),
    **dict.fromkeys(("neg", "abs", "reduce_sum", "reduce_max", "reduce_min", "expand_dims", "transpose", "slice",
                     "dynamic_slice", "gather", "rev", "real", "imag", "conj", "cumsum", "cummax", "cummin"), _kept),
    **dict.fromkeys(("mul", "dot_general", "conv_general_dilated"),
                    lambda eqn, given: _product(given, (_ONE_FACTOR, _ONE_FACTOR))),
    "div": lambda eqn, given: _product(given, (_ONE_FACTOR, -_ONE_FACTOR)),
    "triangular_solve": lambda eqn, given: _product(given, (-_ONE_FACTOR, _ONE_FACTOR)),
    "integer_pow": lambda eqn, given: _power(given[0], Fraction(eqn.params["y"])),
    "square": lambda eqn, given: _power(given[0], Fraction(2)),
    "sqrt": lambda eqn, given: _power(given[0], Fraction(1, 2)),
    "rsqrt": lambda eqn, given: _power(given[0], Fraction(-1, 2)),
    "cbrt": lambda eqn, given: _power(given[0], Fraction(1, 3)),
    "pow": _pow,
    **dict.fromkeys(("exp", "exp2", "log", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
                     "cosh", "tanh", "asinh", "acosh", "atanh", "logistic", "erf", "erfc", "erf_inv", "floor", "ceil",
                     "round", "cumprod", "lgamma", "digamma"), _pure),
    "atan2": _angle,
    "select_n": _chosen,
    "clamp": lambda eqn, given: same(given),
    "reduce_prod": _reduce_product,
    **dict.fromkeys(("pad", "dynamic_update_slice"), _together),
    **dict.fromkeys(("scatter", "scatter-add", "scatter_add", "scatter-max", "scatter-min"), _scattered),
}  # fmt: skip


def _sort(follower: Follower, eqns: Sequence[Any], given: list[Worth]) -> list[Worth]:
    return [replace(one, number=None) for one in given]


def _cond(follower: Follower, eqns: Sequence[Any], given: list[Worth]) -> list[Worth]:
    branches = zip(*(one.params["branches"] for one in eqns), strict=True)
    results = [follower._enter(branch, given[1:]) for branch in branches]
    return [same(ones) for ones in zip(*results, strict=True)]


def _while(follower: Follower, eqns: Sequence[Any], given: list[Worth]) -> list[Worth]:
    condition, body = (eqns[0].params[name] for name in ("cond_nconsts", "body_nconsts"))
    fixed, carry = given[condition : condition + body], given[condition + body :]
    bodies = [one.params["body_jaxpr"] for one in eqns]
    return follower.loop(bodies, fixed, [replace(one, number=None) for one in carry], [])


def _scan(follower: Follower, eqns: Sequence[Any], given: list[Worth]) -> list[Worth]:
    # What is stacked has one axis more outside: the parameters that tell are different in versions of JAX.
    own, body = eqns[0], eqns[0].params["jaxpr"].jaxpr
    stacked_in, stacked_out = (
        sum(a.aval.ndim != b.aval.ndim for a, b in zip(outer, inner, strict=True))
        for outer, inner in ((own.invars, body.invars), (own.outvars, body.outvars))
    )
    carried = len(body.outvars) - stacked_out
    fixed = len(body.invars) - carried - stacked_in
    carry = [replace(one, number=None) for one in given[fixed : fixed + carried]]
    bodies = [one.params["jaxpr"] for one in eqns]
    return follower.loop(bodies, given[:fixed], carry, given[fixed + carried :])


_SPECIAL = {"sort": _sort, "cond": _cond, "while": _while, "scan": _scan}


def _inner(params: dict[str, Any]) -> Any:
    """The jaxpr that an operation calls, closed."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        found = params.get(name)
        if isinstance(found, jex.ClosedJaxpr):
            return found
        if isinstance(found, jex.Jaxpr):
            return jex.ClosedJaxpr(found, ())
    return None

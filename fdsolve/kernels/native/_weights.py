"""Derivatives of rules by what they read, times a cotangent; and the product that several of them share.

The derivatives of κ (u₋₁ − 2u + u₊₁) by its reads are κC, −2κC and κC. Where κ lies in space, the transpose would read
C and κ at every offset. The product κC, computed once a point, is read there instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import and_
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ...stencil import Operand, StateRead, Traced, WholeRead, make_traced, make_traced_each, share
from .._derivable import pull_through

TARGET = WholeRead("cotangent")
"""Stands for the cotangent of what an operation wrote."""
PRODUCT = WholeRead("product")
"""Stands for the product that derivatives of a rule share."""
ALWAYS = -1
"""All bits."""
_LEAST_SHARED = 8
"""Derivatives that share a product; for fewer it is not worth an array."""


class Weights:
    """The derivatives of some rules; results are of a dtype."""

    def __init__(self, rules: Sequence[Traced], dtype: np.dtype):
        self.rules, self.dtype = list(rules), dtype
        self._pulls: dict[tuple[Traced, int], Traced] = {}
        self._shared: dict[tuple[Traced, int], Traced] = {}
        self._products: dict[Traced, Traced] = {}

    def pull(self, rule: Traced, place: int) -> Traced:
        """The derivative of a rule by an operand times a cotangent, as a rule of what it depends on and of that."""
        if (rule, place) not in self._pulls:
            numbers = [k for k, one in enumerate(rule.jaxpr.invars) if jnp.issubdtype(one.aval.dtype, jnp.inexact)]
            reads = [k for k in numbers if isinstance(rule.operands[k], StateRead)]
            every = list(range(len(rule.operands)))
            if rule.affine and place in reads:  # the weights of an affine rule depend on no read
                self._trace(rule, reads, [k for k in every if k not in reads])
            else:
                self._trace(rule, [k for k in numbers if not rule.affine or k not in reads], every)
        return self._pulls[rule, place]

    def shared(self, rule: Traced, place: int) -> Traced:
        """The same for a read of the state, of the product where it is of one."""
        return self._shared.get((rule, place), self.pull(rule, place))

    def product(self, rule: Traced) -> Traced:
        """The product that derivatives of a rule by reads share."""
        return self._products[rule]

    def has_product(self, rule: Traced) -> bool:
        """Whether there is one, as far as derivatives by reads were asked for."""
        return rule in self._products

    def partial(self, rule: Traced, place: int) -> Traced:
        """The derivative by an operand itself."""
        pull = self.pull(rule, place)
        others = tuple(operand for operand in pull.operands if operand != TARGET)
        at = pull.operands.index(TARGET)

        def run(*values: Any) -> Any:
            return pull.function(pull.consts)(*values[:at], jnp.ones((), self.dtype), *values[at:])

        specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype)
                 for o, v in zip(pull.operands, pull.jaxpr.invars, strict=True) if o != TARGET]  # fmt: skip
        return make_traced(jax.make_jaxpr(run)(*specs), others, self.dtype)

    def _trace(self, rule: Traced, places: Sequence[int], others: Sequence[int]) -> None:
        found = _derivatives(rule, tuple(places), tuple(others), self.dtype)
        self._pulls |= {(rule, place): one for place, one in found.pulls.items()}
        self._shared |= {(rule, place): one for place, one in found.shared.items()}
        if found.product is not None:
            self._products[rule] = found.product


@dataclass(frozen=True)
class _Derivatives:
    """The derivatives of a rule by operands, by place; the product that some share, and those as rules of it."""

    pulls: dict[int, Traced]
    shared: dict[int, Traced] = field(default_factory=dict)
    product: Traced | None = None


@lru_cache(maxsize=1024)
def _derivatives(rule: Traced, places: tuple[int, ...], others: tuple[int, ...], dtype: np.dtype) -> _Derivatives:
    """The derivatives by the operands at some places, as rules of some operands and of the cotangent."""

    def run(cotangent: Any, *values: Any) -> list[Any]:
        every = [jnp.zeros((), rule.dtype)] * len(rule.operands)
        for k, value in zip(others, values, strict=True):
            every[k] = value

        closed = jex.ClosedJaxpr(rule.jaxpr, list(rule.consts))
        found = pull_through(closed, every, places, [cotangent])
        return [_converted(one, dtype) for one in found]

    avals = [rule.jaxpr.invars[k].aval for k in others]
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    closed = jax.make_jaxpr(run)(jax.ShapeDtypeStruct((), rule.dtype), *specs)
    operands = (TARGET, *(rule.operands[k] for k in others))
    pulls = dict(zip(places, make_traced_each(closed, operands, dtype), strict=True))
    reads = [k for k, place in enumerate(places) if isinstance(rule.operands[place], StateRead)]
    return _with_product(_Derivatives(pulls), places, reads, closed, operands, dtype)


def _with_product(
    found: _Derivatives, places: Sequence[int], reads: list[int], closed: jex.ClosedJaxpr, operands: Any, dtype: Any
) -> _Derivatives:
    """The same with the product of derivatives by reads, if any, and those that are of it, and of the cotangent at
    most."""
    if len(reads) < _LEAST_SHARED:
        return found
    jaxpr = closed.jaxpr
    vary = [v for v, o in zip(jaxpr.invars, operands, strict=True) if o == TARGET or not isinstance(o, WholeRead)]
    target = jaxpr.invars[0]
    depends = _dependences(jaxpr, vary)
    fitting = []
    for eqn in jaxpr.eqns:
        (one, *more) = eqn.outvars
        fits = not more and one.aval.shape == () and one.aval.dtype == dtype
        if fits and target in depends[one] and len(depends[one]) > 1:
            fitting.append(eqn)
    through = _passed(jaxpr, vary, [one for eqn in fitting for one in eqn.outvars])
    ways = [through.get(one, ALWAYS) for k in reads if not isinstance(one := jaxpr.outvars[k], jex.Literal)]
    counts = [sum(way != ALWAYS and way >> number & 1 for way in ways) for number in range(len(fitting))]
    if max(counts, default=0) < _LEAST_SHARED:
        return found
    eqn = fitting[counts.index(max(counts))]
    (one,) = eqn.outvars
    info = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    product = jaxpr.replace(outvars=[one], debug_info=info)
    shared = {}
    within = _dependences(jaxpr, [*vary, one])
    eqns = [other for other in jaxpr.eqns if other is not eqn]
    for k in reads:
        of = _of(within, jaxpr.outvars[k])
        if one in of and of <= {one, target}:
            rest = jaxpr.replace(invars=[*jaxpr.invars, one], eqns=eqns, outvars=[jaxpr.outvars[k]], debug_info=info)
            made = make_traced(jex.ClosedJaxpr(rest, closed.consts), (*operands, PRODUCT), dtype)
            shared[places[k]] = made
    product = make_traced(jex.ClosedJaxpr(product, closed.consts), tuple(operands), dtype)
    return replace(found, shared=shared, product=product)


@lru_cache(maxsize=256)
def together(rules: tuple[Traced, ...], dtype: np.dtype) -> Mapping[Operand, Traced] | None:
    """By operand, the sum of the derivatives of several rules by it, each times a cotangent of its own (`target`): one
    way back through what the rules have in common. None where that is little."""
    shared = share(rules)
    if shared is None:
        return None
    operands, avals = shared.operands, shared.jaxpr.in_avals
    places = [k for k, aval in enumerate(avals) if jnp.issubdtype(aval.dtype, jnp.inexact)]

    def run(cotangents: Any, *values: Any) -> list[Any]:
        found = pull_through(shared.jaxpr, values, places, cotangents)
        return [_converted(one, dtype) for one in found]

    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    closed = jax.make_jaxpr(run)([jax.ShapeDtypeStruct((), rule.dtype) for rule in rules], *specs)
    pulls = make_traced_each(closed, (*map(target, range(len(rules))), *operands), dtype)
    return {operands[k]: one for k, one in zip(places, pulls, strict=True)}


def _converted(value: Any, dtype: np.dtype) -> Any:
    """A value of another dtype; what is no tracer stays a number."""
    return lax.convert_element_type(value, dtype) if isinstance(value, Tracer) else dtype.type(value)


def target(number: int) -> WholeRead:
    """Stands for the cotangent of what one of several operations wrote."""
    return WholeRead(f"cotangent {number}")


def adds_up(pull: Traced) -> bool:
    """Whether a derivative times a cotangent is a sum of products with it, as 2C − 4rC is. Its terms are added up at
    every point: 2 − 4r by itself would round, at all points the same way, what a long wave does in a step."""
    moving = [v for v, o in zip(pull.jaxpr.invars, pull.operands, strict=True) if o in (TARGET, PRODUCT)]
    depends = _dependences(pull.jaxpr, moving)
    return any(len(eqn.invars) > 1 and all(_of(depends, v) for v in eqn.invars) for eqn in pull.jaxpr.eqns)


def _dependences(jaxpr: jex.Jaxpr, leaves: Sequence[Any]) -> dict[Any, set[Any]]:
    """Which of some variables each depends on; what lies behind one of them does not count."""
    found: dict[Any, set[Any]] = {one: {one} for one in leaves}
    for eqn in jaxpr.eqns:
        own = set().union(*(_of(found, v) for v in eqn.invars))
        for one in eqn.outvars:
            found.setdefault(one, own)
    return found


def _passed(jaxpr: jex.Jaxpr, leaves: Sequence[Any], variables: Sequence[Any]) -> dict[Any, int]:
    """For each value that depends on leaves through which of some variables every way from them leads, as bits; ALWAYS
    for one that depends on none."""
    bits = {one: 1 << number for number, one in enumerate(variables)}
    found = dict.fromkeys(leaves, 0)
    for eqn in jaxpr.eqns:
        ways = (found.get(v, ALWAYS) for v in eqn.invars if not isinstance(v, jex.Literal))
        own = reduce(and_, ways, ALWAYS)
        for one in eqn.outvars:
            found.setdefault(one, own if own == ALWAYS else own | bits.get(one, 0))
    return found


def _of(found: dict[Any, set[Any]], variable: Any) -> set[Any]:
    return set() if isinstance(variable, jex.Literal) else found.get(variable, set())

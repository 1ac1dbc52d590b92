"""The way back through a rule: cotangents of what it is of, equation by equation.

What `jax.vjp` gives, with fewer operations and traced much sooner: rules are of scalars, and known whole. JAX divides
the cotangent of x/y by y and by y² again, where one 1/y serves all; of a maximum it multiplies by a weight for each
side, where one takes what the other leaves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

from ..stencil import CALLS, bind_equation, follow, inner_of


def pull_through(
    closed: jex.ClosedJaxpr, values: Sequence[Any], places: Sequence[int], cotangents: Sequence[Any]
) -> list[Any]:
    """The cotangents of the inputs at some places, from those of the results of a jaxpr of real scalars."""
    way, moving = _Way(), frozenset(places)
    inputs = [_Value(one, k in moving) for k, one in enumerate(values)]
    results = way.forth(closed.jaxpr, [*(_Value(one, False) for one in closed.consts), *inputs])
    for one, cotangent in zip(results, cotangents, strict=True):
        one.add(cotangent)
    way.back()
    return [_cotangent_of(inputs[k]) for k in places]


@dataclass(eq=False)
class _Value:
    """A value; whether it depends on what is differentiated by; and its cotangent, as far as it has one."""

    value: Any
    moves: bool
    cotangent: Any = None

    def add(self, cotangent: Any) -> None:
        """Adds to the cotangent."""
        if self.moves:
            self.cotangent = cotangent if self.cotangent is None else lax.add(self.cotangent, cotangent)


@dataclass(frozen=True)
class _Step:
    """An equation, what it is of, and what it gives."""

    eqn: Any
    given: Sequence[_Value]
    results: Sequence[_Value]

    @property
    def values(self) -> list[Any]:
        """The values that it is of."""
        return [one.value for one in self.given]


@dataclass
class _Way:
    """Through the equations on which what moves has an influence, in order."""

    steps: list[_Step] = field(default_factory=list)

    def forth(self, jaxpr: jex.Jaxpr, inputs: Sequence[_Value]) -> list[_Value]:
        """The results."""
        return follow(jaxpr, inputs, self._evaluate, lambda one: _Value(one.aval.dtype.type(one.val), False))

    def back(self) -> None:
        """Hands cotangents on, from the results."""
        for step in reversed(self.steps):
            if any(one.cotangent is not None for one in step.results):
                back = _BACK.get(step.eqn.primitive.name, _by_jax)
                shares = back(step, *(one.cotangent for one in step.results))
                for one, share in zip(step.given, shares, strict=True):
                    if one.moves and share is not None:
                        one.add(share())

    def _evaluate(self, eqn: Any, given: list[_Value]) -> list[_Value]:
        name, moves = eqn.primitive.name, any(one.moves for one in given)
        inner = inner_of(eqn) if name in CALLS else None
        if inner is not None:
            return self.forth(inner.jaxpr, [*(_Value(one, False) for one in inner.consts), *given])
        values, real = [one.value for one in given], [jnp.issubdtype(v.aval.dtype, jnp.floating) for v in eqn.outvars]
        quick = _FORTH.get(name) if given[-1].moves and all(real) else None
        found = bind_equation(eqn, values) if quick is None else [quick(eqn, *values)]
        results = [_Value(value, moves and can) for value, can in zip(found, real, strict=True)]
        if moves:
            self.steps.append(_Step(eqn, given, results))
        return results


Share = Callable[[], Any] | None
"""What an equation's cotangent gives to one of the values that it is of; None for nothing."""


def _cotangent_of(one: _Value) -> Any:
    return jnp.result_type(one.value).type(0) if one.cotangent is None else one.cotangent


def _by_jax(step: _Step, *cotangents: Any) -> Sequence[Share]:
    """The way back through an equation of which nothing else is known."""
    moving = [k for k, one in enumerate(step.given) if one.moves]
    real = [k for k, one in enumerate(step.results) if one.moves]

    def run(*some: Any) -> list[Any]:
        values = step.values
        for k, value in zip(moving, some, strict=True):
            values[k] = value
        found = bind_equation(step.eqn, values)
        return [found[k] for k in real]

    back = jax.vjp(run, *(step.given[k].value for k in moving))[1]
    found = back([jnp.asarray(_cotangent_of(step.results[k])) for k in real])
    shares: list[Share] = [None] * len(step.given)
    for k, one in zip(moving, found, strict=True):
        shares[k] = lambda one=one: one
    return shares


def _inverse(y: Any) -> Any:
    return lax.integer_pow(y, -1)


def _raised(x: Any, power: int) -> Any:
    return x if power == 1 else lax.integer_pow(x, power)


def _power(eqn: Any, x: Any) -> Any:
    power = int(eqn.params["y"])
    return lax.integer_pow(x, power) if power >= 0 else _raised(_inverse(x), -power)


def _through_power(step: _Step, cotangent: Any) -> Sequence[Share]:
    (x,), power = step.values, int(step.eqn.params["y"])
    factor = _number(power, cotangent)
    if power in (0, 1):
        return [(lambda: cotangent) if power else None]
    slope = _raised(x, power - 1) if power > 0 else _raised(_inverse(x), 1 - power)
    return [lambda: lax.mul(cotangent, lax.mul(factor, slope))]


def _through_quotient(step: _Step, cotangent: Any) -> Sequence[Share]:
    y, (result,) = step.given[1], step.results
    share = lax.mul(cotangent, _inverse(y.value)) if y.moves else lax.div(cotangent, y.value)
    return [lambda: share, lambda: lax.neg(lax.mul(share, result.value))]


def _through_extreme(before: Callable[[Any, Any], Any]) -> Callable[[_Step, Any], Sequence[Share]]:
    """Of two values the first is taken where it lies `before` the other; at a tie each has half."""

    def back(step: _Step, cotangent: Any) -> Sequence[Share]:
        x, y = step.values
        one, half, none = (_number(weight, cotangent) for weight in (1.0, 0.5, 0.0))
        if not step.given[0].moves:
            x, y = y, x
        weight = lax.select(lax.eq(x, y), half, lax.select(before(x, y), one, none))
        share = lax.mul(weight, cotangent)
        other = (lambda: lax.sub(cotangent, share)) if step.given[0].moves else (lambda: share)
        return [lambda: share, other]

    return back


def _through_absolute(step: _Step, cotangent: Any) -> Sequence[Share]:
    (x,) = step.values
    return [lambda: lax.select(lax.ge(x, _number(0, x)), cotangent, lax.neg(cotangent))]


def _through_choice(step: _Step, cotangent: Any) -> Sequence[Share]:
    which, none, count = step.values[0], _number(0, cotangent), len(step.given) - 1

    def share(k: int) -> Share:
        return lambda: lax.select_n(which, *(cotangent if k == n else none for n in range(count)))

    return [None, *map(share, range(count))]


def _through_root(step: _Step, cotangent: Any) -> Sequence[Share]:
    root = step.results[0].value
    return [lambda: lax.mul(cotangent, lax.div(_number(0.5, cotangent), root))]


def _number(value: int | float, like: Any) -> Any:
    return jnp.result_type(like).type(value)


def _through_conversion(step: _Step, cotangent: Any) -> Sequence[Share]:
    return [lambda: lax.convert_element_type(cotangent, jnp.result_type(step.values[0]))]


def _through_same(step: _Step, cotangent: Any) -> Sequence[Share]:
    return [lambda: cotangent]


_FORTH: Mapping[str, Callable[..., Any]] = {
    "div": lambda eqn, x, y: lax.mul(x, _inverse(y)),
    "integer_pow": _power,
}
"""Equations that are done otherwise where their last value moves: as the way back has it."""
_BACK: Mapping[str, Callable[..., Sequence[Share]]] = {
    "add": lambda step, ct: [lambda: ct, lambda: ct],
    "sub": lambda step, ct: [lambda: ct, lambda: lax.neg(ct)],
    "neg": lambda step, ct: [lambda: lax.neg(ct)],
    "mul": lambda step, ct: [lambda: lax.mul(ct, step.values[1]), lambda: lax.mul(ct, step.values[0])],
    "exp": lambda step, ct: [lambda: lax.mul(ct, step.results[0].value)],
    "sin": lambda step, ct: [lambda: lax.mul(ct, lax.cos(step.values[0]))],
    "cos": lambda step, ct: [lambda: lax.neg(lax.mul(ct, lax.sin(step.values[0])))],
    "div": _through_quotient,
    "integer_pow": _through_power,
    "max": _through_extreme(lax.gt),
    "min": _through_extreme(lax.lt),
    "abs": _through_absolute,
    "select_n": _through_choice,
    "sqrt": _through_root,
    "convert_element_type": _through_conversion,
    "copy": _through_same,
}
"""The way back through equations, by the cotangent of their result."""

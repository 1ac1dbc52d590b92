"""Where parameters enter a step: its equations walked through, those found where a parameter meets the state."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..._own_derivative import opened
from ...errors import PlanningError
from ...stencil import CALLS, bind_equation, follow, inner_of
from ._operations import PLACED, Placed
from ._registry import AbstractOperation, Site, find
from ._update import Point, Update

FIXED, RAW, MOVING = 0, 1, 2

_SAID = {
    "custom_linear_solve": "the solve of an implicit step",
    "cond": "a choice between branches",
    "scan": "a loop",
    "while": "a loop",
    "dynamic_slice": "a place in it that changes (a series in time, an index)",
    "gather": "places in it that change (an index, a table)",
}
"""What a user calls operations that stand nowhere in a rule."""


class CannotFollow(PlanningError):
    """A parameter enters a step in a way that a trace has no rule for."""

    def __init__(self, message: str, sources: frozenset[int]):
        super().__init__(message)
        self.sources = sources


@dataclass(frozen=True)
class _Kind:
    """What a value depends on: nothing that moves, parameters alone (which), or states, inputs and times."""

    level: int
    sources: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Tap:
    """The values at a site: the parameter's, and the further operands."""

    raw: Any
    others: tuple[Any, ...]


jax.tree_util.register_dataclass(Tap, data_fields=["raw", "others"], meta_fields=[])


class AbstractVisitor(ABC):
    """What is done at the sites of a walk, in order."""

    @abstractmethod
    def meet(self, site: Site, operation: AbstractOperation, raw: Any, others: tuple[Any, ...]) -> tuple[Any, Any]:
        """The operand and the further ones, as the equation is to see them; called before it is evaluated."""

    def leave(self, value: Any) -> Any:
        """The result of the equation."""
        return value


@dataclass(eq=False)
class Listing(AbstractVisitor):
    """Lists the sites."""

    found: list[tuple[Site, AbstractOperation]] = field(default_factory=list)

    def meet(self, site: Site, operation: AbstractOperation, raw: Any, others: tuple[Any, ...]) -> tuple[Any, Any]:
        self.found.append((site, operation))
        return raw, others


class Cut(AbstractVisitor):
    """Drops every edge by which an operation with parameters reads the state."""

    def meet(self, site: Site, operation: AbstractOperation, raw: Any, others: tuple[Any, ...]) -> tuple[Any, Any]:
        return raw, others if operation.places else tuple(lax.stop_gradient(one) for one in others)


@dataclass(eq=False)
class Tapping(AbstractVisitor):
    """Keeps what is at each site, and adds a nudge to its y."""

    nudges: Sequence[Any]
    taps: list[Tap] = field(default_factory=list)

    def meet(self, site: Site, operation: AbstractOperation, raw: Any, others: tuple[Any, ...]) -> tuple[Any, Any]:
        self.taps.append(Tap(raw, others))
        return (raw + self.nudges[len(self.taps) - 1] if operation.places else raw), others

    def leave(self, value: Any) -> Any:
        return value + self.nudges[len(self.taps) - 1]


@dataclass(frozen=True, eq=False)
class Walk:
    """The equations of a step, made by `make_walk`."""

    update: Update
    jaxpr: Any
    form: Any

    def run(self, visitor: AbstractVisitor, theta: Any, state: Any, aside: Any, inputs: Any) -> Any:
        """The next state, visited."""
        parts = self.update.split(theta)
        others = jax.tree.leaves((state, aside, inputs))
        fixed = len(jax.tree.leaves((state, aside))), len(jax.tree.leaves(inputs[1]))
        kinds = [_Kind(RAW, frozenset([k])) for k in range(len(parts))] + [_Kind(MOVING)] * fixed[0]
        kinds += [_Kind(FIXED)] * (len(others) - sum(fixed)) + [_Kind(MOVING)] * fixed[1]
        names = [p.name for p in self.update.parameters]
        walker = _Walker(visitor, names)
        consts = [_Kind(FIXED)] * len(self.jaxpr.consts)
        out = walker.walk(self.jaxpr.jaxpr, self.jaxpr.consts, [*parts, *others], [*consts, *kinds])
        values = []
        for value, kind in out:
            if kind.level == RAW:
                value = walker.place(value, kind)
            values.append(value)
        return self.form.unflatten(values)

    @cached_property
    def sites(self) -> list[tuple[Site, AbstractOperation]]:
        """The sites, in order. Raises CannotFollow."""
        visitor = Listing()
        jax.eval_shape(lambda *point: self.run(visitor, *point), *self.update.example)
        return visitor.found

    def cut(self, theta: Any, state: Any, aside: Any, inputs: Any) -> Any:
        """The step with the operations' edges to the state dropped."""
        return self.run(Cut(), theta, state, aside, inputs)

    def tapped(self, theta: Any, state: Any, aside: Any, inputs: Any, nudges: Sequence[Any]) -> tuple[Any, list[Tap]]:
        """The next state with nudges added to every y, and what is at the sites."""
        visitor = Tapping(nudges)
        out = self.run(visitor, theta, state, aside, inputs)
        return out[0], visitor.taps

    @property
    def still(self) -> list[Any]:
        """No nudges."""
        return [jnp.zeros(site.out.shape, site.out.dtype) for site, _ in self.sites]

    def slopes_at(self, point: Point, numbers: Sequence[int]) -> tuple[list[Any], list[Tap]]:
        """For some sites D_f = ∂u'/∂y, summed over y, as states; and what is there."""
        still = self.still

        def along(number: int) -> Any:
            def run(nudge: Any) -> Any:
                return self.tapped(*point, [*still[:number], nudge, *still[number + 1 :]])[0]

            return jax.jvp(run, (still[number],), (jnp.ones_like(still[number]),))[1]

        taps = self.tapped(*point, still)[1]
        return [along(number) for number in numbers], [taps[number] for number in numbers]

    def like(self, numbers: Sequence[int]) -> list[Tap]:
        """What is at some sites, as shapes."""
        return jax.eval_shape(lambda *point: self.slopes_at(point, numbers)[1], *self.update.example)

    def pull_raws(self, point: Point, numbers: Sequence[int], cotangents: Sequence[Any]) -> Any:
        """The gradient (P,) from those of the parameters' values at some sites."""
        theta, state, aside, inputs = point

        def raws(theta: Any) -> list[Any]:
            taps = self.tapped(theta, state, aside, inputs, self.still)[1]
            return [taps[number].raw for number in numbers]

        made, pull = jax.vjp(raws, theta)
        return pull([c.astype(one.dtype) for c, one in zip(cotangents, made, strict=True)])[0]


@lru_cache(maxsize=4)
def make_walk(update: Update) -> Walk:
    """The equations of an update's step."""
    theta, state, aside, inputs = update.example
    closed, shape = jax.make_jaxpr(update.function, return_shape=True)(update.split(theta), state, aside, inputs)
    return Walk(update, closed, jax.tree.structure(shape))


@dataclass(frozen=True, eq=False)
class _Walker:
    visitor: AbstractVisitor
    names: Sequence[str]

    def walk(
        self, jaxpr: Any, consts: Sequence[Any], values: Sequence[Any], kinds: Sequence[_Kind]
    ) -> list[tuple[Any, _Kind]]:
        """The results of the equations and their kinds."""
        pairs = zip((*consts, *values), kinds, strict=True)
        return follow(jaxpr, pairs, self.evaluate, lambda literal: (literal.val, _Kind(FIXED)))

    def evaluate(self, eqn: Any, pairs: list[tuple[Any, _Kind]]) -> list[tuple[Any, _Kind]]:
        """One equation."""
        values, kinds = [v for v, _ in pairs], [k for _, k in pairs]
        raw = [k for k, kind in enumerate(kinds) if kind.level == RAW and _is_smooth(eqn.invars[k])]
        moving = any(kind.level == MOVING for kind in kinds)
        sources = frozenset().union(*(kinds[k].sources for k in raw)) if raw else frozenset()
        name = eqn.primitive.name
        if raw and (inner := inner_of(eqn) if name in CALLS else opened(eqn)) is not None:
            consts = [_Kind(FIXED)] * len(inner.consts)
            return self.walk(inner.jaxpr, inner.consts, values, [*consts, *kinds])
        kind = _Kind(MOVING) if moving else _Kind(RAW, sources) if raw else _Kind(FIXED)
        smooth = any(map(_is_smooth, eqn.outvars))
        if not (raw and moving and smooth):
            return [(one, kind) for one in bind_equation(eqn, values)]
        operation = find(name)
        if operation is None:
            what = f"{_SAID[name]} (`{name}`), which" if name in _SAID else f"`{name}`, an operation that"
            raise self.refuse(f"through {what} has no rules", sources, len(eqn.outvars) == 1)
        if len(eqn.outvars) > 1:
            raise self.refuse(f"through `{name}`, an operation of several results, for which no rules are", sources)
        return [(self.meet(eqn, operation, values, kinds, raw), _Kind(MOVING))]

    def meet(
        self, eqn: Any, operation: AbstractOperation, values: list[Any], kinds: list[_Kind], raw: list[int]
    ) -> Any:
        """An equation at which parameters meet the state."""
        values = list(values)
        if len(raw) > 1 and not operation.places:
            raise self.refuse(
                f"twice through one `{eqn.primitive.name}`", frozenset().union(*(kinds[k].sources for k in raw))
            )
        for place in raw:
            site = _site(eqn, operation, place, values, kinds[place].sources)
            others = tuple(v for k, v in enumerate(values) if k != place)
            own, others = self.visitor.meet(site, operation, values[place], others)
            values = [*others[:place], own, *others[place:]]
        (out,) = bind_equation(eqn, values)
        return out if operation.places else self.visitor.leave(out)

    def place(self, value: Any, kind: _Kind) -> Any:
        """A value made of parameters alone that is part of the next state."""
        spec = jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))
        site = Site("next state", lambda raw, others: raw, spec, spec, 0, {}, kind.sources)
        return self.visitor.meet(site, PLACED, value, ())[0]

    def refuse(self, how: str, sources: frozenset[int], unknown: bool = False) -> CannotFollow:
        """The error for parameters that cannot be followed; `unknown`: until the operation is registered."""
        shown = ", ".join(f"`{self.names[k]}`" for k in sorted(sources))
        ways = ', otherwise="forward", or register the operation: fd.adjoint.traces.register'
        further = ways if unknown else ', or otherwise="forward"'
        return CannotFollow(
            f'The trace cannot follow the parameter {shown}: it enters the step {how}. Take method="forward" for it '
            f"(exact){further}.",
            sources,
        )


def _is_smooth(variable: Any) -> bool:
    return bool(jnp.issubdtype(variable.aval.dtype, jnp.inexact))


def _site(eqn: Any, operation: AbstractOperation, place: int, values: list[Any], sources: frozenset[int]) -> Site:
    raw = jax.ShapeDtypeStruct(jnp.shape(values[place]), jnp.result_type(values[place]))
    out = jax.ShapeDtypeStruct(eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype)
    if operation.places and not (isinstance(operation, Placed) and operation.is_spread):
        out = raw

    def apply(value: Any, others: tuple[Any, ...]) -> Any:
        if operation.places:
            return jnp.broadcast_to(value, out.shape)
        return bind_equation(eqn, [*others[:place], value, *others[place:]])[0]

    return Site(eqn.primitive.name, apply, raw, out, place, eqn.params, sources)

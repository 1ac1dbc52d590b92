"""Functions with derivatives of their own, which stay theirs however often JAX differentiates.

`jax.custom_jvp` forgets its rule where a scan is split into what is known and what is linear, since JAX takes it that
nothing differentiates what is known once more: then products with a Hessian meet the function itself. Here the function
is a primitive, which nothing looks into before its rule was asked.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.interpreters import ad, batching, mlir

Leaves = list[Any]
Rule = Callable[[Any, Any, Any], tuple[Any, Any]]

_shots: ContextVar[int] = ContextVar("shots", default=1)

_call_p = jex.Primitive("fdsolve_own_derivative")
_call_p.multiple_results = True


class own_derivative:
    """A function of (static, *trees of arrays) whose derivative is the rule that `defjvp` takes.

    `rule(static, trees, tangents)` gives the result and its tangents. Tangents that are zero throughout come as
    `SymbolicZero`, and may be given back so. `static` is any object that holds no tracers. Works under jit, vmap and
    both modes of differentiation, nested and inside of loops. `open`: JAX's own derivative of the function is the same,
    and what goes through a program's equations may go through the function's. `compiled` gives the same, by what need
    not be known of: it is what runs.
    """

    def __init__(
        self, function: Callable[..., Any], open: bool = False, compiled: Callable[..., Any] | None = None
    ) -> None:
        self.function, self.open, self.compiled = function, open, compiled or function
        self.rule: Rule | None = None
        update_wrapper(self, function)

    def defjvp(self, rule: Rule) -> Rule:
        """Takes the rule, and gives it back."""
        self.rule = rule
        return rule

    def __call__(self, static: Any, *trees: Any) -> Any:
        leaves, form = jax.tree.flatten(trees)
        forms: list[Any] = []

        def leaves_of(function: Callable[..., Any]) -> Callable[..., Leaves]:
            def run(*given: Any) -> Leaves:
                found, out_form = jax.tree.flatten(function(static, *form.unflatten(map(_to_array, given))))
                forms.append(out_form)
                return found

            return run

        def push(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Leaves, Leaves]:
            assert self.rule is not None
            out, moved = self.rule(static, form.unflatten(map(_to_array, primals)), form.unflatten(tangents))
            found, out_form = jax.tree.flatten(out)
            forms.append(out_form)
            return found, jax.tree.leaves(moved)

        runs = leaves_of(self.function), leaves_of(self.compiled)
        found = _call_p.bind(*leaves, made=_Made(*runs, push, self.open))
        return forms[-1].unflatten(found)


@dataclass(frozen=True, eq=False)
class _Made:
    """A function of leaves, what runs in its place, and its rule."""

    run: Callable[..., Leaves]
    compiled: Callable[..., Leaves]
    push: Callable[[Sequence[Any], Sequence[Any]], tuple[Leaves, Leaves]]
    open: bool

    @cached_property
    def traced(self) -> Callable[..., Leaves]:
        """What runs, traced once however often it is asked for."""
        return jax.jit(self.compiled, inline=True)


def _to_array(leaf: Any) -> jax.Array:
    """A leaf as an array: constants of a program may come as numbers."""
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


def opened(eqn: Any) -> jex.ClosedJaxpr | None:
    """The equations of a function that an equation calls, where it is open."""
    if eqn.primitive is not _call_p or not eqn.params["made"].open:
        return None
    return jax.make_jaxpr(eqn.params["made"].run)(
        *(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars)
    )


def num_shots() -> int:
    """For how many elements of vmaps a rule is being asked at once: what it keeps, it keeps for each of them."""
    return _shots.get()


def instantiated(tangent: Any) -> Any:
    """The tangent as an array where it is a symbol."""
    if type(tangent) is not SymbolicZero:
        return tangent
    like: Any = tangent.aval
    if like.dtype == jax.dtypes.float0:
        return np.zeros(like.shape, jax.dtypes.float0)
    return jnp.zeros(like.shape, like.dtype)


def _shapes(*avals: Any, made: _Made) -> list[Any]:
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype, weak_type=one.weak_type) for one in avals]
    return [ShapedArray(one.shape, one.dtype) for one in jax.eval_shape(made.traced, *shapes)]


def _push(primals: Sequence[Any], tangents: Sequence[Any], *, made: _Made) -> tuple[Leaves, Leaves]:
    given = [SymbolicZero(t.aval) if type(t) is ad.Zero else t for t in tangents]
    out, moved = made.push(primals, given)
    return out, [_symbolic(t) for t in moved]


def _symbolic(tangent: Any) -> Any:
    if type(tangent) is SymbolicZero or tangent.dtype == jax.dtypes.float0:
        return ad.Zero(ShapedArray(tangent.shape, tangent.dtype))
    return tangent


def _batch(inputs: Sequence[Any], places: Sequence[Any], *, made: _Made) -> tuple[Leaves, list[int]]:
    axes = list(places)
    size = next(x.shape[place] for x, place in zip(inputs, places, strict=True) if place is not None)

    def run(*given: Any) -> Leaves:
        return jax.vmap(made.run, in_axes=axes)(*given)

    def compiled(*given: Any) -> Leaves:
        return jax.vmap(made.compiled, in_axes=axes)(*given)

    def push(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Leaves, Leaves]:
        moving = [k for k, tangent in enumerate(tangents) if type(tangent) is not SymbolicZero]

        def one(primals: Sequence[Any], some: Sequence[Any]) -> tuple[Leaves, Leaves]:
            along = [SymbolicZero(jax.typeof(x).to_tangent_aval()) for x in primals]
            for place, tangent in zip(moving, some, strict=True):
                along[place] = tangent
            out, moved = made.push(primals, along)
            return out, [instantiated(t) for t in moved]

        some, before = [tangents[k] for k in moving], _shots.set(size * num_shots())
        try:
            return jax.vmap(one, in_axes=(axes, [axes[k] for k in moving]))(list(primals), some)
        finally:
            _shots.reset(before)

    out = _call_p.bind(*inputs, made=_Made(run, compiled, push, made.open))
    return out, [0] * len(out)


_call_p.def_impl(lambda *inputs, made: made.compiled(*inputs))
_call_p.def_abstract_eval(_shapes)
ad.primitive_jvps[_call_p] = _push
batching.primitive_batchers[_call_p] = _batch
mlir.register_lowering(_call_p, mlir.lower_fun(lambda *inputs, made: made.traced(*inputs), multiple_results=True))

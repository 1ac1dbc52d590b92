"""What depends on what in a step, whichever way its choices fall and whatever its numbers are.

The structure of a derivative must hold for a whole run, while a rule turns with the flow, with the time, inside of a
mask. Derivatives at a few points say too little of it: they vanish beyond a limit, cancel, or underflow. So marks are
carried through the equations of a step instead, numbers ≥ 0 beside the values: an entry of a result has the largest
mark of the entries that it may depend on. Where a choice rests on what may change, that is all of its cases; where a
place in an array does, all places. What is known to be the same at every step is looked at: a factor 0 passes on
nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...stencil import CALLS, bind_equation, follow, inner_of

_FLAT = frozenset({"sign", "floor", "ceil", "round", "stop_gradient", "nextafter"})
"""What has no slope."""
_POINTWISE = frozenset(
    {
        "add", "add_any", "sub", "mul", "div", "rem", "max", "min", "pow", "integer_pow", "atan2", "neg", "abs", "sqrt",
        "rsqrt", "cbrt", "square", "exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma",
        "select_n", "clamp", "real", "imag", "conj", "complex", "convert_element_type", "reduce_precision", "copy",
        "copy_p", "one_minus_square", "hypot",
    }
)  # fmt: skip
_MOVING = frozenset(
    {
        "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "slice", "transpose", "rev", "concatenate", "pad",
        "split", "stack", "unstack", "optimization_barrier", "fdsolve_cut", "fdsolve_put", "fdsolve_join",
        "fdsolve_part", "fdsolve_settle", "fdsolve_settle_back", "fdsolve_spread",
    }
)  # fmt: skip
"""What puts entries elsewhere, or several in one place."""
_SUMS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"})
_RUNNING = frozenset({"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"})
_PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "fdsolve_conv"})


@dataclass(frozen=True)
class Entry:
    """A value, whether it may change from step to step, and its marks; None for none."""

    value: Any
    changes: bool
    marks: Any = None


def spread_marks(function: Callable[..., Any], arguments: Any, changes: Any, marks: Any, dtype: Any) -> Any:
    """The marks of a function's results, zeros where they have none.

    `arguments` is a tuple of trees, `changes` one of the same form that says which leaves may change, `marks` another,
    with None for leaves without marks. Marks are of a real `dtype`.
    """
    found, form = _results(function, arguments, changes, marks)
    filled = [jnp.zeros(jnp.shape(one.value), dtype) if one.marks is None else one.marks for one in found]
    return jax.tree.unflatten(form, filled)


def is_steady(function: Callable[..., Any], arguments: Any, changes: Any) -> bool:
    """Whether a function's results are plainly the same at every step."""
    with jax.ensure_compile_time_eval():
        found = _results(function, arguments, changes, jax.tree.map(lambda leaf: None, arguments))[0]
    return not any(one.changes for one in found)


def _results(function: Callable[..., Any], arguments: Any, changes: Any, marks: Any) -> tuple[list[Entry], Any]:
    leaves, form = jax.tree.flatten(arguments)
    changed, marked = form.flatten_up_to(changes), form.flatten_up_to(marks)
    closed, shape = jax.make_jaxpr(lambda *given: function(*form.unflatten(given)), return_shape=True)(*leaves)
    entries = [Entry(*one) for one in zip(leaves, changed, marked, strict=True)]
    return _walk(closed, entries), jax.tree.structure(shape)


def _walk(closed: Any, entries: Sequence[Entry]) -> list[Entry]:
    consts = [Entry(const, False) for const in closed.consts]
    return follow(closed.jaxpr, [*consts, *entries], _evaluate, lambda literal: Entry(literal.val, False))


def _evaluate(eqn: Any, given: list[Entry]) -> list[Entry]:
    name, inner = eqn.primitive.name, inner_of(eqn)
    if not any(one.changes for one in given):
        return [Entry(value, False) for value in bind_equation(eqn, [one.value for one in given])]
    if inner is not None and name == "custom_jvp_call":
        return _by_tangents(eqn, inner, given)
    if inner is not None and (name in CALLS or name == "custom_vjp_call"):
        return _walk(inner, given)
    values = bind_equation(eqn, [one.value for one in given])
    smooth = [jnp.issubdtype(out.aval.dtype, jnp.inexact) for out in eqn.outvars]
    if all(one.marks is None for one in given) or not any(smooth) or name in _FLAT:
        return [Entry(value, True) for value in values]
    marks = _marks(eqn, given)
    return [Entry(value, True, mark if yes else None) for value, mark, yes in zip(values, marks, smooth, strict=True)]


def _by_tangents(eqn: Any, inner: Any, given: list[Entry]) -> list[Entry]:
    """The results of a function that gives its derivative itself: marks go the way of its tangents."""
    values, places = [one.value for one in given], [k for k, one in enumerate(given) if one.marks is not None]
    found = _walk(inner, [Entry(one.value, one.changes) for one in given])
    smooth = [k for k, out in enumerate(eqn.outvars) if jnp.issubdtype(out.aval.dtype, jnp.inexact)]
    if not places:
        return found

    def tangents_of(values: list[Any], tangents: list[Any]) -> list[Any]:
        def function(moved: list[Any]) -> list[Any]:
            there = dict(zip(places, moved, strict=True))
            results = bind_equation(eqn, [there.get(k, value) for k, value in enumerate(values)])
            return [results[k] for k in smooth]

        return jax.jvp(function, ([values[k] for k in places],), (tangents,))[1]

    along = [jnp.ones_like(values[k]) for k in places]
    entries = [Entry(one.value, one.changes) for one in given]
    entries += [Entry(one, True, given[k].marks) for k, one in zip(places, along, strict=True)]
    moved = _walk(jax.make_jaxpr(tangents_of)(values, along), entries)
    for k, one in zip(smooth, moved, strict=True):
        found[k] = Entry(found[k].value, True, one.marks)
    return found


def _marks(eqn: Any, given: list[Entry]) -> Sequence[Any]:
    """The marks of an equation's results, some of whose operands have any."""
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    if name in _POINTWISE:
        return [_pointwise(name, given, out.shape)]
    if name in _MOVING:
        return bind_equation(eqn, [_filled(one, given) for one in given])
    if name in _SUMS:
        return [jnp.max(_filled(given[0], given), eqn.params["axes"], initial=0)]
    if name in _RUNNING:
        return [lax.cummax(given[0].marks, eqn.params["axis"], eqn.params["reverse"])]
    if name in ("gather", "dynamic_slice"):
        return [_look(eqn, given)]
    if name == "dynamic_update_slice" or name.startswith("scatter"):
        return [_put(eqn, given)]
    if name == "sort":
        together = reduce(jnp.maximum, [_filled(one, given) for one in given])
        return [_over(together, (eqn.params["dimension"],))] * len(eqn.outvars)
    if name == "tridiagonal_solve":
        lower, middle, upper, right = (_filled(one, given) for one in given)
        together = jnp.maximum(reduce(jnp.maximum, (lower, middle, upper))[..., None], right)
        return [_over(together, (together.ndim - 2,))]
    if name in _PRODUCTS:
        return [_product(eqn, given)]
    if name == "custom_linear_solve":
        return _solve(eqn, given)
    if name == "scan":
        return _scan(eqn, given)
    if name == "cond":
        return _cond(eqn, given)
    if name == "fdsolve_own_derivative":
        return [one.marks for one in _walk(jax.make_jaxpr(eqn.params["made"].run)(*(e.value for e in given)), given)]
    return [jnp.broadcast_to(_largest(given), one.aval.shape) for one in eqn.outvars]  # anything may depend on all


def _filled(one: Entry, given: Sequence[Entry]) -> Any:
    """Its marks, zeros where it has none."""
    dtype = next(other.marks.dtype for other in given if other.marks is not None)
    return jnp.zeros(jnp.shape(one.value), dtype) if one.marks is None else one.marks


def _largest(given: Sequence[Entry]) -> Any:
    return reduce(jnp.maximum, [jnp.max(one.marks, initial=0) for one in given if one.marks is not None])


def _over(marks: Any, axes: Sequence[int]) -> Any:
    """The largest along axes, all along them."""
    return jnp.broadcast_to(jnp.max(marks, tuple(axes), keepdims=True, initial=0), marks.shape)


def _pointwise(name: str, given: list[Entry], shape: tuple[int, ...]) -> Any:
    if name == "select_n" and not given[0].changes:
        cases = [jnp.broadcast_to(_filled(one, given), shape) for one in given[1:]]
        return lax.select_n(given[0].value, *cases)
    marks = [one.marks for one in given if one.marks is not None]
    if name == "mul":
        known = [one.value for one in given if not one.changes]
        marks = [jnp.where(known[0] != 0, mark, 0) for mark in marks] if known else marks
    return jnp.broadcast_to(reduce(jnp.maximum, marks), shape)


def _look(eqn: Any, given: list[Entry]) -> Any:
    """What is read in an array at places; all that there is along axes on which they may change."""
    array, *places = given
    if array.marks is None:
        return jnp.zeros(eqn.outvars[0].aval.shape, _filled(array, given).dtype)
    marks = array.marks
    if eqn.primitive.name == "dynamic_slice":
        moving = [axis for axis, one in enumerate(places) if one.changes]
        sizes = eqn.params["slice_sizes"]
        marks = _over(marks, [axis for axis in moving if sizes[axis] < marks.shape[axis]])
        return lax.dynamic_slice(marks, [one.value for one in places], sizes)
    if places[0].changes:
        numbers = eqn.params["dimension_numbers"]
        marks = _over(marks, [int(axis) for axis in (*numbers.start_index_map, *numbers.operand_batching_dims)])
    return jnp.nan_to_num(bind_equation(eqn, [marks, places[0].value])[0])  # nan where it reads outside


def _put(eqn: Any, given: list[Entry]) -> Any:
    """What is put into an array at places; anywhere where these may change."""
    name = eqn.primitive.name
    slices = name == "dynamic_update_slice"
    array, new = _filled(given[0], given), _filled(given[1 if slices else 2], given)
    places = given[2:] if slices else given[1:2]
    if any(one.changes for one in places):
        return jnp.maximum(array, jnp.max(new, initial=0))
    if slices:
        return lax.dynamic_update_slice(array, new, [one.value for one in places])
    keys = ("indices_are_sorted", "unique_indices", "mode")
    put = lax.scatter if name == "scatter" else lax.scatter_max
    numbers = eqn.params["dimension_numbers"]
    return put(array, places[0].value, new, numbers, **{key: eqn.params[key] for key in keys})


def _product(eqn: Any, given: list[Entry]) -> Any:
    """A sum of products: of what stands with a factor that is not known to be 0."""
    total: Any = None
    for k in range(2):
        if given[k].marks is None:
            continue
        other = given[1 - k]
        factor = jnp.ones(jnp.shape(other.value), bool) if other.changes else jnp.asarray(other.value) != 0
        pair = [given[k].marks > 0, factor]
        reached = _count(eqn, pair if k == 0 else pair[::-1]) > 0.5
        total = reached if total is None else total | reached
    return jnp.where(total, _largest(given), 0)


def _count(eqn: Any, pair: Sequence[Any]) -> Any:
    """The same product of zeros and ones, in single precision where it takes any."""
    if "preferred_element_type" not in eqn.params:
        return bind_equation(eqn, [one.astype(v.aval.dtype) for one, v in zip(pair, eqn.invars, strict=True)])[0].real
    params = {**eqn.params, "preferred_element_type": np.dtype(np.float32)}
    return bind_equation(eqn.replace(params=params), [one.astype(np.float32) for one in pair])[0]


def _solve(eqn: Any, given: list[Entry]) -> list[Any]:
    """x of A x = b: by what computes it, from b and what A takes from elsewhere."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    ends = np.cumsum([0, lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve])
    parts = [given[a:b] for a, b in pairwise(ends)]
    right = given[ends[-1] :]
    unknown = [Entry(one.value, True) for one in right]
    moved = _walk(jaxprs.matvec, [*parts[0], *unknown])
    joined = [
        Entry(one.value, True, jnp.maximum(_filled(one, given), _filled(by, given)))
        for one, by in zip(right, moved, strict=True)
    ]
    return [_filled(one, given) for one in _walk(jaxprs.solve, [*parts[2], *joined])]


def _cond(eqn: Any, given: list[Entry]) -> Sequence[Any]:
    index, rest, branches = given[0], given[1:], eqn.params["branches"]

    def of(branch: Any) -> list[Any]:
        return [_filled(one, rest) for one in _walk(branch, rest)]

    if index.changes:
        return [reduce(jnp.maximum, cases) for cases in zip(*map(of, branches), strict=True)]
    return lax.switch(index.value, [partial(of, branch) for branch in branches])


def _scan(eqn: Any, given: list[Entry]) -> list[Any]:
    """A loop of a known number of turns; all that it carries may change."""
    # How many are constant or carried is said by another parameter in each version of jax: what is neither has an axis
    # more outside of the loop.
    body = eqn.params["jaxpr"]
    carried = sum(out.aval.ndim == own.aval.ndim for out, own in zip(eqn.outvars, body.jaxpr.outvars, strict=True))
    held = sum(out.aval.ndim == own.aval.ndim for out, own in zip(eqn.invars, body.jaxpr.invars, strict=True))
    fixed = held - carried
    consts, first, slices = given[:fixed], given[fixed : fixed + carried], given[fixed + carried :]

    def pairs(some: Sequence[Entry]) -> list[Any]:
        return [(one.value, _filled(one, given)) for one in some]

    def turn(carry: Any, now: Any) -> tuple[list[Any], list[Any]]:
        own = [*consts, *(Entry(value, True, mark) for value, mark in (*carry, *now))]
        found = [(one.value, _filled(one, given)) for one in _walk(body, own)]
        kept = [(jnp.asarray(v, jnp.result_type(old)), m) for (v, m), (old, _) in zip(found, carry, strict=False)]
        return kept, [mark for _, mark in found[carried:]]

    options = dict(length=eqn.params["length"], reverse=eqn.params["reverse"])
    last, stacks = lax.scan(turn, pairs(first), pairs(slices), **options)
    return [*(mark for _, mark in last), *stacks]

"""Small arrays inside a rule, taken apart: a reduction over a window becomes scalar arithmetic that XLA fuses."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ._equations import CALLS, bind_equation, follow, inner_of

MAX_ELEMENTS = 2048
ELEMENTWISE = frozenset(
    {
        "add", "sub", "mul", "div", "rem", "max", "min", "neg", "abs", "sign", "exp", "exp2", "log", "log1p", "expm1",
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "sqrt",
        "rsqrt", "cbrt", "pow", "integer_pow", "logistic", "erf", "floor", "ceil", "round", "square",
        "one_minus_square", "is_finite",
        "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor", "convert_element_type", "real", "imag", "conj",
        "complex", "stop_gradient", "copy", "select_n", "clamp", "add_any", "nextafter",
    }
)  # fmt: skip
"""Equations of scalars that act on arrays entry by entry."""
_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce_sum": lax.add, "reduce_prod": lax.mul, "reduce_max": lax.max, "reduce_min": lax.min,
    "reduce_and": lax.bitwise_and, "reduce_or": lax.bitwise_or,
}  # fmt: skip


def scalarise(closed: jex.ClosedJaxpr, shapes: Sequence[tuple[int, ...] | None]) -> Callable[..., list[Any]]:
    """The function of a jaxpr on scalars: input i arrives as prod(shapes[i]) scalars in row-major order,
    or as it is where shapes[i] is None.

    Arrays of at most MAX_ELEMENTS elements made from the scalars are kept as scalars; an operation that has no scalar
    form (sort, cumulative products, …) gets them stacked.
    """

    def run(*scalars: Any) -> list[Any]:
        arguments, at = [], 0
        for shape in shapes:
            if shape is None:
                arguments.append(scalars[at])
                at += 1
                continue
            size = prod(shape)
            arguments.append(_grid(scalars[at : at + size], shape))
            at += size
        return [_stacked(value) for value in _interpret(closed.jaxpr, closed.consts, arguments)]

    return run


def needs_scalarising(jaxpr: jex.Jaxpr) -> bool:
    """Whether any value inside the jaxpr is an array, in sizes worth taking apart."""
    sizes = [prod(getattr(v.aval, "shape", ())) for eqn in jaxpr.eqns for v in eqn.outvars]
    shapes = [getattr(v.aval, "shape", ()) for eqn in jaxpr.eqns for v in eqn.outvars]
    return any(shapes) and max(sizes) <= MAX_ELEMENTS


class Grid:
    """An array of scalars, as a NumPy object array."""

    def __init__(self, cells: np.ndarray):
        self.cells = cells


def _grid(values: Sequence[Any], shape: tuple[int, ...]) -> Grid:
    cells = np.empty(len(values), object)
    for number, value in enumerate(values):  # one by one: NumPy would try to convert traced values
        cells[number] = value
    return Grid(cells.reshape(shape))


def _stacked(value: Any) -> Any:
    if not isinstance(value, Grid):
        return value
    if value.cells.ndim == 0:
        return value.cells[()]
    return jnp.stack([jnp.asarray(v) for v in value.cells.ravel()]).reshape(value.cells.shape)


def _as_grid(value: Any) -> Grid:
    if isinstance(value, Grid):
        return value
    shape = np.shape(value)
    if not shape:
        return _grid([value], ())
    # A known array gives numbers; indexing it while tracing would record an operation for each.
    cells = value if isinstance(value, Tracer) else np.asarray(value)
    return _grid([cells[index] for index in np.ndindex(*shape)], shape)


def _interpret(jaxpr: jex.Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    return follow(jaxpr, [*consts, *arguments], _apply, lambda literal: literal.val)


def _apply(eqn: Any, inputs: list[Any]) -> list[Any]:
    name = eqn.primitive.name
    if name in CALLS and (inner := inner_of(eqn)) is not None:
        return _interpret(inner.jaxpr, inner.consts, inputs)
    if not any(isinstance(value, Grid) for value in inputs):
        return _bind(eqn, inputs)
    sizes = [prod(v.aval.shape) for v in (*eqn.outvars, *eqn.invars)]
    if max(sizes) <= MAX_ELEMENTS:
        if name in ELEMENTWISE:
            return [_elementwise(eqn, inputs)]
        if name in _FOLDS:
            return [_fold(eqn, inputs[0])]
        rearranged = _rearrange(eqn, inputs)
        if rearranged is not None:
            return rearranged
    return _bind(eqn, [_stacked(value) for value in inputs])


def _bind(eqn: Any, inputs: list[Any]) -> list[Any]:
    """The equation itself; on plain numbers and NumPy arrays it is computed now, so that indices stay concrete."""
    if any(isinstance(value, Tracer) for value in inputs):
        return bind_equation(eqn, inputs)
    with jax.ensure_compile_time_eval():
        return bind_equation(eqn, inputs)


def _elementwise(eqn: Any, inputs: list[Any]) -> Grid:
    shape = eqn.outvars[0].aval.shape
    grids = [np.broadcast_to(_as_grid(value).cells, shape) for value in inputs]
    params = {**eqn.params, "sharding": None} if "sharding" in eqn.params else eqn.params
    cells = [eqn.primitive.bind(*(grid[index] for grid in grids), **params) for index in np.ndindex(*shape)]
    return _grid(cells, shape)


def _fold(eqn: Any, value: Any) -> Grid:
    cells, axes = _as_grid(value).cells, tuple(eqn.params["axes"])
    kept = [a for a in range(cells.ndim) if a not in axes]
    rows = np.transpose(cells, (*kept, *axes)).reshape(*(cells.shape[a] for a in kept), -1)
    shape = eqn.outvars[0].aval.shape
    if rows.shape[-1] == 0:
        return _as_grid(_bind(eqn, [_stacked(value)])[0])
    folded = []
    for index in np.ndindex(*shape):
        total, *others = rows[index]
        for item in others:
            total = _FOLDS[eqn.primitive.name](total, item)
        folded.append(total)
    return _grid(folded, shape)


def _rearrange(eqn: Any, inputs: list[Any]) -> list[Any] | None:
    name, params = eqn.primitive.name, eqn.params
    shape = eqn.outvars[0].aval.shape
    if name in ("reshape", "squeeze", "expand_dims"):
        return [Grid(_as_grid(inputs[0]).cells.reshape(shape))]
    if name == "broadcast_in_dim":
        cells = _as_grid(inputs[0]).cells
        spread = [1] * len(shape)
        for axis, size in zip(params["broadcast_dimensions"], cells.shape, strict=True):
            spread[axis] = size
        return [Grid(np.broadcast_to(cells.reshape(spread), shape))]
    if name == "slice":
        steps = params["strides"] or (1,) * len(params["start_indices"])
        box = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
        return [Grid(_as_grid(inputs[0]).cells[tuple(slice(*part) for part in box)])]
    if name == "transpose":
        return [Grid(np.transpose(_as_grid(inputs[0]).cells, params["permutation"]))]
    if name == "rev":
        return [Grid(np.flip(_as_grid(inputs[0]).cells, params["dimensions"]))]
    if name == "concatenate":
        return [Grid(np.concatenate([_as_grid(v).cells for v in inputs], params["dimension"]))]
    if name == "stack":
        return [Grid(np.stack([_as_grid(v).cells for v in inputs], params["axis"]))]
    if name == "dynamic_slice" and not any(isinstance(v, Tracer | Grid) for v in inputs[1:]):
        cells, sizes = _as_grid(inputs[0]).cells, params["slice_sizes"]
        starts = [int(np.clip(int(s), 0, n - k)) for s, n, k in zip(inputs[1:], cells.shape, sizes, strict=True)]
        return [Grid(cells[tuple(slice(s, s + k) for s, k in zip(starts, sizes, strict=True))])]
    if name == "dot_general":
        return _dot(eqn, inputs)
    return None


def _dot(eqn: Any, inputs: list[Any]) -> list[Any] | None:
    (left_axes, right_axes), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    if left_batch or right_batch:
        return None
    left, right = (_as_grid(value).cells for value in inputs)
    left = np.moveaxis(left, left_axes, range(-len(left_axes), 0)) if left_axes else left
    right = np.moveaxis(right, right_axes, range(-len(right_axes), 0)) if right_axes else right
    count = len(left_axes)
    outer_left, outer_right = left.shape[: left.ndim - count], right.shape[: right.ndim - count]
    dtype = eqn.outvars[0].aval.dtype
    cells = []
    for i in np.ndindex(*outer_left):
        for j in np.ndindex(*outer_right):
            pairs = zip(
                left[i].ravel() if count else [left[i]],
                right[j].ravel() if count else [right[j]],
                strict=True,
            )
            total = None
            for a, b in pairs:
                term = lax.mul(lax.convert_element_type(a, dtype), lax.convert_element_type(b, dtype))
                total = term if total is None else lax.add(total, term)
            cells.append(total)
    return [_grid(cells, (*outer_left, *outer_right))]

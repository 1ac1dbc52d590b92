"""What is kept of a saved level."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .._largest import largest as largest_entry
from .._largest import smallest
from ..kernels import Arrays, take_box
from ..planning import Cut, Reduction, Shown, Structure, inside_key, length_key
from ._folds import largest, total
from ._hidden import hidden_points
from ._state import State

Saved = dict[str, jax.Array]
_SUM, _COUNT = "sum of ", "levels summed"


def interiors(structure: Structure, state: State) -> Saved:
    """The declared fields at the last level, without what stands around them."""
    return take_declared(structure, {one.name: state[one.name][0] for one in structure.declared})


def take_declared(structure: Structure, newest: Mapping[str, Any]) -> Saved:
    """The declared fields of a level given as padded arrays."""
    return {one.name: take_box(newest[one.name], one.origin, one.interior) for one in structure.declared}


def shown(structure: Structure, axes: tuple[str, ...], arrays: Arrays, state: State) -> Saved:
    """What is kept of the last level: the declared fields, or what a save asks of them."""
    values = interiors(structure, state)
    if structure.showing is None:
        return values
    weighted = any(one.weighted for one in structure.showing.fields)
    hidden = hidden_points(structure, axes, arrays) if weighted else {}
    return {
        one.name: _show(one, axes, arrays, values[one.name], hidden.get(one.name)) for one in structure.showing.fields
    }


def is_finite(structure: Structure, state: State) -> jax.Array:
    """For each declared field whether its last level is finite."""
    return are_finite(interiors(structure, state))


def are_finite(fields: Mapping[str, jax.Array]) -> jax.Array:
    """For each field whether it is finite everywhere: one reading, which `fd.monitors.Nan` shares in a program."""
    return jnp.stack([_is_finite(x) for x in fields.values()])


def _is_finite(x: jax.Array) -> jax.Array:
    if not jnp.issubdtype(x.dtype, jnp.inexact) or not x.size:
        return jnp.asarray(True)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):  # |x| may overflow where x does not; 0 · x is nan where x is not
        return total(0 * x) == 0
    return largest(jnp.abs(x)) < jnp.inf


def _show(one: Shown, axes: tuple[str, ...], arrays: Arrays, values: jax.Array, hidden: jax.Array | None) -> jax.Array:
    """What is kept of a field; `hidden`: where holes lie whose shape depends on parameters."""
    lengths = {axis: arrays.wholes[length_key(one.name, axis)] for axis in axes} if one.weighted else {}
    inside = arrays.wholes.get(inside_key(one.name)) if one.weighted else None
    if hidden is not None and one.weighted:
        inside = ~hidden if inside is None else inside & ~hidden
    left = list(axes)
    for step in one.steps:
        if isinstance(step, Cut):
            place = left.index(step.axis)
            values = _cut(step, place, values)
            inside = None if inside is None else _cut(step, place, inside)
            if lengths:
                lengths[step.axis] = lengths[step.axis][step.start : step.stop : step.step]
            if step.drop:
                left.remove(step.axis)
        else:
            values, inside = _reduced(step, left, lengths, values, inside)
            left = [axis for axis in left if axis not in step.axes]
    if inside is None or not jnp.issubdtype(values.dtype, jnp.inexact):
        return values
    # Where all points lay in holes there is no mean and no extreme; an integral over nothing is zero.
    empty = any(isinstance(step, Reduction) and step.kind != "integral" for step in one.steps)
    return jnp.where(inside, values, jnp.asarray(jnp.nan, values.dtype)) if empty else values


def _cut(step: Cut, place: int, values: jax.Array) -> jax.Array:
    if step.drop:
        return jax.lax.index_in_dim(values, step.start, place, keepdims=False)
    return jax.lax.slice_in_dim(values, step.start, step.stop, step.step, place)


def _reduced(step: Reduction, left: list[str], lengths: Mapping[str, Any], values: Any, inside: Any) -> tuple[Any, Any]:
    """The values without some axes, and which of what is left stands for points outside holes."""
    places = tuple(left.index(axis) for axis in step.axes)
    still = None if inside is None else jnp.any(inside, places)
    if step.kind in ("max", "min"):
        take = largest_entry if step.kind == "max" else smallest
        if inside is not None:
            values = jnp.where(inside, values, _extreme(values.dtype, step.kind == "min"))
        return take(values, places), still
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        values = values.astype(lengths[step.axes[0]].dtype)
    weights = jnp.ones((), values.dtype)
    for axis, place in zip(step.axes, places, strict=True):
        around = [-1 if k == place else 1 for k in range(values.ndim)]
        weights = weights * lengths[axis].astype(values.dtype).reshape(around)
    weights = jnp.broadcast_to(weights if inside is None else jnp.where(inside, weights, 0), values.shape)
    found = jnp.sum(values * weights, places)
    if step.kind == "integral":
        return found, still
    size = jnp.sum(weights, places)
    return found / jnp.where(size == 0, 1, size), still


def _extreme(dtype: Any, greatest: bool) -> jax.Array:
    """The greatest value of a dtype, or the least."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.inf if greatest else -jnp.inf, dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.asarray(greatest)
    return jnp.asarray(jnp.iinfo(dtype).max if greatest else jnp.iinfo(dtype).min, dtype)


def start_means(structure: Structure, axes: tuple[str, ...], arrays: Arrays, state: State) -> Mapping[str, jax.Array]:
    """Sums of what will be averaged, beside the records; nothing where nothing is."""
    if structure.showing is None or not structure.showing.averaged:
        return {}
    like = jax.eval_shape(lambda s: shown(structure, axes, arrays, s), state)
    return {
        _COUNT: jnp.zeros((), jnp.int32),
        **{_SUM + name: jnp.zeros(one.shape, one.dtype) for name, one in like.items()},
    }


def add_to_means(
    structure: Structure, axes: tuple[str, ...], arrays: Arrays, state: State, records: Mapping[str, jax.Array]
) -> dict[str, jax.Array]:
    """The records after one more level."""
    new = shown(structure, axes, arrays, state)
    sums = {_SUM + name: records[_SUM + name] + array for name, array in new.items()}
    return {**records, **sums, _COUNT: records[_COUNT] + 1}


def keep(
    structure: Structure, axes: tuple[str, ...], arrays: Arrays, carry: tuple[State, dict[str, jax.Array]]
) -> tuple[tuple[State, dict[str, jax.Array]], Saved]:
    """What is kept of a level that is saved, and the carry that goes on: sums begin anew."""
    state, records = carry
    if _COUNT not in records:
        return carry, shown(structure, axes, arrays, state)
    count = records[_COUNT]
    sums = {name.removeprefix(_SUM): array for name, array in records.items() if name.startswith(_SUM)}
    saved = {name: array / jnp.maximum(count, 1).astype(array.dtype) for name, array in sums.items()}
    empty = {name: jnp.zeros_like(a) if name.startswith(_SUM) or name == _COUNT else a for name, a in records.items()}
    return (state, empty), saved


def without_means(records: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The records of receivers alone."""
    return {name: array for name, array in records.items() if name != _COUNT and not name.startswith(_SUM)}

"""Records of receivers: fields interpolated to places between the points while marching."""

from collections.abc import Callable
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Arrays, linear_map
from ..planning import Array, Structure, index_key, weight_key
from ._shown import add_to_means

Records = dict[str, jax.Array]
"""By field, (levels, receivers)."""


def start_records(structure: Structure) -> Records:
    """Where the records will be written; empty without receivers."""
    found = structure.recording
    if found is None:
        return {}
    return {one.name: jnp.zeros((found.num_levels, found.num_places), one.dtype) for one in structure.declared}


def recorded(
    structure: Structure, axes: tuple[str, ...], arrays: Arrays, step: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """A step of (state, records) from a step of the state: what receivers see of the new level is written down."""
    found = structure.recording
    if structure.showing is not None and structure.showing.averaged:
        once = recorded(replace(structure, showing=None), axes, arrays, step)

        def summed(carry: Any, number: Any) -> Any:
            state, records = once(carry, number)
            return state, add_to_means(structure, axes, arrays, state, records)

        return summed
    if found is None:
        return lambda carry, number: (step(carry[0], number), carry[1])

    def write(state: Any, records: Records, number: Any) -> Records:
        return records | {
            one.name: _written(records[one.name], _listen(one, axes, arrays, state[one.name][0]), number // found.every)
            for one in structure.declared
        }

    def run(carry: Any, number: Any) -> Any:
        state, records = step(carry[0], number), carry[1]
        if found.every == 1:
            return state, write(state, records, number)
        wanted = number % found.every == 0
        return state, lax.cond(wanted, lambda r: write(state, r, number), lambda r: r, records)

    return run


def _written(records: jax.Array, row: jax.Array, place: Any) -> jax.Array:
    """The records with a row put in, where none stood before.

    So the cotangent of the records before is that of those after: no row of it needs to be cleared, nor all be copied.
    """

    def forward(kept: Any, moving: Any) -> list[Any]:
        return [lax.dynamic_update_index_in_dim(moving[0], moving[1], kept[0], 0)]

    def backward(kept: Any, cotangents: Any) -> list[Any]:
        return [cotangents[0], lax.dynamic_index_in_dim(cotangents[0], kept[0], 0, keepdims=False)]

    return linear_map(forward, backward, [place], [records, row], [records])[0]


def _listen(storage: Array, axes: tuple[str, ...], arrays: Arrays, array: jax.Array) -> jax.Array:
    """The values of a padded array at the receivers, (receivers,), from the points around each."""
    ndim = len(axes)
    indices, letters = [], ascii_lowercase[1 : ndim + 1]
    for position, axis in enumerate(axes):
        index = arrays.wholes[index_key(storage.name, axis)] + storage.lower[position]
        indices.append(index.reshape(index.shape[0], *(-1 if p == position else 1 for p in range(ndim))))
    values = array[tuple(indices)]
    weights = [arrays.wholes[weight_key(storage.name, axis)] for axis in axes]
    for letter, weight in zip(letters, weights, strict=True):
        rest = letters[letters.index(letter) + 1 :]
        # Real weights meet complex fields; one axis after the other, so that the product is never stored.
        values = jnp.einsum(f"a{letter}{rest},a{letter}->a{rest}", values, weight.astype(values.dtype))
    return values

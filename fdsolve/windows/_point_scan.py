"""The last resort of a scan: window by window, for functions that read too many entries to be ordered otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

from ._arguments import Geometry
from ._map import member_mask, place_of, read_window
from ._regions import Patch
from ._rules import WholeWindow, whole_rule, without_consts


@dataclass(frozen=True)
class PointProgram:
    """All that decides what the scan computes, and no array."""

    geometry: Geometry
    relative: bool
    rules: tuple[WholeWindow, ...]
    patches: tuple[Patch, ...]
    reverse: bool


def scan_points(
    traced: Sequence[jex.ClosedJaxpr],
    geometry: Geometry,
    relative: bool,
    patches: tuple[Patch, ...],
    array: jax.Array,
    reverse: bool,
) -> jax.Array:
    """The new values of all windows' centres, in row-major order or its reverse."""
    rules = [whole_rule(closed, array.dtype) for closed in traced]
    program = PointProgram(geometry, relative, tuple(without_consts(r) for r in rules), patches, reverse)
    return _run(program, array, tuple(rule.consts for rule in rules))


@partial(jax.jit, static_argnums=0)
def _run(program: PointProgram, array: jax.Array, consts: tuple[tuple[Any, ...], ...]) -> jax.Array:
    geometry = program.geometry
    counts = geometry.counts
    functions = [rule.function(given) for rule, given in zip(program.rules, consts, strict=True)]
    which = jnp.zeros(counts, jnp.int32)
    for patch in program.patches:
        below = lax.slice(which, patch.box.start, patch.box.stop)
        number = jnp.where(member_mask(patch), jnp.int32(patch.function), below)
        which = lax.dynamic_update_slice(which, number, patch.box.start)

    def step(padded: jax.Array, at: Any) -> tuple[jax.Array, jax.Array]:
        number, flat = at
        place = jnp.unravel_index(flat, counts)
        window = read_window(geometry, program.relative, padded, place, (0,) * geometry.ndim)
        value = lax.switch(number, functions, window)
        return padded.at[place_of(geometry, place, (0,) * geometry.ndim)].set(value), value

    numbers = jnp.arange(prod(counts), dtype=jnp.int32)
    _, values = lax.scan(step, jnp.pad(array, geometry.zeros), (which.ravel(), numbers), reverse=program.reverse)
    return values.reshape(counts)

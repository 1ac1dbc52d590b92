"""Sweeps of relaxation, and how the residual falls."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Arrays, take_box
from ..planning import OMEGA, Structure, colour_mask, free_mask
from ..solvers import Vector, norm
from ._level import make_level
from ._operator import Operator, Running
from ._state import Levels, State


class Relaxed(NamedTuple):
    """The declared fields after the last sweep; how many there were; ‖r‖ over ‖r‖ at the start, then, every few sweeps
    and at the end (nan after the last)."""

    fields: dict[str, jax.Array]
    sweeps: jax.Array
    residual: jax.Array
    history: jax.Array


class _Sweeper:
    """One relaxation, its arrays at hand."""

    def __init__(self, operator: Operator, structure: Structure, arrays: Arrays, base: Vector, omega: jax.Array):
        self.operator, self.structure = operator, structure
        self.running = Running(operator, arrays, base)
        self.free = self.running.free()
        profiles = dict(arrays.profiles)
        for name in operator.fields:
            shape = structure.array(name).shape
            total = jnp.sum(jnp.indices(shape), axis=0)
            profiles[free_mask(name)] = self.free[name]
            for colour in (0, 1):
                profiles[colour_mask(name, colour)] = total % 2 == colour
        self.arrays = replace(arrays, profiles=profiles, wholes={**arrays.wholes, OMEGA: omega})
        self.equations = self.running.equations

    def start(self) -> Levels:
        """All fields before the first sweep."""
        level = self.equations.standing(self.running.start(), self.free)
        return self._kept(level.current)

    def _kept(self, current: dict[str, jax.Array]) -> Levels:
        return {one.name: (current[one.name],) for one in self.structure.carried}

    def sweep(self, levels: Levels) -> Levels:
        """One sweep, and all that holds beside it."""
        phase, axes = self.structure.phases[0], self.operator.axes
        return make_level(self.structure, phase, self.arrays, State(levels), 0, axes).levels

    def fields(self, levels: Levels, names: Any) -> dict[str, jax.Array]:
        """Fields without what stands around them."""
        found = {name: self.structure.array(name) for name in names}
        return {name: take_box(levels[name][0], one.origin, one.interior) for name, one in found.items()}

    def size(self, levels: Levels) -> jax.Array:
        """‖r‖."""
        return norm(self.equations.residual(self.fields(levels, self.operator.fields), self.free))

    def result(self, levels: Levels, count: Any, size: Any, history: Any) -> Relaxed:
        declared = [one.name for one in self.structure.declared]
        return Relaxed(self.fields(levels, declared), jnp.asarray(count), size, history)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def relax_for(
    operator: Operator, structure: Structure, sweeps: int, every: int, arrays: Arrays, base: Vector, omega: jax.Array
) -> Relaxed:
    """A number of sweeps."""
    sweeper = _Sweeper(operator, structure, arrays, base, omega)
    levels = sweeper.start()
    first = sweeper.size(levels)
    scale = jnp.where(first > 0, first, jnp.ones_like(first))

    def some(levels: Levels, count: int) -> tuple[Levels, jax.Array]:
        levels, _ = lax.scan(lambda held, _: (sweeper.sweep(held), None), levels, None, length=count)
        return levels, sweeper.size(levels) / scale

    sizes = [(first / scale)[None]]
    if sweeps >= every:
        levels, found = lax.scan(lambda held, _: some(held, every), levels, None, length=sweeps // every)
        sizes.append(found)
    if sweeps % every:
        levels, last = some(levels, sweeps % every)
        sizes.append(last[None])
    history = jnp.concatenate(sizes)
    return sweeper.result(levels, sweeps, history[-1], history)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def relax_until(
    operator: Operator,
    structure: Structure,
    sweeps: int,
    every: int,
    arrays: Arrays,
    base: Vector,
    omega: jax.Array,
    until: jax.Array,
) -> Relaxed:
    """Sweeps until the residual has fallen to `until`, at most so many."""
    sweeper = _Sweeper(operator, structure, arrays, base, omega)
    levels = sweeper.start()
    first = sweeper.size(levels)
    scale = jnp.where(first > 0, first, jnp.ones_like(first))
    history = jnp.full((-(-sweeps // every) + 1,), jnp.nan, first.dtype).at[0].set(first / scale)

    def goes_on(state: Any) -> Any:
        _, count, size, _ = state
        return (count < sweeps) & (size > until) & jnp.isfinite(size)

    def body(state: Any) -> Any:
        levels, count, _, history = state
        more = jnp.minimum(every, sweeps - count)
        levels = lax.fori_loop(0, more, lambda _, held: sweeper.sweep(held), levels)
        size = sweeper.size(levels) / scale
        count = count + more
        return levels, count, size, history.at[(count + every - 1) // every].set(size)

    state = (levels, jnp.asarray(0), first / scale, history)
    return sweeper.result(*lax.while_loop(goes_on, body, state))

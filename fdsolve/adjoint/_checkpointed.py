"""Binomial checkpointing: the derivative of many steps with few states kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from ..errors import DeclarationError, RunError
from ..kernels import linear_map
from ._base import AbstractAdjoint, March, Step, plain, split
from ._revolve import least_forward, least_visits, make_schedule


@dataclass(frozen=True)
class Checkpointed(AbstractAdjoint):
    """Keeps a few states and computes the others again from them, as often as is least.

    `snapshots`: how many states are kept; or `memory`: the bytes that they may fill. With neither, 2√T states for T
    steps, so that a step is computed about twice more. Works in both modes of differentiation, and forward over
    reverse. Source: Griewank & Walther, ACM Trans. Math. Softw. 26 (2000) 19.
    """

    snapshots: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("snapshots", "memory"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise DeclarationError(f"Checkpointed: {name}= is a whole number of at least 1, got {value!r}.")
        if self.snapshots is not None and self.memory is not None:
            raise DeclarationError("Checkpointed takes snapshots= or memory=, not both.")

    def num_states(self, count: int, state_bytes: int) -> int:
        """How many states are kept for so many steps. Raises RunError where the memory holds none."""
        if self.snapshots is not None:
            return min(self.snapshots, count)
        if self.memory is None:
            return min(count, int(np.ceil(2 * np.sqrt(count))))
        found = self.memory // max(state_bytes, 1)
        if found < 1:
            raise RunError(
                f"Checkpointed(memory={self.memory}) holds no state of {state_bytes} bytes. Give at least "
                f"memory={state_bytes}, or leave it out."
            )
        return min(found, count)

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        size = sum(int(np.prod(jnp.shape(x))) * jnp.result_type(x).itemsize for x in jax.tree.leaves(carry))
        states = self.num_states(count, size)
        if states >= count:
            return (quick or partial(plain, step))(consts, carry, start, count)
        leaves, form = jax.tree.flatten((consts, carry, jnp.asarray(start)))
        out = _march(_Static(step, form, count, states, quick), leaves)
        return jax.tree.unflatten(jax.tree.structure(carry), out)

    def describe(self, count: int, state_bytes: int) -> str:
        states = self.num_states(count, state_bytes)
        if states >= count:
            return f"{self!r}: keeps all {count} states"
        return (
            f"{self!r}: keeps {states} states of {count}, {states * state_bytes} bytes; a step is computed again at "
            f"most {least_visits(count, states)} times, {least_forward(count, states) / count:.2f} on average"
        )


@dataclass(frozen=True, eq=False)
class _Static:
    step: Step
    form: Any
    count: int
    states: int
    quick: March | None


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _march(static: _Static, leaves: list[Any]) -> list[Any]:
    """The march on the leaves of constants, carry and start."""
    run = static.quick or partial(plain, static.step)
    consts, carry, start = static.form.unflatten(leaves)
    return jax.tree.leaves(run(consts, carry, start, static.count))


def _push(static: _Static, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    (leaves,), (moves,) = primals, tangents
    out = _march(static, leaves)
    moving = [k for k, move in enumerate(moves) if _moves(move)]
    shapes = [k for k, one in enumerate(out) if jnp.issubdtype(one.dtype, jnp.inexact)]

    def forward(kept: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        def run(*given: Any) -> list[Any]:
            consts, carry, start = static.form.unflatten(_replaced(kept, moving, given))
            return split(plain(static.step, consts, carry, start, static.count))[0]

        return jax.jvp(run, tuple(kept[k] for k in moving), tuple(directions))[1]

    def backward(kept: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        return _pulled(static, list(kept), moving, list(cotangents))

    found = iter(linear_map(forward, backward, leaves, [moves[k] for k in moving]))
    zero = [np.zeros(one.shape, jax.dtypes.float0) for one in out]
    return out, [next(found) if k in shapes else zero[k] for k in range(len(out))]


_march.defjvp(_push, symbolic_zeros=True)


def _moves(tangent: Any) -> bool:
    return type(tangent) is not SymbolicZero and getattr(tangent, "dtype", None) != jax.dtypes.float0


def _replaced(leaves: Sequence[Any], places: Sequence[int], given: Sequence[Any]) -> list[Any]:
    whole = list(leaves)
    for place, one in zip(places, given, strict=True):
        whole[place] = one
    return whole


def _pulled(static: _Static, kept: list[Any], moving: Sequence[int], cotangents: list[Any]) -> list[Any]:
    """The transpose of the derivative: steps reversed one after the other, states computed again from those kept."""
    consts, carry, start = static.form.unflatten(kept)
    num_consts = len(jax.tree.leaves(consts))
    of_consts = [k for k in moving if k < num_consts]
    of_carry = [k - num_consts for k in moving if num_consts <= k < len(kept) - 1]
    const_leaves, const_form = jax.tree.flatten(consts)
    schedule = make_schedule(static.count, static.states)
    tables = [jnp.asarray(one, start.dtype) for one in (schedule.source, schedule.at, schedule.length, schedule.target)]
    source, at, length, target = [jnp.append(one, 0) for one in tables]  # none is out of reach

    def along(state: Any, begin: Any, steps: Any) -> Any:
        return lax.fori_loop(0, steps, lambda k, c: static.step(consts, c, start + begin + k), state)

    def leg(j: Any, slots: Any) -> Any:
        state = along(jax.tree.map(lambda s: s[source[j]], slots), at[j], length[j])
        return jax.tree.map(lambda s, new: lax.dynamic_update_index_in_dim(s, new, target[j], 0), slots, state)

    def reverse(held: Any, entry: Any) -> tuple[Any, None]:
        slots, back, sums = held
        first, stop, source_last, at_last, length_last = entry
        slots = lax.fori_loop(first, stop, leg, slots)
        state = along(jax.tree.map(lambda s: s[source_last], slots), at_last, length_last)
        inner, join = split(state)

        def one(moved: list[Any], given: list[Any]) -> list[Any]:
            constants = const_form.unflatten(_replaced(const_leaves, of_consts, given))
            return split(static.step(constants, join(moved), start + at_last + length_last))[0]

        pull = jax.vjp(one, inner, [const_leaves[k] for k in of_consts])[1]
        back, more = pull(back)
        return (slots, back, [a + b for a, b in zip(sums, more, strict=True)]), None

    room = jax.tree.map(lambda x: jnp.zeros((static.states, *x.shape), x.dtype).at[0].set(x), carry)
    sums = [jnp.zeros_like(const_leaves[k]) for k in of_consts]
    entries = (schedule.first[:-1], schedule.first[1:], schedule.source_last, schedule.at_last, schedule.length_last)
    entries = tuple(jnp.asarray(one, start.dtype) for one in entries)
    (_, back, sums), _ = lax.scan(reverse, (room, cotangents, sums), entries)
    carry_leaves = jax.tree.leaves(carry)
    inexact = [k for k, x in enumerate(carry_leaves) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    by_place = dict(zip(inexact, back, strict=True))
    found = {k: value for k, value in zip(of_consts, sums, strict=True)}
    found |= {num_consts + k: by_place[k] for k in of_carry}
    return [found[k] for k in moving]

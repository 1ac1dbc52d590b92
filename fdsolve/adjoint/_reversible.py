"""Reversible marches: the states on the way back are found from the last one, step by step."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..errors import DeclarationError, PlanningError, RunError
from ..kernels import linear_map
from ._base import AbstractAdjoint, March, Step, is_whole, plain, split
from ._storage import Device

LAYERS = ("exact", "frozen", "saved")


class AbstractWayBack(ABC):
    """How a step is taken back: what is kept of each state on the way forward, and the state before from the one after.

    `reach`: so many steps from the first on lead back to levels that the first state itself holds.
    """

    reach: int
    keeps: bool
    """Whether anything is kept."""

    @abstractmethod
    def keep(self, carry: Any) -> Any:
        """What is kept of a state: a tree of arrays."""

    @abstractmethod
    def back(self, consts: Any, first: Any, carry: Any, kept: Any, place: Any, number: Any) -> Any:
        """The state before step `place` (the first is 0), which leads to level `number`, from the state after it.

        `first` is the state before all steps, `kept` what was kept after each, stacked.
        """

    @abstractmethod
    def step(self, step: Step, consts: Any, carry: Any, number: Any, after: Any = None) -> Any:
        """A step whose derivative is taken; `after` is what it comes to, where that is known better."""

    @abstractmethod
    def check(self, consts: Any, moving: Sequence[bool]) -> None:
        """Refuses derivatives that need what is not found again; `moving` marks the constants' leaves they are by."""


@dataclass(frozen=True)
class Reversible(AbstractAdjoint):
    """Undoes one step after the other and differentiates it there: memory for a few states, whatever the steps.

    For updates that lose nothing: plain rules that take their own oldest value times ±1 (leapfrog, u[t] from u[t-1] and
    u[t-2]; staggered pairs, each moved by the other), and the symmetric steppers `StormerVerlet` and `Leapfrog`. That
    they lose nothing is proved from the traced rules before anything runs; heat, upwind differences and Runge–Kutta are
    refused. A step costs one more, backwards. Works in both modes of differentiation, and in one over the other;
    reverse over reverse keeps what all steps need.

    Absorbing layers (sponges, `PML`) do lose: of their points those are kept, at every step, that the points outside
    read: a rim as wide as the stencil. What `layer` says of the state further inside:

    - "exact": it is not known on the way back, and not needed where the layer is linear and nothing in its coefficients
      is differentiated; a parameter that is, is refused.
    - "frozen": parameters in the layer's coefficients count as constants there. Their gradient has no part from rules
      in the layer; all else is exact. The place of a receiver needs the state there too, and is refused by both.
    - "saved": the whole layer is kept at every step. Under a stepper (`PML` with `StormerVerlet`) it is the one choice:
      its stages carry what is not known out of the layer, so it is kept with as much around it as a step reaches.

    `memory`: bytes that what is kept of layers may fill, at all steps; a run that keeps more is refused, with what it
    keeps (RunError).

    Rounding: the states are found in the run's precision, and the errors of that travel as waves do. Measured on a
    membrane of 17² points, the gradient by c differs from that by `Checkpointed` by 4e-15 of its largest entry after
    10³ steps and 1e-14 after 10⁴ in float64, 2e-6 and 4e-6 in float32.
    """

    layer: str = "exact"
    memory: int | np.integer | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.memory is not None and not is_whole(self.memory, 0):
            raise DeclarationError(f"Reversible: memory= is a whole number of bytes, got {self.memory!r}.")
        object.__setattr__(self, "memory", None if self.memory is None else int(self.memory))
        if self.layer not in LAYERS:
            raise DeclarationError(f"Reversible: layer= is one of {', '.join(map(repr, LAYERS))}, got {self.layer!r}.")

    def __repr__(self) -> str:
        return f"Reversible(layer={self.layer!r}" + (")" if self.memory is None else f", memory={self.memory})")

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        raise PlanningError(
            "Reversible() must be told how a step is undone: give it to fd.solve(..., "
            "adjoint=fd.adjoint.Reversible()), or bind(way_back) first."
        )

    def bind(self, way: AbstractWayBack) -> AbstractAdjoint:
        """The adjoint for steps that are taken back in the given way."""
        return _Bound(way)

    def afford(self, a_step: int, count: int) -> None:
        """Raises RunError where `a_step` bytes, kept at each of `count` steps, are more than the memory given."""
        if self.memory is not None and a_step * count > self.memory:
            raise RunError(
                f"Reversible(memory={self.memory}) keeps {a_step} bytes of absorbing layers at each of {count} steps. "
                f"Give at least memory={a_step * count}, or take Checkpointed(), which holds as many states "
                f"as fit."
            )

    def describe(self, count: int, state_bytes: int) -> str:
        return f"{self!r}: undoes all {count} steps from the last state, {state_bytes} bytes; each costs one more"


@dataclass(frozen=True, eq=False)
class _Bound(AbstractAdjoint):
    way: AbstractWayBack

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        if count <= self.way.reach:
            return plain(step, consts, carry, start, count)
        leaves, form = jax.tree.flatten((consts, carry, jnp.asarray(start)))
        out = _march(_Static(step, form, count, self.way, quick), leaves)
        return jax.tree.unflatten(jax.tree.structure(carry), out)


@dataclass(frozen=True, eq=False)
class _Static:
    step: Step
    form: Any
    count: int
    way: AbstractWayBack
    quick: March | None


@own_derivative
def _march(static: _Static, leaves: list[Any]) -> list[Any]:
    """The march on the leaves of constants, carry and start."""
    run = static.quick or partial(plain, static.step)
    consts, carry, start = static.form.unflatten(leaves)
    return jax.tree.leaves(run(consts, carry, start, static.count))


def _march_keeping(static: _Static, leaves: list[Any]) -> tuple[list[Any], Any]:
    """The same, and what is kept of each state."""
    if not static.way.keeps:
        return _march(static, leaves), {}
    consts, carry, start = static.form.unflatten(leaves)
    places = Device()  # carried, not stacked by the scan: vmap would stack along another axis, and copy it all

    def one(held: Any, place: Any) -> tuple[Any, None]:
        state, room = held
        state = static.step(consts, state, start + place)
        return (state, places.put(room, place, static.way.keep(state))), None

    begun = carry, places.open(jax.eval_shape(static.way.keep, carry), static.count)
    (last, kept), _ = lax.scan(one, begun, jnp.arange(static.count, dtype=start.dtype))
    return jax.tree.leaves(last), kept


def _push(static: _Static, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    (leaves,), (along,) = primals, tangents
    out, kept = _march_keeping(static, leaves)
    moving = [k for k, tangent in enumerate(along) if moves(tangent)]
    inexact = [k for k, one in enumerate(out) if jnp.issubdtype(one.dtype, jnp.inexact)]
    kept_leaves, kept_form = jax.tree.flatten(kept)
    ends = (len(leaves), len(leaves) + len(out))

    def forward(given: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        def run(*moved: Any) -> list[Any]:
            consts, carry, start = static.form.unflatten(replaced(given[: ends[0]], moving, moved))
            step = partial(static.way.step, static.step)
            return split(plain(step, consts, carry, start, static.count))[0]

        return jax.jvp(run, tuple(given[k] for k in moving), tuple(directions))[1]

    def backward(given: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        known = list(given[: ends[0]]), list(given[ends[0] : ends[1]]), kept_form.unflatten(given[ends[1] :])
        return _pulled(static, *known, moving, list(cotangents))

    like = [out[k] for k in inexact]
    found = iter(linear_map(forward, backward, [*leaves, *out, *kept_leaves], [along[k] for k in moving], like))
    zero = [np.zeros(one.shape, jax.dtypes.float0) for one in out]
    return out, [next(found) if k in inexact else zero[k] for k in range(len(out))]


_march.defjvp(_push)


def _pulled(
    static: _Static, leaves: list[Any], out: list[Any], kept: Any, moving: Sequence[int], cotangents: list[Any]
) -> list[Any]:
    """The transpose of the derivative: each step undone, then reversed where it started."""
    consts, first, start = static.form.unflatten(leaves)
    const_leaves, const_form = jax.tree.flatten(consts)
    num_consts = len(const_leaves)
    of_consts = [k for k in moving if k < num_consts]
    static.way.check(consts, [k in of_consts for k in range(num_consts)])
    last = jax.tree.structure(first).unflatten(out)

    def reverse(held: Any, place: Any) -> tuple[Any, None]:
        after, back, sums = held
        number = start + place
        before = static.way.back(consts, first, after, kept, place, number)
        inner, join = split(before)

        def one(moved: list[Any], given: list[Any]) -> list[Any]:
            constants = const_form.unflatten(replaced(const_leaves, of_consts, given))
            return split(static.way.step(static.step, constants, join(moved), number, after))[0]

        back, more = jax.vjp(one, inner, [const_leaves[k] for k in of_consts])[1](back)
        return (before, back, [a + b for a, b in zip(sums, more, strict=True)]), None

    sums = [jnp.zeros_like(const_leaves[k]) for k in of_consts]
    places = jnp.arange(static.count, dtype=start.dtype)
    (_, back, sums), _ = lax.scan(reverse, (last, cotangents, sums), places, reverse=True)
    carry_leaves = jax.tree.leaves(first)
    inexact = [k for k, x in enumerate(carry_leaves) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    found = dict(zip(of_consts, sums, strict=True))
    found |= {num_consts + k: value for k, value in zip(inexact, back, strict=True)}
    return [found[k] for k in moving]

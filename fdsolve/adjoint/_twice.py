"""Reversals that are reversed once more: by marches of the state with a tangent beside it.

The cotangents w of a pull Jᵀ(p) b are those of p ↦ ⟨b, J(p) w⟩, and J w is a march itself: that of the state and its
tangent. So what is differentiated twice backwards is differentiated forwards and backwards, with twice the state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..kernels import linear_map
from ._base import Step, split

Leaves = list[Any]


@dataclass(frozen=True, eq=False)
class Pull:
    """How cotangents are pulled back through a march.

    `reverse(leaves, room, cotangents)` gives those of some leaves with the states that a run kept in `room`,
    `again(leaves, cotangents)` the same without, by operations that tangents go through. `along(leaves, tangents)` is
    the march of these leaves' tangents, whose derivative is that of a reversal. `inside` is the same pull without the
    calls to the host that `reverse` makes, where it does: those that are differentiated would be made twice.
    """

    reverse: Callable[[Leaves, Any, Leaves], Leaves]
    again: Callable[[Leaves, Leaves], Leaves]
    along: Callable[[Leaves, Leaves], Leaves]
    inside: "Pull | None" = None


@own_derivative
def pull_back(pull: Pull, leaves: Leaves, room: Any, cotangents: Leaves) -> Leaves:
    """The cotangents of a march's leaves; its own derivative is there in both modes. The room is made of the leaves."""
    return pull.reverse(leaves, room, cotangents)


def _push(pull: Pull, primals: Any, tangents: Any) -> tuple[Leaves, Leaves]:
    leaves, room, cotangents = primals
    out = pull_back(pull.inside or pull, leaves, room, cotangents)
    inputs, given, count = [*leaves, *cotangents], [*tangents[0], *tangents[2]], len(leaves)
    moving = [k for k, tangent in enumerate(given) if moves(tangent)]
    if not moving:
        return out, [jnp.zeros_like(one) for one in out]

    def forward(kept: Sequence[Any], directions: Sequence[Any]) -> Leaves:
        def run(*some: Any) -> Leaves:
            every = replaced(kept, moving, some)
            return pull.again(every[:count], every[count:])

        return jax.jvp(run, tuple(kept[k] for k in moving), tuple(directions))[1]

    def backward(kept: Sequence[Any], directions: Sequence[Any]) -> Leaves:
        own, back = list(kept[:count]), list(kept[count:])
        places = [k for k in moving if k < count]

        def run(*some: Any) -> Leaves:
            return pull.along(replaced(own, places, some), list(directions))

        along, transpose = jax.vjp(run, *(own[k] for k in places))
        found = dict(zip(places, transpose(back), strict=True))
        return [found[k] if k < count else along[k - count] for k in moving]

    return out, linear_map(forward, backward, inputs, [given[k] for k in moving], out)


pull_back.defjvp(_push)


@dataclass(frozen=True, eq=False)
class Beside:
    """Steps of a carry with a tangent beside it, from tangents of the leaves `moving` of (constants, carry, start)."""

    own: Step
    form: Any
    moving: tuple[int, ...]

    def start(self, leaves: Leaves, tangents: Leaves) -> tuple[Any, Any, Any]:
        """(constants, carry, start) with tangents."""
        consts, carry, start = self.form.unflatten(leaves)
        count, given = len(jax.tree.leaves(consts)), dict(zip(self.moving, tangents, strict=True))
        inexact = [k for k, leaf in enumerate(jax.tree.leaves(carry)) if _is_inexact(leaf)]
        along = [given.get(count + k, jnp.zeros_like(leaves[count + k])) for k in inexact]
        return (consts, [given[k] for k in self._consts(count)]), (carry, along), start

    def step(self, consts: Any, carry: Any, number: Any) -> Any:
        """One step of both."""
        (constants, of_consts), (state, tangents) = consts, carry
        leaves, form = jax.tree.flatten(constants)
        places = self._consts(len(leaves))
        inner, join = split(state)

        def one(moved: Leaves, given: Leaves) -> tuple[Leaves, Any]:
            new = self.own(form.unflatten(replaced(leaves, places, given)), join(moved), number)
            return split(new)[0], new

        primals = (inner, [leaves[k] for k in places])
        _, along, new = jax.jvp(one, primals, (tangents, of_consts), has_aux=True)
        return new, along

    def _consts(self, count: int) -> list[int]:
        return [k for k in self.moving if k < count]


def _is_inexact(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)

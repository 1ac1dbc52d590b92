"""Gradients of a wave by its coefficients: L = ½‖u_T‖² by m, through fdsolve's adjoints and through JAX by hand.

Two levels start from the initial state, which is held; the answer is ∂L/∂m at the points inside the frame.
"""

from collections.abc import Callable
from math import isqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fdsolve as fd

from ._cases import Case
from ._ours import solve

FORWARD = "forward"
ADJOINTS: dict[str, Any] = {
    "default": None,
    "Full": fd.adjoint.Full(),
    "Checkpointed": fd.adjoint.Checkpointed(),
    "Reversible": fd.adjoint.Reversible(),
}


class Compiled:
    """A compiled function of the coefficients, run once; `temporary` is what XLA says it holds, in bytes."""

    def __init__(self, label: str, case: Case, loss: Callable[[jax.Array], jax.Array], differentiate: bool) -> None:
        (array,) = case.coefficients()
        self.label, self._reach, self._at = label, case.equation.reach, jnp.asarray(array)
        self._program = jax.jit(jax.grad(loss) if differentiate else loss).lower(self._at).compile()
        found = self._program.memory_analysis()
        self.temporary = 0 if found is None else int(found.temp_size_in_bytes)
        self.run()

    def run(self) -> None:
        """What is timed: the solve, and where it is a gradient the way back."""
        jax.block_until_ready(self._program(self._at))

    def answer(self) -> list[Any]:
        """The gradient inside the frame."""
        return [np.asarray(self._program(self._at))[(slice(self._reach, -self._reach),) * self._at.ndim]]


def make_ours(case: Case, adjoint: str) -> Compiled:
    """`fd.solve` of the case by an adjoint, or the forward solve alone."""
    call, (start, _) = solve(case, "auto", ADJOINTS.get(adjoint))
    return Compiled(adjoint, case, lambda m: 0.5 * jnp.sum(jnp.square(call(start, m)[0])), adjoint != FORWARD)


def make_by_hand(case: Case) -> Compiled:
    """Slices of two arrays in `lax.scan`, and nested `jax.checkpoint`: √T blocks of √T steps."""
    start, reach, inner = jnp.asarray(case.initial()[0]), case.equation.reach, isqrt(case.steps)
    outer, rest = divmod(case.steps, inner)

    def reader(array: jax.Array) -> Callable[..., jax.Array]:
        sizes = array.shape
        return lambda *by: array[tuple(slice(reach + k, n - reach + k) for n, k in zip(sizes, by, strict=True))]

    def loss(m: jax.Array) -> jax.Array:
        def step(both: Any, _: Any) -> Any:
            old, now = both
            (new,) = case.equation.step(reader(now), reader(old), reader(m))
            return (now, jnp.pad(new, reach)), None

        @jax.checkpoint
        def block(both: Any, _: Any) -> Any:
            return lax.scan(step, both, None, length=inner)[0], None

        both = lax.scan(block, (start, start), None, length=outer)[0]
        return 0.5 * jnp.sum(jnp.square(lax.scan(step, both, None, length=rest)[0][1]))

    return Compiled("by hand", case, loss, True)

"""Exact derivatives carried forward in time, beside the state."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._tangents import replaced
from ..errors import DeclarationError, RunError
from ._base import is_whole
from ._whole import AbstractWhole, Run, bytes_of, pairing


@dataclass(frozen=True)
class Forward(AbstractWhole):
    """Marches the sensitivities S = ∂u/∂θ beside the state: memory does not grow with the number of steps.

    Sⁿ⁺¹ = (∂Φ/∂u) Sⁿ + ∂Φ/∂θ for the step uⁿ⁺¹ = Φ(uⁿ, θ), all P entries of the parameters in one batch; the gradient
    is Σ Sᵀδ over what is saved. It costs about P + 1 runs and N(1 + P) numbers, so it is for few parameters: `memory`
    is how many bytes the sensitivities may fill (default: 4 GiB). Source: Williams & Zipser, Neural Computation 1
    (1989) 270 ("real-time recurrent learning").
    """

    memory: int | np.integer = 4 * 2**30

    def __post_init__(self) -> None:
        if not is_whole(self.memory, 1):
            raise DeclarationError(f"Forward: memory= is a number of bytes, at least 1, got {self.memory!r}.")

    def describe(self, count: int, state_bytes: int) -> str:
        return (
            f"{self!r}: exact sensitivities beside the state, for each entry of a parameter {state_bytes} bytes and as "
            f"many as what is saved has, whatever the number of steps; {self.memory} bytes in all"
        )

    def pull(self, run: Run, leaves: Sequence[Any], moving: Sequence[int], join: Any, cotangents: Any) -> list[Any]:
        own = [leaves[k] for k in moving]
        sizes = [prod(one.shape) for one in own]
        check_budget(sum(sizes), bytes_of(cotangents), int(self.memory), "Forward")
        starts = np.cumsum([0, *sizes])

        def along(number: Any) -> Any:
            unit = [
                (number - start == jnp.arange(size)).astype(one.dtype).reshape(one.shape)
                for start, size, one in zip(starts[:-1].tolist(), sizes, own, strict=True)
            ]
            made = jax.jvp(lambda *given: run.plain(join(replaced(leaves, moving, given))), tuple(own), tuple(unit))[1]
            return pairing(cotangents, made)

        found = jax.vmap(along)(jnp.arange(sum(sizes)))
        parts = zip(starts[:-1].tolist(), sizes, own, strict=True)
        return [found[a : a + n].reshape(one.shape).astype(one.dtype) for a, n, one in parts]


def check_budget(entries: int, each: int, memory: int, what: str) -> None:
    """Refuses sensitivities that would not fit: `entries` columns of `each` bytes."""
    if entries * each > memory:
        raise RunError(
            f"{what}: the sensitivities of {entries} entries of parameters would take {entries * each} bytes, {each} "
            f"for each entry; {memory} are allowed. Give memory={entries * each}, or take a method whose cost does not "
            f"grow with the parameters: fd.adjoint.Checkpointed() (exact, by reversal), or "
            f'fd.adjoint.Online(method="forward_gradient") (exact in the mean).'
        )

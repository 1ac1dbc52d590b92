"""Methods that are exact in the mean only: a rank-one estimate of the sensitivities, and random directions."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import DeclarationError
from .._base import is_whole
from ._method import AbstractMethod, Trace, entries_of, push_both, rows_of, start_along
from ._update import Point, Update


@dataclass(frozen=True)
class ForwardGradient(AbstractMethod):
    """g = (δᵀ S v) v for random directions v of independent signs: N numbers for each of `samples`.

    Source: Baydin et al., "Gradients without backpropagation" (2022).
    """

    seed: int | np.integer = 0
    samples: int | np.integer = 1

    def __post_init__(self) -> None:
        _check("ForwardGradient", self.seed, self.samples)

    def follow(self, update: Update, own: tuple[int, ...]) -> Trace:
        places, dtype = entries_of(update, own), update.packing.dtype
        signs = jax.random.rademacher(jax.random.key(int(self.seed)), (int(self.samples), len(places)), dtype)
        moves = jnp.zeros((int(self.samples), update.num_parameters), dtype).at[:, places].set(signs)
        shapes = [("any operation (JVP)", (int(self.samples), update.num_states))] * len(own)
        exact = len(places) == 1  # a sign squared is one
        why = "one entry has one direction" if exact else "random directions are right in the mean only"
        return Trace(
            lambda theta, constants: start_along(update, theta, constants, moves),
            lambda point, trace: push_both(update, point, moves, trace),
            lambda point, trace, delta: (trace @ delta) @ moves / self.samples,
            rows_of(update, own, "forward_gradient", shapes, "D as it is", exact, why),
        )


@dataclass(frozen=True)
class UORO(AbstractMethod):
    """S ≈ s̃ θ̃ᵀ, of rank one, unbiased: s̃' = ρ₀ D s̃ + ρ₁ ν, θ̃' = θ̃/ρ₀ + Bᵀν/ρ₁ for random signs ν; the ρ balance
    the norms, ρ₁ those of each array of the state by itself: slopes that a stepper carries, 1/Δt larger than a field,
    would hide what it feels. N + P numbers for each of `samples`. Source: Tallec & Ollivier, ICLR 2018."""

    seed: int | np.integer = 0
    samples: int | np.integer = 1

    def __post_init__(self) -> None:
        _check("UORO", self.seed, self.samples)

    def follow(self, update: Update, own: tuple[int, ...]) -> Trace:
        dtype, states, width = update.packing.dtype, update.num_states, update.num_parameters
        held = np.zeros(width, dtype)
        held[entries_of(update, own)] = 1
        tiny, apart = jnp.finfo(dtype).tiny, update.packing.apart()

        def norm(one: Any) -> Any:
            """Of vectors; above zero, and with a derivative there."""
            return jnp.sqrt(jnp.sum(one**2, -1) + tiny)

        def join(state_part: Any, param_part: Any, signs: Any, pull: Any) -> tuple[Any, Any]:
            """The sum of estimates of rank one as one: s̃ θ̃ᵀ + Σ ν (Bᵀν)ᵀ over the arrays of the state, in the mean."""
            signs = apart * signs
            back = jax.vmap(pull)(signs)[0] * held
            ratio, others = jnp.sqrt(norm(param_part) / norm(state_part)), jnp.sqrt(norm(back) / norm(signs))
            return ratio * state_part + others @ signs, param_part / ratio + (1 / others) @ back

        def start(theta: Any, constants: Any) -> Any:
            keys = jax.random.split(jax.random.key(int(self.seed)), int(self.samples))

            def one(key: Any) -> Any:
                zero = jnp.zeros((states,), dtype), jnp.zeros((width,), dtype)
                first = update.first
                if first is None:
                    return key, *zero
                key, now = jax.random.split(key)
                signs = jax.random.rademacher(now, (states,), dtype)
                return key, *join(*zero, signs, jax.vjp(lambda p: first(p, constants), theta)[1])

            return jax.vmap(one)(keys)

        def advance(point: Point, trace: Any) -> Any:
            theta, state, aside, inputs = point

            def one(key: Any, along: Any, weights: Any) -> Any:
                key, now = jax.random.split(key)
                signs = jax.random.rademacher(now, (states,), dtype)
                moved = jax.jvp(lambda u: update.step(theta, u, aside, inputs)[0], (state,), (along,))[1]
                pull = jax.vjp(lambda p: update.step(p, state, aside, inputs)[0], theta)[1]
                return key, *join(moved, weights, signs, pull)

            return jax.vmap(one)(*trace)

        def gradient(point: Point, trace: Any, delta: Any) -> Any:
            return (trace[1] @ delta) @ trace[2] / self.samples

        shapes = [("any operation (JVP, VJP)", (int(self.samples), states + width))] * len(own)
        why = "an estimate of rank one is right in the mean only"
        return Trace(start, advance, gradient, rows_of(update, own, "uoro", shapes, "D as it is", False, why))


def _check(what: str, seed: Any, samples: Any) -> None:
    if not is_whole(seed):
        raise DeclarationError(f"{what}: seed= is a whole number, got {seed!r}.")
    if not -(2**31) <= seed < 2**32:
        raise DeclarationError(f"{what}: seed= is a number of 32 bits, got {seed!r}.")
    if not is_whole(samples, 1):
        raise DeclarationError(f"{what}: samples= is a number of draws, at least 1, got {samples!r}.")

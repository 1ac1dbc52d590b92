"""Parameters followed along a run, each by its method; losses, gradients so far, and windows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import DeclarationError
from .._base import is_whole
from ._exact import Exact
from ._method import AbstractMethod, Followed, Trace
from ._sites import CannotFollow
from ._update import Point, Update

Loss = Callable[[Any, Any], Any]
"""(state as a tree, data of the step) ↦ a real number."""


@dataclass(frozen=True, eq=False)
class Following:
    """All parameters of an update, followed."""

    update: Update
    traces: tuple[Trace, ...]

    @property
    def report(self) -> tuple[Followed, ...]:
        """One row for each parameter, in order."""
        rows = {row.parameter: row for trace in self.traces for row in trace.report}
        return tuple(rows[p.name] for p in self.update.parameters)

    @property
    def is_whole(self) -> bool:
        """Whether all traces are of all numbers of the state."""
        return all(trace.is_whole for trace in self.traces)

    def start(self, theta: Any, constants: Any) -> Any:
        """The traces at the first state."""
        return [trace.start(theta, constants) for trace in self.traces]

    def advance(self, point: Point, held: Any) -> Any:
        """The traces after the step from a point."""
        return [trace.advance(point, one) for trace, one in zip(self.traces, held, strict=True)]

    def gradient(self, point: Point, held: Any, delta: Any) -> Any:
        """Σ Sᵀδ, (P,)."""
        total = jnp.zeros((self.update.num_parameters,), self.update.packing.dtype)
        for trace, one in zip(self.traces, held, strict=True):
            total = total + trace.gradient(point, one, delta)
        return total


def follow(
    update: Update, method: AbstractMethod | Mapping[str, AbstractMethod], otherwise: AbstractMethod | None = None
) -> Following:
    """Binds a method, or one for each parameter by name, to an update.

    `otherwise` takes the parameters that their method cannot follow (None: that is an error). Raises CannotFollow, and
    DeclarationError for names that are no parameters.
    """
    names = [p.name for p in update.parameters]
    for one in method.values() if isinstance(method, Mapping) else (method,):
        if not isinstance(one, AbstractMethod):
            raise DeclarationError(f"follow: a method is an object, as fd.adjoint.traces.Exact() is one; got {one!r}.")
    chosen = {name: method for name in names} if isinstance(method, AbstractMethod) else dict(method)
    if set(chosen) != set(names):
        wrong = sorted(set(chosen) - set(names)) or sorted(set(names) - set(chosen))
        raise DeclarationError(
            f"method= names a method for each parameter, {', '.join(names)}; `{wrong[0]}` is "
            + ("no parameter." if wrong[0] in chosen else "missing.")
        )
    groups: dict[AbstractMethod, list[int]] = {}
    for k, name in enumerate(names):
        groups.setdefault(chosen[name], []).append(k)
    traces, left = [], []
    for one, own in groups.items():
        rest = list(own)
        while rest:
            try:
                traces.append(one.follow(update, tuple(rest)))
                break
            except CannotFollow as error:
                out = [k for k in rest if k in error.sources]
                if otherwise is None or not out:
                    raise
                left += out
                rest = [k for k in rest if k not in out]
    if left:
        traces.append((otherwise or Exact()).follow(update, tuple(sorted(left))))
    return Following(update, tuple(traces))


@dataclass(frozen=True, eq=False)
class Follower:
    """A run followed step by step: pure functions of what is carried, a dict of arrays.

    Loss ℓ of each state and the data of the step; the gradient is that of the sum of all losses so far. `window`:
    within so many steps derivatives are taken by reversal, and the traces carry them across.
    """

    following: Following
    loss: Loss
    window: int = 1

    def __post_init__(self) -> None:
        if not is_whole(self.window, 1):
            raise DeclarationError(f"Follower: window= is a number of steps, at least 1, got {self.window!r}.")

    def start(self, theta: Any, state: Any, aside: Any, inputs: Any, data: Any) -> dict[str, Any]:
        """What is carried, at the first state; inputs and data are examples."""
        dtype = self.following.update.packing.dtype
        zero = jnp.zeros((self.following.update.num_parameters,), dtype)
        held = dict(
            theta=theta, state=state, aside=aside, traces=self.following.start(theta, inputs[0]), gradient=zero,
            loss=jnp.zeros((), dtype),
        )  # fmt: skip
        if self.window > 1:
            buffer = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.window, *jnp.shape(x))), (inputs[1], data))
            entry = dict(state=state, aside=aside, gradient=zero, buffer=buffer, count=jnp.zeros((), jnp.int32))
            held["entry"] = entry
        return held

    def measure(self, state: Any, aside: Any, data: Any) -> Any:
        """The loss of a state."""
        tree = self.following.update.packing.unpack(state, aside)
        return jnp.asarray(self.loss(tree, data)).astype(self.following.update.packing.dtype)

    def advance(self, held: dict[str, Any], inputs: Any, data: Any) -> tuple[dict[str, Any], Any]:
        """What is carried after one more step, and the loss there; `inputs` are (constants, inputs)."""
        if self.window > 1:
            return self._windowed(held, inputs, data)
        point = (held["theta"], held["state"], held["aside"], inputs)
        state, aside = self.following.update.step(*point)
        traces = self.following.advance(point, held["traces"])
        loss, delta = jax.value_and_grad(lambda u: self.measure(u, aside, data))(state)
        gradient = held["gradient"] + self.following.gradient(point, traces, delta)
        new = dict(state=state, aside=aside, traces=traces, gradient=gradient, loss=held["loss"] + loss)
        return {**held, **new}, loss

    def _windowed(self, held: dict[str, Any], inputs: Any, data: Any) -> tuple[dict[str, Any], Any]:
        entry, count = held["entry"], held["entry"]["count"]
        buffer = jax.tree.map(lambda b, x: b.at[count].set(x), entry["buffer"], (inputs[1], data))
        steps = jnp.arange(self.window, dtype=count.dtype)

        def window(theta: Any, state: Any) -> Any:
            def one(carry: Any, given: Any) -> Any:
                number, beyond = given
                u, aside, total = carry
                taken = number <= count  # later places of the buffer hold nothing yet
                keep = lambda new, old: jax.tree.map(partial(jnp.where, taken), new, old)  # noqa: E731
                # There the first step is done again: one that never comes may have neither a value nor slopes.
                now, rest, (x, seen) = keep((u, aside, beyond), (*begun[:2], jax.tree.map(lambda b: b[0], buffer)))
                made, beside = self.following.update.step(theta, now, rest, (inputs[0], x))
                value = self.measure(made, beside, seen)
                return (*keep((made, beside), (u, aside)), total + jnp.where(taken, value, 0.0)), value

            if not self.following.is_whole:  # what traces do not follow is a part of what it is made of
                first = jax.tree.map(lambda b: b[0], buffer[0])
                state = self.following.update.settle(theta, state, entry["aside"], (inputs[0], first))
            begun = (state, entry["aside"], jnp.zeros((), state.dtype))
            (u, aside, total), values = jax.lax.scan(one, begun, (steps, buffer))
            return total, (u, aside, values[count])

        both = jax.value_and_grad(window, argnums=(0, 1), has_aux=True)
        (_, (state, aside, loss)), (own, across) = both(held["theta"], entry["state"])
        point = (held["theta"], entry["state"], entry["aside"], inputs)
        gradient = entry["gradient"] + own + self.following.gradient(point, held["traces"], across)
        done = count + 1 == self.window

        def close(traces: Any) -> Any:
            """The traces across the window."""

            def one(carry: Any, x: Any) -> Any:
                u, beside, marks = carry
                at = (held["theta"], u, beside, (inputs[0], x[0]))
                return (*self.following.update.step(*at), self.following.advance(at, marks)), None

            return jax.lax.scan(one, (entry["state"], entry["aside"], traces), buffer)[0][2]

        traces = jax.lax.cond(done, close, lambda same: same, held["traces"])
        pick = lambda new, old: jax.tree.map(partial(jnp.where, done), new, old)  # noqa: E731
        fresh = dict(
            state=pick(state, entry["state"]),
            aside=pick(aside, entry["aside"]),
            gradient=pick(gradient, entry["gradient"]),
            buffer=buffer,
            count=jnp.where(done, 0, count + 1).astype(count.dtype),
        )
        new = dict(state=state, aside=aside, traces=traces, gradient=gradient, loss=held["loss"] + loss, entry=fresh)
        return {**held, **new}, loss

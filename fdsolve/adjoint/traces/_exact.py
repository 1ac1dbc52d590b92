"""Exact sensitivities: all of them, or those within the pattern reached in a few steps."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import DeclarationError
from .._base import is_whole
from .._forward import check_budget
from ._method import AbstractMethod, Trace, entries_of, push_both, rows_of, start_along
from ._patterns import STATE, THETA, carried, colour, find_pattern, mark, owners, reach
from ._update import Point, Update


@dataclass(frozen=True)
class Exact(AbstractMethod):
    """S' = D S + B for all sensitivities S (P, N): exact; about 1 + P steps for one. `memory`: bytes allowed."""

    memory: int | np.integer = 4 * 2**30

    def __post_init__(self) -> None:
        if not is_whole(self.memory, 1):
            raise DeclarationError(f"Exact: memory= is a number of bytes, at least 1, got {self.memory!r}.")

    def follow(self, update: Update, own: tuple[int, ...]) -> Trace:
        places, dtype = entries_of(update, own), update.packing.dtype
        each = update.num_states * dtype.itemsize
        check_budget(len(places), each, int(self.memory), 'method="forward"')
        moves = np.eye(update.num_parameters, dtype=dtype)[places]

        def gradient(point: Point, trace: Any, delta: Any) -> Any:
            return jnp.zeros((update.num_parameters,), dtype).at[places].set(trace @ delta)

        shapes = [("any operation (JVP)", (update.parameters[k].size, update.num_states)) for k in own]
        return Trace(
            lambda theta, constants: start_along(update, theta, constants, moves),
            lambda point, trace: push_both(update, point, moves, trace),
            gradient,
            rows_of(update, own, "forward", shapes, "D as it is", True, "all of D S + B is carried"),
        )


@dataclass(frozen=True)
class SnAp(AbstractMethod):
    """S' = M ∘ (D S + B), M the pattern that a parameter reaches within `n` steps; columns of S that never meet share
    a row of the trace. Exact for n steps, and for all where M is full. Source: Menick et al., ICLR 2021."""

    n: int | np.integer = 1

    def __post_init__(self) -> None:
        if not is_whole(self.n, 1):
            raise DeclarationError(f"SnAp: n= is a number of steps, at least 1, got {self.n!r}.")

    def follow(self, update: Update, own: tuple[int, ...]) -> Trace:
        places, dtype = entries_of(update, own), update.packing.dtype
        begun = start_pattern(update, places)
        first = step_pattern(update, places) | begun
        onward = state_pattern(update)
        steps = int(self.n)
        kept = reach(first, onward, steps) | reach(begun, onward, steps + 1)  # the first state lies a step before
        wider = carried(onward, kept) | first
        full = bool((wider <= kept).all())
        colours = colour(wider)
        owner = owners(kept, colours, len(places))
        mask = (owner < len(places)).astype(dtype)
        moves = np.zeros((len(owner), update.num_parameters), dtype)
        moves[colours, places] = 1

        def gradient(point: Point, trace: Any, delta: Any) -> Any:
            found = jax.ops.segment_sum((delta * trace).ravel(), owner.ravel(), len(places) + 1)[:-1]
            return jnp.zeros((update.num_parameters,), dtype).at[places].set(found)

        band = int(onward.sum(1).max(initial=0))
        because = (
            f"the pattern of {self.n} steps is that of all"
            if full
            else f"sensitivities beyond the reach of {self.n} steps are dropped (exact up to then)"
        )
        shapes = [("stencil", owner.shape)] * len(own)
        structure = f"D has up to {band} entries a row, {len(owner)} colours"
        return Trace(
            lambda theta, constants: mask * start_along(update, theta, constants, moves),
            lambda point, trace: mask * push_both(update, point, moves, trace),
            gradient,
            rows_of(update, own, f"snap, n = {self.n}", shapes, structure, full, because),
        )


def first_pattern(update: Update, places: np.ndarray) -> np.ndarray:
    """(N, own): which numbers of the next state, or of the first one, depend on which entries of parameters."""
    return step_pattern(update, places) | start_pattern(update, places)


def step_pattern(update: Update, places: np.ndarray) -> np.ndarray:
    """(N, own): which numbers of the next state depend on which entries of parameters."""
    return find_pattern(update, update.step, THETA, places, "∂u'/∂θ")


def start_pattern(update: Update, places: np.ndarray) -> np.ndarray:
    """(N, own): which numbers of the first state depend on which entries of parameters."""
    if not moved_at_start(update, places).any():
        return np.zeros((update.num_states, len(places)), bool)
    return find_pattern(update, _begin_of(update), THETA, places, "∂u⁰/∂θ")


def moved_at_start(update: Update, places: np.ndarray) -> np.ndarray:
    """(N,): which numbers of the first state depend on any of some entries of parameters."""
    if update.first is None or not len(places):
        return np.zeros(update.num_states, bool)
    marks = np.zeros(update.num_parameters, np.float32)
    marks[places] = 1
    with jax.ensure_compile_time_eval():
        return np.asarray(mark(update, _begin_of(update), THETA, jnp.asarray(marks))[0] > 0)


def _begin_of(update: Update) -> Any:
    """The first state as a function of what a step is one of."""
    first = update.first
    assert first is not None

    def begin(theta: Any, state: Any, aside: Any, inputs: Any) -> tuple[Any]:
        return (first(theta, inputs[0]),)

    return begin


@lru_cache(maxsize=4)
def state_pattern(update: Update) -> np.ndarray:
    """(N, N): which numbers of the next state depend on which of this one."""
    return find_pattern(update, update.step, STATE, np.arange(update.num_states), "∂u'/∂u")

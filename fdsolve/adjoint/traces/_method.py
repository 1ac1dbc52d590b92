"""What a method of following parameters forward in time is, and what it reports."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._update import Point, Update


@dataclass(frozen=True)
class Followed:
    """How a parameter is followed: the operation it enters, its trace, the structure of D = ∂u'/∂u, and whether the
    gradient is exact."""

    parameter: str
    method: str
    operation: str
    shape: tuple[int, ...]
    bytes: int
    structure: str
    exact: bool
    because: str

    def __str__(self) -> str:
        answer = "yes" if self.exact else "no"
        return (
            f"{self.parameter}: {self.method}, enters by {self.operation}; trace {self.shape}, {self.bytes} bytes; "
            f"{self.structure}; exact: {answer}, because {self.because}"
        )


@dataclass(frozen=True, eq=False)
class Trace:
    """A method bound to an update: pure functions.

    `start(θ, constants)` is the trace at the first state, `advance(point, trace)` that after the step from `point`, and
    `gradient(point, trace, δ)` the vector (P,) of Σ Sᵀδ, zero for the parameters of others. `is_whole`: the
    trace is of all numbers of the state, not only of those that losses can read.
    """

    start: Callable[[Any, Any], Any]
    advance: Callable[[Point, Any], Any]
    gradient: Callable[[Point, Any, Any], Any]
    report: tuple[Followed, ...]
    is_whole: bool = True


class AbstractMethod(ABC):
    """A rule for carrying sensitivities from state to state: static data."""

    @abstractmethod
    def follow(self, update: Update, own: tuple[int, ...]) -> Trace:
        """The trace of the parameters with the numbers `own`. Raises CannotFollow."""

    def check(self, update: Update, point: Point) -> None:  # noqa: B027
        """Raises DeclarationError where the method is not for the step as it is at a point of a run."""


def entries_of(update: Update, own: Sequence[int]) -> np.ndarray:
    """The places of parameters in their vector."""
    ranges = [np.arange(update.parameters[k].start, update.parameters[k].stop) for k in own]
    return np.concatenate(ranges) if ranges else np.zeros(0, int)


def push_both(update: Update, point: Point, moves: Any, slopes: Any) -> Any:
    """D s + B m for each pair of a direction in the parameters and one in the state: one batched call."""
    theta, state, aside, inputs = point

    def along(move: Any, slope: Any) -> Any:
        return jax.jvp(lambda p, u: update.step(p, u, aside, inputs)[0], (theta, state), (move, slope))[1]

    return jax.vmap(along)(moves, slopes)


def start_along(update: Update, theta: Any, constants: Any, moves: Any) -> Any:
    """The sensitivities of the first state along directions in the parameters, (directions, N)."""
    first = update.first
    if first is None:
        return jnp.zeros((len(moves), update.num_states), update.packing.dtype)
    return jax.vmap(lambda move: jax.jvp(lambda p: first(p, constants), (theta,), (move,))[1])(moves)


def rows_of(
    update: Update,
    own: Sequence[int],
    method: str,
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    structure: str,
    exact: bool,
    because: str,
) -> tuple[Followed, ...]:
    """One row of the report for each parameter: by operation and shape of its trace."""
    width = update.packing.dtype.itemsize
    return tuple(
        Followed(update.parameters[k].name, method, how, shape, prod(shape) * width, structure, exact, because)
        for k, (how, shape) in zip(own, shapes, strict=True)
    )

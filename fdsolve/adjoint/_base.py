"""What an adjoint is: a march along time that knows how its derivatives are to be taken."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Step = Callable[[Any, Any, Any], Any]
"""(constants, carry, number of the level) ↦ carry, all pytrees of arrays."""
March = Callable[[Any, Any, Any, int], Any]
"""(constants, carry, first level, number of levels) ↦ carry."""


def _same(carry: Any, arrays: Any = ()) -> Any:
    return carry


def _nothing(carry: Any) -> Any:
    return ()


@dataclass(frozen=True, eq=False)
class Rooms:
    """What a march by steps writes new levels into. `fresh(carry)` are arrays for one of them, `open(carry, arrays)` is
    the carry with these, `close` takes them away, and `newest(carry)` is what has become of them; after `turn` steps
    all arrays are back in their places. Without any, new levels are new arrays. `pieces`: the rules in a step, long
    ones as several, which say how long it takes to compile."""

    fresh: Callable[[Any], Any] = _nothing
    open: Callable[[Any, Any], Any] = _same
    close: Callable[[Any], Any] = _same
    newest: Callable[[Any], Any] = _nothing
    turn: int = 1
    pieces: int = 1


@dataclass(frozen=True, eq=False)
class Quick:
    """A march by a kernel. `by_blocks(constants, carry, first level, number of levels, levels in a block)` is the same
    with a derivative that keeps the carry before each block alone; None where the kernel has none. `near(levels in a
    block, moving leaves)`: whether that derivative holds the levels of a block in cache; given the numbers of the
    leaves of the constants that move: and is surely the kernel's own, which takes longer to tell. `jumps(number of
    levels)`: whether they cost the same however many they are, and so does their derivative. `rooms`: those of its
    steps where they are gone back through sooner from the state before each than from what JAX keeps of them; None
    where not."""

    run: March
    by_blocks: Callable[[Any, Any, Any, int, int], Any]
    near: Callable[..., bool]
    jumps: Callable[[int], bool]
    rooms: Rooms | None = None

    def __call__(self, consts: Any, carry: Any, start: Any, count: int) -> Any:
        return self.run(consts, carry, start, count)


def is_whole(value: Any, least: int | None = None) -> bool:
    """Whether a value is a whole number, of Python or NumPy, and at least so much."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return least is None or bool(value >= least)


def nearness(march: March) -> Callable[..., bool] | None:
    """Whether a march by a kernel holds the levels of a block in cache; None where it is none."""
    return march.near if isinstance(march, Quick) else None


class AbstractAdjoint(ABC):
    """How the derivative of many steps is computed: static data. The step is handed to it; it knows of no problem."""

    keeps_all: bool = False
    """Whether it has nothing to add to a march that JAX differentiates: saves may then lie anywhere among its steps."""

    @abstractmethod
    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        """The carry after `count` steps from level `start` on; differentiable with respect to constants and carry.

        `quick` does the same as many steps one after the other, sooner; its derivative is not asked for where the
        adjoint has its own.
        """

    def repeated(self) -> "AbstractAdjoint":
        """The adjoint for a march that is one of many of a run, between saves: what each keeps adds up."""
        return self

    def describe(self, count: int, state_bytes: int) -> str:
        """What the plan prints for so many steps of a state of so many bytes."""
        return repr(self)

    def describe_jump(self, kernel: str, state_bytes: int) -> str | None:
        """What the plan prints where a kernel jumps over all steps; None where that makes no difference."""
        return None


class AbstractRepeated(AbstractAdjoint):
    """An adjoint whose run keeps states for its reversal, unless it is one of many of a run.

    A jump is not cut: the state that it starts from is kept, and it is computed once more.
    """

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        if isinstance(quick, Quick) and quick.jumps(count):
            return jax.checkpoint(quick.run, static_argnums=3)(consts, carry, start, count)
        return self.march_as(True, step, consts, carry, start, count, quick)

    def repeated(self) -> AbstractAdjoint:
        return _Repeated(self)

    def describe_jump(self, kernel: str, state_bytes: int) -> str | None:
        return (
            f"keeps the state that the jump by `{kernel}` starts from, {state_bytes} bytes, and computes the jump once "
            f"more, whatever the steps"
        )

    @abstractmethod
    def march_as(
        self, once: bool, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None
    ) -> Any:
        """The march; `once`: the run keeps the first states, as it may where it is not one of many."""


@dataclass(frozen=True)
class _Repeated(AbstractAdjoint):
    """The same for a march that happens many times: a run keeps its start alone."""

    one: AbstractRepeated

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        if isinstance(quick, Quick) and quick.jumps(count):
            return self.one.march(step, consts, carry, start, count, quick)
        return self.one.march_as(False, step, consts, carry, start, count, quick)


def show_needs(count: int, state_bytes: int) -> str:
    """What the plan prints of the memory that the derivative of so many steps takes where nothing is left out."""
    return f"{count * state_bytes} bytes at a state for each, more where rules are not linear"


def show_jump(kernel: str) -> str:
    """What the plan prints where the derivative of a jump keeps what it needs."""
    return f"keeps what the derivative of the jump by `{kernel}` needs, whatever the steps"


def plain(step: Step, consts: Any, carry: Any, start: Any, count: int) -> Any:
    """`count` steps, one after the other."""
    first = jnp.asarray(start)
    return lax.fori_loop(0, count, lambda k, held: step(consts, held, first + k.astype(first.dtype)), carry)


def split(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves of a tree that have derivatives, and the tree with these put in."""
    leaves, form = jax.tree.flatten(tree)
    places = [k for k, leaf in enumerate(leaves) if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)]

    def join(moving: list[Any]) -> Any:
        whole = list(leaves)
        for place, leaf in zip(places, moving, strict=True):
            whole[place] = leaf
        return form.unflatten(whole)

    return [leaves[k] for k in places], join

"""Checkpoints: the derivative of many steps with few states kept."""

from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError, RunError
from ..kernels import detect_platform
from ._base import AbstractRepeated, March, Step, is_whole, nearness, show_needs
from ._block import LONGEST
from ._fit import Cut, cut_steps, shorter_cuts
from ._peak import count_bytes
from ._reversal import march_reversibly, plain_march
from ._storage import AbstractStorage, Device, to_storage
from ._twolevel import (
    Nested,
    block_length,
    cut_blocks,
    march_nested,
    near_lengths,
    possible_blocks,
    show_blocks,
    two_level_room,
)
from ._ways import Reversal


@dataclass(frozen=True)
class Checkpointed(AbstractRepeated):
    """Keeps a few states and computes the others again from them, as often as is least.

    `snapshots`: how many states are held at once; or `memory`: the bytes that they may fill. With neither, 2√T states
    for T steps: then every step is computed once more. Steps are reversed in blocks: all states of a block are at
    hand, and between blocks the binomial optimum is kept. Where the derivative that a kernel has of its own keeps no
    more than that, it is taken. Where a kernel can hold the levels of a block in its cache while it goes back through
    them, blocks are such if fewer steps are computed again so. What they take counts among the states held: hardly
    anything, but on a line, or where records along time move, all these levels, which lie in memory. Under vmap, states
    and bytes are counted for one element.

    Beside the states held, a step and its derivative take memory, as much whatever the steps and the blocks: 5 to 12
    states' worth for heat and waves, the most on small grids.

    `levels=2`: nested checkpoints instead, √T blocks of √T steps each of which keeps all that its steps need: more
    memory where rules are not linear, and nothing of a step is computed a third time. What a kernel keeps that goes
    back by blocks itself, the plan prints.

    A march of constant rules that a kernel jumps through (`fft`) is not cut: no states lie between.

    `storage`: how and where states between blocks are kept. None: as they are, on the device. "bfloat16", "float16"
    or "int8": rounded, with a scale for each array of each state; then the gradient is not exact. "float16" rounds a
    value v to within 2⁻¹¹|v| + 2⁻²⁵ max|v|, "bfloat16" to within 2⁻⁸|v|, "int8" to within max|v|/254, each time a
    state is kept. `Host()` or `Disk(path)`: outside of the device's memory, exact or rounded (`dtype=`).

    Works in both modes of differentiation, and in one over the other: reverse over reverse holds states twice as large.
    Source: Griewank & Walther, ACM Trans. Math. Softw. 26 (2000) 19. Raises DeclarationError for arguments of the wrong
    kind, RunError where the memory holds no state.
    """

    snapshots: int | np.integer | None = None
    memory: int | np.integer | None = None
    levels: int | None = field(default=None, kw_only=True)
    storage: str | AbstractStorage | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("snapshots", "memory"):
            value = getattr(self, name)
            if value is not None and not is_whole(value, 1):
                raise DeclarationError(f"Checkpointed: {name}= is a whole number of at least 1, got {value!r}.")
            object.__setattr__(self, name, None if value is None else int(value))
        if self.snapshots is not None and self.memory is not None:
            raise DeclarationError("Checkpointed takes snapshots= or memory=, not both.")
        if self.levels is not None and (isinstance(self.levels, bool) or self.levels != 2):
            raise DeclarationError(
                f"Checkpointed: levels=2 nests checkpoints; leave it out for the binomial optimum. Got {self.levels!r}."
            )
        if self.levels is not None and (self.snapshots, self.memory, self.storage) != (None, None, None):
            raise DeclarationError(
                "Checkpointed(levels=2) keeps √T states and what √T steps need, on the device: it takes no snapshots=, "
                "memory= or storage=. Leave levels= out to say how much is kept."
            )
        to_storage(self.storage)

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in ("snapshots", "memory", "levels", "storage")}
        return f"Checkpointed({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"

    def num_states(self, count: int, state_bytes: int) -> int:
        """How many states are held for so many steps. Raises RunError where the memory holds none."""
        if self.snapshots is not None:
            return min(int(self.snapshots), count)
        if self.memory is None:
            return usual_states(count)
        found = int(self.memory) // max(state_bytes, 1)
        if found < 1:
            raise RunError(
                f"Checkpointed(memory={self.memory}) holds no state of {state_bytes} bytes. Give at least "
                f"memory={state_bytes}, or leave it out."
            )
        return min(found, count)

    def march_as(
        self, once: bool, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None
    ) -> Any:
        run = quick or plain_march(step)
        leaves, form = jax.tree.flatten((consts, carry, jnp.asarray(start)))
        size = count_bytes(carry)
        if self.levels == 2:
            cut = cut_blocks(count, size, nearness(run), two_level_room(count, size))
            out = march_nested(Nested(run, form, cut), leaves)
            return jax.tree.unflatten(jax.tree.structure(carry), out)
        states, place = self.num_states(count, size), self._storage()
        if states >= count and isinstance(place, Device):
            return run(consts, carry, start, count)
        cut, rooms = cut_steps(count, states), (states * size, states * size)
        return reversed_march(step, run, consts, carry, start, cut, rooms, once, place, states=states)

    def describe_jump(self, kernel: str, state_bytes: int) -> str | None:
        return f"{self!r}: {super().describe_jump(kernel, state_bytes)}"

    def _storage(self) -> AbstractStorage:
        return to_storage(self.storage)

    def describe(self, count: int, state_bytes: int) -> str:
        if self.levels == 2:
            block = block_length(count)
            more = show_blocks(count, state_bytes, two_level_room(count, state_bytes))
            return (
                f"{self!r}: keeps {count // block} states of {count}, {count // block * state_bytes} bytes, and what "
                f"{block} steps need, {show_needs(block, state_bytes)}; every step is computed once more{more}"
            )
        states = self.num_states(count, state_bytes)
        if states >= count and isinstance(self._storage(), Device):
            return f"{self!r}: keeps what all {count} steps need, {show_needs(count, state_bytes)}"
        remark = self._storage().remark(cut_steps(count, states).kept * state_bytes)
        shown = show_cuts(count, states, states, state_bytes) + _show_own_blocks(count, states, state_bytes)
        return f"{self!r}: {shown}; nothing is computed again where what all steps need is much less{remark}"


def usual_states(count: int) -> int:
    """2√T states: enough for every step to be computed just once more."""
    return min(count, ceil(2 * sqrt(count)))


def show_cuts(count: int, states: int, short_states: int, state_bytes: int) -> str:
    """What the plan prints of the cut with so many states, and of that in short blocks, where a CPU may take these."""
    usual, short = cut_steps(count, states), cut_steps(count, short_states, LONGEST)
    shown = _show_cut(usual, state_bytes)
    if detect_platform() != "cpu" or short == usual:
        return shown
    return f"{shown} (by `slices`, where short blocks are quicker, it {_show_cut(short, state_bytes)})"


def _show_cut(cut: Cut, state_bytes: int) -> str:
    return (
        f"keeps {cut.states} states of {cut.count}, {cut.states * state_bytes} bytes; a step is computed again at most "
        f"{cut.visits} times, {cut.recomputed / cut.count:.2f} on average"
    )


def _show_own_blocks(count: int, states: int, state_bytes: int) -> str:
    """What the plan prints of a kernel that goes back by blocks itself: by any of those that may fit beside so many
    states, by nested checkpoints, or by shorter blocks of the usual cut."""
    usual, lengths = cut_steps(count, states), list(near_lengths(count))
    if detect_platform() != "cpu" or not lengths:
        return ""
    own = [Cut(count, size, min(states, -(-count // size))) for size in lengths if 4 * size <= count]
    own = [cut for cut in own if cut.recomputed < usual.recomputed]
    again = [cut.recomputed / count for cut in (*own, *shorter_cuts(count, states))]
    two = [cut for cut in possible_blocks(count, state_bytes, states * state_bytes) if cut.kept <= states]
    again += [1.0 if cut.single else 2.0 for cut in two]
    least, most = f"{min(again):.2f}", f"{max(again):.2f}"
    kept = max(cut.kept for cut in (usual, *own, *two))
    times = least if least == most else f"{least} to {most}"
    return f"; a kernel that goes back by blocks itself keeps up to {kept} and computes steps again {times} times"


def reversed_march(
    step: Step,
    run: March,
    consts: Any,
    carry: Any,
    start: Any,
    cut: Cut,
    rooms: tuple[int, int],
    once: bool,
    storage: AbstractStorage | None = None,
    small: bool = False,
    states: int | None = None,
    worth: int = 0,
) -> Any:
    """The carry after the steps of a cut; `rooms` are bytes for all that steps need, and for nested checkpoints.

    `small`: what all steps need fits anyway, unless under vmap. `states`: how many may be held, what blocks take
    counted; None: those of the cut. `worth`: see `Reversal`.
    """
    leaves, form = jax.tree.flatten((consts, carry, jnp.asarray(start)))
    task = Reversal(step, run, form, cut, storage or Device(), once, rooms, small=small, states=states, worth=worth)
    return jax.tree.unflatten(jax.tree.structure(carry), march_reversibly(task, leaves))

"""The ways that a march may be gone back through, and which of them is taken."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from .._own_derivative import num_shots
from ._base import March, Step, nearness
from ._block import longest_unrolled, march_block, rooms_of
from ._fit import Cut, cost_of, cut_steps, shorter_cuts
from ._peak import Leaves, bytes_kept, bytes_taken, count_bytes
from ._storage import AbstractStorage, Device
from ._twolevel import Nested, cut_blocks, near_lengths, nested

KEPT = 8
"""States' worth of arrays that the derivative of a step may keep; rules with more fit less easily than is thought."""
LIGHT = 4
"""States' worth that JAX's derivative of a step may keep, where it is gone back through from states else."""
OWN = 8
"""A kernel that goes back by blocks itself sooner computes levels again than that it keeps more than a part, one of so
many, of what others keep: fresh memory costs more than levels that stay in cache."""
SHORT = 2
"""The same part, where short blocks are gone back through by steps that stand one after the other in the program."""
SMALL_SUMS = 4
"""Cotangents of constants are small where they fill no more than a part of a state, one of so many."""
BESIDE = 5
"""States' worth of arrays that a kernel may take to go back through a block, beyond those that may be held and what it
takes for a single step: its rings, where levels stay in cache, are hardly more."""


@dataclass(frozen=True, eq=False)
class Reversal:
    """`cut.count` steps whose derivative is computed by the cut.

    `quick` marches through many steps; `form` is the tree of (constants, carry, start). Where the derivative of
    `quick` itself keeps no more than the first of `rooms`, in bytes, or no more than the states of the cut, it is that;
    where nested checkpoints on two levels keep no more than the second, it is theirs. `once`: the run keeps the first
    states; otherwise (a march that is repeated) it keeps none, and the reversal begins with computing them. `near`:
    blocks are those that the kernel of `quick` goes back through itself; the states of the cut are all kept between
    them. `unrolled`: the steps of a block stand one after the other in the program. `small`: a run that is alone keeps
    what its derivative needs, unless that is more than is thought. `states`: how many may be held, of which blocks take
    the bytes that their kernel takes; None: as many as the cut says, and blocks whose levels a kernel holds in its
    cache take none. `worth`: what a kernel's own derivative needs is kept up to so many bytes anyway, where steps cost
    too much to be computed again.
    """

    step: Step
    quick: March
    form: Any
    cut: Cut
    storage: AbstractStorage
    once: bool
    rooms: tuple[int, int]
    near: bool = False
    unrolled: bool = False
    small: bool = False
    states: int | None = None
    worth: int = 0

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of the carry after all steps."""
        consts, carry, start = self.form.unflatten(list(leaves))
        return jax.tree.leaves(self.quick(consts, carry, start, self.cut.count))

    def run_block(self, leaves: Sequence[Any]) -> list[Any]:
        """The same after a block, as it is gone back through where that is done at once."""
        consts, carry, start = self.form.unflatten(list(leaves))
        return jax.tree.leaves(march_block(self.quick, consts, carry, start, self.cut.block, self.near))

    def state_bytes(self, leaves: Sequence[Any]) -> int:
        """Bytes of the carry."""
        return count_bytes(self.form.unflatten(list(leaves))[1])


def without_cut(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> Leaves | None:
    """The march, of its leaves, such that JAX's own derivative of it keeps little enough; None where there is none."""
    shots, own, by_states = num_shots(), _goes_back_itself(task, moving), rooms_of(task.quick) is not None
    alone, size = task.small and shots == 1 and not own, task.state_bytes(leaves)
    if alone and not by_states and KEPT * task.cut.count * size <= task.rooms[0]:
        return task.run
    kept = bytes_kept(task.run, leaves, moving)
    light = not by_states or kept <= LIGHT * task.cut.count * size
    unrolls = _unrolls(task, leaves, moving)
    room = task.rooms[0] // (OWN if own else SHORT if unrolls else 1)
    little = shots * kept <= (room if by_states else max(room, task.worth))
    little |= not own and not unrolls and kept <= task.cut.states * size
    if light and (little or (alone and by_states and not unrolls)):
        return task.run
    return None if by_states else _by_nested_blocks(task, leaves, moving)


def _by_nested_blocks(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> Leaves | None:
    """The march by nested checkpoints; None where they do not fit."""
    size, room = task.state_bytes(leaves), task.rooms[1]
    cut = cut_blocks(task.cut.count, size, nearness(task.quick), room)
    between = cut.kept * size
    if not task.once or not isinstance(task.storage, Device) or between > room:
        return None
    block = replace(task, cut=Cut(min(cut.block, 2 * cut.again), 1, 1))
    if between + bytes_kept(block.run, leaves, moving) > room + room // 16:
        return None
    made = Nested(task.quick, task.form, cut)

    def run(every: Sequence[Any]) -> list[Any]:
        return jax.tree.leaves(nested(made, *task.form.unflatten(list(every))))

    fits = task.states is None or not _goes_back_itself(task, moving) or _room_beside(task, leaves, moving)(run) >= 0
    return run if fits else None


def _goes_back_itself(task: Reversal, moving: Sequence[int]) -> bool:
    """Whether the march's kernel goes back by blocks of levels that it holds in cache."""
    near = nearness(task.quick)
    return near is not None and any(near(size, moving) for size in near_lengths(task.cut.count))


def _unrolls(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> bool:
    """Whether blocks are gone back through by steps that stand one after the other in the program: not where constants
    as large as states have cotangents, which XLA would add up beside each other for all steps at once."""
    consts, carry, _ = task.form.unflatten(list(leaves))
    number = len(jax.tree.leaves(consts))
    sums = count_bytes([leaves[k] for k in moving if k < number])
    return longest_unrolled(task.quick) > 0 and SMALL_SUMS * sums <= count_bytes(carry)


def with_blocks(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> Reversal:
    """The same by the blocks that are gone back through soonest: short ones whose steps stand one after the other in
    the program, or those of the march's kernel, where fewer steps are computed again so."""
    if _unrolls(task, leaves, moving):
        cut = cut_steps(task.cut.count, task.cut.states, longest_unrolled(task.quick))
        return replace(task, cut=cut, unrolled=True)
    if task.states is None:
        return next(_by_own_blocks(task, moving), task)
    return _by_fitting_blocks(task, leaves, moving) if _goes_back_itself(task, moving) else task


def _by_own_blocks(task: Reversal, moving: Sequence[int]) -> Iterator[Reversal]:
    """The same by blocks that the march's kernel goes back through itself, the longest first, with as many states
    between them as there may be."""
    count, near, states = task.cut.count, nearness(task.quick), task.states or task.cut.states
    for size in () if near is None else near_lengths(count):
        cut = Cut(count, size, min(states, -(-count // size)))
        if count >= 4 * size and cut.recomputed < task.cut.recomputed and near is not None and near(size, moving):
            yield replace(task, cut=cut, near=True)


def _by_fitting_blocks(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> Reversal:
    """The same by blocks beside which states between them are held in what the kernel's way back through one leaves."""
    assert task.states is not None
    room, size, fitting = _room_beside(task, leaves, moving), task.state_bytes(leaves), []
    for made in _by_own_blocks(task, moving):
        cut = replace(made.cut, kept=min(made.cut.kept, room(made.run_block) // size))
        if cut.kept > 0 and cut.recomputed < task.cut.recomputed:
            fitting.append(replace(made, cut=cut))
    if fitting:
        return min(fitting, key=lambda made: cost_of(made.cut))
    number = len(jax.tree.leaves(task.form.unflatten(list(leaves))[0]))
    of_consts = [k for k in moving if k < number]
    for cut in shorter_cuts(task.cut.count, task.states):
        task = replace(task, cut=cut)
        if not pulls_whole_blocks(task, leaves, of_consts) or cut.kept * size <= room(task.run_block):
            break
    return task


def _room_beside(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> Callable[[Leaves], int]:
    """How many bytes of the states that may be held are left beside going forth and back by a march."""
    assert task.states is not None
    single = bytes_taken(replace(task, cut=Cut(1, 1, 1)).run, leaves, moving)
    room = (task.states + BESIDE) * task.state_bytes(leaves) + single
    return lambda march: room - bytes_taken(march, leaves, moving)


def pulls_whole_blocks(task: Reversal, own: Sequence[Any], of_consts: Sequence[int]) -> bool:
    """Whether the derivative that the march's kernel has of a block keeps no more than the states in it, or hardly
    anything where it is gone back through sooner from these."""
    carry, number = task.form.unflatten(list(own))[1], len(own) - 1
    first = number - len(jax.tree.leaves(carry))
    moving = [*of_consts, *(k for k in range(first, number) if jnp.issubdtype(jnp.result_type(own[k]), jnp.inexact))]
    room = task.cut.block * count_bytes(carry)
    most = room + room // 16 if rooms_of(task.quick) is None else room // 16
    return task.near or task.cut.block == 1 or bytes_kept(task.run_block, own, moving) <= most

"""The reversal of many steps, block by block, from states that are kept and computed again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._own_derivative import num_shots, own_derivative
from .._tangents import moves, replaced
from ..kernels import fresh_arrays, linear_map
from ._base import March, Step, nearness, plain
from ._block import Back, Block, longest_unrolled, none_after, rooms_of
from ._fit import Cut, cut_steps
from ._legs import Legs
from ._storage import AbstractStorage, Device, make_room
from ._twice import Beside, Pull, pull_back
from ._twolevel import Nested, cut_blocks, near_lengths, nested

LIGHT = 2
"""States' worth that JAX's derivative of a step may keep, where it is gone back through from states else."""
OWN = 8
"""A kernel that goes back by blocks itself sooner computes levels again than that it keeps more than a part, one of so
many, of what others keep: fresh memory costs more than levels that stay in cache."""
SHORT = 2
"""The same part, where short blocks are gone back through by steps that stand one after the other in the program."""
SMALL_SUMS = 4
"""Cotangents of constants are small where they fill no more than a part of a state, one of so many."""


@dataclass(frozen=True, eq=False)
class Reversal:
    """`cut.count` steps whose derivative is computed by the cut.

    `quick` marches through many steps; `form` is the tree of (constants, carry, start). Where the derivative of
    `quick` itself keeps no more than the first of `rooms`, in bytes, it is that; where nested checkpoints on two levels
    keep no more than the second, it is theirs. `once`: the run keeps the first states; otherwise (a march that is
    repeated) it keeps none, and the reversal begins with computing them. `near`: blocks are those that the kernel of
    `quick` goes back through itself, their levels in its cache; the states of the cut are all kept between them.
    `unrolled`: the steps of a block stand one after the other in the program. `small`: a run that is alone keeps what
    its derivative needs, without asking how much that is.
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

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of the carry after all steps."""
        consts, carry, start = self.form.unflatten(list(leaves))
        return jax.tree.leaves(self.quick(consts, carry, start, self.cut.count))


@own_derivative
def march_reversibly(task: Reversal, leaves: list[Any]) -> list[Any]:
    """The march on the leaves of constants, carry and start."""
    return task.run(leaves)


def _push(task: Reversal, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    (leaves,), (along,) = primals, tangents
    moving = [k for k, tangent in enumerate(along) if moves(tangent)]
    directions = [along[k] for k in moving]

    if (simple := _simpler(task, leaves, moving)) is not None:
        return jax.jvp(
            lambda *given: simple(replaced(leaves, moving, given)), tuple(leaves[k] for k in moving), tuple(directions)
        )
    made = _by_unrolled_blocks(task) if _unrolls(task, leaves, moving) else _by_near_blocks(task)
    if task.once and task.storage.traced:
        (out, _), (moved, _) = _push_keeping(made, primals, tangents)
        return out, moved
    out = march_reversibly(task, leaves)
    return out, _moved(made, leaves, along, out, None)


march_reversibly.defjvp(_push)


@own_derivative
def _keeping(task: Reversal, leaves: list[Any]) -> tuple[list[Any], Any]:
    """The march and the room with the states kept on the way; the room counts as constant where it is differentiated:
    what is made of it is differentiated by the leaves."""
    return _run_keeping(task, leaves)


def _push_keeping(task: Reversal, primals: Any, tangents: Any) -> Any:
    (leaves,), (along,) = primals, tangents
    out, room = _keeping(task, leaves)
    return (out, room), (_moved(task, leaves, along, out, room), jax.tree.map(_no_tangent, room))


_keeping.defjvp(_push_keeping)


def _no_tangent(array: Any) -> Any:
    inexact = jnp.issubdtype(array.dtype, jnp.inexact)
    return jnp.zeros_like(array) if inexact else np.zeros(array.shape, jax.dtypes.float0)


def _moved(task: Reversal, leaves: list[Any], along: Sequence[Any], out: Sequence[Any], room: Any) -> list[Any]:
    """The tangents of what the march comes to, a linear map that is transposed by the reversal."""
    moving, count = tuple(k for k, tangent in enumerate(along) if moves(tangent)), len(leaves)
    begun, form = jax.tree.flatten(room)
    pull = _pull_of(task, moving)

    def forward(kept: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        def moved(*some: Any) -> list[Any]:
            return _inexact(task.run(replaced(kept[:count], moving, some)))

        return jax.jvp(moved, tuple(kept[k] for k in moving), tuple(given))[1]

    def backward(kept: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        return pull_back(pull, list(kept[:count]), form.unflatten(kept[count:]), list(cotangents))

    found = iter(linear_map(forward, backward, [*leaves, *begun], [along[k] for k in moving]))
    inexact = [jnp.issubdtype(one.dtype, jnp.inexact) for one in out]
    return [next(found) if here else _no_tangent(one) for one, here in zip(out, inexact, strict=True)]


def _pull_of(task: Reversal, moving: tuple[int, ...]) -> Pull:
    """How cotangents are pulled back, with states outside of the program only where that is not differentiated."""
    outside = not task.storage.traced
    inner = replace(task, storage=Device()) if outside else task
    return Pull(
        lambda own, kept, back: _reverse(task, list(own), kept, moving, list(back)),
        lambda own, back: _reverse(inner, list(own), None, moving, list(back)),
        partial(_along, inner, moving),
        _pull_of(inner, moving) if outside else None,
    )


def _along(task: Reversal, moving: tuple[int, ...], leaves: list[Any], tangents: list[Any]) -> list[Any]:
    """The tangents after all steps, by a march of them beside the state that is reversed as this one is."""
    beside = Beside(task.step, task.form, moving)
    start = beside.start(leaves, tangents)
    given, form = jax.tree.flatten(start)
    rooms = (2 * task.rooms[0], 2 * task.rooms[1])
    cut = cut_steps(task.cut.count, task.cut.kept) if task.near else task.cut
    made = replace(task, step=beside.step, quick=plain_march(beside.step), form=form, cut=cut, once=True, rooms=rooms)
    made = replace(made, near=False, unrolled=False)
    return jax.tree.unflatten(jax.tree.structure(start[1]), march_reversibly(made, given))[1]


def _simpler(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> Callable[[Any], list[Any]] | None:
    """The march, of its leaves, such that JAX's own derivative of it keeps little enough; None where there is none."""
    shots, own, by_states = num_shots(), _goes_back_itself(task), rooms_of(task.quick) is not None
    alone = task.small and shots == 1 and not own
    if alone and not by_states:
        return task.run
    size = count_bytes(task.form.unflatten(list(leaves))[1])
    kept = bytes_kept(task, leaves, moving, task.cut.count)
    light = not by_states or kept <= LIGHT * task.cut.count * size
    unrolls = _unrolls(task, leaves, moving)
    little = shots * kept <= task.rooms[0] // (OWN if own else SHORT if unrolls else 1)
    if light and (little or (alone and not unrolls)):
        return task.run
    if by_states:
        return None
    cut = cut_blocks(task.cut.count, size, nearness(task.quick), task.rooms[1])
    between = cut.kept * size
    if not task.once or not isinstance(task.storage, Device) or between > task.rooms[1]:
        return None
    if between + bytes_kept(task, leaves, moving, min(cut.block, 2 * cut.again)) > task.rooms[1] + task.rooms[1] // 16:
        return None
    made = Nested(task.quick, task.form, cut)
    return lambda every: jax.tree.leaves(nested(made, *task.form.unflatten(every)))


def _goes_back_itself(task: Reversal) -> bool:
    """Whether the march's kernel goes back by blocks of levels that it holds in cache."""
    near = nearness(task.quick)
    return near is not None and any(near(size, own=True) for size in near_lengths(task.cut.count))


def _unrolls(task: Reversal, leaves: Sequence[Any], moving: Sequence[int]) -> bool:
    """Whether blocks are gone back through by steps that stand one after the other in the program: not where constants
    as large as states have cotangents, which XLA would add up beside each other for all steps at once."""
    consts, carry, _ = task.form.unflatten(list(leaves))
    number = len(jax.tree.leaves(consts))
    sums = count_bytes([leaves[k] for k in moving if k < number])
    return longest_unrolled(task.quick) > 0 and SMALL_SUMS * sums <= count_bytes(carry)


def _by_unrolled_blocks(task: Reversal) -> Reversal:
    """The same by short blocks whose steps stand one after the other in the program."""
    cut = cut_steps(task.cut.count, task.cut.states, longest_unrolled(task.quick))
    return replace(task, cut=cut, unrolled=True)


def _by_near_blocks(task: Reversal) -> Reversal:
    """The same by blocks that the march's kernel goes back through itself, where fewer steps are computed again so."""
    cut, near = task.cut, nearness(task.quick)
    if near is None:
        return task
    for size in near_lengths(cut.count):
        made = Cut(cut.count, size, min(cut.states, -(-cut.count // size)))
        if cut.count >= 4 * size and made.recomputed < cut.recomputed and near(size, own=True):
            return replace(task, cut=made, near=True)
    return task


def bytes_kept(task: Reversal, leaves: Sequence[Any], moving: Sequence[int], count: int) -> int:
    """What the derivative of so many steps as JAX and their kernel take it keeps, in bytes, beside what it is given."""

    def pull(*given: Any) -> Any:
        def run(*moved: Any) -> list[Any]:
            return _inexact(replace(task, cut=Cut(count, 1, 1)).run(replaced(given, moving, moved)))

        return jax.vjp(run, *(given[k] for k in moving))[1]

    shapes = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in leaves]
    return max(0, count_bytes(jax.eval_shape(pull, *shapes)) - count_bytes(shapes))


def count_bytes(tree: Any) -> int:
    """Bytes of all arrays in a tree."""
    return sum(int(np.prod(jnp.shape(x))) * jnp.result_type(x).itemsize for x in jax.tree.leaves(tree))


def _inexact(leaves: Sequence[Any]) -> list[Any]:
    return [one for one in leaves if jnp.issubdtype(jnp.result_type(one), jnp.inexact)]


def _run_keeping(task: Reversal, leaves: Sequence[Any]) -> tuple[list[Any], Any]:
    """The leaves of the carry after all steps, and the room with the states kept on the way."""
    legs, cut = _legs_of(task, leaves), task.cut
    room, state = legs.descend()
    reached = int(cut.schedule.length[: cut.descent].sum())
    if reached < cut.blocks - 1:
        state = legs.advance(jnp.asarray(reached, legs.start.dtype), cut.blocks - 1 - reached, state)
    state = task.quick(legs.consts, state, legs.start + (cut.blocks - 1) * cut.block, cut.last)
    return jax.tree.leaves(state), room


def _legs_of(task: Reversal, leaves: Sequence[Any]) -> Legs:
    return Legs(task.quick, task.cut, task.storage, *task.form.unflatten(list(leaves)))


def _reverse(task: Reversal, own: list[Any], room: Any, moving: tuple[int, ...], cotangents: list[Any]) -> list[Any]:
    """The transpose of the derivative: blocks reversed one after the other, states computed again from those kept."""
    legs, cut, storage = _legs_of(task, own), task.cut, task.storage
    number = len(jax.tree.leaves(legs.consts))
    of_consts = [k for k in moving if k < number]
    if room is None:
        room = legs.descend()[0]
    changing = legs.again or not storage.traced
    fixed, back_through, buffer = _way_back(task, own, of_consts)

    def reverse(held: Any, entry: Any, steps: int | None) -> tuple[Any, None]:
        places, state, *moved = held
        length, begin, way = entry
        places = places if changing else room
        if not task.unrolled:
            places, state = legs.run(places, way)
        steps = length if steps is None else steps
        moved = back_through(steps)(state, legs.start + begin * cut.block, steps, *moved)
        if task.unrolled:  # the state before the next block is taken out of the buffer before its turn
            late = none_after(moved[1:], legs.start.dtype)
            places, state = legs.run(places, jax.tree.map(lambda number: number + late, way))
        return (places if changing else (), state if task.unrolled else (), *moved), None

    first, entries = legs.entries(task.unrolled)
    places, state = legs.run(room, first) if task.unrolled else (room, ())
    sums = [jnp.zeros_like(own[k]) for k in of_consts]
    held = (places if changing else (), state, buffer, cotangents, sums)
    even = cut.last == cut.block
    if fixed and not even:
        held, _ = reverse(held, jax.tree.map(lambda one: one[0], entries), cut.last)
        entries = jax.tree.map(lambda one: one[1:], entries)
    steps = cut.block if fixed or even else None
    (places, _, _, back, sums), _ = lax.scan(lambda held, entry: reverse(held, entry, steps), held, entries)
    if not storage.traced:
        storage.close(places)
    inexact = [k for k, x in enumerate(jax.tree.leaves(legs.carry)) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    found = dict(zip(of_consts, sums, strict=True)) | {number + k: x for k, x in zip(inexact, back, strict=True)}
    return [found[k] for k in moving]


def _way_back(task: Reversal, own: Sequence[Any], of_consts: Sequence[int]) -> tuple[bool, Callable[[Any], Back], Any]:
    """Whether the steps of a block have to be known before it is compiled, how cotangents go back through so many, and
    the arrays that this takes along."""
    consts, carry, _ = task.form.unflatten(list(own))
    block, cut, rooms = Block(task.step, task.quick, consts, of_consts), task.cut, rooms_of(task.quick)
    if task.unrolled:
        assert rooms is not None
        leaves, form = jax.tree.flatten(jax.eval_shape(lambda: [rooms.fresh(carry)] * (cut.block - 1)))
        return True, block.unrolled, form.unflatten(fresh_arrays(leaves, jax.tree.leaves(carry)[0], blank=True))
    if _pulls_whole_blocks(task, own, of_consts):
        return True, partial(block.whole, near=task.near), ()
    return False, lambda _: block.looped(), make_room(carry, cut.block) if cut.block > 1 else ()


def _pulls_whole_blocks(task: Reversal, own: Sequence[Any], of_consts: Sequence[int]) -> bool:
    """Whether the derivative that the march's kernel has of a block keeps no more than the states in it, or hardly
    anything where it is gone back through sooner from these."""
    carry, number = task.form.unflatten(list(own))[1], len(own) - 1
    first = number - len(jax.tree.leaves(carry))
    moving = [*of_consts, *(k for k in range(first, number) if jnp.issubdtype(jnp.result_type(own[k]), jnp.inexact))]
    room = task.cut.block * count_bytes(carry)
    most = room + room // 16 if rooms_of(task.quick) is None else room // 16
    return task.near or task.cut.block == 1 or bytes_kept(task, own, moving, task.cut.block) <= most


def plain_march(step: Step) -> March:
    """A march by steps alone."""
    return partial(plain, step)

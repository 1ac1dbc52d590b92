"""The reversal of many steps, block by block, from states that are kept and computed again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..kernels import fresh_arrays, linear_map
from ._base import March, Step, plain
from ._block import Back, Block, none_after, rooms_of
from ._fit import cut_steps
from ._legs import Legs
from ._peak import differentiable
from ._storage import Device, make_room
from ._twice import Beside, Pull, pull_back
from ._ways import Reversal, pulls_whole_blocks, with_blocks, without_cut


@own_derivative
def march_reversibly(task: Reversal, leaves: list[Any]) -> list[Any]:
    """The march on the leaves of constants, carry and start."""
    return task.run(leaves)


def _push(task: Reversal, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    (leaves,), (along,) = primals, tangents
    moving = [k for k, tangent in enumerate(along) if moves(tangent)]
    directions = [along[k] for k in moving]

    if (simple := without_cut(task, leaves, moving)) is not None:
        return jax.jvp(
            lambda *given: simple(replaced(leaves, moving, given)), tuple(leaves[k] for k in moving), tuple(directions)
        )
    made = with_blocks(task, leaves, moving)
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
            return differentiable(task.run(replaced(kept[:count], moving, some)))

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
    cut = cut_steps(task.cut.count, task.states or task.cut.kept) if task.near else task.cut
    made = replace(task, step=beside.step, quick=plain_march(beside.step), form=form, cut=cut, once=True, rooms=rooms)
    made = replace(made, near=False, unrolled=False)
    return jax.tree.unflatten(jax.tree.structure(start[1]), march_reversibly(made, given))[1]


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
            first, stop, source, *on = way  # not added to lengths of loops, which vmap would make many
            late = none_after(moved[1:], legs.start.dtype)
            places, state = legs.run(places, (first, stop, source + late, *on))
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
    consts, carry, start = task.form.unflatten(list(own))
    block, cut, rooms = Block(task.step, task.quick, consts, of_consts), task.cut, rooms_of(task.quick)
    if task.unrolled:
        assert rooms is not None
        leaves, form = jax.tree.flatten(jax.eval_shape(lambda: [rooms.fresh(carry)] * (cut.block - 1)))
        return True, block.unrolled, form.unflatten(fresh_arrays(leaves, jax.tree.leaves(carry)[0], blank=True))
    if pulls_whole_blocks(task, own, of_consts):
        return True, partial(block.whole, near=task.near), ()
    read = block.read_of(carry, start)
    leaves = jax.tree.leaves(carry)
    return False, lambda _: block.looped(read), make_room([leaves[k] for k in read], cut.block)


def plain_march(step: Step) -> March:
    """A march by steps alone."""
    return partial(plain, step)

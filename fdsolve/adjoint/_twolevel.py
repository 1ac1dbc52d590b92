"""Nested checkpoints on two levels: about √T states between blocks, and within a block all that its steps need."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import isqrt
from operator import ge
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..kernels import detect_platform
from ._base import March, Quick

NEAR, FAR = 3 * 2**22, 2**24
"""Bytes of levels that lie near: a kernel that goes back block by block is asked for no longer blocks; and of those
that lie near enough where there is no room for states between such."""
LEAST = 8
"""Levels in such a block, however large they are."""
NEARBY = ((14, range(8, 17)), (8, range(7, 10)), (6, range(5, 8)), (4, range(4, 6)), (3, range(3, 4)))
"""Lengths of blocks whose levels a kernel holds in its cache, the longest first: the usual length, and those about it
of which a divisor of all steps is taken instead, or else first one by which they come to the fewest blocks."""
MOST = 32
"""Levels in longer blocks that a kernel may hold in its cache, where there is no room for states between short ones."""
FEW, LITTLE = 4, 2**22
"""The part of the room, one of so many, which states before such blocks may fill so that no others are needed; and the
most bytes of many: more are fresh memory, dearer than the levels of longer blocks that are written down."""


@dataclass(frozen=True)
class Blocks:
    """`count` steps in blocks of `block`; where a march goes back by blocks itself, these are of `inner` steps.

    `single`: the march's own blocks are enough, since hardly more states lie between them, or they are few bytes.
    """

    count: int
    block: int
    inner: int
    single: bool

    @property
    def again(self) -> int:
        """The steps of which all levels are computed again at a time."""
        return self.inner if self.single else self.block

    @property
    def kept(self) -> int:
        """States kept between blocks."""
        return self.count // self.again


@dataclass(frozen=True, eq=False)
class Nested:
    """A march cut into blocks; `form` is the tree of (constants, carry, start)."""

    quick: March
    form: Any
    cut: Blocks


def cut_blocks(count: int, state_bytes: int, near: Callable[[int], bool] | None = None, room: int = 0) -> Blocks:
    """About √count blocks, and within them blocks that lie near: such as `near` holds of the number of their levels.

    `room` are bytes for the states between them.
    """
    block = block_length(count)
    usual, wide = (min(block, max(LEAST, most // max(state_bytes, 1))) for most in (NEAR, FAR))
    inner = next((size for size in near_lengths(count) if near is not None and near(size)), usual)
    states = count // inner
    few = inner < LEAST or states <= 2 * FEW * block or states * state_bytes <= LITTLE
    if 2 * inner >= block or (few and FEW * states * state_bytes <= room):
        return Blocks(count, block, inner, True)
    # Longer blocks are dearer than short ones, less so than all steps once more.
    long = block if block <= MOST and near is not None and near(block) else wide
    return Blocks(count, block, long, True) if 2 * long >= block else Blocks(count, block, inner, False)


def two_level_room(count: int, state_bytes: int) -> int:
    """The room for states before blocks of about √count steps, and of those within one of them."""
    block = block_length(count)
    return FEW * (count // block + block) * state_bytes


def possible_blocks(count: int, state_bytes: int, room: int) -> list[Blocks]:
    """The blocks of a kernel that goes back through them itself, whatever of them lies near."""
    nears = (None, *(partial(ge, most) for most in (MOST, *near_lengths(count))))
    return [cut_blocks(count, state_bytes, near, room) for near in nears]


def show_blocks(count: int, state_bytes: int, room: int = 0) -> str:
    """What the plan prints of them."""
    if detect_platform() != "cpu" or count < 2 * LEAST:
        return ""
    made = possible_blocks(count, state_bytes, room)
    few, many = min(one.kept for one in made), max(one.kept for one in made)
    kept = f"{few} to {many}" if few < many else str(few)
    times = "once" if all(one.single for one in made) else "once or twice"
    return (
        f"; a kernel that goes back by blocks itself keeps {kept} and computes steps again {times}, up to "
        f"{max(one.inner for one in made)} levels at a time in its cache or, on a line, in memory"
    )


def near_lengths(count: int) -> Iterator[int]:
    """Lengths for blocks of so many steps whose levels are to lie near, the best first."""
    for usual, sizes in NEARBY:
        able = [size for size in sizes if 2 * size <= count]
        divisors = [size for size in able if count % size == 0]
        fewest = min((-(-count // size) for size in able), default=0)
        best = divisors or [size for size in able if -(-count // size) == fewest]
        lengths = {min(best, key=lambda size: abs(size - usual)) if best else 0, 0 if divisors else usual}
        yield from sorted(lengths & set(able), reverse=True)


def block_length(count: int) -> int:
    """Steps in a block: near √count, where it can be a divisor."""
    root = max(1, isqrt(count))
    near = [size for size in range((root + 1) // 2, 2 * root + 1) if count % size == 0]
    return min(near, key=lambda size: size + count // size) if near else root


@own_derivative
def march_nested(task: Nested, leaves: list[Any]) -> list[Any]:
    """The march on the leaves of constants, carry and start; its derivative is that of nested scans."""
    consts, carry, start = task.form.unflatten(leaves)
    return jax.tree.leaves(task.quick(consts, carry, start, task.cut.count))


def _push(task: Nested, primals: Any, tangents: Any) -> Any:
    (leaves,), (along,) = primals, tangents
    moving = [k for k, tangent in enumerate(along) if moves(tangent)]

    def run(*given: Any) -> list[Any]:
        return jax.tree.leaves(nested(task, *task.form.unflatten(replaced(leaves, moving, given))))

    return jax.jvp(run, tuple(leaves[k] for k in moving), tuple(along[k] for k in moving))


march_nested.defjvp(_push)


def nested(task: Nested, consts: Any, carry: Any, start: Any) -> Any:
    """The carry after all steps, block by block."""
    start, cut = jnp.asarray(start), task.cut
    if cut.single:
        found = _by_kernel(task, consts, carry, start, cut.count)
        if found is not None:
            return found
    blocks = cut.count // cut.block

    @partial(jax.checkpoint, prevent_cse=False)
    def block(consts: Any, carry: Any, begin: Any) -> Any:
        found = None if cut.single else _by_kernel(task, consts, carry, begin, cut.block)
        return task.quick(consts, carry, begin, cut.block) if found is None else found

    begins = start + jnp.asarray(np.arange(blocks) * cut.block, start.dtype)
    carry = lax.scan(lambda c, begin: (block(consts, c, begin), None), carry, begins)[0]
    rest = cut.count - blocks * cut.block
    return task.quick(consts, carry, start + blocks * cut.block, rest) if rest else carry


def _by_kernel(task: Nested, consts: Any, carry: Any, start: Any, count: int) -> Any:
    """The march by a kernel whose derivative goes back block by block; None where there is none."""
    inner = task.cut.inner
    if not isinstance(task.quick, Quick) or inner < 2 or count < 2 * inner:
        return None
    return task.quick.by_blocks(consts, carry, start, count, inner)

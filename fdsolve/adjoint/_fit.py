"""How many steps are reversed with few states: blocks of steps, and which states between blocks are kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isqrt

from ._revolve import Schedule, least_forward, least_visits, make_schedule

EVEN = 16
"""Blocks of one length may cost more, one part in so many."""


@dataclass(frozen=True)
class Cut:
    """`count` steps in blocks of `block`, the last one perhaps shorter; `kept` states before blocks are kept.

    A block is reversed with all its states at hand; which blocks are marched through again is the binomial optimum.
    """

    count: int
    block: int
    kept: int

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.count // self.block)

    @property
    def last(self) -> int:
        """Steps in the last block."""
        return self.count - (self.blocks - 1) * self.block

    @property
    def states(self) -> int:
        """States held at once, those within a block among them."""
        return self.kept + (self.block if self.block > 1 else 0)

    @cached_property
    def schedule(self) -> Schedule:
        """Which blocks are marched through again, and when."""
        return make_schedule(self.blocks, self.kept)

    @property
    def descent(self) -> int:
        """Legs before the first block is reversed: they are part of the run itself."""
        return int(self.schedule.first[1])

    @property
    def recomputed(self) -> int:
        """Steps computed again, those within blocks among them; not what the derivative of a step needs."""
        legs = self.schedule.forward - int(self.schedule.length[: self.descent].sum())
        return legs * self.block + self.count - self.blocks

    @property
    def visits(self) -> int:
        """How often a step is computed again at most."""
        return max(least_visits(self.blocks, self.kept) - 1 + (self.block > 1), int(self.recomputed > 0))


@lru_cache(maxsize=256)
def cut_steps(count: int, states: int, longest: int | None = None) -> Cut:
    """The cut of `count` steps with the fewest steps computed again, holding at most so many states (at least 1), in
    blocks no longer than `longest`.

    A block counts as one step beside its own, for what it costs to begin it; where that makes no difference, blocks
    are long, since kernels march through many steps sooner. Where hardly more steps are computed again, all blocks are
    of one length, which is known then when they are compiled.
    """
    sizes = {1, *range(2, min(states - 1, 16) + 1), states // 2, states // 3, states // 4}
    sizes |= {size for k in range(2, 5) for size in (isqrt(count) // k, isqrt(count) * k)}
    sizes |= set(range(max(2, isqrt(count) - 8), isqrt(count) + 9)) | {_shortest(count, states)}
    best = Cut(count, 1, min(states, count))
    limit = min(states, count) if longest is None else min(states, count, longest + 1)
    able = [size for size in sorted(sizes) if 1 < size < limit]
    cuts = [Cut(count, size, min(states - size, -(-count // size))) for size in able]
    for made in cuts:
        if cost_of(made) <= cost_of(best):
            best = made
    most = cost_of(best) + cost_of(best) // EVEN
    even = [made for made in cuts if made.last == made.block and cost_of(made) <= most]
    return min(even, key=cost_of, default=best)


def _shortest(count: int, states: int) -> int:
    """The shortest blocks such that all states between them are kept; 1 where there are none."""
    for size in range(2, min(states, isqrt(count) + 2)):
        if -(-count // size) + size <= states:
            return size
    return 1


def shorter_cuts(count: int, states: int) -> Iterator[Cut]:
    """The cut of so many steps, and others by shorter and shorter blocks, down to single steps."""
    cut = cut_steps(count, states)
    yield cut
    while cut.block > 1:
        cut = cut_steps(count, states, 3 * cut.block // 4)
        yield cut


def cost_of(cut: Cut) -> int:
    """Steps computed again, and a step for each block, for what it costs to begin it."""
    again = max(0, least_forward(cut.blocks, cut.kept) - (cut.blocks - 1)) * cut.block
    return again + cut.count - cut.blocks + cut.blocks

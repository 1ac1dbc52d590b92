"""How a march is cut: levels a pass, tiles along the first axis, threads; or levels computed whole."""

from dataclasses import dataclass, replace
from math import prod

from ._layout import Layout
from ._processors import is_far, num_threads, shared_cache

FEW = 4
"""Levels a pass, up to which they may be done sooner whole."""
MANY = 36
"""Operations of a level whose turns in tiles take longer than to reach a cache that is far."""
PASS = 64
"""Levels computed whole that have tables in common."""
SMALL = 2**14
"""Points below which one thread does all."""
WIDTH = 32
"""Rows of the second axis in a block."""
STAYS = 8
"""The part of the shared cache, one of so many, in which a state stays anyway: more than a few levels a pass of it
only cost turns at which not all levels have a row."""


@dataclass(frozen=True)
class Tiling:
    """How a march is cut: levels a pass at most, tiles along the first axis, threads.

    `width` is how many rows of the second axis a block has (0: there are none, or the program cannot be cut so). Or a
    level is computed `whole`, by all threads, before any begins the next one.
    """

    levels: int
    parts: int
    threads: int
    width: int = 0
    whole: bool = False


def choose_tiling(layout: Layout, steps: int, blocked: Layout | None = None) -> Tiling:
    """A tile for each thread, and as many levels a pass as its share of the shared cache holds rings of: at most 16, 4
    where the state stays in that cache anyway, 2 in three dimensions, where much lies beside tiles; as few as need no
    copy of the state in one dimension. Or what the wavefront of a block needs, where planes are so large that few
    levels fit, or levels stand where the state does."""
    points = prod(layout.program.arrays[0].shape)
    rows = layout.size(0)
    threads = num_threads() if points >= SMALL else 1
    parts = max(1, min(threads, rows // layout.schedule.rows.least))
    levels, room = 1, shared_cache() // (4 * threads)
    state = sum(kept * layout.bytes_of(one.name) for one, kept in layout.program.state)
    high, most = (16, (2, 4, 8, 16) if state > shared_cache() // STAYS else (2, 4)) if layout.rank < 3 else (8, (2,))
    for more in most:
        if more <= steps and layout.ring_bytes(more) <= room and high * layout.halo(more) <= rows // parts:
            levels = more
    if rows == 1:
        levels = max(levels, min(layout.schedule.fewest, steps))
    large = layout.ring_bytes(2 * levels) > room
    beside = blocked is not None and blocked.beside_bytes(1, 1) > 0  # it must be moved too
    wide = not beside and layout.size(1) >= 2 * WIDTH
    if blocked is not None and (wide or (large and levels <= (1 if beside else 2))):
        for more, much in ((8, room), (4, 2 * room)):
            unit = blocked.schedule.least
            fits = more % unit == 0 and more <= steps and blocked.block_bytes(more, WIDTH) <= much
            if fits and 16 * blocked.halo(more) <= 2 * rows // parts:
                return Tiling(more, parts, min(threads, parts), WIDTH)
    return Tiling(levels, parts, min(threads, parts))


def or_whole(tiling: Tiling, steps: int, whole: Layout | None) -> Tiling:
    """A tiling, or levels computed whole where so few go through tiles at once that these are done sooner: in space
    where they stay in the cache that threads share with much else, in two dimensions where they just do, or in half of
    it if that is far and there are few rules, whose rows are soon done in turns."""
    if whole is None or tiling.width or steps <= whole.schedule.deepest:
        return tiling
    part = 4 if whole.rank == 3 else 2 if is_far() and len(whole.program.operations) < MANY else 1
    stays = tiling.levels * whole.whole_bytes() <= shared_cache() // part
    return replace(tiling, levels=min(steps, PASS), whole=True) if stays or tiling.levels == 1 else tiling


def fitted(layout: Layout, steps: int, tiling: Tiling) -> tuple[int, Tiling]:
    """The number of passes, and the tiling as far as it can be: tiles no lower than the rows beside them."""
    rows, least = layout.size(0), layout.schedule.least
    if layout.schedule.depths is not None:
        passes = min(-(-steps // tiling.levels), steps // (1 + layout.schedule.deepest))
        parts = max(1, min(tiling.threads, rows // layout.schedule.rows.least))
        return passes, Tiling(-(-steps // passes), parts, parts, whole=True)
    unit = least if layout.schedule.blocks is not None else 1
    levels = max(unit, min(tiling.levels, steps) // unit * unit)
    while layout.program.wraps and levels > least and layout.halo(levels) > rows:
        levels -= unit
    passes = max(1, min(-(-steps // levels), steps // least))
    levels = -(-steps // unit // passes) * unit
    parts = max(1, min(tiling.parts, rows // layout.least_rows(levels)))
    return passes, Tiling(levels, parts, min(tiling.threads, parts), tiling.width)

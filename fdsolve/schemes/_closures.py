"""Closures: the rows of a finite difference next to a wall beyond which nothing can be read."""

from dataclasses import dataclass
from functools import cache

from ._sbp import summation_by_parts

WIDEST = 8
"""The highest order for which first derivatives close by summation by parts."""


@dataclass(frozen=True)
class Closure:
    """One row: `offsets` in steps, its `order`, and `weights` in steps where they are not those of the offsets."""

    offsets: tuple[float, ...]
    order: int
    weights: tuple[float, ...] | None = None


def central_reach(derivative: int, order: int, staggered: bool) -> int:
    """How many points on either side a central difference reads.

    >>> central_reach(1, 4, False), central_reach(2, 4, False), central_reach(1, 4, True)
    (2, 2, 2)
    """
    odd = derivative % 2
    return (derivative + odd) // 2 + order // 2 - (odd if staggered else 1)


def central_offsets(derivative: int, order: int, staggered: bool) -> tuple[float, ...]:
    """Offsets in steps of the central difference of a derivative: whole steps, or halves from a staggered place.

    >>> central_offsets(1, 4, False)
    (-2.0, -1.0, 0.0, 1.0, 2.0)
    >>> central_offsets(1, 2, True)
    (-0.5, 0.5)
    """
    return _symmetric(central_reach(derivative, order, staggered), staggered)


def _symmetric(reach: int, staggered: bool) -> tuple[float, ...]:
    if staggered:
        return tuple(k + 0.5 for k in range(-reach, reach))
    return tuple(float(k) for k in range(-reach, reach + 1))


def apart_rows(derivative: int, order: int, staggered: bool) -> int:
    """How many rows next to a wall a derivative treats apart, beyond those whose central difference leaves the grid."""
    return _block(min(order, WIDEST)) if derivative == 1 and not staggered else 0


def _block(order: int) -> int:
    return order if order > 2 else 0


@cache
def close(
    derivative: int, order: int, staggered: bool, room: tuple[int | None, ...], count: int, ends: bool
) -> Closure | None:
    """The row of a derivative at a place with `room` half steps to the lower and the upper wall (None: no matter).

    None means the central difference: it fits, or nothing does and the read beyond the wall is an error. `count` is
    how many points the view has along the axis; `ends` says whether the places that have points on one side only
    close as well. What each closure rests on stands in docs/catalogue/operators.md; the tests compute its spectra.

    - First derivatives between like places: summation by parts, order/2 at the wall.
    - First derivatives between points and faces, and second ones of a view with a value on the outermost point: the
      narrower central difference that fits where it is of order 4 or more, else the skewed one of order 4 (or the
      order itself, if less). Skewed ones of order 5 and more put eigenvalues of the wave equation off the axis.
    - Higher derivatives: the narrower central difference that fits.
    """
    if any(halves is not None and halves < 0 for halves in room):
        return None
    left, right = (None if halves is None else (halves + staggered) // 2 for halves in room)
    if derivative == 1 and not staggered:
        row = _by_parts(order, left, right, count)
        if row is not None:
            return row
    full = central_reach(derivative, order, staggered)
    fit = min(side for side in (left, right, full) if side is not None)
    if fit == full:
        return None
    central = 2 * (fit - central_reach(derivative, 2, staggered)) + 2
    skewed = _skewed_order(derivative, order, staggered, left, right, count)
    if central >= skewed:
        return Closure(_symmetric(fit, staggered), central) if central > 0 else None
    if fit == 0 and not (ends and staggered):
        return None
    return _skewed(derivative, skewed, staggered, left, right)


def _skewed_order(derivative: int, order: int, staggered: bool, left: int | None, right: int | None, count: int) -> int:
    if derivative != (1 if staggered else 2):
        return 0
    between = (left + right + (not staggered)) if left is not None and right is not None else count
    return min(order, 4, between - derivative)


def _skewed(derivative: int, order: int, staggered: bool, left: int | None, right: int | None) -> Closure:
    """The difference over the outermost points of the nearer wall."""
    points = derivative + order
    half = 0.5 if staggered else 0.0
    if right is None or (left is not None and left <= right):
        assert left is not None
        return Closure(tuple(k - left + half for k in range(points)), order)
    return Closure(tuple(right - half - k for k in reversed(range(points))), order)


def _by_parts(order: int, left: int | None, right: int | None, count: int) -> Closure | None:
    """The row of the summation-by-parts operator, of the highest order whose two blocks fit between the walls."""
    fitting = [p for p in range(2, min(order, WIDEST) + 1, 2) if count >= 2 * max(_block(p), 1)]
    if not fitting:
        return None
    operator = summation_by_parts(fitting[-1])
    block = operator.norm.size
    if left is not None and left < block and (right is None or left <= right):
        row, sign, here = operator.rows[left], 1, left
    elif right is not None and right < block:
        row, sign, here = operator.rows[right], -1, right
    else:
        # Too few points for the order asked for: the middle is of the order that the blocks are of.
        narrowed = fitting[-1] < min(order, WIDEST) and left is not None and right is not None
        return Closure(_symmetric(fitting[-1] // 2, False), fitting[-1]) if narrowed else None
    # A weight of zero reads nothing: short rows stay short.
    kept = [(sign * float(k - here), sign * float(w)) for k, w in enumerate(row) if abs(w) > 1e-13]
    kept.sort()
    offsets, weights = zip(*kept, strict=True)
    return Closure(offsets, operator.closed, weights)

"""Where a hole is seen from outside the grid: across seams again, and behind walls as far as one looks."""

from itertools import product

import numpy as np

from ..region import Box
from ._phases import Hole


def images(hole: Hole, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """How far from a point of a hole its images are across the ends of rings, itself included."""
    return list(product(*((0, -n, n) if axis in hole.rings else (0,) for axis, n in enumerate(shape))))


def points_around(hole: Hole, shape: tuple[int, ...], box: Box) -> np.ndarray:
    """The mask of a hole of fixed shape over a box, which may leave the grid: rings go round, and what lies beyond a
    wall belongs to the hole where the point on it does."""
    whole = hole.points.to_mask(Box.of_shape(shape))
    places = [
        np.arange(start, stop) % n if axis in hole.rings else np.clip(np.arange(start, stop), 0, n - 1)
        for axis, (start, stop, n) in enumerate(zip(box.start, box.stop, shape, strict=True))
    ]
    return whole[np.ix_(*places)]

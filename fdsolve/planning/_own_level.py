"""What a level reads of itself: whether it fades along the way in which its points are computed."""

from itertools import product

import numpy as np

WAVENUMBERS = {1: 129, 2: 25, 3: 11, 4: 7}
SMALL = 1e-9
"""A determinant that counts as zero, relative to the largest."""


def all_waves(ndim: int) -> np.ndarray:
    """Phases a step from −π to π along each axis, both included, of shape (waves, axes)."""
    one = np.linspace(-np.pi, np.pi, WAVENUMBERS[ndim])
    return np.array(list(product(one, repeat=ndim)))


def fades(symbol: np.ndarray, ndim: int) -> np.ndarray:
    """For the symbol B of what a level reads of itself, (…, waves, fields, fields) on `all_waves`: whether (I − B)⁻¹ is
    a sum over the points that come before, whose weights fade with the distance.

    That is so where det(I − B) has no zero among the waves, and its phase comes back to itself along every axis (for
    one axis: all roots of the recurrence lie within the unit circle). A running sum, B = exp(−iθ), does not fade.
    Source: Helson & Lowdenslager, Acta Math. 99 (1958) 165.
    """
    lead, size = symbol.shape[:-3], symbol.shape[-1]
    if not symbol.any():
        return np.ones(lead, bool)
    found = np.linalg.det(np.eye(size) - symbol).reshape(-1, *(WAVENUMBERS[ndim],) * ndim)
    axes = tuple(range(1, ndim + 1))
    size = np.abs(found)
    good = size.min(axis=axes) > SMALL * np.maximum(1.0, size.max(axis=axes))
    phases = np.where(size > 0, found, 1.0)
    for axis in axes:
        ends = [np.take(phases, range(*span), axis) for span in ((1, WAVENUMBERS[ndim]), (0, WAVENUMBERS[ndim] - 1))]
        turns = np.angle(ends[0] / ends[1]).sum(axis=axis) / (2 * np.pi)
        good &= (np.abs(turns) < 0.5).all(axis=tuple(range(1, turns.ndim)))
    return good.reshape(lead)

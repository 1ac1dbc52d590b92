"""Sets of points as arrays that a plan runs on: which points of a box a piece acts on, which lie in a hole."""

import hashlib
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..region import Box, Part, Points
from ._store import Profile


def identity(*parts: Part) -> str:
    """A short name of a set of points, the same for equal sets."""
    digest = hashlib.sha1()
    for part in parts:
        digest.update(str(part.box).encode())
        if part.mask is not None:
            digest.update(np.packbits(part.mask).tobytes())
    return digest.hexdigest()[:12]


def mask_of(book: Any, part: Part) -> str | None:
    """The profile of the mask of a part, the same one for equal parts; None where it fills its box."""
    if part.mask is None:
        return None
    key = f"mask {identity(part)}"
    add_mask(book, key, part.mask, part.box.start)
    return key


def add_mask(
    book: Any,
    key: str,
    mask: np.ndarray,
    start: tuple[int, ...],
    around: Callable[[Box], np.ndarray] | None = None,
) -> None:
    """Stores a mask over the box that begins at `start` as a profile over the space axes; false elsewhere, or as
    `around` gives it over any box."""
    box = Box(start, tuple(a + n for a, n in zip(start, mask.shape, strict=True)))
    book.problem.store.masks[key] = Part(box, mask)

    def build(low: tuple[int, ...], high: tuple[int, ...]) -> Any:
        wanted = Box(low, high)
        return jnp.asarray(Points.of_mask(box, mask).to_mask(wanted) if around is None else around(wanted))

    book.problem.store.profiles.setdefault(key, Profile(book.problem.scope.grid.space, build))

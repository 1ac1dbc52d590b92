"""How the result of an operation with parameters lies in the next state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ._patterns import find_ends, mark
from ._registry import AbstractOperation, Site
from ._sites import Walk


@dataclass(frozen=True, eq=False)
class Embedded:
    """A site, and for each entry of its y the one number of the seen state that it enters (`home`), if it is one.

    `fits`: every number of the state knows one entry of y at most, and every entry that enters the state at all enters
    what is seen, at one place.
    """

    number: int
    site: Site
    operation: AbstractOperation
    fits: bool
    home: np.ndarray = field(repr=False)

    def take(self, vector: Any) -> Any:
        """The numbers of a state at home, (*y); zero where there is none."""
        found = vector[jnp.maximum(jnp.asarray(self.home), 0)]
        return jnp.where(jnp.asarray(self.home >= 0), found, jnp.zeros((), vector.dtype))


def embed(walk: Walk, own: Sequence[int]) -> list[Embedded]:
    """The sites of the parameters `own`. Raises CannotFollow."""
    return [one for one in _embed_all(walk) if one.site.sources & set(own)]


@lru_cache(maxsize=4)
def _embed_all(walk: Walk) -> list[Embedded]:
    """All sites: for each which entries of y lie where in the next state, at any step."""
    return [_embed(walk, number, *site) for number, site in enumerate(walk.sites)]


def _embed(walk: Walk, number: int, site: Site, operation: AbstractOperation) -> Embedded:
    update, size, home = walk.update, prod(site.out.shape), np.full(prod(site.out.shape), -1)
    first, last = find_ends(lambda marks: mark_nudged(walk, number, marks.reshape(site.out.shape)), size)
    seen, unseen = (np.flatnonzero((last >= 0) & rows) for rows in (update.seen, ~update.seen))
    fits = bool((first == last).all() and (np.bincount(last[seen], minlength=size) <= 1).all())
    fits = fits and bool(np.isin(last[unseen], last[seen]).all())
    if fits:
        home[last[seen]] = seen
    return Embedded(number, site, operation, fits and bool(seen.size), home.reshape(site.out.shape))


def mark_nudged(walk: Walk, number: int, marks: Any) -> Any:
    """The marks of the next state from those of y at a site."""
    still = walk.still

    def nudged(nudge: Any, theta: Any, state: Any, aside: Any, inputs: Any) -> Any:
        return walk.tapped(theta, state, aside, inputs, [*still[:number], nudge, *still[number + 1 :]])[0]

    return mark(walk.update, nudged, None, marks, still[number])

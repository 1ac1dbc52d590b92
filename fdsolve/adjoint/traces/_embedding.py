"""How the result of an operation with parameters lies in the next state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._patterns import points_near
from ._registry import AbstractOperation, Site
from ._sites import Walk
from ._update import Point, Update


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
    """All sites: for each how ones, numbers in order and random numbers at y come to lie in the next state."""
    update, sites = walk.update, walk.sites
    drawn = [np.random.default_rng(k).uniform(0.5, 1.5, prod(site.out.shape)) for k, (site, _) in enumerate(sites)]

    def along(point: Point, number: int, direction: Any) -> Any:
        still = walk.still

        def run(nudge: Any) -> Any:
            return walk.tapped(*point, [*still[:number], nudge, *still[number + 1 :]])[0]

        return jax.jvp(run, (still[number],), (direction,))[1]

    def push(point: Point) -> list[Any]:
        found = []
        for k, (site, _) in enumerate(sites):
            marks = np.stack([np.ones(drawn[k].size), np.arange(1.0, drawn[k].size + 1.0), drawn[k]])
            shaped = jnp.asarray(marks.reshape(3, *site.out.shape), site.out.dtype)
            found.append(jax.vmap(partial(along, point, k))(shaped))
        return found

    with jax.ensure_compile_time_eval():
        run = jax.jit(push)
        found = [[np.asarray(one, float) for one in run(point)] for point in points_near(update)]
    return [
        _embed(update, number, site, operation, drawn[number], [point[number] for point in found])
        for number, (site, operation) in enumerate(sites)
    ]


def _embed(
    update: Update, number: int, site: Site, operation: AbstractOperation, drawn: np.ndarray, found: list[np.ndarray]
) -> Embedded:
    size, fits = drawn.size, True
    home = np.full(size, -1)
    for ones, numbered, mixed in found:
        rows = np.flatnonzero((numbered != 0) | (ones != 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            places = np.nan_to_num(np.rint(numbered[rows] / ones[rows]), nan=0.0, posinf=0.0, neginf=0.0) - 1
        if ((places < 0) | (places >= size)).any():
            fits = False
            break
        places = places.astype(int)
        close = 1e4 * float(jnp.finfo(site.out.dtype).eps) * np.abs(mixed).max(initial=0.0)
        fits &= bool((np.abs(mixed[rows] - ones[rows] * drawn[places]) <= close).all())
        seen = update.seen[rows]
        fits &= bool((np.bincount(places[seen], minlength=size) <= 1).all())
        fits &= bool(np.isin(places[~seen], places[seen]).all())
        home[places[seen]] = rows[seen]
    return Embedded(number, site, operation, fits and bool((home >= 0).any()), home.reshape(site.out.shape))

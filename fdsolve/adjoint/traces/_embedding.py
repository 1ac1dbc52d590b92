"""How the result of an operation with parameters lies in the next state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._patterns import points_near
from ._registry import AbstractOperation, Site
from ._sites import Walk
from ._update import Update


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
    update, listed = walk.update, walk.sites
    return [
        _embed(update, walk, number, site, operation, [one.out for one, _ in listed])
        for number, (site, operation) in enumerate(listed)
        if site.sources & set(own)
    ]


def _embed(
    update: Update, walk: Walk, number: int, site: Site, operation: AbstractOperation, outs: list[Any]
) -> Embedded:
    size = int(np.prod(site.out.shape))
    drawn = np.random.default_rng(number).uniform(0.5, 1.5, size)
    directions = np.stack([np.ones(size), np.arange(1.0, size + 1.0), drawn])
    home, fits = np.full(size, -1), True
    zeros = [jnp.zeros(one.shape, one.dtype) for one in outs]

    def push(point: Any, direction: Any) -> Any:
        def run(nudge: Any) -> Any:
            return walk.tapped(*point, [*zeros[:number], nudge, *zeros[number + 1 :]])[0]

        return jax.jvp(run, (zeros[number],), (direction.reshape(site.out.shape).astype(site.out.dtype),))[1]

    with jax.ensure_compile_time_eval():
        batched = jax.jit(jax.vmap(push, (None, 0)))
        for point in points_near(update):
            ones, numbered, mixed = np.asarray(batched(point, jnp.asarray(directions)), float)
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

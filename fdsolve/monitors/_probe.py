"""Values at a place."""

from dataclasses import dataclass

import jax.numpy as jnp

from ..errors import DeclarationError
from ..planning import check_sign
from ..region import Linear, place_window
from ._base import EVERY, AbstractMonitor, Look, Measured, Watched, to_every, to_fields


@dataclass(frozen=True, init=False)
class Probe(AbstractMonitor):
    """Keeps fields at a place between the points, interpolated linearly: `Probe(x=0.3, y=0.1, every=10)`.

    `field`: the one that is kept (all without). Raises DeclarationError for a place outside the grid.
    """

    place: tuple[tuple[str, float], ...]
    field: str | None
    every: int

    def __init__(self, field: str | None = None, *, every: int = EVERY, **place: float):
        object.__setattr__(self, "field", field)
        object.__setattr__(self, "every", to_every(every, "Probe"))
        object.__setattr__(self, "place", tuple((axis, float(value)) for axis, value in place.items()))

    @property
    def title(self) -> str:
        return f"Probe({', '.join(f'{axis}={value:g}' for axis, value in self.place)})"

    def check(self, watched: Watched) -> None:
        names, given = to_fields(self.field, watched, "Probe"), dict(self.place)
        for position, axis in enumerate(watched.space):
            for name in names:
                check_sign(watched.signs[watched.names.index(name)][position], axis, name, f"{self.title} reaches")
            owner = watched.grid.space_axis(axis)
            if axis not in given:
                raise DeclarationError(f"{self.title} gives no coordinate on axis `{axis}`; add {axis}=...")
            if not owner.periodic and not owner.lower <= given[axis] <= owner.upper:
                raise DeclarationError(
                    f"{self.title} lies outside axis `{axis}`, which goes from {owner.lower:g} to {owner.upper:g}."
                )
        if unknown := sorted(set(given) - set(watched.space)):
            raise DeclarationError(
                f"{self.title}: there is no axis `{unknown[0]}`; there are {', '.join(watched.space)}."
            )

    def measure(self, watched: Watched, look: Look) -> Measured:
        found: Measured = {}
        for name in to_fields(self.field, watched, "Probe"):
            number = watched.names.index(name)
            values, faces = look.fields[name], watched.faces[number]
            real = jnp.abs(values).dtype
            given = dict(self.place)
            for axis, sign in zip(watched.space, watched.signs[number], strict=True):
                # The first axis left is always the one at hand: those before it are summed away.
                owner = watched.grid.space_axis(axis)
                indices, weights = place_window(owner, axis in faces, given[axis], Linear(), real, sign, read=True)
                values = jnp.tensordot(weights.astype(values.dtype), jnp.take(values, indices, axis=0), axes=1)
            found[name] = values
        return found

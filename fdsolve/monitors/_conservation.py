"""Totals that should not change."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..stepping import total
from ._base import EVERY, AbstractMonitor, Look, Measured, Watched, to_every, to_fields, to_positive


@dataclass(frozen=True)
class Conservation(AbstractMonitor):
    """Keeps the totals ∑ u ΔV of a field (`field="u"`; of all without), or of a density made of fields.

    `density`: a function of fields by name (and parameters) that gives a density over the grid, such as an energy
    `lambda p, c: p**2 / c**2`. `tolerance`: the run stops where a total has moved from the first by more than this
    share of ∑ |u| ΔV then. Cells end half-way between points and at the walls.

    Raises DeclarationError for a field that is not there.
    """

    field: Any = None
    density: Any = None
    tolerance: Any = None
    every: Any = EVERY

    def __post_init__(self) -> None:
        to_every(self.every, "Conservation")
        to_positive(self.tolerance, "tolerance", "Conservation")
        if self.density is not None and not callable(self.density):
            raise DeclarationError(f"Conservation: density= is a function of fields by name, got {self.density!r}.")
        if self.density is not None and self.field is not None:
            raise DeclarationError("Conservation takes field= or density=, not both.")

    @property
    def may_stop(self) -> bool:
        return self.tolerance is not None

    def check(self, watched: Watched) -> None:
        to_fields(self.field, watched, "Conservation")

    def measure(self, watched: Watched, look: Look) -> Measured:
        if self.density is not None:
            values = call_by_name(self.density, look, "Conservation: density=")
            name = next((n for n in watched.names if look.fields[n].shape == values.shape), None)
            if name is None:
                raise DeclarationError(f"Conservation: density= has the shape {values.shape}, no field's.")
            return self._totals("density", values, look.volumes[name])
        found: Measured = {}
        for name in to_fields(self.field, watched, "Conservation"):
            found |= self._totals(name, look.fields[name], look.volumes[name])
        return found

    def _totals(self, name: str, values: Any, volumes: Any) -> Measured:
        """The total, and the size that it is judged by where there is a tolerance."""
        found: Measured = {f"total_{name}": total(values * volumes)}
        if self.tolerance is not None:
            found[f"size_of_total_{name}"] = total(jnp.abs(values) * volumes)
        return found

    def judge(self, first: Measured, now: Measured) -> str | None:
        for key in now:
            if self.tolerance is None or key.startswith("size_of_"):
                continue
            start, size = np.asarray(first[key]), float(first[f"size_of_{key}"])
            moved = float(np.abs(np.asarray(now[key]) - start))
            if moved > self.tolerance * max(size, np.finfo(float).tiny):
                return (
                    f"Conservation: the total of `{key.removeprefix('total_')}` moved from {start:.9g} to "
                    f"{np.asarray(now[key]):.9g}, more than {self.tolerance:g} of its size"
                )
        return None


def call_by_name(function: Callable[..., Any], look: Look, owner: str) -> Any:
    """A user's function of fields, parameters, t and dt by the names of its arguments."""
    known = {**look.parameters, **look.fields, "t": look.time, "dt": look.step}
    given = {}
    for name, one in inspect.signature(function).parameters.items():
        if name in known:
            given[name] = known[name]
        elif one.default is inspect.Parameter.empty:
            raise DeclarationError(f"{owner}: the argument `{name}` is unknown; known are {', '.join(known)}.")
    return jnp.asarray(function(**given))

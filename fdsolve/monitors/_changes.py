"""How fast fields change, and when they no longer do."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ..stepping import largest
from ._base import EVERY, AbstractMonitor, Look, Measured, Watched, to_every, to_fields, to_positive


@dataclass(frozen=True)
class Residual(AbstractMonitor):
    """Keeps max |Δu| / Δt of each field over the levels since the last look, in units of the field over time."""

    field: Any = None
    every: Any = EVERY

    def __post_init__(self) -> None:
        to_every(self.every, "Residual")

    @property
    def looks_back(self) -> bool:
        return True

    def check(self, watched: Watched) -> None:
        to_fields(self.field, watched, "Residual")

    def measure(self, watched: Watched, look: Look) -> Measured:
        return _rates(to_fields(self.field, watched, "Residual"), look)


@dataclass(frozen=True)
class Steady(AbstractMonitor):
    """Stops the run where it is steady: max |Δu| / Δt over the levels since the last look is below `tolerance`.

    With `relative=True` the change is divided by max |u|: `tolerance` is then in units of one over time.
    """

    tolerance: Any
    field: Any = None
    relative: bool = False
    every: Any = EVERY // 2  # a run that goes on beyond the end costs more than looks

    def __post_init__(self) -> None:
        to_every(self.every, "Steady")
        to_positive(self.tolerance, "tolerance", "Steady")

    @property
    def looks_back(self) -> bool:
        return True

    def check(self, watched: Watched) -> None:
        to_fields(self.field, watched, "Steady")

    def measure(self, watched: Watched, look: Look) -> Measured:
        names = to_fields(self.field, watched, "Steady")
        found = _rates(names, look)
        if not self.relative:
            return found
        sizes = {name: largest(jnp.abs(look.fields[name])) for name in names}
        tiny = jnp.finfo(jnp.result_type(float)).tiny
        return {f"rate_{name}": found[f"rate_{name}"] / jnp.maximum(sizes[name], tiny) for name in names}

    def judge(self, first: Measured, now: Measured) -> str | None:
        worst = max(float(value) for value in now.values())
        return f"steady: the fields change by {worst:.3g} a unit of time" if worst <= self.tolerance else None


def _rates(names: tuple[str, ...], look: Look) -> Measured:
    """max |u − u before| / elapsed; infinite at the first look, where nothing is known."""
    if look.before is None:
        return {f"rate_{name}": jnp.asarray(jnp.inf, jnp.abs(look.fields[name]).dtype) for name in names}
    changes = {name: largest(jnp.abs(look.fields[name] - look.before[name])) for name in names}
    return {f"rate_{name}": change / jnp.asarray(look.elapsed, change.dtype) for name, change in changes.items()}

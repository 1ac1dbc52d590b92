"""The watch for values that are not finite."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ..stepping import largest
from ._base import EVERY, AbstractMonitor, Look, Measured, Watched, to_every


@dataclass(frozen=True)
class Nan(AbstractMonitor):
    """Looks for nan and infinity at every `every`-th level, and keeps the largest |u| of each field.

    Every run in chunks looks for them at the end of a chunk; this says how often at least. The run then ends with a
    RunError that tells the step, the field, the region and the rule they appeared in first.
    """

    every: Any = EVERY

    def __post_init__(self) -> None:
        to_every(self.every, "Nan")

    def measure(self, watched: Watched, look: Look) -> Measured:
        return {f"largest_{name}": largest(jnp.abs(look.fields[name])) for name in watched.names}

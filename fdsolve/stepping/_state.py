"""What the march carries from level to level."""

from dataclasses import dataclass
from typing import Any

import jax

Levels = dict[str, tuple[jax.Array, ...]]
"""The kept levels of each field as padded arrays, the newest first; then, while marching, a spare one."""


@dataclass(frozen=True, eq=False)
class State:
    """The kept levels of each field (`Levels`; their shapes, where only those are asked for), the memory of the stepper
    (None for one-step methods), and for each system that is solved how it went."""

    levels: dict[str, tuple[Any, ...]]
    memory: Any = None
    logs: Any = ()

    def __getitem__(self, name: str) -> tuple[jax.Array, ...]:
        return self.levels[name]


jax.tree_util.register_dataclass(State, data_fields=["levels", "memory", "logs"], meta_fields=[])

"""The derivative of every step from its kept values."""

from dataclasses import dataclass
from typing import Any

from ._base import AbstractAdjoint, March, Step, plain, show_needs


@dataclass(frozen=True)
class Full(AbstractAdjoint):
    """Keeps what every step needs for its derivative: the fastest, with memory in proportion to the steps."""

    keeps_all = True

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        return quick(consts, carry, start, count) if quick is not None else plain(step, consts, carry, start, count)

    def describe(self, count: int, state_bytes: int) -> str:
        return f"Full(): keeps what all {count} steps need, {show_needs(count, state_bytes)}; no step is computed again"

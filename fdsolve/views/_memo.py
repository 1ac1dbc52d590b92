"""Values known by place while a rule is traced."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import jax.extend.core as jex


@dataclass(eq=False)
class Memo:
    """Values by place, so that what is read there more than once is recorded once while a rule is traced."""

    known: dict[Hashable, list[tuple[Any, Any]]] = field(default_factory=dict)

    def take(self, place: Hashable, make: Callable[[], Any]) -> Any:
        """The value at a place: the one made before within the same trace of JAX, or a new one."""
        state = jex.get_opaque_trace_state()
        entries = self.known.setdefault(place, [])
        for other, value in entries:
            if other == state:
                return value
        value = make()
        entries.append((state, value))
        return value

"""Source text of an expression, grown by arithmetic: the same rule makes C and Python."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Text:
    """An expression as source text; numbers become `real(number)`, which C and numba fold."""

    source: str

    def __add__(self, other: Any) -> "Text":
        return Text(f"({self.source} + {_source(other)})")

    def __radd__(self, other: Any) -> "Text":
        return Text(f"({_source(other)} + {self.source})")

    def __sub__(self, other: Any) -> "Text":
        return Text(f"({self.source} - {_source(other)})")

    def __rsub__(self, other: Any) -> "Text":
        return Text(f"({_source(other)} - {self.source})")

    def __mul__(self, other: Any) -> "Text":
        return Text(f"{self.source} * {_source(other)}")

    def __rmul__(self, other: Any) -> "Text":
        return Text(f"{_source(other)} * {self.source}")


def _source(value: Any) -> str:
    return value.source if isinstance(value, Text) else f"real({float(value)!r})"

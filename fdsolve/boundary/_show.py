"""What the conditions share: how they print, and which point a ghost point mirrors."""

from typing import Any

from ..field import AbstractWall
from ..units import in_words, is_quantity


def mirror(wall: AbstractWall) -> int:
    """The interior point that the ghost point mirrors: u₋ₖ ↔ uₖ about a point, uₖ₋₁ about a face."""
    return wall.layer if wall.on_point else wall.layer - 1


def show(value: Any) -> str:
    """A coefficient in the print of its condition: numbers, quantities, functions by name, others by type."""
    if is_quantity(value):
        return in_words(value)
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return "lambda" if name == "<lambda>" else name
    return str(value) if isinstance(value, int | float | complex) else type(value).__name__


def show_number(value: Any) -> str:
    """A number or a quantity in the print of its condition."""
    return in_words(value) if is_quantity(value) else f"{value:g}"


def show_options(condition: Any) -> str:
    """`, order=4` where the order is not the default."""
    return f", order={condition.order}" if condition.order != 2 else ""

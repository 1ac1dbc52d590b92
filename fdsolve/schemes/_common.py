"""What the operators share: checks of their arguments, offsets along an axis, products of unlike dtypes."""

from fractions import Fraction
from typing import Any

import jax

from ..errors import DeclarationError
from ..views import AbstractContext, AbstractView, Shift


def along(context: AbstractContext, axis: str, offset: float | Fraction) -> Shift:
    """The shift by `offset` steps along one axis."""
    return tuple(Fraction(offset if name == axis else 0) for name in context.grid.names)


def times(a: Any, b: Any) -> Any:
    """A product in the wider dtype: weights and coefficients are real where a field may be complex."""
    with jax.numpy_dtype_promotion("standard"):
        return a * b


def differs(view: AbstractView, axis: str, shift: Shift) -> bool:
    """Whether the moved point lies half-way between the points of a view on an axis."""
    own = view.parity(axis)
    return own is not None and own != view.context.parity(axis, shift)


def to_view(view: Any, operator: str) -> AbstractView:
    """The argument of an operator, refused unless it is a view."""
    if not isinstance(view, AbstractView):
        got = "a value, as `u[...]` is" if isinstance(view, jax.Array | int | float | complex) else type(view).__name__
        raise DeclarationError(
            f"{operator} takes a view (a field's name among the rule's arguments, or arithmetic on such), got {got}. "
            f"Inside a rule write {operator}(u)."
        )
    return view


def check_axis(view: AbstractView, axis: Any, call: str) -> None:
    """Refuses an axis that is no space axis of the grid."""
    if axis not in view.context.grid.space:
        raise DeclarationError(
            f"{view.context.what}: {call}: unknown space axis; the space axes are {', '.join(view.context.grid.space)}."
        )


def check_order(view: AbstractView, order: Any, call: str) -> None:
    """Refuses an order of accuracy that is not even and positive."""
    if not isinstance(order, int) or isinstance(order, bool) or order < 2 or order % 2:
        raise DeclarationError(
            f"{view.context.what}: {call}: the order is an even number of at least 2, got {order!r}."
        )

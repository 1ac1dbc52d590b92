"""Conversions at the door: what a user wrote becomes one plain type, or an error says what was wanted."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError
from ..units import to_name

_T = TypeVar("_T")


def to_float(value: object, what: str) -> float:
    """`value` as a finite float; `what` names it in the error.

    >>> to_float(np.float32(0.5), "`lower` of an Axis")
    0.5
    """
    try:
        number = _only_number(value, float)
    except (TypeError, ValueError, OverflowError):  # a traced JAX value raises a TypeError too
        message = f"{what} must be one concrete number, got {_short(value)}. Give a plain number."
        if isinstance(value, Tracer):
            message += " A derivative by a step or a length is one by a factor s in the rules, such as s * dt."
        raise DeclarationError(message) from None
    if not math.isfinite(number):
        raise DeclarationError(f"{what} must be finite, got {number}. Give a plain number.")
    return number


def to_count(value: object, what: str, least: int, why: str = "") -> int:
    """`value` as an int of `least` or more.

    >>> to_count(np.int64(5), "`num` of an Axis", 2)
    5
    """
    try:
        number = _only_number(value, operator.index)
    except TypeError:
        message = f"{what} must be a whole number, got {_short(value)}. Give an int, as in `num=51`."
        raise DeclarationError(message) from None
    if number < least:
        raise DeclarationError(f"{what} must be at least {least}{why}, got {number}. Give a larger number.")
    return number


def to_flag(value: object, what: str) -> bool:
    """`value` as a bool; nothing but a bool will do, since `periodic="no"` would read as true."""
    if not isinstance(value, bool | np.bool_):
        raise DeclarationError(f"{what} must be True or False, got {_short(value)}.")
    return bool(value)


def to_units(value: object, what: str) -> str | None:
    """`value` as the name of a unit, or None; a unit of saiunit counts as its name."""
    value = to_name(value)
    if value is not None and not isinstance(value, str):
        raise DeclarationError(f'{what} must be a string such as "m", or None, got {_short(value)}.')
    return value


def to_attributes(value: object, what: str) -> tuple[tuple[str, str | int | float], ...]:
    """Attributes by name as pairs, which hash.

    >>> to_attributes(dict(standard_name="longitude"), "`attrs` of an Axis")
    (('standard_name', 'longitude'),)
    """
    given = {} if value is None else value
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and isinstance(one, str | int | float) for name, one in given.items()
    ):
        message = f"{what} must be a dict of texts and numbers by name, got {_short(value)}."
        raise DeclarationError(f'{message} Write attrs=dict(standard_name="longitude").')
    return tuple(given.items())


def check_interval(lower: float, upper: float, step: float, names: tuple[str, str], owner: str) -> None:
    """Raise unless lower < upper, with steps that float64 can tell apart at that distance from zero."""
    first, last = names
    if not lower < upper:
        message = f"{owner} runs upwards, from `{first}` to a larger `{last}`, got {first}={lower}, {last}={upper}."
        hint = "Swap the two." if upper < lower else f"Give a larger `{last}`."
        raise DeclarationError(f"{message} {hint}")
    if step <= 4 * np.finfo(np.float64).eps * max(abs(lower), abs(upper)):
        message = f"{owner} from {lower} to {upper} would have steps of {step:.3g}, too fine for float64."
        raise DeclarationError(f"{message} Take fewer points, or measure from an origin nearby.")


def _only_number(value: Any, convert: Callable[[Any], _T]) -> _T:
    """`convert(value)`, but not of what `float` accepts that is no number, as "1.0", True and [1.0]."""
    if isinstance(value, str | bytes | bool | np.bool_) or np.ndim(value) != 0:
        raise TypeError
    return convert(value)


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."

"""What is no rule is refused when it is assigned, not when the plan is made."""

from typing import Any

import jax
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..region import signature_of
from ..units import is_quantity
from ._conditions import AbstractBoundary
from ._rules import OF_KEYS, Along, Interpolate, Marked, Rate, Whole, are_keys, check_numbers

_WANTED = "a rule is a number, an array, a function, `fd.rate(...)` or a boundary condition"


def check_rule(rule: Any, what: str) -> None:
    """Refuses what is no rule; `what` names the region it was assigned to."""
    if are_keys(rule.array if isinstance(rule, Along | Whole) else rule):
        raise DeclarationError(f"{what}: {_WANTED}, got a random key. {OF_KEYS}")
    if isinstance(rule, AbstractBoundary | Along | Whole | Interpolate):
        return
    if isinstance(rule, type):
        hint = f" Give it its arguments: {rule.__name__}(0.0)." if issubclass(rule, AbstractBoundary) else ""
        raise DeclarationError(f"{what}: {_WANTED}, got the class {rule.__name__}.{hint}")
    if isinstance(rule, Marked):
        if isinstance(rule.function, AbstractBoundary):
            kind = "rate" if isinstance(rule, Rate) else "residual"
            raise DeclarationError(f"{what}: a boundary condition has no {kind}; assign it without `fd.{kind}`.")
        check_rule(rule.function, what)
        return
    if isinstance(rule, xr.DataArray):
        check_numbers(rule.variable.data, f"{what}: the DataArray")
        return
    if callable(rule):
        signature_of(rule, f"{what} = {getattr(rule, '__name__', type(rule).__name__)}")
        return
    if isinstance(rule, bool | int | float | complex | np.generic | np.ndarray | jax.Array):
        check_numbers(rule, f"{what}: {_WANTED};")
        return
    if is_quantity(rule) or isinstance(rule, list | tuple) or hasattr(rule, "__array__"):
        check_numbers(rule, f"{what}: {_WANTED};")
        return
    if rule is None or isinstance(rule, str):
        raise DeclarationError(f"{what}: {_WANTED}, got {rule!r}.")
    raise DeclarationError(f"{what}: {_WANTED}, got an object of type {type(rule).__name__}.")


def check_coefficient(value: Any, what: str) -> None:
    """Refuses what cannot be a coefficient of a boundary condition; `what` names the condition."""
    if isinstance(value, AbstractBoundary | Marked):
        raise DeclarationError(
            f"{what}: a coefficient is a number, an array or a function that gives its value, got a "
            f"{type(value).__name__}."
        )
    check_rule(value, what)
    if isinstance(value, float | complex | np.inexact) and not np.isfinite(value):
        raise DeclarationError(
            f"{what}: a coefficient is a finite number, got {value}. For a given value on the wall write Dirichlet(g), "
            f"for a given slope Neumann(g)."
        )

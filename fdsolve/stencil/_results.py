"""What rules return: a value, a view, or several of them."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import DeclarationError
from ..views import AbstractView


def take_value(result: Any) -> Any:
    """The value at the point of what a rule returned."""
    return result[...] if isinstance(result, AbstractView) else result


def describe_result(result: Any) -> str:
    """What a rule returned, for messages."""
    if result is None:
        return "nothing"
    if isinstance(result, AbstractView):
        return f"one view, {result}"
    if isinstance(result, jax.Array | np.ndarray | np.generic):
        return f"an array of shape {result.shape}" if result.shape else "one value"
    return repr(result) if isinstance(result, str | int | float | complex) else f"a {type(result).__name__}"


def pick_component(result: Any, component: int, names: tuple[str, ...], what: str) -> Any:
    """One of several results of a rule for fields set together."""
    if isinstance(result, Mapping):
        if set(result) != set(names):
            raise DeclarationError(
                f"{what} returned a dict of {', '.join(map(str, result))}; fields set together want {', '.join(names)}."
            )
        return result[names[component]]
    if not isinstance(result, tuple | list) or len(result) != len(names):
        got = f"{len(result)} value(s)" if isinstance(result, tuple | list) else describe_result(result)
        raise DeclarationError(
            f"{what} returned {got}; fields set together want a tuple or dict of {len(names)} values: "
            f"{', '.join(names)}."
        )
    return result[component]

"""The arguments of the functions users hand in, which are found by name."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DeclarationError


def signature_of(function: Callable[..., Any], what: str) -> inspect.Signature:
    """The signature of a function whose arguments all have names; errors begin with `what`.

    >>> list(signature_of(lambda x, t: x < t, "u[where]").parameters)
    ['x', 't']
    """
    try:
        if isinstance(function, np.ufunc):  # newer NumPy gives these a signature, of dummies such as `x` and `out`
            raise TypeError
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        name = getattr(function, "__name__", repr(function))
        raise DeclarationError(
            f"{what}: the arguments of `{name}` have no names to be found by; wrap it in a function of named "
            f"arguments, "
            f"for example lambda x: {name}(x)."
        ) from None
    for name, parameter in signature.parameters.items():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise DeclarationError(
                f"{what}: arguments are found by name, one by one; `{stars}{name}` has none. Write out each argument."
            )
    return signature

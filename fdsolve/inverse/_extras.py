"""The libraries underneath, loaded when they are wanted."""

import importlib
from typing import Any

from ..errors import DeclarationError


def load(name: str, purpose: str) -> Any:
    """The module `name`, of the extra `inversion`; `purpose` begins the message where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DeclarationError(
            f"{purpose} wants {name}, which does not load ({error}). Install it: pip install fdsolve[inversion]."
        ) from None

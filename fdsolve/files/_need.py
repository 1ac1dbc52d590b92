"""Libraries that come with an extra."""

import importlib
from typing import Any

from ..errors import RunError


def need(module: str, extra: str) -> Any:
    """The module of an optional library. Raises RunError that names the extra where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RunError(f"This needs {module.split('.')[0]}: pip install 'fdsolve[{extra}]'.") from error

"""kernex, where it is installed: `pip install kernex==0.2.1`."""

from typing import Any

try:
    import kernex
except ImportError:
    kernex = None

PACKAGE: Any = kernex
MISSING = "not installed"

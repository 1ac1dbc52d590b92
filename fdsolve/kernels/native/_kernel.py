"""The `native` kernel in the registry: whom it serves, and its derivatives."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

from .._level import Arrays
from .._march_call import MarchCall
from .._registry import register

MIN_UPDATES = 2**15
"""Points × levels; below, generating code costs more than it saves."""
MIN_STEPS = 4


@cache
def _generator() -> Any:
    """The modules that generate code, loaded when first needed: LLVM takes a third of a second."""
    return import_module("._derivative", __package__)


@cache
def why_not(call: MarchCall) -> str | None:
    """Why the generator does not serve a march; None if it does."""
    if find_spec("llvmlite") is None:
        return "llvmlite is not installed (pip install fdsolve[native])"
    return _generator().why_not(call)


def rank(call: MarchCall) -> int:
    """First of all where there is enough work for its compilation, else after the portable kernel."""
    points = max(prod(one.shape) for one in call.structure.arrays)
    return 10 if call.steps >= MIN_STEPS and points * call.steps >= MIN_UPDATES else -10


@register("march", platform="cpu", backend="native", priority=rank, serves=why_not, blocks=True)
def march_natively(call: MarchCall, arrays: Arrays, levels: Any, start: Any) -> Any:
    """Machine code generated from the rules, many levels a pass through tiles that stay in cache, on all processors."""
    return _generator().march(call, arrays, levels, start)

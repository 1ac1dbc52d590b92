"""The `native` kernel in the registry: whom it serves, and its derivatives."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

from ...planning import Parallel
from .._level import Arrays
from .._march_call import MarchCall
from .._registry import register

MIN_UPDATES = 2**15
"""Points × levels; below, generating code costs more than it saves."""
MIN_IN_LAYERS = 2**24
"""The same where absorbing layers remember: their rules are many, and those of a gradient take long to compile."""
MIN_STEPS = 4
MIN_READS = 2**15
"""What all points of a level read, where receivers listen at each; below, the calls cost more than they save."""


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
    arrays = call.structure.arrays
    points, remember = max(prod(one.shape) for one in arrays), any(one.hidden and one.kept for one in arrays)
    least = MIN_IN_LAYERS if remember else MIN_UPDATES
    if call.structure.recording is not None:
        levels = call.structure.segments[-1].stop
        return 10 if len(call.axes) > 1 and _reads(call) >= MIN_READS and points * levels >= least else -10
    return 10 if call.steps >= MIN_STEPS and points * call.steps >= least else -10


def _reads(call: MarchCall) -> int:
    """How many operands the rules of a level have at all points together."""
    pieces = [*call.phase.rates, *(stage.piece for stage in call.phase.every_stage if isinstance(stage, Parallel))]
    return sum(piece.box.size * len(call.structure.rules[piece.rule].operands) for piece in pieces)


@register("march", platform="cpu", backend="native", priority=rank, serves=why_not, blocks=True)
def march_natively(call: MarchCall, arrays: Arrays, levels: Any, start: Any) -> Any:
    """Machine code generated from the rules, many levels a pass through tiles that stay in cache, on all processors."""
    return _generator().march(call, arrays, levels, start)

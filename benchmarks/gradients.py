"""(d) Gradients of the same computations, and the memory they take."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from . import _adjoints, _convections, _maps, _sequences
from ._compare import Settings, compare, compile_for, gradient, memory_row
from ._kernex import PACKAGE
from ._table import Row

TITLE = "Gradients of the mean square of the results"
MEMORY_TITLE = "Temporary memory of compiled gradients, in arrays of the problem's size"
BAR, MEMORY_BAR = 3.0, 20.0
ORDER = "“Of order the array” is read as at most 20 arrays, whatever the size; the ratio is fdsolve's arrays."
# A derivative by the speed is a small sum of large terms of both signs: float32 leaves it three digits.
TOLERANCE = 1e-2
Case = tuple[str, Callable[..., Any], Callable[..., Any], list[Any], int, int]
"""Name, fdsolve, by hand, arguments, the argument to differentiate, bytes of the problem's array."""


def _cases() -> list[Case]:
    found: list[Case] = []
    square = 1024 * 1024 * 4
    for regions in (1, 2, 10):
        name = f"`kmap`, 1024², {regions} region{'s' if regions > 1 else ''}, by the array"
        pair = _maps.ours(1024, regions), _maps.by_hand(1024, regions)
        found.append((name, *pair, [_maps.array(1024)], 0, square))
    given, hand = _convections.arguments(500, 2000), _convections.by_hand(500, 2000)
    found.append(("`kscan`, convection, by c", _convections.scan_ours(500, 2000), hand, given, 1, 4_000_000))
    found.append(("`solve`, convection, by c", _convections.solve_ours(500, 2000), hand, given, 1, 4_000_000))
    u, sweep = [_sequences.array(256, 256)], _sequences.sweep_by_hand(256)
    for name, make in (("`kscan`", _sequences.sweep_ours), ("`solve`", _sequences.sweep_field)):
        found.append((f"{name}, Gauss–Seidel 256², by old values", make(256), sweep, u, 0, 256 * 256 * 4))
    f = [_sequences.array(10**6), jnp.float32(0.9)]
    pair = _sequences.recurrence_ours(10**6), _sequences.recurrence_scan(10**6)
    found.append(("`solve`, recurrence 10⁶, by the sources", *pair, f, 0, 4_000_000))
    return found


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """Times against gradients of the hand-written forms; what the programs hold besides arguments and results."""
    times, memory = [], []
    for name, one, other, given, which, size in _cases():
        ours, hand = (compile_for(gradient(function, which), given) for function in (one, other))
        times.append(compare(settings, name, ours, hand, given, bar=BAR, tolerance=TOLERANCE))
        memory.append(memory_row(name, ours, hand, size, MEMORY_BAR, ORDER))
    return [(TITLE, times), (MEMORY_TITLE, [*memory, _kernexs_memory()]), *_adjoints.sections(settings)]


def _kernexs_memory() -> Row:
    num = 64
    what = f"`kmap`, {num}², 2 regions, by the array"
    if PACKAGE is None:
        return Row(what, "–", "kernex: not installed")
    given = [_maps.array(num)]
    ours, other = (
        compile_for(gradient(make(num, 2)), given).memory_analysis().temp_size_in_bytes / (num * num * 4)
        for make in (_maps.ours, _maps.kernexs)
    )
    return Row(what, f"{ours:.3g} arrays", f"{other:.3g} arrays (kernex)", ours, None, MEMORY_BAR, note=ORDER)

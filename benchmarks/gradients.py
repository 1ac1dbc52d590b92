"""(d) Gradients of the same computations, and the memory they take."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from . import _convections, _maps, _sequences
from ._compare import Settings, compare, gradient, memory_row
from ._table import Row

TITLE = "Gradients of the mean square of the results"
MEMORY_TITLE = "Temporary memory of compiled gradients, in arrays of the problem's size"
BAR, MEMORY_BAR = 3.0, 4.0
Case = tuple[str, Callable[..., Any], Callable[..., Any], list[Any], int, int]
"""Name, fdsolve, by hand, arguments, the argument to differentiate, bytes of the problem's array."""


def _cases() -> list[Case]:
    found: list[Case] = []
    square = 1024 * 1024 * 4
    for regions in (1, 2, 10):
        name = f"`kmap`, 1024², {regions} region{'s' if regions > 1 else ''}, by the array"
        pair = _maps.ours(1024, regions), _maps.by_hand(1024, 1 if regions == 1 else regions)
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


def rows(settings: Settings) -> list[Row]:
    """Times against gradients of the hand-written forms."""
    return [
        compare(settings, name, gradient(one, which), gradient(other, which), given, bar=BAR)
        for name, one, other, given, which, _ in _cases()
    ]


def memory_rows(settings: Settings) -> list[Row]:
    """What the compiled gradients hold besides arguments and results."""
    del settings
    return [
        memory_row(name, gradient(one, which), gradient(other, which), given, size, MEMORY_BAR)
        for name, one, other, given, which, size in _cases()
    ]

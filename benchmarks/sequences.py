"""(c) Reads of new values: the wavefront against kernex's point scan, the parallel prefix against `lax.scan`."""

import jax.numpy as jnp

from . import _sequences as cases
from ._compare import Settings, compare
from ._kernex import PACKAGE
from ._table import Row

TITLE = "Points that read new values"
LENGTH = 10**6


def rows(settings: Settings) -> list[Row]:
    """A Gauss–Seidel sweep of 256², and a recurrence of 10⁶ entries."""
    num = 128 if settings.quick else 256
    found = []
    for name, make in (("`kscan`", cases.sweep_ours), ("`solve`", cases.sweep_field)):
        u = cases.array(256, 256)
        what = f"Gauss–Seidel sweep by {name}, 256²"
        found.append(compare(settings, what, make(256), cases.sweep_by_hand(256), [u], against="wavefront by hand"))
        if PACKAGE is None:
            found.append(
                Row(f"Gauss–Seidel sweep by {name}, {num}²", "–", "kernex: not installed", bar=200, wants_more=True)
            )
            continue
        found.append(
            compare(
                settings,
                f"Gauss–Seidel sweep by {name}, {num}²",
                make(num),
                cases.sweep_kernexs(num),
                [cases.array(num, num)],
                against="kernex, point by point",
                bar=200,
                wants_more=True,
                least=3,
            )
        )
    return found + _recurrences(settings)


def _recurrences(settings: Settings) -> list[Row]:
    given = [cases.array(LENGTH), jnp.float32(0.9)]
    field, window = cases.recurrence_ours(LENGTH), cases.recurrence_kscan(LENGTH)
    scan, prefix = cases.recurrence_scan(LENGTH), cases.recurrence_prefix(LENGTH)
    what = "affine recurrence by {}, 10⁶ entries"
    return [
        compare(settings, what.format("`solve`"), field, scan, given, against="`lax.scan`", bar=1, wants_more=True),
        compare(settings, what.format("`solve`"), field, prefix, given, against="`associative_scan`", bar=1.3),
        compare(settings, what.format("`kscan`"), window, scan, given, against="`lax.scan`", bar=1, wants_more=True),
        compare(settings, what.format("`kscan`"), window, prefix, given, against="`associative_scan`", bar=1.3),
    ]

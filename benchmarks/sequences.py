"""(c) Reads of new values: the wavefront against kernex's point scan, the parallel prefix against `lax.scan`."""

import jax.numpy as jnp

from . import _sequences as cases
from ._compare import Settings, compare_several
from ._kernex import PACKAGE
from ._table import Row

TITLE = "Points that read new values"
NUM, LENGTH = 256, 10**6
CORES = (
    "On a CPU a loop of XLA takes about 5 ns an entry and passes over memory once; the parallel prefix passes over it "
    "several times, and pays on devices with more cores than these."
)


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    return [(TITLE, _rows(settings))]


def _rows(settings: Settings) -> list[Row]:
    """A Gauss–Seidel sweep of 256², and a recurrence of 10⁶ entries."""
    u = [cases.array(NUM, NUM)]
    sweeps = [
        (f"Gauss–Seidel sweep by {name}, {NUM}²", make(NUM))
        for name, make in (("`kscan`", cases.sweep_ours), ("`solve`", cases.sweep_field))
    ]
    found = compare_several(settings, sweeps, cases.sweep_by_hand(NUM), u, against="wavefront by hand")
    if PACKAGE is None:
        found += [Row(what, "–", "kernex: not installed", bar=200, wants_more=True) for what, _ in sweeps]
    else:
        point = cases.sweep_kernexs(NUM)
        found += compare_several(
            settings, sweeps, point, u, against="kernex, point by point", bar=200, wants_more=True, least=3
        )
    return found + _recurrences(settings)


def _recurrences(settings: Settings) -> list[Row]:
    given = [cases.array(LENGTH), jnp.float32(0.9)]
    ours = [
        (f"affine recurrence by {name}, 10⁶ entries", make(LENGTH))
        for name, make in (("`solve`", cases.recurrence_ours), ("`kscan`", cases.recurrence_kscan))
    ]
    scan, prefix = cases.recurrence_scan(LENGTH), cases.recurrence_prefix(LENGTH)
    return [
        *compare_several(settings, ours, scan, given, against="`lax.scan`", wants_more=True, note=CORES),
        *compare_several(settings, ours, prefix, given, against="`associative_scan` by hand"),
    ]

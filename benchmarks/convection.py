"""(b) Linear convection with its whole history: `kscan` and `solve` against a `lax.scan` over levels."""

from . import _convections as cases
from ._compare import Settings, compare
from ._kernex import PACKAGE
from ._table import Row

TITLE = "Convection of the kernex README, all levels kept"
LEVELS, POINTS = 500, 2000
SMALL = (
    "Both loops run about five small kernels a level, some 3 µs, so that "
    "the ratio moves with what else the machine does."
)


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    return [(TITLE, _rows(settings))]


def _rows(settings: Settings) -> list[Row]:
    """500 × 2000, and the size that kernex can do."""
    size, given = f"{LEVELS} × {POINTS}", cases.arguments(LEVELS, POINTS)
    hand = cases.by_hand(LEVELS, POINTS)
    found = [
        compare(settings, f"`kscan`, {size}", cases.scan_ours(LEVELS, POINTS), hand, given, bar=1.3),
        compare(settings, f"`solve`, {size}", cases.solve_ours(LEVELS, POINTS), hand, given, bar=1.3, note=SMALL),
    ]
    levels, points = (40, 160) if settings.quick else (60, 240)
    what = f"`kscan`, {levels} × {points}"
    if PACKAGE is None:
        return [*found, Row(what, "–", "kernex: not installed")]
    one, other = cases.scan_ours(levels, points), cases.scan_kernexs(levels, points)
    note = "kernex copies the array at every point: its time grows with the square of the number of points."
    given = cases.arguments(levels, points)
    return [*found, compare(settings, what, one, other, given, against="kernex", wants_more=True, note=note)]

"""(a) `kmap`: the five-point Laplacian against `jnp.pad` and slices."""

from . import _maps
from ._compare import Settings, compare
from ._kernex import PACKAGE
from ._table import Row

TITLE = "Windows in parallel: five-point Laplacian by `kmap`"
BARS = {1: 1.2, 2: 1.5, 10: 1.5}


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    return [(TITLE, _rows(settings))]


def _rows(settings: Settings) -> list[Row]:
    """One, two and ten regions at 1024², all against the hand-written form of one region."""
    num, found = 1024, []
    u = _maps.array(num)
    for regions, bar in BARS.items():
        name = f"{num}², {regions} region{'s' if regions > 1 else ''}"
        found.append(compare(settings, name, _maps.ours(num, regions), _maps.by_hand(num, regions), [u], bar=bar))
    return found + _kernex_rows(settings)


def _kernex_rows(settings: Settings) -> list[Row]:
    found = []
    for num, regions in ((1024, 1), (256, 2)):
        what = f"{num}², {regions} region{'s' if regions > 1 else ''}"
        if PACKAGE is None:
            found.append(Row(what, "–", "kernex: not installed"))
            continue
        one, other = _maps.ours(num, regions), _maps.kernexs(num, regions)
        found.append(compare(settings, what, one, other, [_maps.array(num)], against="kernex", wants_more=True))
    return found

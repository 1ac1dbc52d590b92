"""All rows of the table of observed orders, and the page that shows them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from .table import Row

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "orders.md"
HEADER = ("scheme", "boundary", "grid", "promised", "observed", "norm", "errors", "why")
TITLE = """# Observed orders

Each row solves a problem with a known solution on two grids or more and compares the errors: the observed order is
log(e₁/e₂)/log(n₂/n₁) of the two finest. Errors are taken over all points, walls included, in the norm that is named.
Made by `python -m tests.orders`; the tests measure every row again and want the promised order but for 0.1.

"""


def all_rows() -> list[Row]:
    """The rows of every `rows_*.py` of this folder, sorted by scheme, boundary and grid."""
    modules = [import_module(f"tests.orders.{path.stem}") for path in sorted(FOLDER.glob("rows_*.py"))]
    return sorted(
        (row for module in modules for row in module.ROWS), key=lambda row: (row.scheme, row.boundary, row.grid)
    )


@dataclass(frozen=True)
class Measured:
    """A row with its errors from coarse to fine."""

    row: Row
    errors: tuple[float, ...]

    @property
    def observed(self) -> float:
        """The order between the two finest grids."""
        (n, m), (coarse, fine) = self.row.sizes[-2:], self.errors[-2:]
        return float(np.log(coarse / fine) / np.log(m / n))

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its line in the page."""
        row = self.row
        errors = ", ".join(f"{error:.2e} ({n})" for n, error in zip(row.sizes, self.errors, strict=True))
        return (row.scheme, row.boundary, row.grid, f"{row.order:g}", f"{self.observed:.2f}", row.norm, errors, row.why)

    @property
    def line(self) -> str:
        """Its line in the page."""
        return to_line(self.cells)


def measure(row: Row) -> Measured:
    """The errors of a row on all its grids."""
    return Measured(row, tuple(float(row.error(n)) for n in row.sizes))


def join_page(lines: Sequence[str]) -> str:
    """The page of the table, as Markdown, from the lines of its rows."""
    return TITLE + "\n".join([to_line(HEADER), to_line(("---",) * len(HEADER)), *lines]) + "\n"


def to_line(cells: Sequence[str]) -> str:
    """A line of the table; a bar in a cell would end it."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def kept_lines(page: str) -> dict[tuple[str, ...], str]:
    """The lines of the table of a page by scheme, boundary and grid."""
    rows = [line for line in page.splitlines() if line.startswith("| ")][2:]
    return {name: row for name, row in zip(listed_names(page), rows, strict=True)}


def listed_names(page: str) -> list[tuple[str, ...]]:
    """Scheme, boundary and grid of each line of the table of a page."""
    rows = [line for line in page.splitlines() if line.startswith("| ")][2:]
    cells = [re.split(r"(?<!\\)\|", row)[1:4] for row in rows]
    return [tuple(cell.strip().replace("\\|", "|") for cell in row) for row in cells]

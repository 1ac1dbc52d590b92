"""Rows of the table of observed orders: one scheme × boundary × grid kind each, measured on refined grids."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One line of the table.

    `error(n)` solves a problem with a known solution on a grid of about n points an axis and returns the error in
    `norm` ("max" or "L1"); `sizes` are two or three of them, coarse to fine. `why` explains an order below the
    scheme's.
    """

    scheme: str
    boundary: str
    grid: str
    order: float
    error: Callable[[int], float]
    sizes: tuple[int, ...]
    norm: str = "max"
    why: str = ""

    @property
    def name(self) -> str:
        """What the row is called in tests."""
        return f"{self.scheme}, {self.boundary}, {self.grid}"

    def observed(self) -> float:
        """The order between the two finest grids."""
        coarse, fine = (self.error(n) for n in self.sizes[-2:])
        return float(np.log(coarse / fine) / np.log(self.sizes[-1] / self.sizes[-2]))

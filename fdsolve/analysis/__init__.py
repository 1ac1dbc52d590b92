"""Analysis of declarations: accuracy, stability, dispersion."""

from ._analyse import analyse as analyse
from ._dataset import Analysis as Analysis

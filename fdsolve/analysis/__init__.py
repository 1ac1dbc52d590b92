"""Analysis of declarations: accuracy, stability, dispersion."""

from ._analyse import analyse as analyse
from ._dataset import Analysis as Analysis
from ._manufactured import Manufactured as Manufactured
from ._manufactured import manufactured as manufactured

"""Grids of named axes: where the points of a problem lie."""

from ._axis import Axis as Axis
from ._grid import Grid as Grid
from ._time import Time as Time

"""Grids of named axes: where the points of a problem lie."""

from ._axis import Axis as Axis
from ._checks import to_attributes as to_attributes
from ._coordinates import in_axis_units as in_axis_units
from ._grid import Grid as Grid
from ._metric import Pole as Pole
from ._metric import find_pole as find_pole
from ._metric import scaling_axes as scaling_axes
from ._noted import note_grid as note_grid
from ._noted import noting_grids as noting_grids
from ._time import Time as Time

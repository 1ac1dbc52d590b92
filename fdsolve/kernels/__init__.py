"""Kernels: how pieces and sweeps run on arrays."""

from ._axis_scan import is_plain as is_plain
from ._axis_scan import scan_axis as scan_axis
from ._boxes import cut_boxes as cut_boxes
from ._boxes import join_boxes as join_boxes
from ._level import Arrays as Arrays
from ._level import Level as Level
from ._level import take_box as take_box
from ._level import vectorise_function as vectorise_function
from ._recurrence import solve_recurrence as solve_recurrence
from ._skew import skew as skew
from ._skew import unskew as unskew
from ._slices import evaluate as evaluate
from ._slices import place as place
from ._slices import selector as selector
from ._slices import vectorise_guarded as vectorise_guarded
from ._slices import write as write
from ._sweep import sweep as sweep
from ._sweep import sweep_points as sweep_points

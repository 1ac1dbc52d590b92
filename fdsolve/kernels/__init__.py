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

# The registry and what is chosen from it; kernels register themselves when imported.
from ._registry import Call as Call
from ._registry import Kernel as Kernel
from ._registry import available as available
from ._registry import detect_platform as detect_platform
from ._registry import get as get
from ._registry import operations as operations
from ._registry import platform_of as platform_of
from ._registry import register as register
from ._registry import support_table as support_table
from ._registry import withdraw as withdraw
from ._scopes import resolve as resolve
from ._scopes import tuning as tuning
from ._scopes import use as use
from ._selection import Choice as Choice
from ._selection import candidates as candidates
from ._selection import dispatch as dispatch
from ._selection import explain as explain
from ._selection import forget as forget
from ._selection import select as select
from ._skew import skew as skew
from ._skew import unskew as unskew
from ._slices import evaluate as evaluate
from ._slices import place as place
from ._slices import selector as selector
from ._slices import vectorise_guarded as vectorise_guarded
from ._slices import write as write
from ._stencil_call import StencilCall as StencilCall
from ._sweep import sweep as sweep
from ._sweep import sweep_points as sweep_points

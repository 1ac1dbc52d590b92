"""Functions of sliding windows over arrays: all at once (`kmap`, `smap`) or in row-major order (`kscan`, `sscan`)."""

from ._functional import kernel_map as kernel_map
from ._functional import kernel_scan as kernel_scan
from ._functional import offset_kernel_map as offset_kernel_map
from ._functional import offset_kernel_scan as offset_kernel_scan
from ._interface import kmap as kmap
from ._interface import kscan as kscan
from ._interface import smap as smap
from ._interface import sscan as sscan
from ._roll import roll_view as roll_view

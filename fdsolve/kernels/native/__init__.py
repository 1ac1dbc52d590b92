"""Machine code generated for a march on a CPU: every operation of a level, many levels a pass, all processors."""

from ._fresh import fresh_arrays as fresh_arrays
from ._kernel import march_natively as march_natively

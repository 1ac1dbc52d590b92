"""Machine code generated for a march on a CPU: every operation of a level, many levels a pass, all processors."""

from ._kernel import march_natively as march_natively

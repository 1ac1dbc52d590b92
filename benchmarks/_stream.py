"""A copy as STREAM measures it: how many bytes a second the cores read and write, by OpenMP C."""

import ctypes

from .peers._cases import aligned
from .peers._openmp import compile_c

COUNT = 2**26
"""Doubles an array: half a gigabyte, far beyond any cache."""
BYTES_MOVED = 2 * 8 * COUNT
SOURCE = """
#include <string.h>
void copy(const long n, const double *restrict a, double *restrict b) {
    #pragma omp parallel for schedule(static)
    for (long k = 0; k < 64; k++)
        memcpy(b + n * k / 64, a + n * k / 64, sizeof(double) * (n * (k + 1) / 64 - n * k / 64));
}
"""


class Copy:
    """A large array copied in pieces by `memcpy`, which writes past the caches: the most that memory gives."""

    label = "copy"

    def __init__(self) -> None:
        self._from, self._to = aligned((COUNT,), "float64", 1.0), aligned((COUNT,), "float64", 1.0)
        self._copy = compile_c(SOURCE).copy
        self._copy.restype = None

    def run(self) -> None:
        """What is timed: `BYTES_MOVED` bytes read and written."""
        self._copy(ctypes.c_long(COUNT), *(ctypes.c_void_p(a.ctypes.data) for a in (self._from, self._to)))

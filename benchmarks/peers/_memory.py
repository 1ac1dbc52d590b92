"""The memory that a call takes while it runs."""

import ctypes
import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path

PROCESS = Path("/proc/self")


def bytes_taken(call: Callable[[], object]) -> int:
    """How far the resident memory of this process grows in a call, at most.

    Linux forgets the peak before it; elsewhere it is the growth of the peak since the process began.
    """
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        (PROCESS / "clear_refs").write_text("5")
        before = _resident("VmRSS")
        call()
        return max(0, _resident("VmHWM") - before)
    before = peak()
    call()
    return peak() - before


def _resident(name: str) -> int:
    lines = (PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024


def peak() -> int:
    """The most that this process held so far, in bytes."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024

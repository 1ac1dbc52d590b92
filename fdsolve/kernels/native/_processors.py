"""What the processors have: how many there are, and the cache that they share."""

import os
from functools import cache
from pathlib import Path


def num_threads() -> int:
    """Threads that XLA's pool has: the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@cache
def shared_cache() -> int:
    """Bytes of the largest cache, which the processors have in common; 16 MiB where it is not known."""
    try:
        sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
        return max(int(size.removesuffix("K")) * 1024 for size in sizes)
    except (OSError, ValueError):
        return 16 * 2**20

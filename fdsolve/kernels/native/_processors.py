"""What the processors have: how many there are, and the cache that they share."""

import os
from functools import cache
from pathlib import Path

FAR = 2**26
"""Bytes of a cache above which it serves a whole server: little of it is a march's, and it takes long to reach."""


def num_threads() -> int:
    """Threads that XLA's pool has: the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def shared_cache() -> int:
    """Bytes of the largest cache, which the processors have in common; 16 MiB where it is not known. Where that is far,
    four times their own second caches."""
    return 4 * num_threads() * own_cache() if is_far() else max(_caches().values(), default=16 * 2**20)


def is_far() -> bool:
    """Whether the cache that processors have in common serves many more of them, and is far from each."""
    return max(_caches().values(), default=0) > FAR


def own_cache() -> int:
    """Bytes of the second cache, which each processor has to itself; 1 MiB where it is not known."""
    return _caches().get(2, 2**20)


@cache
def _caches() -> dict[int, int]:
    """Bytes of the first processor's caches by their level; none where they are not known."""
    found: dict[int, int] = {}
    try:
        for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
            level, size = ((folder / name).read_text().strip() for name in ("level", "size"))
            found[int(level)] = max(found.get(int(level), 0), int(size.removesuffix("K")) * 1024)
    except (OSError, ValueError):
        return {}
    return found

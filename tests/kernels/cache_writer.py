"""Writes records without end under a few keys, for tests: `python cache_writer.py NAME COUNT`; COUNT 0 has no end."""

import importlib.util
import itertools
import sys
from pathlib import Path


def load_cache():
    """The module of the cache alone, which needs nothing of the package."""
    path = Path(__file__).resolve().parents[2] / "fdsolve" / "kernels" / "_cache.py"
    spec = importlib.util.spec_from_file_location("cache", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    cache, name, count = load_cache(), sys.argv[1], int(sys.argv[2])
    for turn in itertools.count():
        if count and turn == count:
            break
        problem = cache.write(f"key {turn % 3}", {"backend": name, "turn": turn, "text": "x" * 20_000})
        assert problem is None, problem
        if turn == 0:
            print("writing", flush=True)

"""(l) A history that is larger than the memory allowed: streamed to Zarr, by a process of its own."""

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fdsolve as fd

from ._compare import Settings
from ._table import Row, show_seconds
from .peers._memory import peak

NUM = 512
"""Points along each axis: a save is 1 MiB."""
ALLOWED = 2**30
"""Bytes that the process may hold at most, JAX and all."""


def stream(path: str, saves: int) -> None:
    """Prints the peak memory of this process and the seconds of the run, after streaming so many MiB to `path`."""
    axes = {name: fd.Axis(0.0, 1.0, num=NUM, periodic=True) for name in ("x", "y")}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=saves), **axes))
    u[...] = lambda u: 0.25 * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"])
    u[0] = lambda x, y: x * (1 - x) * y
    start = time.perf_counter()
    fd.solve(u, save=fd.stream(path))
    print(peak(), time.perf_counter() - start)


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """2 GiB, or 0.25 where it is to be quick."""
    saves = 256 if settings.quick else 2048
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.zarr")
        text = f"from benchmarks.streaming import stream; stream({path!r}, {saves})"
        found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    what = f"peak memory of the process, a history of {saves / 1024:g} GiB"
    if found.returncode:
        return [("Streaming", [Row(what, "–", shlex.quote(found.stderr[-200:]))])]
    held, seconds = map(float, found.stdout.split()[-2:])
    rate = f"In {show_seconds(seconds)}."
    row = Row(what, f"{held / 2**20:.0f} MiB", "1 GiB", held / ALLOWED, None, 1.0, note=rate)
    return [(f"Streaming to Zarr, {NUM}², float32, every step saved", [row])]

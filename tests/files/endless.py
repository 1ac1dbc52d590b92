"""A writer that appends saves until it is killed, and says how many are in the store: the test's other process."""

import sys
import types
from pathlib import Path

import numpy as np
import xarray as xr


def main(path: str) -> None:
    # The files' layer stands on the errors alone: without the package's own __init__ the process starts much sooner.
    shell = types.ModuleType("fdsolve")
    shell.__path__ = [str(Path(__file__).parents[2] / "fdsolve")]
    sys.modules["fdsolve"] = shell
    from fdsolve.files import ZarrStream

    variable = (("t", "x"), np.empty((0, 64)))
    stream = ZarrStream(path, xr.Dataset({"u": variable, "v": variable}, {"t": np.empty(0)}), 50)
    count = 0
    while True:
        times = np.arange(count, count + 3, dtype=float)
        block = np.broadcast_to(times[:, None], (3, 64))
        stream.append(times, {"u": block, "v": -block})
        count += 3
        if count % 9 == 0:
            stream.flush()
            print(stream.num_shown, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

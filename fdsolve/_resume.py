"""Going on after a break."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ._solve import solve_declared
from .files import run_of
from .monitors import Checkpoints
from .planning import Stream
from .running import RUN, read_newest
from .solution import Solution


def resume(path: str | os.PathLike, *, progress: bool | None = None) -> Solution:
    """Goes on with a run that was kept by `fd.Checkpoints(path, every)`, from its newest checkpoint to its end.

    The same machine and versions give the same numbers, bit for bit, as a run that was not broken off: kernels and the
    steps a pass are those of the first part. Saves of `fd.stream` are appended to. Run it only on folders you trust:
    the declaration is kept as a pickle.

    Raises RunError for a folder that holds no checkpoints, or none that can be read, and where another run has taken
    the store since.
    """
    problem, kept = read_newest(path)
    given = dict(problem)
    run = given.pop(RUN, None)
    monitors = [Checkpoints(path, one.every) if isinstance(one, Checkpoints) else one for one in given["monitors"]]
    shown = given["progress"] if progress is None else progress
    save = given["save"] if kept is not None else _from_the_start(given["save"], run)
    return solve_declared({**given, "monitors": monitors, "progress": shown, "save": save}, kept)


def _from_the_start(save: Any, run: str | None) -> Any:
    """What a run saves that broke off before its first checkpoint: the store it had begun is written over."""
    if isinstance(save, Stream):
        return replace(save, overwrite=save.overwrite or run_of(Path(save.path)) == run)
    return [_from_the_start(one, run) for one in save] if isinstance(save, list | tuple) else save

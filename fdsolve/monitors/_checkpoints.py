"""Where and how often a run is kept so that it can go on after a break."""

import os
from dataclasses import dataclass

from ..errors import DeclarationError
from ._base import AbstractMonitor, Look, Measured, Watched, to_every


@dataclass(frozen=True, init=False)
class Checkpoints(AbstractMonitor):
    """Keeps the state of a run in the folder `path` at every `every`-th level: `monitors=[fd.Checkpoints("run", 500)]`.

    A checkpoint is written whole or not at all, after all that was saved before it; the last two are kept.
    `fd.resume(path)` goes on from the newest, with the same numbers bit for bit on the same machine. What was saved
    (without `fd.stream`, too) lies in the folder as well. The folder holds the declaration itself as a pickle: resume
    only from folders you trust.

    A folder of a run that has ended may be given again; one that was broken off is kept, unless `overwrite=True`.
    """

    path: str
    every: int
    overwrite: bool = False

    def __init__(self, path: str | os.PathLike, every: int = 1000, *, overwrite: bool = False):
        if not isinstance(path, str | os.PathLike) or not str(path):
            raise DeclarationError(f"fd.Checkpoints takes the path of a folder, got {path!r}.")
        object.__setattr__(self, "path", os.path.abspath(os.fspath(path)))
        object.__setattr__(self, "every", to_every(every, "fd.Checkpoints"))
        if not isinstance(overwrite, bool):
            raise DeclarationError(f"fd.Checkpoints: overwrite= is True or False, got {overwrite!r}.")
        object.__setattr__(self, "overwrite", overwrite)

    def measure(self, watched: Watched, look: Look) -> Measured:
        return {}
